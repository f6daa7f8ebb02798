"""The journal in a SQLite file, and the watch for commits of other processes.

A writer touches the file's times after each commit, and the kernel notifies us (inotify, Linux
only). Watching the writes to the log itself would not work: they come before the commit is visible.
A writer that dies between commit and touch, or a system without inotify, is handled by polling
every `poll_interval_s` seconds.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio
import anyio.to_thread
import apsw

from hermes.core.errors import StoreError, StoreReadOnly
from hermes.core.events import Event
from hermes.core.events.operations import CheckpointSigned
from hermes.memory.journal.maintenance import JournalTip, append_checkpoint
from hermes.memory.journal.reading import SQLITE_QUERIES, StoreReader
from hermes.memory.journal.rows import row_from_event
from hermes.memory.journal.sqlite_file import (
    LOCK_TIMEOUT_S,
    connect,
    open_for_writing,
    translate_errors,
)
from hermes.memory.journal.writer import SqliteWriter

READ_CACHE_KB = 512
"""Of one connection that reads: there are several, and the system keeps the pages of the file."""
IN_ATTRIB = 0x00000004
_INOTIFY_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # the same numbers as IN_NONBLOCK and IN_CLOEXEC


class CommitWatch:
    """Inside its block the callback runs, in the event loop, whenever a process commits."""

    def __init__(self, path: Path, on_commit: Callable[[], None]) -> None:
        self._path = path
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._descriptor: int | None = None
        self._inotify_tried = False
        self._active_waits = 0

    @property
    def poll_interval_s(self) -> float:
        """Seconds after which the file is checked although there was no notification."""
        return 0.1 if self._descriptor is None else 2.0

    def __enter__(self) -> "CommitWatch":
        if not self._inotify_tried:
            self._inotify_tried = True
            self._descriptor = _open_inotify(self._path)
        self._active_waits += 1
        if self._active_waits == 1 and self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._on_readable)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._active_waits -= 1
        if self._active_waits == 0 and self._descriptor is not None:
            # The descriptor stays open: the kernel merges unread notifications into one, while
            # closing and opening it for every wait costs more than the wait.
            self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _on_readable(self) -> None:
        if self._descriptor is not None:
            with suppress(BlockingIOError):
                os.read(self._descriptor, 65536)
            self._on_commit()


def _open_inotify(path: Path) -> int | None:
    """A descriptor that becomes readable when the file is touched; None where there is none."""
    try:
        import ctypes  # noqa: PLC0415 - only for those who follow a journal
    except OSError:  # too many open files
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "inotify_init1"):
        return None
    descriptor: int = library.inotify_init1(_INOTIFY_FLAGS)
    if descriptor < 0:  # all instances of this user are taken
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(path), IN_ATTRIB) < 0:
        os.close(descriptor)
        return None
    return descriptor


Answer = TypeVar("Answer")


class SqliteJournal(StoreReader):
    """Fulfils `core.protocols.Journal`. Belongs to the event loop it was opened in."""

    def __init__(
        self, connection: apsw.Connection, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        super().__init__(SQLITE_QUERIES)
        self.path = path
        self._timeout_s = timeout_s
        self._writer = SqliteWriter(connection, path, self.set_newest)
        self._read_connections = ReadConnectionPool(path, timeout_s)
        self._commit_watch = CommitWatch(path, self.wake_waiters)
        self._threads = anyio.CapacityLimiter(4)
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S, or_read_only: bool = False
    ) -> AsyncGenerator["SqliteJournal | ReadOnlyJournal", None]:
        """Create, migrate or open the file. `timeout_s` limits the wait for other writers.

        With `or_read_only`, a file that cannot be written is opened for reading only.
        """
        journal: SqliteJournal | ReadOnlyJournal
        try:
            journal = await cls.open_unmanaged(path, timeout_s=timeout_s)
        except StoreReadOnly:
            if not or_read_only:
                raise
            journal = ReadOnlyJournal(path, timeout_s)
        try:
            yield journal
        finally:
            await journal.close()

    @classmethod
    async def open_unmanaged(
        cls, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S
    ) -> "SqliteJournal":
        """Like `open`, but the caller closes it."""
        opening = partial(open_for_writing, path, timeout_s=timeout_s)
        return cls(await anyio.to_thread.run_sync(opening), path, timeout_s=timeout_s)

    async def append(self, *events: Event) -> Sequence[int]:
        # The position in the order is taken before the first await. A caller that is cancelled
        # while waiting does not know it, but its events are kept.
        if not events:
            return range(0)
        return await self._writer.submit([row_from_event(event) for event in events])

    async def changed(self, after: int) -> None:
        with self._commit_watch:  # watch first, then query: no commit can be missed in between
            while not await self.wait_for_event_after(after, self._commit_watch.poll_interval_s):
                pass

    async def append_checkpoint(
        self, sign: Callable[[JournalTip], CheckpointSigned]
    ) -> JournalTip | None:
        """Append a checkpoint after everything that any process has written so far."""
        question = partial(append_checkpoint, self.path, sign, timeout_s=self._timeout_s)
        tip = await anyio.to_thread.run_sync(question, limiter=self._threads)
        if tip is not None:
            self.set_newest(tip.seq)
        return tip

    async def close(self) -> None:
        """Write what was appended, then close the file. Later calls raise `StoreError`."""
        if self._closed:
            return
        self._closed = True
        self.wake_waiters()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._read_connections.close, limiter=self._threads)
            await anyio.to_thread.run_sync(self._writer.stop, limiter=self._threads)
        self._commit_watch.close()

    async def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be read")
        return await anyio.to_thread.run_sync(
            self._read_connections.ask, question, limiter=self._threads
        )


class ReadOnlyJournal(StoreReader):
    """The journal of a home that cannot be written: it can only be read."""

    read_only = True

    def __init__(self, path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> None:
        super().__init__(SQLITE_QUERIES)
        self.path = path
        self._read_connections = ReadConnectionPool(path, timeout_s, read_only=True)

    async def append(self, *events: Event) -> Sequence[int]:
        raise StoreReadOnly(f"the journal {self.path} cannot be written: see its permissions")

    async def changed(self, after: int) -> None:
        raise StoreReadOnly(f"the journal {self.path} cannot be followed while it is read-only")

    async def close(self) -> None:
        await anyio.to_thread.run_sync(self._read_connections.close)

    async def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        return await anyio.to_thread.run_sync(self._read_connections.ask, question)


class ReadConnectionPool:
    """Read-only connections, as many as there were queries at the same time."""

    def __init__(self, path: Path, timeout_s: float, *, read_only: bool = False) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._read_only = read_only
        self._idle: list[apsw.Connection] = []
        self._lock = Lock()
        self._closed = False

    def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        with translate_errors(self._path):
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = connect(
                    self._path, timeout_s=self._timeout_s, read_only=self._read_only
                )
                connection.execute(f"PRAGMA query_only=1; PRAGMA cache_size=-{READ_CACHE_KB}")
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
