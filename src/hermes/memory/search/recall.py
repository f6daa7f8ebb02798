"""Recall: finds passages for a question by words, meaning and names, and ranks them.

Age lowers a score: only between equals by default, counted from the last confirmation.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import anyio

from hermes.core.knowledge import RecalledLine, TranscriptLine
from hermes.memory.search.line_index import (
    Embedder,
    Passage,
    PassageStore,
    VectorStore,
)
from hermes.memory.search.question import (
    QuestionTerm,
    RecallQuestion,
    is_identifier,
    named_speakers,
    parse_question,
    without_names,
)
from hermes.memory.search.scoring import (
    NEIGHBOUR_REACH,
    CandidatePool,
    ScoredPassage,
    TextScore,
    combine_scores,
    inverse_document_frequency,
    score_text,
    score_vectors,
)
from hermes.memory.search.text_analysis import STOP_WORDS, Stemmer, split_words
from hermes.memory.settings import RecallSettings

MIN_DECAY_FACTOR = 0.9
"""A half-life of 30 days without this minimum cuts evidence recall from 63 to 39 of 100."""
_DAY_S = 86_400.0


def decay_factor(passage: Passage, now: datetime, settings: RecallSettings) -> float:
    """Factor for a passage's score; never more than one, even if the clock jumped."""
    half_life: float = getattr(settings, f"half_life_{passage.kind}_days")
    if half_life <= 0:
        return 1.0
    age = max(0.0, (now - (passage.confirmed or passage.at)).total_seconds() / _DAY_S)
    left = math.exp(-math.log(2) * age / half_life)
    return (
        left
        if settings.decay == "exponential"
        else MIN_DECAY_FACTOR + (1 - MIN_DECAY_FACTOR) * left
    )


NEIGHBOUR_PENALTY = 0.05
"""Subtracted from the neighbours of a pick, on the scale of the words found."""


def rank_passages(weighed: Sequence[ScoredPassage]) -> list[ScoredPassage]:
    """Best first; of equals the newer one, then the lower number: the order is stable."""
    return sorted(
        weighed, key=lambda one: (-one.score, -one.passage.at.timestamp(), one.passage.seq)
    )


def pick_passages(
    ranked: Sequence[ScoredPassage], pool: CandidatePool, limit: int, *, spread: bool
) -> list[ScoredPassage]:
    if not spread:
        return list(ranked[:limit])
    # A neighbour loses a little for each pick beside it, so only the head can still rise.
    waiting = list(ranked[: limit * 5])
    picked: list[ScoredPassage] = []
    while waiting and len(picked) < limit:
        best = max(waiting, key=lambda one: one.score)
        waiting.remove(best)
        picked.append(best)
        beside = {seq for seq, distance in pool.neighbours(best.passage) if distance == 1}
        waiting = [
            one._replace(score=one.score - NEIGHBOUR_PENALTY) if one.passage.seq in beside else one
            for one in waiting
        ]
    return picked


MAX_PASSAGES_FOLLOWED = 3
"""Passages whose names are followed."""
MAX_NAMES_FOLLOWED = 3
HOP_WEIGHT = 0.5
"""The value of a passage relative to the one that led to it: direct answers stay ahead."""
MAX_RARE_SHARE = 0.002
"""A name in a greater share of the passages than this is too common to follow."""
MIN_RARE_LIMIT = 5
_NAME = re.compile(r"[A-Z][\w-]{2,}|#?\w[\w./:@-]*\w")


def names_to_follow(
    question: RecallQuestion, ranked: Sequence[ScoredPassage], speakers: Collection[str]
) -> dict[str, ScoredPassage]:
    """Identifiers and proper names of the best passages, each with its passage."""
    known = {part for text in (question.text, *speakers) for part in split_words(text)}
    found: dict[str, ScoredPassage] = {}
    for one in ranked[:MAX_PASSAGES_FOLLOWED]:
        text = one.passage.text[:2_000]
        for name in _NAME.finditer(text):
            if _is_followable_name(name, text) and not all(
                part in known or part in STOP_WORDS for part in split_words(name.group())
            ):
                found.setdefault(name.group(), one)
    return dict(list(found.items())[:MAX_NAMES_FOLLOWED])


def rare_names(
    names: Mapping[str, ScoredPassage], counts: Sequence[int], size: int
) -> dict[str, ScoredPassage]:
    """Names that other passages have too, but few."""
    max_passages = max(MIN_RARE_LIMIT, MAX_RARE_SHARE * size)
    pairs = zip(names.items(), counts, strict=True)
    return {name: source for (name, source), count in pairs if 1 < count <= max_passages}


def follow_names(
    ranked: Sequence[ScoredPassage], linked: Iterable[Passage], names: Mapping[str, ScoredPassage]
) -> list[ScoredPassage]:
    """Every passage that a name leads to gets half the score of the passage with the name."""
    scored = {one.passage.seq: one for one in ranked}
    for passage in linked:
        for name, source in names.items():
            own = scored.get(passage.seq)
            worth = HOP_WEIGHT * source.score
            if _passage_holds(passage, name) and (own is None or own.score < worth):
                text = TextScore(0.0, 0.0, (name,))
                scored[passage.seq] = ScoredPassage(passage, worth, text, None, False)
    return list(scored.values())


def _is_followable_name(match: re.Match[str], text: str) -> bool:
    """A capital in the middle of a sentence, or a string that is never paraphrased."""
    name = match.group()
    if is_identifier(name):
        return True
    before = text[: match.start()].rstrip()
    return name[0].isupper() and bool(before) and before[-1] not in ".!?:…\n\"'([-"


