"""Search and recall over the database: what is in the journal when it is asked can be found."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar

import anyio.to_thread
import psycopg
from msgspec.structs import replace

from hermes.core.events.memory import FactNoted
from hermes.core.recall import Hits, Search
from hermes.memory.postgres.connecting import PATIENCE, connect
from hermes.memory.postgres.faults import explained
from hermes.memory.postgres.finding import count, places, size, weighed, within
from hermes.memory.postgres.hits import read_events, search
from hermes.memory.postgres.indexing import Database, Progress, catch_up, is_ours, start_anew
from hermes.memory.postgres.wording import Wording
from hermes.memory.recall.store import Found, Passage
from hermes.memory.rows import moment
from hermes.memory.search.passages import SEEN, Vectors
from hermes.memory.search.query import term_of
from hermes.memory.search.told import told

Answer = TypeVar("Answer")
Question = Callable[[Database, Wording], Answer]
QUICKLY = 2.0
"""Seconds that a question may wait for what is not indexed yet."""


class PostgresSearch:
    """Fulfils `core.recall.Searches`."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self._url = url
        self._patience = patience
        self._connection: Database | None = None
        self._wording = Wording()
        self._lock = Lock()
        self._missing = 0

    async def search(self, wanted: Search) -> Hits:
        found = await self.ask(partial(search, wanted=wanted))
        return replace(found, notices=self.notices)

    @property
    def notices(self) -> tuple[str, ...]:
        if not self._missing:
            return ()
        return (f"{self._missing:,} newer events are not indexed yet",)

    async def ask(self, question: Question[Answer], *, seconds: float | None = QUICKLY) -> Answer:
        """Bring the index up to date, then answer from it."""
        return await anyio.to_thread.run_sync(partial(self.answer, question, seconds=seconds))

    async def catch_up(
        self, *, seconds: float | None = None, progress: Progress | None = None
    ) -> None:
        work = partial(self.answer, _nothing, seconds=seconds, progress=progress)
        await anyio.to_thread.run_sync(work)

    def answer(
        self,
        question: Question[Answer],
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """The same without an event loop."""
        with self._lock, explained(self._url):
            try:
                return self._answer(question, seconds, progress)
            except psycopg.OperationalError:
                if self._connection is not None and not self._connection.closed:
                    raise
                self._connection = None  # lost since the last question: once more on a new one
                return self._answer(question, seconds, progress)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Throw the index away and make it anew."""
        self.answer(lambda connection, _: start_anew(connection), seconds=0)
        self.answer(_nothing, progress=progress)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _answer(
        self, question: Question[Answer], seconds: float | None, progress: Progress | None
    ) -> Answer:
        if self._connection is None:
            self._connection = connect(self._url, patience=self._patience)
            if not is_ours(self._connection):
                start_anew(self._connection)
        self._missing = catch_up(
            self._connection, self._wording, seconds=seconds, progress=progress
        )
        return question(self._connection, self._wording)


class PostgresPassages:
    """Fulfils `recall.store.RecallStore`; without `vectors` it knows only words."""

    def __init__(self, search: PostgresSearch, vectors: Vectors | None = None) -> None:
        self._search = search
        self._vectors = vectors

    async def size(self, session: str | None) -> int:
        return await self._search.ask(lambda connection, _: size(connection, within(session)))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return await self._search.ask(partial(_frequencies, terms=terms, session=session))

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[Found]:
        return await self._search.ask(partial(_matching, terms=terms, session=session, limit=limit))

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
        return await self._search.ask(partial(_around, seqs=seqs, reach=reach))


def _frequencies(
    connection: Database, wording: Wording, *, terms: Sequence[str], session: str | None
) -> Sequence[int]:
    narrow = within(session)
    read = [term_of(term) for term in terms]
    return [0 if one is None else count(connection, wording.term(one), narrow) for one in read]


def _matching(
    connection: Database,
    wording: Wording,
    *,
    terms: Sequence[str],
    session: str | None,
    limit: int,
) -> Sequence[Found]:
    ways = [wording.term(one) for one in map(term_of, terms) if one is not None]
    return [Found(*each) for each in weighed(connection, ways, within(session), limit)]


def _around(
    connection: Database, _: Wording, *, seqs: Sequence[int], reach: int
) -> Sequence[Passage]:
    found = places(connection, seqs, reach)
    passages = []
    for seq, event in read_events(connection, found).items():
        line = told(seq, event)
        if line is None:
            continue
        _run, position, confirmed = found[seq]
        passages.append(
            Passage(
                seq=seq,
                source=line.source or str(seq),
                session=line.run,
                position=position,
                at=line.at,
                speaker=line.speaker or line.role,
                text=line.text[:SEEN],
                kind=event.memory if isinstance(event, FactNoted) else "episodic",
                confirmed=None if confirmed is None else moment(confirmed),
            )
        )
    return passages


def _nothing(connection: Database, wording: Wording) -> None:
    """For those who only want the index to be up to date."""
