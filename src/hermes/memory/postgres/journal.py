"""The journal in PostgreSQL: its queries, and the listener for appends of other processes.

Events are read in pages of limited size, with no transaction open between two of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, LiteralString, TypeVar

import anyio
import anyio.to_thread
import psycopg

from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.operations import CheckpointSigned
from hermes.memory.journal.maintenance import JournalTip, append_checkpoint
from hermes.memory.journal.reading import (
    MAX_PAGE_BYTES,
    PAGE_ROWS,
    EventPage,
    StoreQueries,
    StoreReader,
    read_page,
)
from hermes.memory.journal.rows import from_micros, read_event, row_from_event
from hermes.memory.journal.runs import (
    MESSAGE_KINDS,
    RUN_HEAD_KINDS,
    EventFilter,
    RunSummary,
    summarize_run,
)
from hermes.memory.postgres.connection import (
    SERVER_TIMEOUT_S,
    AsyncPgConnection,
    ReconnectingConnection,
    connect_async,
)
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

    async def release_claim(self, run: str) -> None:
        await self._writer.release_claim(run)

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


_EVENT_COLUMNS_SQL: LiteralString = (
    "seq, at, run, kind, body, octet_length(coalesce(body, '')) AS size"
)
# One page, ended where it becomes too large; the sizes are known without loading the texts.
_SIZED_PAGE_SQL: LiteralString = """
    SELECT seq, at, run, kind, body FROM (
        SELECT *, sum(size) OVER (ORDER BY seq) - size AS before FROM ({}) AS page
    ) AS sized WHERE before < {} ORDER BY seq
"""


async def last_seq(connection: AsyncPgConnection) -> int:
    row = await (await connection.execute("SELECT last FROM hermes.head")).fetchone()
    return int(row[0]) if row else 0


async def first_since(connection: AsyncPgConnection, since: int) -> int | None:
    # OFFSET 0 keeps the planner from walking the whole journal by number.
    sql = "SELECT min(seq) FROM (SELECT seq FROM hermes.event WHERE at >= %s OFFSET 0) AS young"
    row = await (await connection.execute(sql, (since,))).fetchone()
    return row[0] if row else None


async def fetch_page(connection: AsyncPgConnection, after: int, want: EventFilter) -> EventPage:
    inner, values = _page_query(after, want)
    cursor = connection.cursor(binary=True)
    await cursor.execute(_SIZED_PAGE_SQL.format(inner, MAX_PAGE_BYTES), values)
    rows = (
        (seq, at, run.encode(), kind.encode(), body is None, (body or "").encode())
        for seq, at, run, kind, body in await cursor.fetchall()
    )
    return read_page(rows, after, want)


def _page_query(after: int, want: EventFilter) -> tuple[LiteralString, Sequence[Any]]:
    """One index for each query, in the order of the numbers, so that a page costs only a page."""
    start: LiteralString = f"SELECT {_EVENT_COLUMNS_SQL} FROM hermes.event WHERE "
    end: LiteralString = f" AND seq > %s ORDER BY seq LIMIT {PAGE_ROWS:d}"
    if want.run is not None:
        if not want.kinds:
            return start + "run = %s" + end, (want.run, after)
        return start + "run = %s AND kind = ANY(%s)" + end, (want.run, list(want.kinds), after)
    if not want.kinds:
        return start + "true" + end, (after,)
    one: LiteralString = "(" + start + "kind = %s" + end + ")"
    merged: LiteralString = " UNION ALL ".join([one] * len(want.kinds))
    values = [value for kind in want.kinds for value in (kind, after)]
    return f"SELECT * FROM ({merged}) AS merged ORDER BY seq LIMIT {PAGE_ROWS:d}", values


# JSON functions fail on the escape of a NUL, which is a legal character in our texts.
_PARENT_CONDITION_SQL: LiteralString = (
    r"coalesce(replace(s.body, '\u0000', '\ufffd')::json ->> 'parent', '') = %(parent)s"
)
_RUN_DELETED_SQL: LiteralString = (
    "EXISTS (SELECT 1 FROM hermes.event e WHERE e.run = s.run AND e.kind = 'run.deleted')"
)
_LIST_RUNS_SQL: LiteralString = """
    SELECT s.run,
        (SELECT count(*) FROM hermes.event e WHERE e.run = s.run AND e.kind = ANY(%(messages)s)),
        (SELECT at FROM hermes.event e WHERE e.run = s.run ORDER BY seq DESC LIMIT 1)
    FROM hermes.event s WHERE s.kind = 'run.started' AND s.body IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM hermes.event e WHERE e.run = s.run AND e.seq < s.seq
        AND e.kind = 'run.started')
    AND ({parent}) AND ({deleted}) ORDER BY s.seq DESC LIMIT %(limit)s
"""
# Our own writer puts the role of a message first; see `rows`.
_RUN_HEADS_SQL: LiteralString = """
    SELECT seq, at, run, kind, body FROM hermes.event
    WHERE run = ANY(%(runs)s) AND kind = ANY(%(kinds)s) AND body IS NOT NULL
    UNION ALL SELECT asked.* FROM unnest(%(runs)s::text[]) AS listed(run) CROSS JOIN LATERAL (
        SELECT seq, at, run, kind, body FROM hermes.event e WHERE e.run = listed.run
        AND kind = 'message.added' AND starts_with(body, '{"message":{"role":"user"')
        ORDER BY seq LIMIT 1
    ) AS asked ORDER BY seq
"""


async def list_runs(
    connection: AsyncPgConnection, limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    sql = _LIST_RUNS_SQL.format(
        parent="true" if parent is None else _PARENT_CONDITION_SQL,
        deleted="true" if deleted else "NOT " + _RUN_DELETED_SQL,
    )
    asked = {"limit": limit, "parent": parent, "messages": list(MESSAGE_KINDS)}
    listed = await (await connection.execute(sql, asked)).fetchall()
    wanted = {"runs": [run for run, *_ in listed], "kinds": list(RUN_HEAD_KINDS)}
    events: dict[str, list[Event | UnknownEvent]] = {}
    for seq, at, run, kind, body in await (
        await connection.execute(_RUN_HEADS_SQL, wanted)
    ).fetchall():
        event = read_event(seq, at, run.encode(), kind.encode(), body.encode())
        events.setdefault(run, []).append(event)
    summaries = (
        summarize_run(events[run], messages=messages, last_at=from_micros(last_at))
        for run, messages, last_at in listed
    )
    return [summary for summary in summaries if summary is not None]


POSTGRES_QUERIES = StoreQueries(last_seq, first_since, fetch_page, list_runs)
