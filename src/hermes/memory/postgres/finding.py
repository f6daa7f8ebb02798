"""Finds the numbers of lines by their words, in bounded time however common a word is."""

import heapq
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.core.recall import Search
from hermes.memory.postgres.indexing import Database
from hermes.memory.rows import micros
from hermes.memory.search.finding import COUNTED, POSTINGS, rarity

Narrow = tuple[str, Mapping[str, Any]]
"""A condition and its values."""
EVERYWHERE: Narrow = ("NOT gone", {})


def within(session: str | None) -> Narrow:
    """One run and the runs below it."""
    return narrowed(Search(words="", session=session or ""))


def narrowed(wanted: Search) -> Narrow:
    below = wanted.session.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "/%"
    conditions: dict[str, dict[str, Any]] = {
        "(run = %(session)s OR run LIKE %(below)s)": {"session": wanted.session, "below": below},
        "kind = %(kind)s": {"kind": wanted.kind},
        "role = %(role)s": {"role": wanted.role},
        "at >= %(since)s": {"since": wanted.since and micros(wanted.since)},
        "at <= %(until)s": {"until": wanted.until and micros(wanted.until)},
    }
    used = {text: values for text, values in conditions.items() if next(iter(values.values()))}
    merged = {name: value for values in used.values() for name, value in values.items()}
    return " AND ".join(["NOT gone", *used]), merged


def newest(connection: Database, words: str, narrow: Narrow, limit: int) -> list[int]:
    """Numbers of the lines that fit, the newest first."""
    where, values = narrow
    match = "words @@ %(words)s::tsquery AND " if words else ""
    sql = f"SELECT seq FROM hermes.line WHERE {match}{where} ORDER BY seq DESC LIMIT %(limit)s"
    found = connection.execute(sql.encode(), {**values, "words": words, "limit": limit})
    return [seq for (seq,) in found]


def count(connection: Database, words: str, narrow: Narrow = EVERYWHERE) -> int:
    """How many lines fit. Of a common word the planner's guess is taken: counting costs more."""
    where, values = narrow
    sql = f"SELECT 1 FROM hermes.line WHERE words @@ %(words)s::tsquery AND {where}"
    asked = {**values, "words": words}
    plan = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), asked).fetchone()
    assert plan is not None
    told = plan[0] if isinstance(plan[0], list) else json.loads(plan[0])
    guess = int(told[0]["Plan"]["Plan Rows"])
    if guess >= COUNTED:
        return guess
    counted = f"SELECT count(*) FROM ({sql} LIMIT {COUNTED}) AS first"
    row = connection.execute(counted.encode(), asked).fetchone()
    return int(row[0]) if row else 0


def size(connection: Database, narrow: Narrow = EVERYWHERE) -> int:
    where, values = narrow
    sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'hermes.line'::regclass"
    if values or (guess := connection.execute(sql).fetchone() or (0,))[0] < COUNTED:
        counted = f"SELECT count(*) FROM hermes.line WHERE {where}"
        guess = connection.execute(counted.encode(), values).fetchone() or (0,)
    return int(guess[0])


def weighed(
    connection: Database, ways: Sequence[str], narrow: Narrow, limit: int
) -> list[tuple[int, float]]:
    """Lines that hold any of these, those with the most and rarest first.

    Words so common that they say nothing are only looked at as long as there is room.
    """
    lines = size(connection)
    counted = sorted((count(connection, way, narrow), way) for way in dict.fromkeys(ways))
    total: dict[int, float] = {}
    room = POSTINGS
    for found, way in counted:
        if not found or (room < found and total):
            continue
        weight = rarity(found, lines)
        postings = newest(connection, way, narrow, min(found, max(room, limit)))
        for seq in postings:
            total[seq] = total.get(seq, 0.0) + weight
        room -= len(postings)
    best = heapq.nlargest(limit, ((score, seq) for seq, score in total.items()))
    return [(seq, score) for score, seq in best]


def places(
    connection: Database, seqs: Sequence[int], reach: int
) -> dict[int, tuple[str, int, int | None]]:
    """Run, position and last confirmation of those lines and of the ones near them."""
    found = connection.execute(
        "SELECT DISTINCT near.seq, near.run, near.position, near.confirmed "
        "FROM hermes.line asked JOIN hermes.line near ON near.run = asked.run "
        "AND near.position BETWEEN asked.position - %(reach)s AND asked.position + %(reach)s "
        "WHERE asked.seq = ANY(%(seqs)s) AND near.ended IS NULL AND NOT near.gone",
        {"seqs": list(seqs), "reach": reach},
    )
    return {seq: (run, position, confirmed) for seq, run, position, confirmed in found}
