"""Brace expansion over a word in which live braces are marked."""

import re
from itertools import pairwise

from hermes.policy.commands.marks import CLOSE, COMMA, LOOSE, NAME, OPEN, literal
from hermes.policy.commands.syntax import Misread

LIMIT = 256
_OPEN = 32
_RANGE = re.compile(r"(-?\d{1,18}|[A-Za-z])\.\.(-?\d{1,18}|[A-Za-z])(?:\.\.(-?\d{1,18}))?\Z")


def expand(word: str) -> list[str]:
    """Every word that the braces stand for. Raises `Misread` when they multiply without end."""
    found = None if word.count(OPEN) > _OPEN else _expand(word, LIMIT)
    if found is None:
        raise Misread(f"braces that stand for more than {LIMIT} words")
    return [literal_braces(one) for one in found]


def literal_braces(word: str) -> str:
    return word.replace(OPEN, "{").replace(COMMA, ",").replace(CLOSE, "}")


def _expand(word: str, room: int) -> list[str] | None:
    start = word.find(OPEN)
    while start >= 0:
        end, commas = _match(word, start)
        inner = word[start + 1 : end]
        choices = _split(word, start, end, commas) if commas else _range(inner)
        if end > 0 and choices:
            return _combine(word[:start], choices, word[end + 1 :], room)
        start = word.find(OPEN, start + 1)
    return [word]


def _combine(before: str, choices: list[str], after: str, room: int) -> list[str] | None:
    words: list[str] = []
    tails = _expand(after, room)
    for choice in choices:
        heads = _expand(choice, room)
        if heads is None or tails is None or len(words) + len(heads) * len(tails) > room:
            return None
        words += [before + head + tail for head in heads for tail in tails]
    return words


def _match(word: str, start: int) -> tuple[int, list[int]]:
    depth = 0
    commas: list[int] = []
    for at in range(start, len(word)):
        letter = word[at]
        if letter == OPEN:
            depth += 1
        elif letter == CLOSE:
            depth -= 1
            if depth == 0:
                return at, commas
        elif letter == COMMA and depth == 1:
            commas.append(at)
    return -1, []


def _split(word: str, start: int, end: int, commas: list[int]) -> list[str]:
    edges = [start, *commas, end]
    return [word[left + 1 : right] for left, right in pairwise(edges)]


def _range(inner: str) -> list[str]:
    if not (found := _RANGE.match(literal(inner))):
        return []
    first, last, stride = found.groups()
    step = abs(int(stride or 1)) or 1
    if first.isalpha() != last.isalpha():
        return []
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    ends = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    if len(ends) > LIMIT:
        # Numbers are no options; below zero they look like one.
        return [NAME, NAME] if min(low, high) >= 0 else [LOOSE, LOOSE]
    if first.isalpha():
        return [chr(number) for number in ends]
    width = max(len(first), len(last)) if first.startswith("0") or last.startswith("0") else 0
    return [str(number).zfill(width) for number in ends]
