"""Which terminal the person sits at, and how it wants to be drawn on."""

import sys
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.utils import is_dumb_terminal

from hermes.cli.interactive.line import LineTerminal
from hermes.cli.interactive.prompt import PromptTerminal
from hermes.cli.interactive.shapes import Look, Terminal
from hermes.cli.render_ink import Ink
from hermes.cli.render_work import progress_of
from hermes.settings.display import DisplaySettings


def take_seat(display: DisplaySettings, home: Path) -> tuple[Terminal, Look]:
    """A drawn terminal where there is one, else lines in and lines out."""
    drawable = sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb_terminal()
    plain = ColorDepth.from_env() is ColorDepth.DEPTH_1_BIT  # NO_COLOR
    colour = display.color == "always" or (display.color == "auto" and drawable and not plain)
    look = Look(
        ink=Ink(colour=colour),
        spinner=display.spinner and drawable,
        reasoning=display.reasoning,
        progress=progress_of(display),
        banner=display.banner,
    )
    if drawable:
        return PromptTerminal(history=open_history(home / "history")), look
    # What cannot be written in the terminal's encoding is better shown as ? than not at all.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    return LineTerminal(sys.stdin.fileno(), sys.stdout), look


def open_history(path: Path) -> History:
    """What was typed, kept for its owner only; a home that cannot be written costs only this."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
