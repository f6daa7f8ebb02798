"""Appends rows with the append function of the database, in groups, and claims runs."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import anyio
import msgspec
import psycopg

from hermes.core.errors import StoreError
from hermes.memory.journal.rows import EventRow
from hermes.memory.postgres.connection import (
    AsyncPgConnection,
    ReconnectingConnection,
)
from hermes.memory.postgres.schema import migration_files

APPEND_SQL = (
    "SELECT hermes.append(%s, %s, %s, %s::bigint[], %s::text[], %s::text[], %s::bytea[], "
    "%s::text[])"
)


def append_arguments(writer: UUID, ticket: int, rows: Sequence[EventRow]) -> Sequence[Any]:
    """The arguments of the append statement. The chain input beside the body is as in
    `chain_digest`."""
    return (
        len(migration_files()["journal"]),
        writer,
        ticket,
        [row.at for row in rows],
        [row.run for row in rows],
        [row.kind for row in rows],
        [msgspec.json.encode((row.kind, row.run, row.at)) for row in rows],
        [row.body for row in rows],
    )


def append_rows(connection: psycopg.Connection[Any], rows: Sequence[EventRow]) -> None:
    """Inside the caller's transaction, which is not repeated."""
    connection.execute(APPEND_SQL, append_arguments(uuid4(), 1, rows))


_LOCK_HOLDER_SQL = """
    SELECT coalesce(a.application_name, ''), coalesce(host(a.client_addr), '')
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::bigint << 32 | l.objid::bigint) = %s
"""


class RunClaims:
    """Tied to the connection that writes: a process that lost a run to another may not write."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._lost: set[str] = set()

    async def claim(self, connection: AsyncPgConnection, run: str) -> str:
        if run in self._held:
            return ""
        if await _try_lock(connection, run):
            self._held.add(run)
            self._lost.discard(run)
            return ""
        cursor = await connection.execute(_LOCK_HOLDER_SQL, (run_lock_key(run),))
        name, host = await cursor.fetchone() or ("", "")
        return " ".join(filter(None, (name.removeprefix("hermes "), host))) or "unknown"

    async def release(self, connection: AsyncPgConnection, run: str) -> None:
        self._lost.discard(run)
        if run in self._held:
            self._held.discard(run)
            await connection.execute("SELECT pg_advisory_unlock(%s::bigint)", (run_lock_key(run),))

    async def claim_again(self, connection: AsyncPgConnection) -> None:
        """On a new connection. A run that another process claimed meanwhile is lost."""
        for run in sorted(self._held):
            if not await _try_lock(connection, run):
                self._held.discard(run)
                self._lost.add(run)

    def check_not_lost(self, runs: Iterable[str]) -> None:
        for run in set(runs) if self._lost else ():
            if run in self._lost or run.partition("/")[0] in self._lost:
                raise StoreError(
                    f"another process took over {run} while the server was away; end here, and "
                    "resume it when that one has ended"
                )


def run_lock_key(run: str) -> int:
    return int.from_bytes(sha256(b"run " + run.encode(errors="replace")).digest()[:8], signed=True)


async def _try_lock(connection: AsyncPgConnection, run: str) -> bool:
    cursor = await connection.execute(
        "SELECT pg_try_advisory_lock(%s::bigint)", (run_lock_key(run),)
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


MAX_TRANSACTION_EVENTS = 512
"""Events that one transaction may contain before others get their turn."""
MAX_TRANSACTION_BYTES = 16 << 20
MAX_EVENT_CHARS = 256 << 20
"""Characters of one event; PostgreSQL itself ends at a gigabyte."""


class QueuedAppend:
    """One `append`: all of its rows are kept, or none."""

    def __init__(self, rows: Sequence[EventRow]) -> None:
        self.rows = rows
        self.outcome: range | StoreError | None = None

    def result(self) -> range:
        if isinstance(self.outcome, range):
            return self.outcome
        raise self.outcome or StoreError("the journal's writer left an append unanswered")


class PostgresWriter:
    def __init__(self, url: str, timeout_s: float, committed: Callable[[int], None]) -> None:
        """`committed` is called with the newest number after each commit."""
        self.claims = RunClaims()
        self._connection = ReconnectingConnection(url, timeout_s, self.claims.claim_again)
        self._id: UUID = uuid4()
        self._group_number = 0
        self._committed = committed
        self._pending: deque[QueuedAppend] = deque()
        self._lock = anyio.Lock()
        self._closed = False

    async def append(self, rows: Sequence[EventRow]) -> range:
        """Takes its position in the order at once; the first caller writes for all that wait."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be written")
        _check_rows(rows)
        ticket = QueuedAppend(rows)
        self._pending.append(ticket)
        with anyio.CancelScope(shield=True):  # a caller that is cancelled has still written
            async with self._lock:
                while ticket.outcome is None:
                    await self._commit(self._next_group())
        return ticket.result()

    async def claim(self, run: str) -> str:
        """Empty when the run is ours now, else who has it."""
        return await self._connection.ask(lambda connection: self.claims.claim(connection, run))

    async def release_claim(self, run: str) -> None:
        await self._connection.ask(lambda connection: self.claims.release(connection, run))

    async def close(self) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with self._lock:  # after all that wait
                await self._connection.close()

    def _next_group(self) -> list[QueuedAppend]:
        tickets: list[QueuedAppend] = []
        events = size = 0
        while self._pending and events < MAX_TRANSACTION_EVENTS and size < MAX_TRANSACTION_BYTES:
            ticket = self._pending.popleft()
            tickets.append(ticket)
            events += len(ticket.rows)
            size += sum(len(row.body) for row in ticket.rows)
        return tickets

    async def _commit(self, tickets: Sequence[QueuedAppend]) -> None:
        rows = [row for ticket in tickets for row in ticket.rows]
        self._group_number += 1
        try:
            first = await self._connection.ask(lambda connection: self._send(connection, rows))
        except StoreError as error:
            for ticket in tickets:
                ticket.outcome = type(error)(*error.args)  # one traceback each
                ticket.outcome.__cause__ = error.__cause__
            return
        except BaseException as error:
            for ticket in tickets:  # no caller may wait forever
                ticket.outcome = StoreError(f"the journal's writer broke down: {error!r}")
            raise
        for ticket in tickets:
            ticket.outcome = range(first, first + len(ticket.rows))
            first += len(ticket.rows)
        self._committed(first - 1)

    async def _send(self, connection: AsyncPgConnection, rows: Sequence[EventRow]) -> int:
        self.claims.check_not_lost(row.run for row in rows)
        values = append_arguments(self._id, self._group_number, rows)
        cursor = await connection.execute(APPEND_SQL, values, prepare=True)
        (first,) = await cursor.fetchone() or (None,)
        assert isinstance(first, int), "groups of one writer come one after the other"
        return first


def _check_rows(rows: Sequence[EventRow]) -> None:
    """Check what the server would refuse, so that one row does not fail the others of its group."""
    for row in rows:
        if "\x00" in row.run:
            raise StoreError("the id of a run holds a NUL character; use another id")
        if len(row.body) > MAX_EVENT_CHARS:
            raise StoreError(f"an event of {len(row.body):,} characters is too long to be kept")
