"""Search over the database: what is in the journal when it is asked can be found."""

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TypeVar

import anyio.to_thread
import psycopg
from msgspec.structs import replace

from hermes.core.recall import Hits, Search
from hermes.memory.postgres.connecting import PATIENCE, connect
from hermes.memory.postgres.faults import explained
from hermes.memory.postgres.hits import search
from hermes.memory.postgres.indexing import Database, Progress, catch_up, is_ours, start_anew
from hermes.memory.postgres.wording import Wording

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


def _nothing(connection: Database, wording: Wording) -> None:
    """For those who only want the index to be up to date."""
