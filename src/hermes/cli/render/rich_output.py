"""Tables and Markdown for a terminal. The only module of the commands that loads rich."""

from collections.abc import Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hermes.cli.render.terminal_text import clean

NARROW_TABLE_COLUMNS = 50


def draw_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, color: bool, width: int
) -> None:
    console = Console(no_color=not color, width=width, highlight=False)
    if width < NARROW_TABLE_COLUMNS:  # too narrow for columns: one row after the other
        for row in rows:
            for name, text in zip(columns, row, strict=True):
                console.print(Text(f"{name}: ", style="bold") + Text(text))
            console.print()
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for at, name in enumerate(columns):
        table.add_column(name, no_wrap=at == 0, overflow="fold" if at else "ellipsis")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def render_markdown_block(text: str, *, width: int, colour: bool) -> str:
    """Return the block as lines. Links show their address, so that none is hidden."""
    from rich.markdown import Markdown  # loads pygments: a table does not need it

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
