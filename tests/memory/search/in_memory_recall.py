"""A recall store for tests and measurements: everything in lists, exact and slow."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hermes.memory.search.line_index import Passage, ScoredSeq
from hermes.memory.search.text_analysis import Stemmer, split_words

_NEIGHBOUR_WEIGHT = 0.5
_K1, _B = 1.2, 0.75


class InMemoryRecallStore:
    """Pass passages in the order of their sessions; add vectors with `add_vector`."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._stemmer = Stemmer()
        self._passages = {passage.seq: passage for passage in passages}
        self._seq_by_position = {(p.session, p.position): p.seq for p in self._passages.values()}
        self._stems = {
            seq: [self._stemmer.stem(word) for word in split_words(passage.text)]
            for seq, passage in self._passages.items()
        }
        self._counts = {seq: Counter(stems) for seq, stems in self._stems.items()}
        self._vectors: dict[str, dict[int, array[float]]] = {}

    def add_vector(self, seq: int, model: str, vector: bytes) -> None:
        self._vectors.setdefault(model, {})[seq] = array("f", vector)

    async def size(self, session: str | None) -> int:
        return len(self._scope(session))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return [sum(self._holds(seq, term) for seq in self._scope(session)) for term in terms]

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        scope = self._scope(session)
        length = sum(len(self._stems[seq]) for seq in scope) / max(1, len(scope))
        scores: dict[int, float] = {}
        for term in terms:
            holders = [seq for seq in scope if self._holds(seq, term)]
            weight = math.log(1 + (len(scope) - len(holders) + 0.5) / (len(holders) + 0.5))
            for seq in holders:
                bent = weight * self._bm25_term_weight(seq, term, length)
                scores[seq] = scores.get(seq, 0.0) + bent
                for beside in self._at_distance(seq, 1):
                    scores[beside] = scores.get(beside, 0.0) + _NEIGHBOUR_WEIGHT * bent
        best = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
        return [ScoredSeq(seq, score) for seq, score in best[:limit]]

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        near = await self.similarities(vector, model, self._scope(session))
        best = sorted(near.items(), key=lambda one: (-one[1], one[0]))
        return [ScoredSeq(seq, score) for seq, score in best[:limit]]

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        asked = array("f", vector)
        kept = self._vectors.get(model, {})
        return {
            seq: sum(a * b for a, b in zip(asked, kept[seq], strict=True))
            for seq in seqs
            if seq in kept
        }

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        wanted = {
            beside
            for seq in seqs
            for distance in range(reach + 1)
            for beside in self._at_distance(seq, distance)
        }
        return [self._passages[seq] for seq in sorted(wanted)]

    def _scope(self, session: str | None) -> list[int]:
        return [seq for seq, p in self._passages.items() if session in (None, p.session)]

    def _at_distance(self, seq: int, distance: int) -> list[int]:
        passage = self._passages[seq]
        positions = {passage.position - distance, passage.position + distance}
        return [
            s
            for at in positions
            if (s := self._seq_by_position.get((passage.session, at))) is not None
        ]

    def _holds(self, seq: int, term: str) -> bool:
        """A phrase when the term has several parts."""
        wanted = [self._stemmer.stem(word) for word in split_words(term)]
        counts = self._counts[seq]
        if not wanted or any(stem not in counts for stem in wanted):
            return False
        stems, width = self._stems[seq], len(wanted)
        return any(stems[at : at + width] == wanted for at in range(len(stems) - width + 1))

    def _bm25_term_weight(self, seq: int, term: str, length: float) -> float:
        """The bm25 curve of how often the term's rarest part occurs."""
        often = min(self._counts[seq][self._stemmer.stem(word)] for word in split_words(term))
        return often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * len(self._stems[seq]) / length))
