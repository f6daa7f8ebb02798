"""The one thread of a process that writes; what waits at the same time is committed together."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import apsw

from hermes.core.errors import StoreError, StoreTooNew
from hermes.core.events import DURABLE
from hermes.memory.chain import GENESIS
from hermes.memory.connection import close_untouched
from hermes.memory.faults import explain
from hermes.memory.packing import pack
from hermes.memory.rows import Row
from hermes.memory.schema import Opened, last_link, version_of

GROUP = 512
"""Events that one transaction may hold before others get their turn."""

SPARE_BYTES = 16 * 1024 * 1024
"""With so much free space the log may grow to its usual size."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One `append` on its way: all of its rows are kept, or none."""

    rows: Sequence[Row]
    numbers: asyncio.Future[range]


class Writer:
    def __init__(self, opened: Opened, committed: Callable[[int], None]) -> None:
        """`committed` is called in the event loop with the newest number after each commit."""
        self._connection = opened.connection
        self._path = opened.path
        self._file = _identity(opened.path)
        self._version = version_of(opened.connection)
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Ticket | None] = SimpleQueue()
        self._closed = self._tight = False
        # A daemon: a process that forgets to close still ends, and loses only what nobody was
        # told is kept.
        self._thread = Thread(target=self._work, name="journal-writer", daemon=True)
        self._thread.start()

    def submit(self, rows: Sequence[Row]) -> asyncio.Future[range]:
        """Take a place in the order of writing, at once."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be written")
        ticket = Ticket(rows, self._loop.create_future())
        self._queue.put(ticket)
        return ticket.numbers

    def stop(self) -> None:
        """Write what was submitted, then end. Waits; call it from a worker thread."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        tickets: list[Ticket] = []
        try:
            while tickets := self._gather():
                try:
                    outcome: list[range] | StoreError = self._commit(tickets)
                except (apsw.Error, OSError) as error:
                    outcome = explain(error, self._path)
                    outcome.__cause__ = error
                except StoreError as error:
                    outcome = error
                self._settle(tickets, outcome)
        except BaseException as error:
            self._closed = True
            while tickets:  # nobody may wait for ever
                self._settle(tickets, StoreError(f"the journal's writer broke down: {error!r}"))
                tickets = self._gather(wait=False)
            raise
        finally:
            self._close()

    def _gather(self, *, wait: bool = True) -> list[Ticket]:
        """The next group; empty when it is time to end."""
        tickets: list[Ticket] = []
        events = 0
        with suppress(Empty):
            while events < GROUP:
                ticket = self._queue.get(block=wait and not tickets)
                if ticket is None:
                    if tickets:
                        self._queue.put(None)
                    break
                tickets.append(ticket)
                events += len(ticket.rows)
        return tickets

    def _commit(self, tickets: Sequence[Ticket]) -> list[range]:
        rows = [row for ticket in tickets for row in ticket.rows]
        durable = any(row.kind in DURABLE for row in rows)
        connection = self._connection
        connection.execute("PRAGMA synchronous=" + ("FULL" if durable else "NORMAL"))
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection) != self._version:
                raise StoreTooNew(f"a later Hermes has migrated {self._path}; start this one again")
            first = insert(connection, rows)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._tight = self._tight or isinstance(error, apsw.FullError | apsw.IOError)
            raise
        if self._tight:
            self._save_space()
        with suppress(OSError):  # it is committed: a failure here must not have it written again
            ring(self._path)
        self._check()
        numbers = []
        for ticket in tickets:
            numbers.append(range(first, first + len(ticket.rows)))
            first += len(ticket.rows)
        return numbers

    def _save_space(self) -> None:
        """On a disk that was full a moment ago: the log begins anew after a checkpoint, in blocks
        that it has already, instead of growing to several megabytes."""
        with suppress(apsw.Error):
            self._connection.wal_checkpoint()
        with suppress(OSError):
            disk = os.statvfs(self._path)
            self._tight = disk.f_bavail * disk.f_frsize < SPARE_BYTES

    def _check(self) -> None:
        """What went into a file that was removed or replaced is not kept: do not acknowledge it."""
        if _identity(self._path) != self._file:
            raise StoreError(f"the journal {self._path} was replaced while in use; start again")

    def _close(self) -> None:
        """The last connection to leave removes the log by its name, which may be another's now."""
        try:
            ours = _identity(self._path) == self._file
        except OSError:
            ours = False
        if ours:
            self._connection.close()
        else:
            close_untouched(self._connection)

    def _settle(self, tickets: Sequence[Ticket], outcome: list[range] | StoreError) -> None:
        with suppress(RuntimeError):  # the event loop is gone, and everyone who waited with it
            self._loop.call_soon_threadsafe(self._tell, tickets, outcome)

    def _tell(self, tickets: Sequence[Ticket], outcome: list[range] | StoreError) -> None:
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


def insert(connection: apsw.Connection, rows: Sequence[Row]) -> int:
    """Append to the chain inside the caller's transaction; the first number is returned."""
    newest = last_link(connection)
    digest = newest[1] if newest else GENESIS
    linked = []
    for row in rows:
        digest = row.link(digest)
        body = row.body if isinstance(row.body, bytes) else pack(row.body)
        linked.append((row.at, row.run, row.kind, digest, body))
    connection.executemany(
        "INSERT INTO event(at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?)", linked
    )
    return connection.last_insert_rowid() - len(rows) + 1


def ring(path: Path) -> None:
    """After a commit: wake those who follow the journal in other processes; see `watch`."""
    os.utime(path)


def _identity(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino
