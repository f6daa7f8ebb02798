"""What recall asks of a store, answered by its index of words and, where it has them, vectors."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.memory import FactNoted
from hermes.memory.recall.store import Found, Passage
from hermes.memory.search.told import told

Answer = TypeVar("Answer")
SEEN = 4000
"""Characters of a passage that recall looks at."""


class Indexed(Protocol):
    """Brings its index up to date, then puts a question to it and to what goes with it."""

    async def ask(self, question: Callable[[Any, Any], Answer]) -> Answer: ...


class Answers(Protocol):
    """The questions of `RecallStore`, as functions that each store has in a module of its own."""

    def size(self, index: Any, other: Any, /, *, session: str | None) -> int: ...
    def frequencies(
        self, index: Any, other: Any, /, *, terms: Sequence[str], session: str | None
    ) -> Sequence[int]: ...
    def matching(
        self, index: Any, other: Any, /, *, terms: Sequence[str], session: str | None, limit: int
    ) -> Sequence[Found]: ...
    def around(
        self, index: Any, other: Any, /, *, seqs: Sequence[int], reach: int
    ) -> Sequence[Passage]: ...


class Vectors(Protocol):
    """Where the vectors of lines are kept, by number."""

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]: ...
    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]: ...


class Passages:
    """Fulfils `RecallStore`; without `vectors` it knows only words."""

    def __init__(self, search: Indexed, answers: Answers, vectors: Vectors | None = None) -> None:
        self._ask = search.ask
        self._answers = answers
        self._vectors = vectors

    async def size(self, session: str | None) -> int:
        return await self._ask(partial(self._answers.size, session=session))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return await self._ask(partial(self._answers.frequencies, terms=terms, session=session))

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[Found]:
        question = partial(self._answers.matching, terms=terms, session=session, limit=limit)
        return await self._ask(question)

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]:
        if self._vectors is None:
            return ()
        return await self._vectors.nearest(vector, model, session=session, limit=limit)

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        if self._vectors is None:
            return {}
        return await self._vectors.similarities(vector, model, seqs)

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        return await self._ask(partial(self._answers.around, seqs=seqs, reach=reach))


def passage(
    seq: int, event: Event | Unknown, position: int, confirmed: datetime | None
) -> Passage | None:
    line = told(seq, event)
    if line is None:
        return None
    return Passage(
        seq=seq,
        source=line.source or str(seq),
        session=line.run,
        position=position,
        at=line.at,
        speaker=line.speaker or line.role,
        text=line.text[:SEEN],
        kind=event.memory if isinstance(event, FactNoted) else "episodic",
        confirmed=confirmed,
    )
