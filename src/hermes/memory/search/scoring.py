"""Scores candidate passages by text, vectors and neighbours."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from hermes.memory.search.line_index import Passage
from hermes.memory.search.question import QuestionTerm, RecallQuestion
from hermes.memory.search.text_analysis import Stemmer, split_words
from hermes.plumbing.patterns import lazy_pattern

MAX_CONVERSATION_GAP = timedelta(hours=6)
"""Neighbours further apart in time belong to different conversations."""
NEIGHBOUR_REACH = 2
"""Positions before and after a passage that count for it."""
MAX_SCORED_CHARS = 4_000
"""Characters of a passage that are scored: a log of megabytes must not stall the question."""


class CandidatePool:
    def __init__(self) -> None:
        self._passages: dict[int, Passage] = {}
        self._seq_by_position: dict[tuple[str, int], int] = {}

    def add(self, passages: Iterable[Passage]) -> None:
        for passage in passages:
            self._passages[passage.seq] = passage
            self._seq_by_position[passage.session, passage.position] = passage.seq

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages.values())

    def __contains__(self, seq: int) -> bool:
        return seq in self._passages

    def __getitem__(self, seq: int) -> Passage:
        return self._passages[seq]

    def __len__(self) -> int:
        return len(self._passages)

    def neighbours(self, passage: Passage) -> list[tuple[int, int]]:
        """Passages of the same conversation within reach, each with its distance."""
        found = []
        for direction in (-1, 1):
            current = passage
            for distance in range(1, NEIGHBOUR_REACH + 1):
                seq = self._seq_by_position.get(
                    (passage.session, passage.position + direction * distance)
                )
                if seq is None:
                    break
                neighbour = self._passages[seq]
                # Each step must be a turn of another speaker: notes of one author are independent.
                if (
                    neighbour.speaker == current.speaker
                    or abs(neighbour.at - passage.at) > MAX_CONVERSATION_GAP
                ):
                    break
                found.append((seq, distance))
                current = neighbour
        return found


def find_stems(
    passages: Iterable[Passage], wanted: frozenset[str], stemmer: Stemmer
) -> Mapping[int, frozenset[str]]:
    """Return which of the wanted stems each passage has.

    This is the hot path of a recall: only words that begin like a wanted stem are stemmed (the
    stemmer never changes the first two letters), each once, and the rest is set arithmetic.
    """
    heads = {stem[:2] for stem in wanted}
    held = {passage.seq: set(split_words(passage.text[:MAX_SCORED_CHARS])) for passage in passages}
    every = set().union(*held.values()) if held else set()
    stems = {
        word: stem for word in every if word[:2] in heads and (stem := stemmer.stem(word)) in wanted
    }
    telling = frozenset(stems)
    return {seq: frozenset(stems[word] for word in found & telling) for seq, found in held.items()}


_TIME_WORDS = lazy_pattern(
    r"\b(yesterday|today|tonight|tomorrow|last|next|ago|since|recently|weekend|soon|upcoming|"
    r"(mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|"
    r"september|october|november|december|summer|winter|spring|autumn|"
    r"(day|week|month|year|hour|minute)s?|morning|night|(19|20)\d\d|\d+(st|nd|rd|th)|\d\d?:\d\d)\b",
    re.IGNORECASE,
)


def mentions_time(text: str) -> bool:
    return _TIME_WORDS.search(text[:2_000]) is not None


NEIGHBOUR_TEXT_WEIGHTS = (0.6, 0.3)
"""The weight of a word one and two positions away: an answer often omits the question's words.

Measured: without neighbours evidence recall falls by twelve points; 0.5 to 0.7 are alike.
"""
PARTIAL_IDENTIFIER_WEIGHT = 0.5
"""The weight of an identifier when only its parts are there, as `db-orders-3` for `db-orders-2`."""
SYNONYM_WEIGHT = 0.5
"""The weight of another word for the same thing."""

TermShares = Mapping[int, float]
"""Index of a term in the question → how much of it is there; absent terms are left out."""


class TextScore(NamedTuple):
    covered: float
    """Share of the question's weight, 0 to 1."""
    exact: float
    """Share of the weight of exact strings found in this passage itself, 0 to 1."""
    words: tuple[str, ...]


NO_TEXT_SCORE = TextScore(0.0, 0.0, ())


def inverse_document_frequency(frequency: int, size: int) -> float:
    """Inverse document frequency: a rare word says more."""
    frequency = min(frequency, size)
    return math.log(1 + (size - frequency + 0.5) / (frequency + 0.5))


def score_text(
    pool: CandidatePool, terms: Sequence[QuestionTerm], weights: Sequence[float], stemmer: Stemmer
) -> Mapping[int, TextScore]:
    total = sum(weights)
    if not total:
        return {passage.seq: NO_TEXT_SCORE for passage in pool}
    held = _shares_by_passage(pool, terms, stemmer)
    scores = {}
    for passage in pool:
        own = held[passage.seq]
        best = _shares_with_neighbours(own, ((held[s], d) for s, d in pool.neighbours(passage)))
        exact = sum(weights[at] for at, share in own.items() if terms[at].exact and share == 1)
        scores[passage.seq] = TextScore(
            sum(weights[at] * share for at, share in best.items()) / total,
            exact / total,
            tuple(terms[at].raw for at in own),
        )
    return scores


