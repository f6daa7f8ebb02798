"""Finds lines by their words, in limited time however common a word is.

Where too many lines match, the newest are taken: the index returns them in that order and stops.
Ranking by rarity uses the postings of the rarest words.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from typing import NamedTuple

import apsw

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.knowledge import SearchResults, SessionQuery, TranscriptLine
from hermes.memory.journal.reading import EVENT_COLUMNS_SQL
from hermes.memory.journal.rows import read_event, to_micros
from hermes.memory.search.hits import MAX_HITS, NeighbourLines, RankedLines, build_hits, score_line
from hermes.memory.search.indexable_text import line_from_event
from hermes.memory.search.query import QueryTerm, SearchQuery, parse_query, parse_term
from hermes.memory.search.text_analysis import filter_marks, quoted_mark

MAX_COUNTED_LINES = 10_000
"""The number at which counting the lines of a word ends."""
MAX_POSTINGS = 20_000
"""Entries of the index that one ranking may read."""


class TimeBounds(NamedTuple):
    """The numbers between which all lines of a time lie, and the time itself in seconds."""

    first: int = 0
    last: int = 1 << 62
    since: int | None = None
    until: int | None = None


NO_TIME_BOUNDS = TimeBounds()


def time_bounds(
    index: apsw.Connection, since: datetime | None, until: datetime | None
) -> TimeBounds:
    if since is None and until is None:
        return NO_TIME_BOUNDS
    oldest = None if since is None else to_micros(since) // 1_000_000
    newest = None if until is None else to_micros(until) // 1_000_000
    first, last = index.execute(
        "SELECT min(first), max(last) FROM day WHERE day >= ? AND day <= ?",
        (
            -(1 << 40) if oldest is None else oldest // 86400,
            1 << 40 if newest is None else newest // 86400,
        ),
    ).get
    return TimeBounds(first or 0, last or 0, oldest, newest)


def newest_lines(
    index: apsw.Connection, expression: str, time_range: TimeBounds = NO_TIME_BOUNDS, *, limit: int
) -> list[int]:
    """Numbers of the matching lines, the newest first."""
    sql, values = _bounds_condition(time_range)
    found = index.execute(
        f"SELECT rowid FROM words WHERE words MATCH ? {sql} ORDER BY rowid DESC LIMIT ?",
        (expression, *values, limit),
    )
    return [seq for (seq,) in found]


def count_lines(index: apsw.Connection, expression: str) -> int:
    """How many lines match, counted up to the limit."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(index.execute(sql, (expression, MAX_COUNTED_LINES)).get)


