"""Finds the texts with which every match of a pattern begins: it is tried only where they stand."""

from collections.abc import Iterable
from functools import cache
from re import _constants  # type: ignore[attr-defined]
from typing import Any

from hermes.skills.scanner.patterns import (
    MAX_LITERALS,
    SearchPattern,
    fold_letter,
    parse_pattern,
)

MAX_START_CHARS = 5
"""Longer beginnings are cut: they tell positions apart no better."""
MIN_START_BYTES = 2
MAX_CLASS_MEMBERS = 4
_Starts = frozenset[tuple[str, bool]]
"""Beginnings in lower case, and whether each is all that a part of a pattern matches."""
_EMPTY: _Starts = frozenset({("", True)})
_UNKNOWN: _Starts = frozenset({("", False)})


@cache
def find_match_starts(pattern: SearchPattern) -> frozenset[str] | None:
    """Every match begins with one of them; None when some of its beginnings are too short."""
    starts = _read_sequence(parse_pattern(pattern))
    texts = frozenset(_cut_before_line_end(text) for text, _ in starts)
    if not all(map(_is_rare, texts)):
        return None
    return frozenset(
        text for text in texts if not any(text[:end] in texts for end in range(1, len(text)))
    )


def _is_rare(text: str) -> bool:
    """Of single ASCII characters, only marks tell positions apart."""
    return len(text.encode()) >= MIN_START_BYTES or not (
        text.isalnum() or text.isspace() or not text
    )


def _cut_before_line_end(text: str) -> str:
    """Of white space, only the space itself: it separates the words of a text."""
    return next((text[:at] for at, letter in enumerate(text) if letter in "\t\n\r\v\f"), text)


def _read_sequence(nodes: Iterable[tuple[Any, Any]]) -> _Starts:
    starts = _EMPTY
    for name, value in nodes:
        if not any(whole for _, whole in starts):
            break
        starts = _append(starts, _read_node(str(name), value))
    return starts


def _append(starts: _Starts, rest: _Starts) -> _Starts:
    joined = {each for each in starts if not each[1]}
    for text, whole in starts:
        if whole:
            joined |= {_cut(text + more, whole=more_whole) for more, more_whole in rest}
    if len(joined) > MAX_LITERALS:
        return frozenset((text, False) for text, _ in starts)
    return frozenset(joined)


def _cut(text: str, *, whole: bool) -> tuple[str, bool]:
    return text[:MAX_START_CHARS], whole and len(text) <= MAX_START_CHARS


def _read_node(name: str, value: Any) -> _Starts:
    if name == "LITERAL":
        return frozenset({(fold_letter(chr(value)), True)})
    if name in ("AT", "ASSERT", "ASSERT_NOT"):
        return _EMPTY
    if name == "IN" and len(value) <= MAX_CLASS_MEMBERS:
        if all(str(kind) == "LITERAL" for kind, _ in value):
            return frozenset((fold_letter(chr(code)), True) for _, code in value)
        return _UNKNOWN
    if name == "SUBPATTERN":
        return _read_sequence(value[3])
    if name == "ATOMIC_GROUP":
        return _read_sequence(value)
    if name == "BRANCH":
        united = frozenset[tuple[str, bool]]().union(*map(_read_sequence, value[1]))
        return united if len(united) <= MAX_LITERALS else _UNKNOWN
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, body = value
        once = _read_sequence(body)
        if high is _constants.MAXREPEAT or high > 1:
            once = frozenset((text, False) for text, _ in once)
        return once if low else once | _EMPTY
    return _UNKNOWN
