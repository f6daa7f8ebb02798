"""Reads events in pages: no transaction is open between two pages, so writers never wait."""

import math
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio
import apsw

from hermes.core.errors import StoreCorrupt
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.rows import from_micros, read_event, to_micros
from hermes.memory.journal.runs import (
    MESSAGE_KINDS,
    RUN_HEAD_KINDS,
    EventFilter,
    RunSummary,
    SelectsEvents,
    summarize_run,
)

PAGE_ROWS = 256
MAX_PAGE_BYTES = 1 << 20

PURGED_SQL = "(typeof(body) = 'blob' AND length(body) = 32)"
BODY_SQL = "plain(CAST(body AS BLOB))"
BODY_JSON_SQL = f"CASE WHEN NOT {PURGED_SQL} THEN CAST({BODY_SQL} AS TEXT) END"
"""For JSON functions, which fail on anything else."""

# Everything as bytes: damaged text must be read here, where its number can be reported.
EVENT_COLUMNS_SQL = f"at, CAST(run AS BLOB), CAST(kind AS BLOB), {PURGED_SQL}, {BODY_SQL}"


EventColumns = tuple[int, int, bytes, bytes, bool, bytes]
"""Number, time, run, kind, whether the text was purged, and the text."""


class EventPage(NamedTuple):
    records: list[JournalRecord]
    after: int | None
    """Where the next page begins; None at the end."""


def last_seq(connection: apsw.Connection) -> int:
    return connection.execute("SELECT max(seq) FROM event").get or 0


def first_since(connection: apsw.Connection, since: int) -> int | None:
    first: int | None = connection.execute("SELECT min(seq) FROM event WHERE at >= ?", (since,)).get
    return first


def fetch_page(connection: apsw.Connection, after: int, want: EventFilter) -> EventPage:
    cursor = connection.execute(*_page_query(after, want))
    try:
        return read_page(cursor, after, want)
    finally:
        cursor.close()


def read_page(rows: Iterable[EventColumns], after: int, want: EventFilter) -> EventPage:
    records: list[JournalRecord] = []
    count = size = 0
    since = None if want.since is None else to_micros(want.since)
    for seq, at, run, kind, purged, body in rows:
        if not purged and (since is None or at >= since):
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
    """By first starts, newest first. A purged one has no text left and is no longer listed."""
    sql = (
        "SELECT run FROM event INDEXED BY event_by_kind "
        f"WHERE kind = 'run.started' AND NOT {PURGED_SQL} AND NOT EXISTS("
        "SELECT 1 FROM event earlier WHERE earlier.run = event.run "
        "AND earlier.seq < event.seq AND earlier.kind = 'run.started')"
    )
    if parent is not None:  # an empty parent is left out of the JSON
        sql += f" AND coalesce({BODY_JSON_SQL} ->> '$.parent', '') = :parent"
    if not deleted:
        sql += (
            " AND NOT EXISTS(SELECT 1 FROM event gone INDEXED BY event_by_run "
            "WHERE gone.run = event.run AND gone.kind = 'run.deleted')"
        )
    asked = {"parent": parent, "limit": limit}
    found: list[Any] = connection.execute(f"{sql} ORDER BY seq DESC LIMIT :limit", asked).fetchall()
    listed = (_run_summary(connection, run) for (run,) in found)
    return [summary for summary in listed if summary is not None]


_RUN_HEAD_SQL = f"""
    SELECT seq, {EVENT_COLUMNS_SQL} FROM event WHERE seq IN (
        SELECT seq FROM event INDEXED BY event_by_run WHERE run = :run AND kind IN {RUN_HEAD_KINDS}
        UNION ALL SELECT * FROM (
            SELECT seq FROM event INDEXED BY event_by_run
            WHERE run = :run AND kind = 'message.added'
            AND {BODY_JSON_SQL} ->> '$.message.role' = 'user' ORDER BY seq LIMIT 1)
    ) AND NOT {PURGED_SQL} ORDER BY seq
"""


def _run_summary(connection: apsw.Connection, run: str) -> RunSummary | None:
    messages, newest = connection.execute(
        f"SELECT count(*) FILTER (WHERE kind IN {MESSAGE_KINDS}), max(seq) "
        "FROM event INDEXED BY event_by_run WHERE run = ?",
        (run,),
    ).get
    last_at = connection.execute("SELECT at FROM event WHERE seq = ?", (newest,)).get
    head: list[Any] = connection.execute(_RUN_HEAD_SQL, {"run": run}).fetchall()
    events = [read_event(seq, at, of, kind, body) for seq, at, of, kind, _, body in head]
    return summarize_run(events, messages=messages, last_at=from_micros(last_at))


class StoreQueries(NamedTuple):
    """The queries of one kind of store; each takes a connection first."""

    last: Callable[..., Any]
    first_since: Callable[..., Any]
    """The number of the first event that is recent enough; None when there is none."""
    fetch: Callable[..., Any]
    list_runs: Callable[..., Any]


SQLITE_QUERIES = StoreQueries(last_seq, first_since, fetch_page, list_runs)


class StoreReader(SelectsEvents):
    """The reading half of a journal in a store."""

    def __init__(self, queries: StoreQueries) -> None:
        self._queries = queries
        self._newest = 0
        self._wake = anyio.Event()
        self._polling = anyio.Lock()
        self._polled_at = -math.inf

    @abstractmethod
    async def ask(self, question: Callable[[Any], Any]) -> Any:
        """Call the question with a connection, and return its result."""

    async def select(self, after: int, want: EventFilter) -> AsyncIterator[JournalRecord]:
        """Events in order. Those of a deleted run are left out once a compaction deleted its
        texts."""
        start: int | None = after
        if want.since is not None:
            since = to_micros(want.since)
            first = await self.ask(partial(self._queries.first_since, since=since))
            start = None if first is None else max(after, first - 1)
        while start is not None:
            page: EventPage = await self.ask(partial(self._queries.fetch, after=start, want=want))
            for recorded in page.records:
                yield recorded
            start = page.after

    async def last(self) -> int:
        newest: int = await self.ask(self._queries.last)
        return newest

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        list_runs = partial(self._queries.list_runs, limit=limit, parent=parent, deleted=deleted)
        found: Sequence[RunSummary] = await self.ask(list_runs)
        return found

    async def wait_for_event_after(self, after: int, timeout_s: float) -> bool:
        """Return whether there is an event after `after`; False only after the poll interval."""
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
