"""Reads events in pages: between two pages no transaction is open, so nobody is ever held up."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from hermes.core.errors import StoreCorrupt
from hermes.core.protocols import Recorded
from hermes.memory.rows import micros, read

ROWS = 256
BYTES = 1 << 20

PURGED = "(typeof(body) = 'blob' AND length(body) = 32)"
PLAIN = "plain(CAST(body AS BLOB))"
JSON = f"CASE WHEN NOT {PURGED} THEN CAST({PLAIN} AS TEXT) END"
"""For JSON functions, which choke on anything else."""

# Everything as bytes: damaged text must come as far as here, where its number can be named.
COLUMNS = f"at, CAST(run AS BLOB), CAST(kind AS BLOB), {PURGED}, {PLAIN}"


class Wanted(NamedTuple):
    """What a reader asked for."""

    run: str | None = None
    kinds: tuple[str, ...] = ()
    since: int | None = None


class Page(NamedTuple):
    records: list[Recorded]
    after: int | None
    """Where the next page begins; None at the end."""


def wanted(run: str | None, kinds: Sequence[str], since: datetime | None) -> Wanted:
    oldest = None if since is None else micros(since)
    return Wanted(run, tuple(dict.fromkeys(kinds)), oldest)


def last(connection: apsw.Connection) -> int:
    return connection.execute("SELECT max(seq) FROM event").get or 0


def skip_older(connection: apsw.Connection, after: int, since: int) -> int | None:
    """The number before the first event that is young enough; None when there is none."""
    first = connection.execute("SELECT min(seq) FROM event WHERE at >= ?", (since,)).get
    return None if first is None else max(after, first - 1)


def fetch(connection: apsw.Connection, after: int, want: Wanted) -> Page:
    records: list[Recorded] = []
    count = size = 0
    cursor = connection.execute(*_query(after, want))
    try:
        for seq, at, run, kind, purged, body in cursor:
            if not purged and (want.since is None or at >= want.since):
                try:
                    records.append(Recorded(seq, read(seq, at, run, kind, body)))
                except StoreCorrupt:
                    if not records:
                        raise
                    return Page(records, after)  # first what is whole; the next page says it
            after = seq
            count += 1
            size += len(body)
            if size >= BYTES:
                return Page(records, after)
    finally:
        cursor.close()
    return Page(records, after if count == ROWS else None)


def scan(
    connection: apsw.Connection, columns: str, *, run: str | None = None
) -> Iterator[tuple[Any, ...]]:
    """All rows in order, `seq` first; as with `fetch` no transaction lasts longer than a page."""
    after = 0
    where = "seq > ?" if run is None else "seq > ? AND run = ?"
    extra = () if run is None else (run,)
    while True:
        sql = f"SELECT seq, {columns} FROM event WHERE {where} ORDER BY seq LIMIT {ROWS}"
        rows: list[tuple[Any, ...]] = connection.execute(sql, (after, *extra)).fetchall()
        yield from rows
        if len(rows) < ROWS:
            return
        after = rows[-1][0]


def _query(after: int, want: Wanted) -> tuple[str, tuple[Any, ...]]:
    """One index each; left alone the planner may sort all matches anew for every page."""
    kinds = want.kinds
    if want.run is not None:
        among = f"AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        return (
            f"SELECT seq, {COLUMNS} FROM event INDEXED BY event_by_run "
            f"WHERE run = ? AND seq > ? {among} ORDER BY seq LIMIT {ROWS}",
            (want.run, after, *kinds),
        )
    if not kinds:
        return f"SELECT seq, {COLUMNS} FROM event WHERE seq > ? ORDER BY seq LIMIT {ROWS}", (after,)
    one = "SELECT seq FROM event INDEXED BY event_by_kind WHERE kind = ? AND seq > ?"
    merged = " UNION ALL ".join([one] * len(kinds))
    return (
        f"WITH hit AS ({merged} ORDER BY seq LIMIT {ROWS}) "
        f"SELECT seq, {COLUMNS} FROM hit CROSS JOIN event USING(seq) ORDER BY seq",
        tuple(value for kind in kinds for value in (kind, after)),
    )