def rarity_weight(holding_lines: int, total_lines: int) -> float:
    """The weight of a word that occurs in so many of so many lines."""
    if holding_lines >= MAX_COUNTED_LINES:
        holding_lines = max(holding_lines, total_lines // 5)  # not counted further; it is common
    return math.log(1 + (total_lines + 0.5) / (holding_lines + 0.5))


def lines_by_weight(
    index: apsw.Connection,
    expressions: Sequence[str],
    time_range: TimeBounds = NO_TIME_BOUNDS,
    *,
    filters: Iterable[str] = (),
    limit: int,
) -> list[tuple[int, float]]:
    """Lines with any of these words, those with the most and rarest first.

    `also` restricts all of them. Very common words are only used while there are few candidates.
    """
    lines = int(index.execute("SELECT lines FROM state").get)
    narrow = "".join(f" AND {each}" for each in filters)
    counted = [(count_lines(index, f"{each}{narrow}"), each) for each in expressions]
    total: dict[int, float] = {}
    postings_left = MAX_POSTINGS
    for found, each in sorted(counted):
        enough = len(total) >= limit and found >= MAX_COUNTED_LINES
        if not found or (total and (enough or postings_left < found)):
            continue
        weight = rarity_weight(found, lines)
        # So common a word distinguishes nothing: as many as can be shown are enough.
        max_postings = (
            limit if found >= MAX_COUNTED_LINES else min(found, max(postings_left, limit))
        )
        postings = newest_lines(index, f"{each}{narrow}", time_range, limit=max_postings)
        for seq in postings:
            total[seq] = total.get(seq, 0.0) + weight
        postings_left -= len(postings)
    best = heapq.nlargest(limit, ((score, seq) for seq, score in total.items()))
    return [(seq, score) for score, seq in best]


def _bounds_condition(time_range: TimeBounds) -> tuple[str, tuple[int, ...]]:
    sql, values = "AND rowid NOT IN (SELECT seq FROM gone)", ()
    if time_range.since is None and time_range.until is None:
        return sql, values
    since = -(1 << 62) if time_range.since is None else time_range.since
    until = 1 << 62 if time_range.until is None else time_range.until
    return (
        f"AND rowid BETWEEN ? AND ? {sql} AND EXISTS("
        "SELECT 1 FROM line WHERE seq = words.rowid AND at BETWEEN ? AND ?)",
        (time_range.first, time_range.last, since, until),
    )


_MAX_SQL_VARIABLES = 500


def read_events(journal: apsw.Connection, seqs: Iterable[int]) -> dict[int, Event | UnknownEvent]:
    """Damaged or deleted events are left out."""
    found: dict[int, Event | UnknownEvent] = {}
    wanted = sorted(set(seqs))
    for at in range(0, len(wanted), _MAX_SQL_VARIABLES):
        part = wanted[at : at + _MAX_SQL_VARIABLES]
        marks = ", ".join("?" * len(part))
        sql = f"SELECT seq, {EVENT_COLUMNS_SQL} FROM event WHERE seq IN ({marks})"
        for seq, when, run, kind, purged, body in journal.execute(sql, part):
            if not purged:
                try:
                    found[seq] = read_event(seq, when, run, kind, body)
                except StoreCorrupt:
                    continue
    return found


def read_lines(journal: apsw.Connection, seqs: Iterable[int]) -> dict[int, TranscriptLine]:
    events = read_events(journal, seqs)
    lines = ((seq, line_from_event(seq, event)) for seq, event in events.items())
    return {seq: line for seq, line in lines if line is not None}


def neighbour_seqs(
    index: apsw.Connection, seqs: Sequence[int]
) -> Mapping[int, tuple[int | None, int | None]]:
    """The number of the line before and after each, in its own session."""
    sql = (
        "SELECT (SELECT near.seq FROM line near WHERE near.session = line.session "
        "AND near.position = line.position + ? AND near.seq NOT IN (SELECT seq FROM gone)) "
        "FROM line WHERE line.seq = ?"
    )
    return {
        seq: (index.execute(sql, (-1, seq)).get, index.execute(sql, (1, seq)).get) for seq in seqs
    }


MAX_RANKED_LINES = 100
"""Lines with all the words that are read and ranked; the newest of them."""
TEXT_COLUMNS = "{body facts} : "


def search_lines(
    index: apsw.Connection, journal: apsw.Connection, wanted: SessionQuery
) -> SearchResults:
    query, narrow = _parse_search(wanted)
    within = time_bounds(index, wanted.since, wanted.until)
    ranked = _lines_with_all_words(index, journal, query, narrow, within)
    some = partial(_lines_with_some_words, index, journal, query, narrow, within)
    return build_hits(query, wanted.limit, ranked, some, partial(_neighbours, index, journal))


def _parse_search(wanted: SessionQuery) -> tuple[SearchQuery, list[str]]:
    query, narrow = parse_query(wanted.words), filter_marks(wanted)
    service = parse_term(wanted.service)
    if service is not None:
        narrow.append(service.expression)
    return query, narrow


def _lines_with_all_words(
    index: apsw.Connection,
    journal: apsw.Connection,
    query: SearchQuery,
    filters: Sequence[str],
    time_range: TimeBounds,
) -> RankedLines:
    if not query.required and not filters:
        return []
    if not query.required:  # only filters: the newest lines
        seqs = newest_lines(
            index, query.excluding(" AND ".join(filters)), time_range, limit=MAX_HITS
        )
        lines = read_lines(journal, seqs)
        return [(lines[seq], 0.0) for seq in seqs if seq in lines]
    texts = f"{TEXT_COLUMNS}({query.expression()})"
    seqs = newest_lines(index, " AND ".join([texts, *filters]), time_range, limit=MAX_RANKED_LINES)
    now, weights = datetime.now(UTC), _term_weights(index, query.terms)
    lines = read_lines(journal, seqs)
    scored = [(line, score_line(line, weights, now)) for line in lines.values()]
    return sorted(scored, key=lambda each: (-each[1], -each[0].seq))


def _lines_with_some_words(
    index: apsw.Connection,
    journal: apsw.Connection,
    query: SearchQuery,
    filters: Sequence[str],
    time_range: TimeBounds,
    limit: int,
) -> RankedLines:
    """Part of the words, or the same error with other numbers in it."""
    expressions = [f"{TEXT_COLUMNS}{term.expression}" for term in query.terms]
    expressions += [quoted_mark("error", each) for each in query.signatures]
    unwanted = reduce(lambda so_far, term: f"{so_far} NOT {term.expression}", query.excluded, "")
    also = [*filters[:-1], filters[-1] + unwanted] if filters else []
    found = lines_by_weight(index, expressions, time_range, filters=also, limit=limit)
    lines = read_lines(journal, [seq for seq, _ in found])
    if query.excluded and not filters:
        without = {seq for term in query.excluded for seq in _lines_holding(index, term, lines)}
        found = [(seq, points) for seq, points in found if seq not in without]
    return [(lines[seq], points) for seq, points in found if seq in lines]


def _lines_holding(
    index: apsw.Connection, term: QueryTerm, lines: Mapping[int, TranscriptLine]
) -> list[int]:
    sql = "SELECT rowid FROM words WHERE words MATCH ? AND rowid = ?"
    asked = ((seq, index.execute(sql, (term.expression, seq)).get) for seq in lines)
    return [seq for seq, found in asked if found is not None]


def _term_weights(index: apsw.Connection, terms: Sequence[QueryTerm]) -> dict[QueryTerm, float]:
    if len(terms) == 1:
        return {terms[0]: 1.0}
    total = int(index.execute("SELECT lines FROM state").get)
    return {term: rarity_weight(count_lines(index, term.expression), total) for term in terms}


def _neighbours(
    index: apsw.Connection, journal: apsw.Connection, seqs: Sequence[int]
) -> NeighbourLines:
    beside = neighbour_seqs(index, seqs)
    near = read_lines(journal, (seq for pair in beside.values() for seq in pair if seq is not None))
    return {
        seq: (near.get(before or 0), near.get(after or 0))
        for seq, (before, after) in beside.items()
    }
