"""Answers a question with the passages that hold the answer, or with nothing."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import anyio

from hermes.core.messages import Value
from hermes.memory.embedding.embedder import Embedder
from hermes.memory.recall.decay import fade
from hermes.memory.recall.fusion import Weighed, fuse
from hermes.memory.recall.links import follow, names_to_follow, rare_ones
from hermes.memory.recall.pool import REACH, Pool
from hermes.memory.recall.question import Question, Term, named_in, read_question, without_names
from hermes.memory.recall.selection import pick, rank
from hermes.memory.recall.settings import RecallSettings
from hermes.memory.recall.store import RecallStore
from hermes.memory.recall.text_score import score_text, weigh
from hermes.memory.recall.vector_score import score_vectors
from hermes.memory.recall.words import Stemmer, words

LINKED = 30
"""Passages that names may lead to."""
WEAKEST = 0.25
"""Share of the floor that every single passage must reach."""


class Recalled(Value, frozen=True, kw_only=True):
    seq: int
    source: str
    session: str
    at: datetime
    speaker: str = ""
    text: str = ""
    score: float
    why: str
    """For a person: the words found, how near the meaning is, who said it."""


async def recall(
    store: RecallStore,
    query: str,
    *,
    session: str | None = None,
    limit: int = 10,
    now: datetime,
    embedder: Embedder | None = None,
    settings: RecallSettings | None = None,
) -> list[Recalled]:
    """The best passages first. Raises `StoreError` when the store cannot be read."""
    asked = _Asked(store, session, settings or RecallSettings())
    question = read_question(query[:2_000], asked.stemmer)
    await asked.find_by_text(question)
    names = named_in(question, {passage.speaker for passage in asked.pool})
    near = await asked.find_by_meaning(question, names, embedder) if embedder else {}
    fused = await asked.score(question, names, near)
    # Before age is looked at: old and right is still an answer.
    if max((one.score for one in fused), default=0.0) < asked.settings.floor:
        return []
    ranked = rank(
        [one._replace(score=one.score * fade(one.passage, now, asked.settings)) for one in fused]
    )
    ranked = await asked.follow_names(question, ranked)
    # One floor for the whole answer: of a question with several answers the last ones are weak.
    good = [one for one in ranked if one.score >= asked.settings.floor * WEAKEST]
    picked = pick(good, asked.pool, limit, spread=question.wants_several)
    return [_recalled(one) for one in picked]


class _Asked:
    """One question under way: its candidates grow in steps."""

    def __init__(self, store: RecallStore, session: str | None, settings: RecallSettings) -> None:
        self.settings = settings
        self.stemmer = Stemmer()
        self.pool = Pool()
        self._store = store
        self._session = session
        self._known_size: int | None = None

    async def find_by_text(self, question: Question) -> None:
        terms = [term.raw for term in question.terms]
        await self._add_matching(terms, self.settings.candidates)

    async def find_by_meaning(
        self, question: Question, names: Collection[str], embedder: Embedder
    ) -> Mapping[int, float]:
        text = without_names(question, names)
        (vector,) = await anyio.to_thread.run_sync(embedder.embed, [text])
        found = await self._store.nearest(
            vector, embedder.model, session=self._session, limit=self.settings.nearest
        )
        await self._add([hit.seq for hit in found])
        if not found:
            return {}
        seqs = [passage.seq for passage in self.pool]
        return await self._store.similarities(vector, embedder.model, seqs)

    async def score(
        self,
        question: Question,
        names: Collection[str],
        near: Mapping[int, float],
    ) -> list[Weighed]:
        spoken = {part for name in names for part in words(name)}
        terms = [term for term in question.terms if not _is_name(term, spoken, self.stemmer)]
        terms = terms or list(question.terms)
        text = score_text(self.pool, terms, await self._weights(terms), self.stemmer)
        return fuse(self.pool, question, text, score_vectors(self.pool, near), names)

    async def follow_names(self, question: Question, ranked: list[Weighed]) -> list[Weighed]:
        if ranked[0].text.exact > 0.5:
            return ranked  # whoever gives the very string wants that passage
        names = names_to_follow(question, ranked, {passage.speaker for passage in self.pool})
        if not names:
            return ranked
        counts = await self._store.frequencies(list(names), self._session)
        rare = rare_ones(names, counts, await self._size())
        led = await self._add_matching(list(rare), LINKED, reach=0)
        return rank(follow(ranked, [self.pool[seq] for seq in led], rare))

    async def _weights(self, terms: Sequence[Term]) -> list[float]:
        size = await self._size()
        raw = [term.raw for term in terms]
        counts = await self._store.frequencies(raw, self._session)
        return [weigh(count, size) for count in counts]

    async def _size(self) -> int:
        if self._known_size is None:
            self._known_size = await self._store.size(self._session)
        return self._known_size

    async def _add_matching(
        self, terms: Sequence[str], limit: int, *, reach: int = REACH
    ) -> list[int]:
        if not terms:
            return []
        found = await self._store.matching(terms, session=self._session, limit=limit)
        seqs = [hit.seq for hit in found]
        await self._add(seqs, reach)
        return [seq for seq in seqs if seq in self.pool]

    async def _add(self, seqs: Sequence[int], reach: int = REACH) -> None:
        new = [seq for seq in seqs if seq not in self.pool]
        if new:
            self.pool.add(await self._store.around(new, reach))


def _is_name(term: Term, spoken: Collection[str], stemmer: Stemmer) -> bool:
    return any(term.stems == (stemmer.stem(part),) for part in spoken)


def _recalled(one: Weighed) -> Recalled:
    passage = one.passage
    reasons = [f"words: {', '.join(one.text.words)}"] if one.text.words else []
    if one.meaning is not None:
        reasons.append(f"meaning {one.meaning:.2f}")
    if one.named:
        reasons.append(f"said by {passage.speaker}")
    return Recalled(
        seq=passage.seq,
        source=passage.source,
        session=passage.session,
        at=passage.at,
        speaker=passage.speaker,
        text=passage.text,
        score=round(one.score, 4),
        why="; ".join(reasons) or "near a passage that matches",
    )
