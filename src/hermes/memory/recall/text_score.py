"""How much of a question's weight a passage holds, in its own words or next to it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hermes.memory.recall.pool import READ_AT_MOST, Pool, find_stems
from hermes.memory.recall.question import Term
from hermes.memory.recall.store import Passage
from hermes.memory.recall.words import Stemmer

BESIDE = (0.6, 0.3)
"""What a word counts for one and two places away: an answer often leaves out the question's words.

Measured: without neighbours evidence recall falls by twelve points; 0.5 to 0.7 are alike.
"""
SPLIT = 0.5
"""What an identifier counts when only its parts are there, as `db-orders-3` for `db-orders-2`."""
ALIKE = 0.5
"""What another word for the same thing counts."""

Held = Mapping[int, float]
"""Place of a term in the question → how much of it is there; absent terms are left out."""


class TextScore(NamedTuple):
    covered: float
    """Share of the question's weight, 0 to 1."""
    exact: float
    """Share of the weight that exact strings found in this very passage hold, 0 to 1."""
    words: tuple[str, ...]


NOTHING = TextScore(0.0, 0.0, ())


def weigh(frequency: int, size: int) -> float:
    """Inverse document frequency: a rare word says more."""
    frequency = min(frequency, size)
    return math.log(1 + (size - frequency + 0.5) / (frequency + 0.5))


def score_text(
    pool: Pool, terms: Sequence[Term], weights: Sequence[float], stemmer: Stemmer
) -> Mapping[int, TextScore]:
    total = sum(weights)
    if not total:
        return {passage.seq: NOTHING for passage in pool}
    held = _held_by_each(pool, terms, stemmer)
    scores = {}
    for passage in pool:
        own = held[passage.seq]
        best = _with_neighbours(own, ((held[s], d) for s, d in pool.beside(passage)))
        exact = sum(weights[at] for at, share in own.items() if terms[at].exact and share == 1)
        scores[passage.seq] = TextScore(
            sum(weights[at] * share for at, share in best.items()) / total,
            exact / total,
            tuple(terms[at].raw for at in own),
        )
    return scores


def _with_neighbours(own: Held, beside: Iterable[tuple[Held, int]]) -> Held:
    best = dict(own)
    for held, distance in beside:
        for at, share in held.items():
            best[at] = max(best.get(at, 0.0), BESIDE[distance - 1] * share)
    return best


def _held_by_each(pool: Pool, terms: Sequence[Term], stemmer: Stemmer) -> Mapping[int, Held]:
    wanted = frozenset(stem for term in terms for stem in (*term.stems, *term.alike))
    stems = find_stems(pool, wanted, stemmer)
    literal = [_pattern(term.raw) if term.exact else None for term in terms]
    return {
        passage.seq: {
            at: share
            for at, term in enumerate(terms)
            if (share := _share(passage, stems[passage.seq], term, literal[at]))
        }
        if stems[passage.seq]
        else {}
        for passage in pool
    }


def _share(
    passage: Passage, stems: frozenset[str], term: Term, pattern: re.Pattern[str] | None
) -> float:
    present = sum(stem in stems for stem in term.stems) / len(term.stems)
    if pattern is None:
        return 1.0 if present == 1 else ALIKE * (not stems.isdisjoint(term.alike))
    if present == 1 and pattern.search(passage.text[:READ_AT_MOST]):
        return 1.0
    return SPLIT * present


def _pattern(raw: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(raw)}(?!\w)", re.IGNORECASE)