def _passage_holds(passage: Passage, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", passage.text[:8_000], re.I) is not None


MAX_LINKED_PASSAGES = 30
"""Passages that names may lead to."""
MIN_FLOOR_SHARE = 0.25
"""Share of the minimum score that every single passage must reach."""


async def recall(
    store: PassageStore,
    query: str,
    *,
    session: str | None = None,
    limit: int = 10,
    now: datetime,
    embedder: Embedder | None = None,
    vectors: VectorStore | None = None,
    settings: RecallSettings | None = None,
) -> list[RecalledLine]:
    """The best passages first. Raises `StoreError` when the store cannot be read."""
    asked = _RecallRun(store, session, settings or RecallSettings())
    question = parse_question(query[:2_000], asked.stemmer)
    await asked.find_by_text(question)
    names = named_speakers(question, {passage.speaker for passage in asked.pool})
    near: Mapping[int, float] = {}
    if embedder is not None and vectors is not None:
        near = await asked.find_by_meaning(question, names, embedder, vectors)
    fused = await asked.score(question, names, near)
    # Before age is applied: an old correct passage is still an answer.
    if max((one.score for one in fused), default=0.0) < asked.settings.floor:
        return []
    ranked = rank_passages(
        [
            one._replace(score=one.score * decay_factor(one.passage, now, asked.settings))
            for one in fused
        ]
    )
    ranked = await asked.follow_names(question, ranked)
    # One minimum for the whole answer: the last of several answers are weak.
    good = [one for one in ranked if one.score >= asked.settings.floor * MIN_FLOOR_SHARE]
    picked = pick_passages(good, asked.pool, limit, spread=question.wants_several)
    return [_recalled_line(one) for one in picked]


class _RecallRun:
    """One recall in progress: its candidates grow in steps."""

    def __init__(self, store: PassageStore, session: str | None, settings: RecallSettings) -> None:
        self.settings = settings
        self.stemmer = Stemmer()
        self.pool = CandidatePool()
        self._store = store
        self._session = session
        self._known_size: int | None = None

    async def find_by_text(self, question: RecallQuestion) -> None:
        terms = [term.raw for term in question.terms]
        await self._add_matching(terms, self.settings.candidates)

    async def find_by_meaning(
        self,
        question: RecallQuestion,
        names: Collection[str],
        embedder: Embedder,
        vectors: VectorStore,
    ) -> Mapping[int, float]:
        text = without_names(question, names)
        (vector,) = await anyio.to_thread.run_sync(embedder.embed, [text])
        found = await vectors.nearest(
            vector, embedder.model, session=self._session, limit=self.settings.nearest
        )
        await self._add([hit.seq for hit in found])
        if not found:
            return {}
        seqs = [passage.seq for passage in self.pool]
        return await vectors.similarities(vector, embedder.model, seqs)

    async def score(
        self,
        question: RecallQuestion,
        names: Collection[str],
        similarities: Mapping[int, float],
    ) -> list[ScoredPassage]:
        spoken = {part for name in names for part in split_words(name)}
        terms = [
            term for term in question.terms if not _is_speaker_name(term, spoken, self.stemmer)
        ]
        terms = terms or list(question.terms)
        text = score_text(self.pool, terms, await self._weights(terms), self.stemmer)
        return combine_scores(
            self.pool, question, text, score_vectors(self.pool, similarities), names
        )

    async def follow_names(
        self, question: RecallQuestion, ranked: list[ScoredPassage]
    ) -> list[ScoredPassage]:
        if ranked[0].text_score.exact > 0.5:
            return ranked  # an exact string is a request for that passage
        names = names_to_follow(question, ranked, {passage.speaker for passage in self.pool})
        if not names:
            return ranked
        counts = await self._store.frequencies(list(names), self._session)
        rare = rare_names(names, counts, await self._size())
        led = await self._add_matching(list(rare), MAX_LINKED_PASSAGES, reach=0)
        return rank_passages(follow_names(ranked, [self.pool[seq] for seq in led], rare))

    async def _weights(self, terms: Sequence[QuestionTerm]) -> list[float]:
        size = await self._size()
        raw = [term.raw for term in terms]
        counts = await self._store.frequencies(raw, self._session)
        return [inverse_document_frequency(count, size) for count in counts]

    async def _size(self) -> int:
        if self._known_size is None:
            self._known_size = await self._store.size(self._session)
        return self._known_size

    async def _add_matching(
        self, terms: Sequence[str], limit: int, *, reach: int = NEIGHBOUR_REACH
    ) -> list[int]:
        if not terms:
            return []
        found = await self._store.matching(terms, session=self._session, limit=limit)
        seqs = [hit.seq for hit in found]
        await self._add(seqs, reach)
        return [seq for seq in seqs if seq in self.pool]

    async def _add(self, seqs: Sequence[int], reach: int = NEIGHBOUR_REACH) -> None:
        new = [seq for seq in seqs if seq not in self.pool]
        if new:
            self.pool.add(await self._store.around(new, reach))


def _is_speaker_name(term: QuestionTerm, speaker_words: Collection[str], stemmer: Stemmer) -> bool:
    return any(term.stems == (stemmer.stem(part),) for part in speaker_words)


def _recalled_line(one: ScoredPassage) -> RecalledLine:
    passage = one.passage
    reasons = [f"words: {', '.join(one.text_score.words)}"] if one.text_score.words else []
    if one.vector_score is not None:
        reasons.append(f"meaning {one.vector_score:.2f}")
    if one.speaker_named:
        reasons.append(f"said by {passage.speaker}")
    return RecalledLine(
        line=TranscriptLine(
            seq=passage.seq,
            run=passage.session,
            kind="message",
            at=passage.at,
            speaker=passage.speaker,
            source="" if passage.source == str(passage.seq) else passage.source,
            text=passage.text,
        ),
        score=round(one.score, 4),
        why="; ".join(reasons) or "near a passage that matches",
    )
