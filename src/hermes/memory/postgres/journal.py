"""The journal in a PostgreSQL database that processes on several machines share and follow live."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.audit import CheckpointSigned
from hermes.memory.postgres.address import shown
from hermes.memory.postgres.connecting import PATIENCE
from hermes.memory.postgres.ear import Ear
from hermes.memory.postgres.line import Connection, Line
from hermes.memory.postgres.listing import list_runs
from hermes.memory.postgres.pages import fetch, last, skip_older
from hermes.memory.postgres.schema import prepare
from hermes.memory.postgres.sealing import seal
from hermes.memory.postgres.writer import Writer
from hermes.memory.reading import Questions, Reading
from hermes.memory.rows import row_of
from hermes.memory.sealing import Tip

Answer = TypeVar("Answer")


class PostgresJournal:
    """Fulfils `core.protocols.Journal`. Belongs to the event loop it was opened in."""

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        self.address = shown(url)
        self._url = url
        self._patience = patience
        reading = Reading(self.ask, Questions(last, skip_older, fetch, list_runs))
        self.read, self.last, self.runs = reading.read, reading.last, reading.runs
        self._reading = reading
        self._writer = Writer(url, patience, self._reading.reached)
        self._reader = Line(url, patience)
        self._ear = Ear(url, patience, self._reading.stir)
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

    async def changed(self, after: int) -> None:
        while True:
            if not self._closed:
                await self._ear.open()  # first the ear, then the look
            if await self._reading.passed(after, self._ear.pause):
                return

    async def seal(self, sign: Callable[[Tip], CheckpointSigned]) -> Tip | None:
        """Put a checkpoint behind everything that any process has written so far."""
        question = partial(seal, self._url, sign, patience=self._patience)
        sealed = await anyio.to_thread.run_sync(question)
        if sealed is not None:
            self._reading.reached(sealed.seq)
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
        self._reading.stir()

    async def ask(self, question: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """Put a question that may be put twice, on the connection that only reads."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be read")
        return await self._reader.ask(question)
