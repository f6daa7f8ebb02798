"""The writer thread of a process; appends that wait at the same time are committed together."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import apsw
import msgspec

from hermes.core.errors import StoreError, StoreTooNew
from hermes.core.events import DURABLE_KINDS
from hermes.memory.journal.disk import file_identity, free_bytes
from hermes.memory.journal.rows import GENESIS_DIGEST, EventRow, compress_body
from hermes.memory.journal.sqlite_file import (
    close_without_checkpoint,
    last_seq_and_digest,
    schema_version,
    translate_error,
    write_transaction,
)

MAX_TRANSACTION_EVENTS = 512
"""Events that one transaction may contain before others get their turn."""

MIN_SPARE_BYTES = 16 * 1024 * 1024
"""With this much free space the log may grow to its usual size."""


class PendingAppend(msgspec.Struct, frozen=True, eq=False):
    """One `append`: all of its rows are kept, or none."""

    rows: Sequence[EventRow]
    numbers: asyncio.Future[range]


class SqliteWriter:
    def __init__(
        self, connection: apsw.Connection, path: Path, committed: Callable[[int], None]
    ) -> None:
        """`committed` is called in the event loop with the newest number after each commit."""
        self._connection = connection
        self._path = path
        self._file = file_identity(path)
        self._version = schema_version(connection)
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[PendingAppend | None] = SimpleQueue()
        self._closed = self._disk_was_full = False
        # A daemon: a process that forgets to close still ends, and loses only unacknowledged
        # events.
        self._thread = Thread(target=self._write_loop, name="journal-writer", daemon=True)
        self._thread.start()

    def submit(self, rows: Sequence[EventRow]) -> asyncio.Future[range]:
        """Take a position in the order of writing, at once."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be written")
        ticket = PendingAppend(rows, self._loop.create_future())
        self._queue.put(ticket)
        return ticket.numbers

    def stop(self) -> None:
        """Write what was submitted, then end. Waits; call it from a worker thread."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _write_loop(self) -> None:
        tickets: list[PendingAppend] = []
        try:
            while tickets := self._next_group():
                try:
                    outcome: list[range] | StoreError = self._commit(tickets)
                except (apsw.Error, OSError) as error:
                    outcome = translate_error(error, self._path)
                    outcome.__cause__ = error
                except StoreError as error:
                    outcome = error
                self._resolve_later(tickets, outcome)
        except BaseException as error:
            self._closed = True
            while tickets:  # no caller may wait forever
                self._resolve_later(
                    tickets, StoreError(f"the journal's writer broke down: {error!r}")
                )
                tickets = self._next_group(wait=False)
            raise
        finally:
            self._close()

    def _next_group(self, *, wait: bool = True) -> list[PendingAppend]:
        """The next group; empty when it is time to end."""
        tickets: list[PendingAppend] = []
        events = 0
        with suppress(Empty):
            while events < MAX_TRANSACTION_EVENTS:
                ticket = self._queue.get(block=wait and not tickets)
                if ticket is None:
                    if tickets:
                        self._queue.put(None)
                    break
                tickets.append(ticket)
                events += len(ticket.rows)
        return tickets

    def _commit(self, tickets: Sequence[PendingAppend]) -> list[range]:
        rows = [row for ticket in tickets for row in ticket.rows]
        durable = any(row.kind in DURABLE_KINDS for row in rows)
        connection = self._connection
        connection.execute("PRAGMA synchronous=" + ("FULL" if durable else "NORMAL"))
        try:
            with write_transaction(connection):
                if schema_version(connection) != self._version:
                    raise StoreTooNew(
                        f"a later Hermes has migrated {self._path}; start this one again"
                    )
                first = insert_rows(connection, rows)
        except (apsw.FullError, apsw.IOError):
            self._disk_was_full = True
            raise
        if self._disk_was_full:
            self._save_space()
        with suppress(OSError):  # it is committed: a failure here must not cause a second write
            notify_followers(self._path)
        self._check_file_unchanged()
        numbers = []
        for ticket in tickets:
            numbers.append(range(first, first + len(ticket.rows)))
            first += len(ticket.rows)
        return numbers

    def _save_space(self) -> None:
        """On a disk that was full a moment ago: the log restarts after a checkpoint, in blocks
        that it already has, instead of growing to several megabytes."""
        with suppress(apsw.Error):
            self._connection.wal_checkpoint()
        self._disk_was_full = free_bytes(self._path) < MIN_SPARE_BYTES

    def _check_file_unchanged(self) -> None:
        """Events in a file that was removed or replaced are lost: do not acknowledge them."""
        if file_identity(self._path) != self._file:
            raise StoreError(
                f"the journal {self._path} was removed or replaced while in use; start again"
            )

    def _close(self) -> None:
        """The last connection to close removes the log by its name, which may be another file's
        now."""
        if file_identity(self._path) == self._file:
            self._connection.close()
        else:
            close_without_checkpoint(self._connection)

    def _resolve_later(
        self, tickets: Sequence[PendingAppend], outcome: list[range] | StoreError
    ) -> None:
        with suppress(RuntimeError):  # the event loop is gone, and all waiting callers with it
            self._loop.call_soon_threadsafe(self._set_results, tickets, outcome)

    def _set_results(
        self, tickets: Sequence[PendingAppend], outcome: list[range] | StoreError
    ) -> None:
        if isinstance(outcome, StoreError):
            for ticket in tickets:
                if not ticket.numbers.done():
                    own = type(outcome)(*outcome.args)  # one traceback each
                    own.__cause__ = outcome.__cause__
                    ticket.numbers.set_exception(own)
            return
        for ticket, numbers in zip(tickets, outcome, strict=True):
            if not ticket.numbers.done():  # cancelled by its caller; the events are kept
                ticket.numbers.set_result(numbers)
        self._committed(outcome[-1][-1])


def insert_rows(connection: apsw.Connection, rows: Sequence[EventRow]) -> int:
    """Append to the chain inside the caller's transaction; returns the first number."""
    newest = last_seq_and_digest(connection)
    digest = newest[1] if newest else GENESIS_DIGEST
    linked = []
    for row in rows:
        digest = row.digest_after(digest)
        body = row.body if isinstance(row.body, bytes) else compress_body(row.body)
        linked.append((row.at, row.run, row.kind, digest, body))
    connection.executemany(
        "INSERT INTO event(at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?)", linked
    )
    return connection.last_insert_rowid() - len(rows) + 1


def notify_followers(path: Path) -> None:
    """After a commit: wake followers of the journal in other processes; see `CommitWatch`."""
    os.utime(path)
