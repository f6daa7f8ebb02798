"""Sets a Markdown block for the terminal. Imports rich, and is therefore itself loaded late."""

from io import StringIO

from rich.console import Console
from rich.markdown import Markdown

from hermes.cli.render_safe import clean


def set_block(text: str, *, width: int, colour: bool) -> str:
    """The block as lines. Links show their address: a hidden one is how a reader is misled."""
    sheet = StringIO()
    console = Console(
        file=sheet,
        width=max(width, 20),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        highlight=False,
        emoji=False,
    )
    console.print(Markdown(clean(text), hyperlinks=False, code_theme="ansi_dark"))
    return "\n".join(line.rstrip() for line in sheet.getvalue().strip("\n").rstrip().split("\n"))
