"""Gives each kind of piece its look on this terminal."""

import textwrap

from hermes.cli.render_ink import Ink
from hermes.cli.render_writing import Piece


def paint(piece: Piece, *, ink: Ink, width: int, whole: bool) -> tuple[str, str]:
    """What to print, and what ends it: fragments of raw text end with nothing."""
    if piece.kind == "text":
        return (_block(piece.text, width, ink) + "\n", "\n") if whole else (piece.text, "")
    if piece.kind == "reasoning":
        return ink.dim(piece.text), "\n" if whole else ""
    if piece.kind == "error":
        return ink.red(_fold(f"✗ {piece.text}", width)), "\n"
    if piece.kind == "tool":
        return _marks(piece.text, ink), "\n"
    return ink.dim(_fold(piece.text, width)), "\n"


def _fold(text: str, width: int) -> str:
    """Broken between words; rows that were broken already keep their indent."""
    return "\n".join(textwrap.fill(row, width, drop_whitespace=False) for row in text.split("\n"))


def _block(text: str, width: int, ink: Ink) -> str:
    from hermes.cli.interactive.markdown import set_block

    return set_block(text, width=width, colour=ink.colour)


def _marks(line: str, ink: Ink) -> str:
    """Colour only the mark at the end: the call before it may contain anything."""
    for mark, colour in (("  ✓ ", ink.green), ("  ✗ ", ink.red)):
        before, found, after = line.rpartition(mark)
        if found:
            return f"{before}{colour(found.rstrip())} {ink.dim(after)}"
    return ink.dim(line)
