"""Tells whether a text has a gap where a fact is missing: its words without their value."""

import re
from collections.abc import Iterable

EMPTY_WORDS = re.compile(
    r"''|\(\s*\)|\(\w+ \)|\s[,;:)](?!\w)|\(\s|\s{2,}|[:,] *$|^\s|\b(?:pid|user|owner|mode)[,:)]"
)


def gaps(full: Iterable[str], present: Iterable[str], value: str) -> list[str]:
    """Lines in which only the value is missing, so that its words say nothing. `full`: the lines
    with the value."""
    hollow = {_plain(each.replace(value, "")) for each in full if value in each}
    return [each for each in present if _plain(each) in hollow or EMPTY_WORDS.search(each)]


def _plain(text: str) -> str:
    return " ".join(text.split())
