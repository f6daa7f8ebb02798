"""Tables for a real terminal. The only module of these commands that loads rich."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROW = 50


def draw(columns: Sequence[str], rows: Sequence[Sequence[str]], *, color: bool, width: int) -> None:
    console = Console(no_color=not color, width=width, highlight=False)
    if width < NARROW:  # no room for columns: one thing after the other
        for row in rows:
            for name, text in zip(columns, row, strict=True):
                console.print(Text(f"{name}: ", style="bold") + Text(text))
            console.print()
        return
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for at, name in enumerate(columns):
        drawn.add_column(name, no_wrap=at == 0, overflow="fold" if at else "ellipsis")
    for row in rows:
        drawn.add_row(*map(Text, row))
    console.print(drawn)
