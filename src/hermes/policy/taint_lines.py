"""Tells what a text says of a thing from what it merely lists or complains about.

No list of words knows every way to ask for something. So whatever stands in a sentence counts as
asked for, unless the sentence is a complaint about that very thing (`open /etc/x: no such file`);
what stands in a table, a listing or a bare line does not. Repairs are about the latter two.
"""

import re
from collections.abc import Iterator

from hermes.policy.commands.values import word_set
from hermes.policy.taint_words import TELLING, host_of, split

_GLUE = word_set(
    "the a an is are be been was were to of in on at by for with from it its this that these those "
    "not no and or if so has have had will may can as into until unless when while once any all "
    "nobody who which what you your we our us i me my they them their there here but because per "
    "still only just also then than how why where"
)
_SENTENCE, _GLUED = 4, 3
"""So many plain words make a sentence; fewer do when one of them holds others together."""
_PIECES = re.compile(r"[.;!?]\s+|\"\s*,\s*\"|'\s*,\s*'|\"\s+(?=\w+=)|\s\|\s|\n")
_COLUMN = re.compile(r"^\W*(\S+)(?:\t| {2,})")
_PLAIN = re.compile(r"(?:(?<=\s)|^)[\"'(]?([^\W\d_]{2,})[\"'),:]*(?=\s|$)")
_BEFORE = re.compile(
    r"(?:cannot|can not|can't|could not|couldn't|failed (?:to|at)|unable to|denied|refused"
    r"|missing|unknown|invalid|corrupt(?:ed)?|conflict in|no such|not found|held by|can't open"
    r"|undefined|exception|panicked|probe failed|back-off|parsing|file \")"
    r"\W+(?:[\w()'=-]+\W+){0,4}?\W*\Z"
)
_AFTER = re.compile(
    r"\W*(?:line \d+|(?:\S+ ){0,2}?(?:failed|fails|not found|no such|denied|exists|refused"
    r"|timed out|exited|killed|does not|doesn't|cannot|could not|can't|is full|in use|unknown"
    r"|invalid|corrupt|unreachable|unhealthy|degraded|read-only|too many|lookup|bind|dial|bad top"
    r"|connect:|back-off|notready))"
)
_NEAR = 60


def told(plain: str) -> Iterator[str]:
    """Telling words of sentences that are no complaint about them; `plain` is in lower case."""
    for piece in _PIECES.split(plain):
        if _is_sentence(piece):
            yield from _told_in(piece)


def _is_sentence(piece: str) -> bool:
    plain = set(_PLAIN.findall(piece))
    return len(plain) >= _SENTENCE or (len(plain) >= _GLUED and not plain.isdisjoint(_GLUE))


def _told_in(piece: str) -> Iterator[str]:
    column = _COLUMN.match(piece)
    for word in set(split(piece)):
        if not TELLING.search(word):
            continue
        place = piece.find(word)
        if place < 0 or not (_complained(piece, place, place + len(word)) or _is(column, word)):
            yield word
            yield host_of(word) if "://" in word else word.rpartition("/")[2] or word


def _is(column: re.Match[str] | None, word: str) -> bool:
    return column is not None and word in column.group(1)


def _complained(piece: str, start: int, end: int) -> bool:
    before = piece[max(0, start - _NEAR) : start]
    return _BEFORE.search(before) is not None or _AFTER.match(piece, end) is not None
