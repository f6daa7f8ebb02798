"""Reads events in pages of limited size, with no transaction open between two of them."""

from collections.abc import Sequence
from typing import Any, LiteralString

from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.memory.journal.reading import (
    MAX_PAGE_BYTES,
    PAGE_ROWS,
    EventPage,
    StoreQueries,
    read_page,
)
from hermes.memory.journal.rows import from_micros, read_event
from hermes.memory.journal.runs import (
    MESSAGE_KINDS,
    RUN_HEAD_KINDS,
    EventFilter,
    RunSummary,
    summarize_run,
)
from hermes.memory.postgres.connection import AsyncPgConnection

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
    return [
        summarize_run(events[run], messages=messages, last_at=from_micros(last_at))
        for run, messages, last_at in listed
    ]


POSTGRES_QUERIES = StoreQueries(last_seq, first_since, fetch_page, list_runs)
