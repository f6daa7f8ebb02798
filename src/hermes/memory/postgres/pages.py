"""Reads events in pages of a bounded size, with no transaction open between two of them."""

from collections.abc import Sequence
from typing import Any, LiteralString

from hermes.core.errors import StoreCorrupt
from hermes.core.protocols import Recorded
from hermes.memory.pages import BYTES, ROWS, Page, Wanted
from hermes.memory.postgres.line import Connection
from hermes.memory.rows import read

_COLUMNS: LiteralString = "seq, at, run, kind, body, octet_length(coalesce(body, '')) AS size"
# One page, cut where it becomes too large; the sizes are known without loading the texts.
_CUT: LiteralString = """
    SELECT seq, at, run, kind, body, rows FROM (
        SELECT *, count(*) OVER () AS rows, sum(size) OVER (ORDER BY seq) - size AS before
        FROM ({}) AS page
    ) AS sized WHERE before < {} ORDER BY seq
"""


async def last(connection: Connection) -> int:
    row = await (await connection.execute("SELECT last FROM hermes.head")).fetchone()
    return int(row[0]) if row else 0


async def skip_older(connection: Connection, after: int, since: int) -> int | None:
    """The number before the first event that is young enough; None when there is none."""
    # OFFSET 0 keeps the planner from walking the whole journal by number.
    sql = "SELECT min(seq) FROM (SELECT seq FROM hermes.event WHERE at >= %s OFFSET 0) AS young"
    (first,) = await (await connection.execute(sql, (since,))).fetchone() or (None,)
    return None if first is None else max(after, first - 1)


async def fetch(connection: Connection, after: int, want: Wanted) -> Page:
    inner, values = _query(after, want)
    cursor = connection.cursor(binary=True)
    await cursor.execute(_CUT.format(inner, BYTES), values)
    found = await cursor.fetchall()
    records: list[Recorded] = []
    for seq, at, run, kind, body, _ in found:
        if body is not None and (want.since is None or at >= want.since):
            try:
                event = read(seq, at, run.encode(), kind.encode(), body.encode())
            except StoreCorrupt:
                if not records:
                    raise
                return Page(records, after)  # first what is whole; the next page says it
            records.append(Recorded(seq, event))
        after = seq
    more = bool(found) and (found[0][5] > len(found) or len(found) == ROWS)
    return Page(records, after if more else None)


def _query(after: int, want: Wanted) -> tuple[LiteralString, Sequence[Any]]:
    """One index each, in the order of the numbers, so that a page costs no more than a page."""
    start: LiteralString = f"SELECT {_COLUMNS} FROM hermes.event WHERE "
    end: LiteralString = f" AND seq > %s ORDER BY seq LIMIT {ROWS:d}"
    if want.run is not None:
        if not want.kinds:
            return start + "run = %s" + end, (want.run, after)
        return start + "run = %s AND kind = ANY(%s)" + end, (want.run, list(want.kinds), after)
    if not want.kinds:
        return start + "true" + end, (after,)
    one: LiteralString = "(" + start + "kind = %s" + end + ")"
    merged: LiteralString = " UNION ALL ".join([one] * len(want.kinds))
    values = [value for kind in want.kinds for value in (kind, after)]
    return f"SELECT * FROM ({merged}) AS merged ORDER BY seq LIMIT {ROWS:d}", values
