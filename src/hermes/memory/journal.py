"""The journal in one SQLite file that several processes share, write to and follow live."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio
import anyio.to_thread
import apsw

from hermes.core.errors import StoreError, StoreReadOnly
from hermes.core.events import Event
from hermes.core.events.audit import CheckpointSigned
from hermes.memory.connection import PATIENCE, connect
from hermes.memory.faults import explained
from hermes.memory.listing import list_runs
from hermes.memory.pages import fetch, last, skip_older
from hermes.memory.reading import Questions, Reading
from hermes.memory.rows import row_of
from hermes.memory.schema import Opened, prepare
from hermes.memory.sealing import Tip, seal
from hermes.memory.watch import Watch
from hermes.memory.writer import Writer

Answer = TypeVar("Answer")


class SqliteJournal:
    """Fulfils `core.protocols.Journal`. Belongs to the event loop it was opened in."""

    def __init__(self, opened: Opened, *, patience: float = PATIENCE) -> None:
        self.path = opened.path
        self.backup = opened.backup
        """Copy of the file from before a migration, when opening it made one."""
        self._patience = patience
        reading = Reading(self._ask, Questions(last, skip_older, fetch, list_runs))
        self.read, self.last, self.runs = reading.read, reading.last, reading.runs
        self._reading = reading
        self._writer = Writer(opened, self._reading.reached)
        self._readers = Readers(opened.path, patience)
        self._watch = Watch(opened.path, self._reading.stir)
        self._threads = anyio.CapacityLimiter(4)
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, *, patience: float = PATIENCE, or_read_only: bool = False
    ) -> AsyncGenerator["SqliteJournal | JournalReader", None]:
        """Make, migrate or just open the file. `patience` bounds the wait for other writers.

        With `or_read_only`, a file that cannot be written is opened for reading only.
        """
        journal: SqliteJournal | JournalReader
        try:
            journal = await cls.begin(path, patience=patience)
        except StoreReadOnly:
            if not or_read_only:
                raise
            journal = JournalReader(path, patience)
        try:
            yield journal
        finally:
            await journal.close()

    @classmethod
    async def begin(cls, path: Path, *, patience: float = PATIENCE) -> "SqliteJournal":
        """Like `open`, for those who close it themselves."""
        opened = await anyio.to_thread.run_sync(partial(prepare, path, patience=patience))
        return cls(opened, patience=patience)

    async def append(self, *events: Event) -> Sequence[int]:
        # The place in the order is taken before the first await. A caller that is cancelled while
        # waiting does not know it, but its events are kept.
        if not events:
            return range(0)
        return await self._writer.submit([row_of(event) for event in events])

    async def changed(self, after: int) -> None:
        with self._watch:  # first the ear, then the look: nothing can slip in between
            while not await self._reading.passed(after, self._watch.pause):
                pass

    async def seal(self, sign: Callable[[Tip], CheckpointSigned]) -> Tip | None:
        """Put a checkpoint behind everything that any process has written so far."""
        question = partial(seal, self.path, sign, patience=self._patience)
        sealed = await anyio.to_thread.run_sync(question, limiter=self._threads)
        if sealed is not None:
            self._reading.reached(sealed.seq)
        return sealed

    async def close(self) -> None:
        """Write what was appended, then let go of the file. Later calls raise `StoreError`."""
        if self._closed:
            return
        self._closed = True
        self._reading.stir()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._readers.close, limiter=self._threads)
            await anyio.to_thread.run_sync(self._writer.stop, limiter=self._threads)
        self._watch.close()

    async def _ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be read")
        return await anyio.to_thread.run_sync(self._readers.ask, question, limiter=self._threads)


class JournalReader:
    """The journal of a home that cannot be written: it can be asked, not added to or followed."""

    read_only = True

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self.path = path
        self._readers = Readers(path, patience, read_only=True)
        reading = Reading(self._ask, Questions(last, skip_older, fetch, list_runs))
        self.read, self.last, self.runs = reading.read, reading.last, reading.runs

    async def append(self, *events: Event) -> Sequence[int]:
        raise StoreReadOnly(f"the journal {self.path} cannot be written: see its permissions")

    async def changed(self, after: int) -> None:
        raise StoreReadOnly(f"the journal {self.path} cannot be followed while it is read-only")

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._readers.close)

    async def _ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        return await anyio.to_thread.run_sync(self._readers.ask, question)


class Readers:
    """Connections that only read, as many as there were questions at the same time."""

    def __init__(self, path: Path, patience: float, *, read_only: bool = False) -> None:
        self._path = path
        self._patience = patience
        self._read_only = read_only
        self._idle: list[apsw.Connection] = []
        self._lock = Lock()
        self._closed = False

    def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        with explained(self._path):
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = connect(self._path, patience=self._patience, read_only=self._read_only)
                connection.execute("PRAGMA query_only=1")
            try:
                return question(connection)
            finally:
                with self._lock:
                    if not self._closed:
                        self._idle.append(connection)
                        connection = None
                if connection is not None:
                    connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
