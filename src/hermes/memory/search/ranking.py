"""Which of the lines that fit comes first: rare words, often, in a short text, not long ago."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from hermes.core.recall import Line
from hermes.memory.search.query import Term
from hermes.memory.search.snippets import rough

_USUAL = 600
"""Characters of a usual line."""
_OFTEN = 1.2
_HALF_LIFE = 30.0
_SEEN = 20_000
"""Characters of a text that are looked at."""


def score(line: Line, weights: Mapping[Term, float], now: datetime) -> float:
    text = line.text[:_SEEN].lower()
    length = _OFTEN * (0.25 + 0.75 * len(text) / _USUAL)
    total = 0.0
    for term, weight in weights.items():
        times = _times(text, term)
        total += weight * times * (1 + _OFTEN) / (times + length) if times else 0.0
    if len(weights) > 1 and _together(text, tuple(weights)):
        total *= 1.2
    days = max(0.0, (now - line.at).total_seconds() / 86400)
    return float(total * (0.9 + 0.1 * 2 ** (-days / _HALF_LIFE)))


def _times(text: str, term: Term) -> int:
    """How often its rarest part occurs; once at least, since the index says that it does."""
    return max(1, min(text.count(rough(word)) for word in term.words))


def _together(text: str, terms: Sequence[Term]) -> bool:
    """The words stand close to each other, in this order."""
    first, second = rough(terms[0].words[0]), rough(terms[1].words[0])
    at = text.find(first)
    return at >= 0 and text.find(second, at, at + len(first) + len(second) + 12) >= 0
