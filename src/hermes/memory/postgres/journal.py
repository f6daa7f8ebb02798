"""The journal in PostgreSQL, and the listener for appends of other processes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import psycopg

from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.operations import CheckpointSigned
from hermes.memory.journal.maintenance import JournalTip, append_checkpoint
from hermes.memory.journal.reading import StoreReader
from hermes.memory.journal.rows import row_from_event
from hermes.memory.postgres.connection import (
    SERVER_TIMEOUT_S,
    AsyncPgConnection,
    ReconnectingConnection,
    connect_async,
)
from hermes.memory.postgres.reading import POSTGRES_QUERIES
from hermes.memory.postgres.schema import migrate_schema
from hermes.memory.postgres.writer import PostgresWriter

NOTIFY_CHANNEL = "hermes_journal"
POLL_INTERVAL_S = 5.0
"""Seconds after which the server is queried without a notification: a dead network sends none."""
DISCONNECTED_POLL_INTERVAL_S = 0.5
"""The same while there is no connection."""


class NotifyListener:
    """Once open, the callback runs in the event loop whenever any process commits."""

    def __init__(self, url: str, timeout_s: float, on_notify: Callable[[], None]) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._on_notify = on_notify
        self._connection: AsyncPgConnection | None = None
        self._socket = -1
        self._opening = False

    @property
    def poll_interval_s(self) -> float:
        return DISCONNECTED_POLL_INTERVAL_S if self._connection is None else POLL_INTERVAL_S

    async def open(self) -> None:
        """Start listening. An unreachable server is reported by the next query."""
        if self._connection is not None or self._opening:
            return
        self._opening = True
        try:
            connection = await connect_async(self._url, self._timeout_s)
            try:
                await connection.execute(f"LISTEN {NOTIFY_CHANNEL}")
            except BaseException:
                connection.pgconn.finish()
                raise
        except (psycopg.Error, OSError):
            return
        finally:
            self._opening = False
        self._connection = connection
        # psycopg would need a waiting task; the event loop can watch the socket for free.
        self._socket = connection.pgconn.socket
        asyncio.get_running_loop().add_reader(self._socket, self._on_readable)
        self._on_notify()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            connection.pgconn.finish()

    def _on_readable(self) -> None:
        assert self._connection is not None
        try:
            self._connection.pgconn.consume_input()
            while self._connection.pgconn.notifies() is not None:
                pass
        except psycopg.Error:
            self.close()
        self._on_notify()


Answer = TypeVar("Answer")


class PostgresJournal(StoreReader):
    """Fulfils `core.protocols.Journal`. Belongs to the event loop it was opened in."""

    def __init__(self, url: str, *, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        super().__init__(POSTGRES_QUERIES)
        self._url = url
        self._timeout_s = timeout_s
        self._writer = PostgresWriter(url, timeout_s, self.set_newest)
        self._read_connection = ReconnectingConnection(url, timeout_s)
        self._listener = NotifyListener(url, timeout_s, self.wake_waiters)
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, *, timeout_s: float = SERVER_TIMEOUT_S
    ) -> AsyncGenerator["PostgresJournal", None]:
        """Create, migrate or find the tables. `timeout_s` limits every wait for the server."""
        await anyio.to_thread.run_sync(partial(migrate_schema, url, timeout_s=timeout_s))
        journal = cls(url, timeout_s=timeout_s)
        try:
            yield journal
        finally:
            await journal.close()

    async def append(self, *events: Event) -> Sequence[int]:
        if not events:
            return range(0)
        return await self._writer.append([row_from_event(event) for event in events])

    async def changed(self, after: int) -> None:
        while True:
            if not self._closed:
                await self._listener.open()  # listen first, then query
            if await self.wait_for_event_after(after, self._listener.poll_interval_s):
                return

    async def append_checkpoint(
        self, sign: Callable[[JournalTip], CheckpointSigned]
    ) -> JournalTip | None:
        """Append a checkpoint after everything that any process has written so far."""
        question = partial(append_checkpoint, self._url, sign, timeout_s=self._timeout_s)
        tip = await anyio.to_thread.run_sync(question)
        if tip is not None:
            self.set_newest(tip.seq)
        return tip

    async def claim(self, run: str) -> str:
        """Lock a run among all machines. Empty when it is ours, else who has it."""
        return await self._writer.claim(run)

    async def close(self) -> None:
        """Write what was appended, then close. Later calls raise `StoreError`."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            await self._writer.close()
            await self._read_connection.close()
        self._listener.close()
        self.wake_waiters()

    async def ask(self, question: Callable[[AsyncPgConnection], Awaitable[Answer]]) -> Answer:
        """Run a repeatable query on the read-only connection."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be read")
        return await self._read_connection.ask(question)
