"""Reads events in pages of limited size, with no transaction open between two of them."""

from collections.abc import Sequence
from typing import Any, LiteralString

from hermes.core.errors import StoreCorrupt
from hermes.core.events.runs import MessageAdded, ModelSwitched, RunRenamed, RunStarted
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.reading import MAX_PAGE_BYTES, PAGE_ROWS, EventFilter, EventPage
from hermes.memory.journal.rows import from_micros, read_event
from hermes.memory.journal.runs import MAX_TASK_CHARS, RunSummary, build_run_summary
from hermes.memory.postgres.connection import AsyncPgConnection

_EVENT_COLUMNS_SQL: LiteralString = (
    "seq, at, run, kind, body, octet_length(coalesce(body, '')) AS size"
)
# One page, ended where it becomes too large; the sizes are known without loading the texts.
_SIZED_PAGE_SQL: LiteralString = """
    SELECT seq, at, run, kind, body, rows FROM (
        SELECT *, count(*) OVER () AS rows, sum(size) OVER (ORDER BY seq) - size AS before
        FROM ({}) AS page
    ) AS sized WHERE before < {} ORDER BY seq
"""


async def last_seq(connection: AsyncPgConnection) -> int:
    row = await (await connection.execute("SELECT last FROM hermes.head")).fetchone()
    return int(row[0]) if row else 0


async def skip_older(connection: AsyncPgConnection, after: int, since: int) -> int | None:
    """The number before the first event that is recent enough; None when there is none."""
    # OFFSET 0 keeps the planner from walking the whole journal by number.
    sql = "SELECT min(seq) FROM (SELECT seq FROM hermes.event WHERE at >= %s OFFSET 0) AS young"
    (first,) = await (await connection.execute(sql, (since,))).fetchone() or (None,)
    return None if first is None else max(after, first - 1)


async def fetch_page(connection: AsyncPgConnection, after: int, want: EventFilter) -> EventPage:
    inner, values = _page_query(after, want)
    cursor = connection.cursor(binary=True)
    await cursor.execute(_SIZED_PAGE_SQL.format(inner, MAX_PAGE_BYTES), values)
    found = await cursor.fetchall()
    records: list[JournalRecord] = []
    for seq, at, run, kind, body, _ in found:
        if body is not None and (want.since is None or at >= want.since):
            try:
                event = read_event(seq, at, run.encode(), kind.encode(), body.encode())
            except StoreCorrupt:
                if not records:
                    raise
                # return the intact rows first; the next page raises
                return EventPage(records, after)
            records.append(JournalRecord(seq, event))
        after = seq
    more = bool(found) and (found[0][5] > len(found) or len(found) == PAGE_ROWS)
    return EventPage(records, after if more else None)


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
_NEWEST_EVENT_SQL: LiteralString = """
    (SELECT ARRAY[seq::text, at::text, body] FROM hermes.event e
     WHERE e.run = s.run AND e.kind = '{}' AND e.body IS NOT NULL ORDER BY seq DESC LIMIT 1)
"""
# Our own writer puts the role first; see `rows`.
_FIRST_USER_MESSAGE_SQL: LiteralString = """
    (SELECT ARRAY[seq::text, at::text, body] FROM hermes.event e WHERE e.run = s.run
     AND e.kind = 'message.added' AND starts_with(e.body, '{{"message":{{"role":"user"')
     ORDER BY seq LIMIT 1)
"""
_LIST_RUNS_SQL: LiteralString = (
    "SELECT s.seq, s.at, s.run, s.body,"
    " (SELECT count(*) FROM hermes.event e WHERE e.run = s.run AND e.kind = 'message.added'),"
    " (SELECT at FROM hermes.event e WHERE e.run = s.run ORDER BY seq DESC LIMIT 1),"
    + _NEWEST_EVENT_SQL.format("run.renamed")
    + ","
    + _NEWEST_EVENT_SQL.format("model.switched")
    + ","
    + _FIRST_USER_MESSAGE_SQL
    + ", {gone} FROM hermes.event s WHERE s.kind = 'run.started' AND s.body IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM hermes.event e WHERE e.run = s.run AND e.seq < s.seq"
    " AND e.kind = 'run.started')"
    " AND ({parent}) AND ({deleted}) ORDER BY s.seq DESC LIMIT %(limit)s"
)
_RUN_DELETED_SQL: LiteralString = (
    "EXISTS (SELECT 1 FROM hermes.event e WHERE e.run = s.run AND e.kind = 'run.deleted')"
)

EventColumns = Sequence[str] | None


async def list_runs(
    connection: AsyncPgConnection, limit: int, parent: str | None, deleted: bool
) -> Sequence[RunSummary]:
    sql = _LIST_RUNS_SQL.format(
        gone=_RUN_DELETED_SQL,
        parent="true" if parent is None else _PARENT_CONDITION_SQL,
        deleted="true" if deleted else "NOT " + _RUN_DELETED_SQL,
    )
    cursor = await connection.execute(sql, {"limit": limit, "parent": parent})
    return [_run_summary(*row) for row in await cursor.fetchall()]


def _run_summary(  # noqa: PLR0913 - the columns of one row
    seq: int,
    at: int,
    run: str,
    body: str,
    messages: int,
    last_at: int,
    renamed: EventColumns,
    switched: EventColumns,
    asked: EventColumns,
    deleted: bool,
) -> RunSummary:
    started = read_event(seq, at, run.encode(), b"run.started", body.encode())
    assert isinstance(started, RunStarted)
    title = _event_from_columns(renamed, run, b"run.renamed")
    model = _event_from_columns(switched, run, b"model.switched")
    first_message = None if started.task else _event_from_columns(asked, run, b"message.added")
    words = (
        first_message.message.text[:MAX_TASK_CHARS]
        if isinstance(first_message, MessageAdded)
        else ""
    )
    return build_run_summary(
        started,
        task=started.task or words,
        title=title.title if isinstance(title, RunRenamed) else "",
        model=model.model if isinstance(model, ModelSwitched) else started.model,
        last_at=from_micros(last_at),
        messages=messages,
        deleted=deleted,
    )


def _event_from_columns(found: EventColumns, run: str, kind: bytes) -> object:
    if found is None:
        return None
    seq, at, body = found
    return read_event(int(seq), int(at), run.encode(), kind, body.encode())