def _shares_with_neighbours(
    own_shares: TermShares, neighbours: Iterable[tuple[TermShares, int]]
) -> TermShares:
    best = dict(own_shares)
    for held, distance in neighbours:
        for at, share in held.items():
            best[at] = max(best.get(at, 0.0), NEIGHBOUR_TEXT_WEIGHTS[distance - 1] * share)
    return best


def _shares_by_passage(
    pool: CandidatePool, terms: Sequence[QuestionTerm], stemmer: Stemmer
) -> Mapping[int, TermShares]:
    wanted = frozenset(stem for term in terms for stem in (*term.stems, *term.synonyms))
    stems = find_stems(pool, wanted, stemmer)
    literal = [_literal_pattern(term.raw) if term.exact else None for term in terms]
    return {
        passage.seq: {
            at: share
            for at, term in enumerate(terms)
            if (share := _term_share(passage, stems[passage.seq], term, literal[at]))
        }
        if stems[passage.seq]
        else {}
        for passage in pool
    }


def _term_share(
    passage: Passage, stems: frozenset[str], term: QuestionTerm, pattern: re.Pattern[str] | None
) -> float:
    present = sum(stem in stems for stem in term.stems) / len(term.stems)
    if pattern is None:
        return 1.0 if present == 1 else SYNONYM_WEIGHT * (not stems.isdisjoint(term.synonyms))
    if present == 1 and pattern.search(passage.text[:MAX_SCORED_CHARS]):
        return 1.0
    return PARTIAL_IDENTIFIER_WEIGHT * present


def _literal_pattern(raw: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(raw)}(?!\w)", re.IGNORECASE)


NEIGHBOUR_VECTOR_WEIGHTS = (0.3, 0.1)
"""Weight of neighbours one and two positions away: "yes, last summer" means little alone."""


def score_vectors(pool: CandidatePool, similarities: Mapping[int, float]) -> Mapping[int, float]:
    """0 to 1 for every passage that has a vector."""
    scores = {}
    for passage in pool:
        own = similarities.get(passage.seq)
        if own is None:
            continue
        total, weight = own, 1.0
        for seq, distance in pool.neighbours(passage):
            share = NEIGHBOUR_VECTOR_WEIGHTS[distance - 1]
            total += share * similarities.get(seq, 0.0)
            weight += share
        scores[passage.seq] = max(0.0, total / weight)
    return scores


VECTOR_WEIGHT = 1.5
"""Weight of the cosine against the share of words found; 1 to 2 measure alike."""
TEXT_TRUST_RANGE = (0.2, 0.4)
"""When no passage has more than the first share of the question's weight, its words are taken
for a paraphrase and count little; from the second share on they count in full. So one scoring
works for exact and paraphrased questions."""
MIN_TEXT_TRUST = 0.2
EXACT_MATCH_BONUS = 0.5
"""Added for an identifier or error string in the passage itself."""
QUESTION_PENALTY = 0.15
"""Subtracted for a passage that ends in a question: the answer is next to it."""
SPEAKER_BONUS = 0.15
"""Added for what the person named in the question said."""
SPEAKER_BONUS_SEVERAL = 0.25
"""The same when the answer lies in several places, where each has few of the words."""
TIME_BONUS = 0.1
"""Added for a passage that mentions a time when the question asks for one."""


class ScoredPassage(NamedTuple):
    passage: Passage
    score: float
    text_score: TextScore
    vector_score: float | None
    speaker_named: bool


def combine_scores(
    pool: CandidatePool,
    question: RecallQuestion,
    text: Mapping[int, TextScore],
    meaning: Mapping[int, float],
    names: Collection[str],
) -> list[ScoredPassage]:
    """Scores from about 0 to 1, so that one minimum works with and without vectors."""
    scale = 1 + (VECTOR_WEIGHT if meaning else 0)
    said_by = SPEAKER_BONUS_SEVERAL if question.wants_several else SPEAKER_BONUS
    trust = _text_trust(text) if meaning else 1.0
    weighed = []
    for passage in pool:
        found = text[passage.seq]
        near = meaning.get(passage.seq)
        named = len(names) == 1 and passage.speaker in names
        score = (
            trust * found.covered + EXACT_MATCH_BONUS * found.exact + VECTOR_WEIGHT * (near or 0.0)
        )
        score += said_by * named
        score -= QUESTION_PENALTY * passage.text.rstrip().endswith("?")
        if question.wants_time and mentions_time(passage.text):
            score += TIME_BONUS
        weighed.append(ScoredPassage(passage, score / scale, found, near, named))
    return weighed


def _text_trust(text: Mapping[int, TextScore]) -> float:
    """Return how much the words found may count, by the best share of any passage."""
    best = max((one.covered for one in text.values()), default=0.0)
    low, high = TEXT_TRUST_RANGE
    return min(1.0, max(MIN_TEXT_TRUST, (best - low) / (high - low)))
