"""Finds the numbers of lines by their words, in bounded time however common a word is.

Where more lines fit than anybody will read, the newest are taken: the index hands them out in that
order and stops. Ranking by rarity is done over the postings of the rarest words.
"""

import heapq
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import apsw

from hermes.memory.rows import micros

COUNTED = 10_000
"""Where counting how common a word is ends."""
POSTINGS = 20_000
"""Entries of the index that one ranking may look at."""


class Bounds(NamedTuple):
    """The numbers between which all lines of a time lie, and the time itself in seconds."""

    first: int = 0
    last: int = 1 << 62
    since: int | None = None
    until: int | None = None


ALWAYS = Bounds()


def bounds(index: apsw.Connection, since: datetime | None, until: datetime | None) -> Bounds:
    if since is None and until is None:
        return ALWAYS
    oldest = None if since is None else micros(since) // 1_000_000
    newest = None if until is None else micros(until) // 1_000_000
    first, last = index.execute(
        "SELECT min(first), max(last) FROM day WHERE day >= ? AND day <= ?",
        (
            -(1 << 40) if oldest is None else oldest // 86400,
            1 << 40 if newest is None else newest // 86400,
        ),
    ).get
    return Bounds(first or 0, last or 0, oldest, newest)


def newest(
    index: apsw.Connection, expression: str, within: Bounds = ALWAYS, *, limit: int
) -> list[int]:
    """Numbers of the lines that fit, the newest first."""
    sql, values = _narrowed(within)
    found = index.execute(
        f"SELECT rowid FROM words WHERE words MATCH ? {sql} ORDER BY rowid DESC LIMIT ?",
        (expression, *values, limit),
    )
    return [seq for (seq,) in found]


def count(index: apsw.Connection, expression: str) -> int:
    """How many lines fit; counting ends at `COUNTED`."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(index.execute(sql, (expression, COUNTED)).get)


def rarity(found: int, lines: int) -> float:
    """The weight of a word that stands in so many of so many lines."""
    if found >= COUNTED:
        found = max(found, lines // 5)  # nobody counted further; it is common
    return math.log(1 + (lines + 0.5) / (found + 0.5))


def weighed(
    index: apsw.Connection,
    expressions: Sequence[str],
    within: Bounds = ALWAYS,
    *,
    also: Iterable[str] = (),
    limit: int,
) -> list[tuple[int, float]]:
    """Lines that hold any of these, those with the most and rarest first.

    `also` narrows all of them down. Words so common that they say nothing are only looked at as
    long as there is room.
    """
    lines = int(index.execute("SELECT lines FROM state").get)
    narrow = "".join(f" AND {each}" for each in also)
    counted = [(count(index, f"{each}{narrow}"), each) for each in expressions]
    total: dict[int, float] = {}
    room = POSTINGS
    for found, each in sorted(counted):
        enough = len(total) >= limit and found >= COUNTED
        if not found or (total and (enough or room < found)):
            continue
        weight = rarity(found, lines)
        # A word that common sets nobody apart: as many as can be shown are enough of it.
        most = limit if found >= COUNTED else min(found, max(room, limit))
        postings = newest(index, f"{each}{narrow}", within, limit=most)
        for seq in postings:
            total[seq] = total.get(seq, 0.0) + weight
        room -= len(postings)
    best = heapq.nlargest(limit, ((score, seq) for seq, score in total.items()))
    return [(seq, score) for score, seq in best]


def _narrowed(within: Bounds) -> tuple[str, tuple[int, ...]]:
    sql, values = "AND rowid NOT IN (SELECT seq FROM gone)", ()
    if within.since is None and within.until is None:
        return sql, values
    since = -(1 << 62) if within.since is None else within.since
    until = 1 << 62 if within.until is None else within.until
    return (
        f"AND rowid BETWEEN ? AND ? {sql} AND EXISTS("
        "SELECT 1 FROM line WHERE seq = words.rowid AND at BETWEEN ? AND ?)",
        (within.first, within.last, since, until),
    )
