"""Reads events in pages: no transaction is open between two pages, so writers never wait."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import anyio
import apsw

from hermes.core.errors import StoreCorrupt
from hermes.core.events.runs import RunStarted
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.rows import from_micros, read_event, to_micros
from hermes.memory.journal.runs import MAX_TASK_CHARS, RunSummary, build_run_summary

PAGE_ROWS = 256
MAX_PAGE_BYTES = 1 << 20

PURGED_SQL = "(typeof(body) = 'blob' AND length(body) = 32)"
BODY_SQL = "plain(CAST(body AS BLOB))"
BODY_JSON_SQL = f"CASE WHEN NOT {PURGED_SQL} THEN CAST({BODY_SQL} AS TEXT) END"
"""For JSON functions, which fail on anything else."""

# Everything as bytes: damaged text must be read here, where its number can be reported.
EVENT_COLUMNS_SQL = f"at, CAST(run AS BLOB), CAST(kind AS BLOB), {PURGED_SQL}, {BODY_SQL}"


class EventFilter(NamedTuple):
    """The filter of a reader."""

    run: str | None = None
    kinds: tuple[str, ...] = ()
    since: int | None = None


class EventPage(NamedTuple):
    records: list[JournalRecord]
    after: int | None
    """Where the next page begins; None at the end."""


def event_filter(run: str | None, kinds: Sequence[str], since: datetime | None) -> EventFilter:
    oldest = None if since is None else to_micros(since)
    return EventFilter(run, tuple(dict.fromkeys(kinds)), oldest)


def last_seq(connection: apsw.Connection) -> int:
    return connection.execute("SELECT max(seq) FROM event").get or 0


def skip_older(connection: apsw.Connection, after: int, since: int) -> int | None:
    """The number before the first event that is recent enough; None when there is none."""
    first = connection.execute("SELECT min(seq) FROM event WHERE at >= ?", (since,)).get
    return None if first is None else max(after, first - 1)


def fetch_page(connection: apsw.Connection, after: int, want: EventFilter) -> EventPage:
    records: list[JournalRecord] = []
    count = size = 0
    cursor = connection.execute(*_page_query(after, want))
    try:
        for seq, at, run, kind, purged, body in cursor:
            if not purged and (want.since is None or at >= want.since):
                try:
                    records.append(JournalRecord(seq, read_event(seq, at, run, kind, body)))
                except StoreCorrupt:
                    if not records:
                        raise
                    # return the intact rows first; the next page raises
                    return EventPage(records, after)
            after = seq
            count += 1
            size += len(body)
            if size >= MAX_PAGE_BYTES:
                return EventPage(records, after)
    finally:
        cursor.close()
    return EventPage(records, after if count == PAGE_ROWS else None)


def _page_query(after: int, want: EventFilter) -> tuple[str, tuple[Any, ...]]:
    """One index for each query; without a hint the planner may sort all matches for every page."""
    kinds = want.kinds
    if want.run is not None:
        among = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        return (
            f"SELECT seq, {EVENT_COLUMNS_SQL} FROM event INDEXED BY event_by_run "
            f"WHERE run = ? AND seq > ? {among} ORDER BY seq LIMIT {PAGE_ROWS}",
            (want.run, after, *kinds),
        )
    if not kinds:
        return (
            f"SELECT seq, {EVENT_COLUMNS_SQL} FROM event WHERE seq > ? "
            f"ORDER BY seq LIMIT {PAGE_ROWS}",
            (after,),
        )
    one = "SELECT seq FROM event INDEXED BY event_by_kind WHERE kind = ? AND seq > ?"
    merged = " UNION ALL ".join([one] * len(kinds))
    return (
        f"WITH hit AS ({merged} ORDER BY seq LIMIT {PAGE_ROWS}) "
        f"SELECT seq, {EVENT_COLUMNS_SQL} FROM hit CROSS JOIN event USING(seq) ORDER BY seq",
        tuple(value for kind in kinds for value in (kind, after)),
    )


def list_runs(
    connection: apsw.Connection, limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    found: list[RunSummary] = []
    cursor = connection.execute(*_started_query(parent))
    try:
        for seq, at, run, body in cursor:
            if len(found) >= limit:
                break
            started = read_event(seq, at, run.encode(), b"run.started", body)
            assert isinstance(started, RunStarted)
            summary = _run_summary(connection, run, started)
            if deleted or not summary.deleted:
                found.append(summary)
    finally:
        cursor.close()
    return found


def _started_query(parent: str | None) -> tuple[str, tuple[Any, ...]]:
    """First starts, newest first. A purged one has no text left and is no longer listed."""
    sql = (
        f"SELECT seq, at, run, {BODY_SQL} FROM event INDEXED BY event_by_kind "
        f"WHERE kind = 'run.started' AND NOT {PURGED_SQL} AND NOT EXISTS("
        "SELECT 1 FROM event earlier WHERE earlier.run = event.run "
        "AND earlier.seq < event.seq AND earlier.kind = 'run.started')"
    )
    if parent is None:
        return f"{sql} ORDER BY seq DESC", ()
    # An empty parent is left out of the JSON.
    return f"{sql} AND coalesce({BODY_JSON_SQL} ->> '$.parent', '') = ? ORDER BY seq DESC", (
        parent,
    )


def _run_summary(connection: apsw.Connection, run: str, started: RunStarted) -> RunSummary:
    messages, newest, renamed, switched, gone = connection.execute(
        "SELECT count(*) FILTER (WHERE kind IN ('message.added', 'message.imported')), max(seq), "
        "max(seq) FILTER (WHERE kind = 'run.renamed'), "
        "max(seq) FILTER (WHERE kind = 'model.switched'), "
        "max(seq) FILTER (WHERE kind = 'run.deleted') "
        "FROM event INDEXED BY event_by_run WHERE run = ?",
        (run,),
    ).get
    last_at = connection.execute("SELECT at FROM event WHERE seq = ?", (newest,)).get
    return build_run_summary(
        started,
        task=started.task or _first_user_text(connection, run),
        title=_event_field(connection, renamed, "title"),
        model=_event_field(connection, switched, "model") or started.model,
        last_at=from_micros(last_at),
        messages=messages,
        deleted=gone is not None,
    )


def _first_user_text(connection: apsw.Connection, run: str) -> str:
    return str(
        connection.execute(
            f"SELECT substr({BODY_JSON_SQL} ->> '$.message.text', 1, ?) "
            "FROM event INDEXED BY event_by_run WHERE run = ? AND kind = 'message.added' "
            f"AND {BODY_JSON_SQL} ->> '$.message.role' = 'user' ORDER BY seq LIMIT 1",
            (MAX_TASK_CHARS, run),
        ).get
        or ""
    )


def _event_field(connection: apsw.Connection, seq: int | None, name: str) -> str:
    if seq is None:
        return ""
    sql = f"SELECT {EVENT_COLUMNS_SQL} FROM event WHERE seq = ?"
    at, run, kind, purged, body = connection.execute(sql, (seq,)).get
    return "" if purged else str(getattr(read_event(seq, at, run, kind, body), name))


RunQuery = Callable[[Callable[[Any], Any]], Awaitable[Any]]
"""Runs a query on a store: it is called with a connection, and its result is returned."""


class StoreQueries(NamedTuple):
    """The queries of one kind of store; each takes a connection first."""

    last: Callable[..., Any]
    skip_older: Callable[..., Any]
    fetch: Callable[..., Any]
    list_runs: Callable[..., Any]


class EventReader:
    def __init__(self, ask: RunQuery, queries: StoreQueries) -> None:
        self._ask = ask
        self._queries = queries
        self._newest = 0
        self._wake = anyio.Event()
        self._polling = anyio.Lock()
        self._polled_at = -math.inf

    async def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
    ) -> AsyncIterator[JournalRecord]:
        """Events in order. Those of a deleted run are left out once a compaction deleted its
        texts."""
        want = event_filter(run, kinds, since)
        _, skip_older, fetch, _ = self._queries
        start: int | None = after
        if want.since is not None:
            start = await self._ask(partial(skip_older, after=after, since=want.since))
        while start is not None:
            page: EventPage = await self._ask(partial(fetch, after=start, want=want))
            for recorded in page.records:
                yield recorded
            start = page.after

    async def last(self) -> int:
        newest: int = await self._ask(self._queries.last)
        return newest

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        """Runs, the last started first: without a parent, of one parent, or (None) all."""
        list_runs = partial(self._queries.list_runs, limit=limit, parent=parent, deleted=deleted)
        found: Sequence[RunSummary] = await self._ask(list_runs)
        return found

    async def wait_for_event_after(self, after: int, timeout_s: float) -> bool:
        """Whether there is an event after `after`; False only after the poll interval."""
        stirred = self._wake  # before the query: no event can be missed in between
        async with self._polling:  # one query is enough for all who wait
            if self._newest <= after and self._poll_due(timeout_s):
                await self._poll()
        if self._newest > after:
            return True
        with anyio.move_on_after(timeout_s):
            await stirred.wait()
        return False

    def _poll_due(self, interval_s: float) -> bool:
        return anyio.current_time() - self._polled_at >= interval_s / 2

    async def _poll(self) -> None:
        self._polled_at = anyio.current_time()  # before the query: `wake_waiters` may reset it
        try:
            self._newest = max(self._newest, await self.last())
        except BaseException:  # the others who wait must query themselves
            self._polled_at = -math.inf
            raise

    def set_newest(self, seq: int) -> None:
        """There are events up to this number."""
        self._newest = max(self._newest, seq)
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Make all waiting readers query again."""
        self._polled_at = -math.inf
        self._wake.set()
        self._wake = anyio.Event()
