"""The journal in a PostgreSQL database that processes on several machines share and follow live."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.audit import CheckpointSigned
from hermes.core.protocols import Recorded
from hermes.memory.pages import wanted
from hermes.memory.postgres.address import shown
from hermes.memory.postgres.connecting import PATIENCE
from hermes.memory.postgres.ear import Ear
from hermes.memory.postgres.line import Connection, Line
from hermes.memory.postgres.listing import list_runs
from hermes.memory.postgres.pages import fetch, skip_older
from hermes.memory.postgres.schema import prepare
from hermes.memory.postgres.sealing import seal
from hermes.memory.postgres.writer import Writer
from hermes.memory.rows import row_of
from hermes.memory.runs import RunSummary
from hermes.memory.sealing import Tip

Answer = TypeVar("Answer")


class PostgresJournal:
    """Fulfils `core.protocols.Journal`. Belongs to the event loop it was opened in."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self.address = shown(url)
        self._url = url
        self._patience = patience
        self._newest = 0
        self._stirred = anyio.Event()
        self._writer = Writer(url, patience, self._grown)
        self._reader = Line(url, patience)
        self._ear = Ear(url, patience, self._stir)
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, *, patience: float = PATIENCE
    ) -> AsyncGenerator["PostgresJournal", None]:
        """Make, migrate or just find the tables. `patience` bounds every wait for the server."""
        await anyio.to_thread.run_sync(partial(prepare, url, patience=patience))
        journal = cls(url, patience=patience)
        try:
            yield journal
        finally:
            await journal.close()

    async def append(self, *events: Event) -> Sequence[int]:
        if not events:
            return range(0)
        return await self._writer.append([row_of(event) for event in events])

    async def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
    ) -> AsyncIterator[Recorded]:
        """Events in order. Those of a deleted run are left out once a compaction took its texts."""
        want = wanted(run, kinds, since)
        start: int | None = after
        if want.since is not None:
            start = await self.ask(partial(skip_older, after=after, since=want.since))
        while start is not None:
            page = await self.ask(partial(fetch, after=start, want=want))
            for recorded in page.records:
                yield recorded
            start = page.after

    async def last(self) -> int:
        return await self.ask(_last)

    async def changed(self, after: int) -> None:
        while True:
            if not self._closed:
                await self._ear.open()  # first the ear, then the look
            stirred = self._stirred
            if self._newest > after or await self.last() > after:
                return
            with anyio.move_on_after(self._ear.pause):
                await stirred.wait()

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        """Runs, the last started first: without a parent, of one parent, or (None) all."""
        return await self.ask(partial(list_runs, limit=limit, parent=parent, deleted=deleted))

    async def seal(self, sign: Callable[[Tip], CheckpointSigned]) -> Tip | None:
        """Put a checkpoint behind everything that any process has written so far."""
        question = partial(seal, self._url, sign, patience=self._patience)
        sealed = await anyio.to_thread.run_sync(question)
        if sealed is not None:
            self._grown(max(self._newest, sealed.seq))
        return sealed

    async def claim(self, run: str) -> str:
        """Work on a run alone, among all machines. Empty when it is ours, else who has it."""
        return await self._writer.claim(run)

    async def close(self) -> None:
        """Write what was appended, then let go. Later calls raise `StoreError`."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._writer.close()
            await self._reader.close()
        self._ear.close()
        self._stir()

    async def ask(self, question: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """Put a question that may be put twice, on the connection that only reads."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be read")
        return await self._reader.ask(question)

    def _grown(self, newest: int) -> None:
        self._newest = newest
        self._stir()

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = anyio.Event()


async def _last(connection: Connection) -> int:
    row = await (await connection.execute("SELECT last FROM hermes.head")).fetchone()
    return int(row[0]) if row else 0
