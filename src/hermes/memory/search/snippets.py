"""The part of a text that answers, and where in it the words stand."""

import re
from collections.abc import Sequence
from functools import lru_cache

from hermes.memory.search.query import Term

WIDTH = 240
_ENDINGS = ("ings", "ing", "ied", "ies", "ers", "er", "ed", "es", "ly", "s", "e", "y")
_SPACE = re.compile(r"\s+")
Marks = tuple[tuple[int, int], ...]


def pattern(terms: Sequence[Term]) -> re.Pattern[str] | None:
    """Finds the words in any of their forms: nearly what the stemmer takes for the same."""
    ways = dict.fromkeys(way for term in terms for way in _ways(term))
    if not ways:
        return None
    return re.compile("|".join(f"(?:{way})" for way in ways), re.IGNORECASE)


def snippet(text: str, words: re.Pattern[str] | None, width: int = WIDTH) -> tuple[str, Marks]:
    """One line of about `width` characters around the place with most of the words."""
    found = [] if words is None else _first(words, text)
    start = _best(found, width) if found else 0
    start = max(0, min(start - width // 6, len(text) - width))
    if start:
        start = text.find(" ", start, start + 20) + 1 or start
    piece = _SPACE.sub(" ", text[start : start + width]).strip()
    if start:
        piece = f"…{piece}"
    if start + width < len(text):
        piece = f"{piece}…"
    marks = () if words is None else tuple(each.span() for each in words.finditer(piece))
    return piece, marks


@lru_cache(maxsize=1024)
def rough(word: str) -> str:
    """The word without its ending."""
    lowered = word.lower()
    for ending in _ENDINGS:
        if lowered.endswith(ending) and len(lowered) - len(ending) >= 3:
            return lowered[: -len(ending)]
    return lowered


def _ways(term: Term) -> list[str]:
    own = [re.escape(rough(word)) for word in term.words]
    if not term.words[-1].isascii():
        return [re.escape(term.words[0][0]) if term.begins else _signs(term.words)]
    end = r"\w*" if term.begins else r"\w{0,4}\b"
    ways = [r"\b" + r"\w{0,4}[\W_]+".join(own) + end]
    if len(own) > 1:
        ways.append(r"\w{0,4}[\W_]*".join(own) + end)  # the same, grown together
    if term.also:
        ways.append(r"[\W_]*".join(map(re.escape, term.also)) + r"\w*")
    return ways


def _signs(words: Sequence[str]) -> str:
    """Pairs of signs, put together again."""
    return re.escape("".join(word[0] for word in words[:-1]) + words[-1])


def _first(words: re.Pattern[str], text: str, most: int = 24) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for each in words.finditer(text):
        found.append((each.start(), each.group().lower()[:4]))
        if len(found) == most:
            break
    return found


def _best(found: Sequence[tuple[int, str]], width: int) -> int:
    """Where the most different words stand within one width; the first such place."""
    best, start = 0, found[0][0]
    for at, _ in found:
        kinds = len({word for place, word in found if at <= place < at + width * 3 // 4})
        if kinds > best:
            best, start = kinds, at
    return start
