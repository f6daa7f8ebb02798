"""The same lines at another depth: how one indentation becomes the other."""

from collections.abc import Callable, Iterator, Sequence

Shift = Callable[[str], str]
"""Moves one line to the other depth."""


def shift_between(wanted: Sequence[str], here: Sequence[str]) -> Shift | None:
    """What moves each wanted line to the depth it has here; None when no single rule does."""
    pairs = [(_depth(a), _depth(b)) for a, b in zip(wanted, here, strict=True) if a.strip()]
    for rule in _rules(*pairs[0]):
        if all(rule(a) == b for a, b in pairs):
            return lambda line: _moved(line, rule)
    return None


def unshifted(line: str) -> str:
    return line


def _rules(wanted: str, here: str) -> Iterator[Shift]:
    yield unshifted
    if here.endswith(wanted):
        deeper = here[: len(here) - len(wanted)]
        yield lambda depth: deeper + depth
    if wanted.endswith(here):
        shallower = wanted[: len(wanted) - len(here)]
        yield lambda depth: depth.removeprefix(shallower)
    for width in (2, 4, 8):
        yield lambda depth, width=width: _tabs(depth, width)  # type: ignore[misc]
        yield lambda depth, width=width: depth.replace("\t", " " * width)  # type: ignore[misc]


def _tabs(depth: str, width: int) -> str:
    spaces = len(depth.replace("\t", ""))
    return "\t" * (depth.count("\t") + spaces // width) + " " * (spaces % width)


def _moved(line: str, rule: Shift) -> str:
    if not line.strip():
        return line
    depth = _depth(line)
    return rule(depth) + line[len(depth) :]


def _depth(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
