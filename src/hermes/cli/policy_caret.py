"""Points at a piece of a command: where it stands, and carets under it."""

from collections.abc import Iterator

from hermes.cli.render_safe import cells, visible
from hermes.core.messages import Value
from hermes.policy.action import Reader
from hermes.policy.deed import Deed, Step

_LINES, _WIDTH = 8, 96


class Piece(Value, frozen=True):
    """Characters of the command, the end not included."""

    start: int
    end: int


def find_piece(reader: Reader, deed: Deed, step: Step, home: str) -> Piece | None:
    """By reading the command again: the same words may stand in it twice, once as an argument."""
    if not deed.command or step.node not in deed.command:
        return None
    analysis = reader.analyse(
        deed.command, cwd=deed.cwd, home=home, lookup=reader.lookup, own_paths=reader.own_paths
    )
    data = deed.command.encode("utf-8", "replace")
    for command in analysis.commands:
        start, end = command.node
        if end > start and _text(data[start:end]) == step.node and command.argv == step.argv:
            before = len(_text(data[:start]))
            return Piece(before, before + len(step.node))
    return Piece(0, len(deed.command)) if step.node == deed.command else None


def underlined(command: str, piece: Piece | None) -> Iterator[str]:
    """The lines of the command that the piece is on, with carets under it."""
    at, shown = 0, 0
    for line in command.split("\n"):
        start, end = (piece.start - at, piece.end - at) if piece else (0, 0)
        at += len(line) + 1
        if piece and (start >= len(line) or end <= 0):
            continue
        if shown == _LINES:
            yield "…"
            return
        shown += 1
        yield from _one(line, max(start, 0), min(end, len(line)))


def _one(line: str, start: int, end: int) -> Iterator[str]:
    before, piece, after = visible(line[:start]), visible(line[start:end]), visible(line[end:])
    if cells(before) > _WIDTH // 2:
        before = "…" + before[-_WIDTH // 3 :]
    if cells(piece) > _WIDTH:
        piece, after = piece[:_WIDTH] + "…", ""
    if cells(after) > _WIDTH // 3:
        after = after[: _WIDTH // 3] + "…"
    yield before + piece + after
    if piece:
        yield " " * cells(before) + "^" * cells(piece)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
