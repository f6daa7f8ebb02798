"""Session search in PostgreSQL: finds lines by their words, in limited time."""

import heapq
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import anyio.to_thread
import psycopg
from msgspec.structs import replace

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.knowledge import SearchResults, SessionQuery, TranscriptLine
from hermes.memory.journal.rows import read_event, to_micros
from hermes.memory.postgres.connection import SERVER_TIMEOUT_S, connect, translate_errors
from hermes.memory.postgres.text_index import (
    TEXT_WEIGHTS,
    IndexProgress,
    PgConnection,
    TextSearchSyntax,
    catch_up,
    error_token,
    index_matches_journal,
    reset_index,
)
from hermes.memory.search.hits import MAX_HITS, NeighbourLines, RankedLines, build_hits, score_line
from hermes.memory.search.indexable_text import line_from_event
from hermes.memory.search.line_search import MAX_COUNTED_LINES, MAX_POSTINGS, rarity_weight
from hermes.memory.search.query import QueryTerm, SearchQuery, parse_query, parse_term

LineCondition = tuple[str, Mapping[str, Any]]
"""A condition and its values."""
NO_CONDITION: LineCondition = ("NOT gone", {})


def session_condition(session: str | None) -> LineCondition:
    """One run and its subagents."""
    return search_condition(SessionQuery(words="", session=session or ""))


def search_condition(wanted: SessionQuery) -> LineCondition:
    below = wanted.session.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "/%"
    conditions: dict[str, dict[str, Any]] = {
        "(run = %(session)s OR run LIKE %(below)s)": {"session": wanted.session, "below": below},
        "kind = %(kind)s": {"kind": wanted.kind},
        "role = %(role)s": {"role": wanted.role},
        "at >= %(since)s": {"since": wanted.since and to_micros(wanted.since)},
        "at <= %(until)s": {"until": wanted.until and to_micros(wanted.until)},
    }
    used = {text: values for text, values in conditions.items() if next(iter(values.values()))}
    merged = {name: value for values in used.values() for name, value in values.items()}
    return " AND ".join(["NOT gone", *used]), merged


def newest_lines(
    connection: PgConnection, words: str, condition: LineCondition, limit: int
) -> list[int]:
    """Numbers of the matching lines, the newest first."""
    where, values = condition
    match = "words @@ %(words)s::tsquery AND " if words else ""
    sql = f"SELECT seq FROM hermes.line WHERE {match}{where} ORDER BY seq DESC LIMIT %(limit)s"
    found = connection.execute(sql.encode(), {**values, "words": words, "limit": limit})
    return [seq for (seq,) in found]


def count_lines(
    connection: PgConnection, words: str, condition: LineCondition = NO_CONDITION
) -> int:
    """How many lines match. For a common word the planner's estimate: counting costs more."""
    where, values = condition
    sql = f"SELECT 1 FROM hermes.line WHERE words @@ %(words)s::tsquery AND {where}"
    asked = {**values, "words": words}
    plan = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), asked).fetchone()
    assert plan is not None
    parsed = plan[0] if isinstance(plan[0], list) else json.loads(plan[0])
    guess = int(parsed[0]["Plan"]["Plan Rows"])
    if guess >= MAX_COUNTED_LINES:
        return guess
    counted = f"SELECT count(*) FROM ({sql} LIMIT {MAX_COUNTED_LINES}) AS first"
    row = connection.execute(counted.encode(), asked).fetchone()
    return int(row[0]) if row else 0


def estimate_lines(connection: PgConnection, condition: LineCondition = NO_CONDITION) -> int:
    where, values = condition
    sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'hermes.line'::regclass"
    if values or (guess := connection.execute(sql).fetchone() or (0,))[0] < MAX_COUNTED_LINES:
        counted = f"SELECT count(*) FROM hermes.line WHERE {where}"
        guess = connection.execute(counted.encode(), values).fetchone() or (0,)
    return int(guess[0])


def lines_by_weight(
    connection: PgConnection, tsqueries: Sequence[str], condition: LineCondition, limit: int
) -> list[tuple[int, float]]:
    """Lines with any of these words, those with the most and rarest first.

    Very common words are only used while there are few candidates.
    """
    lines = estimate_lines(connection)
    counted = sorted(
        (count_lines(connection, tsquery, condition), tsquery)
        for tsquery in dict.fromkeys(tsqueries)
    )
    total: dict[int, float] = {}
    postings_left = MAX_POSTINGS
    for found, tsquery in counted:
        if not found or (postings_left < found and total):
            continue
        weight = rarity_weight(found, lines)
        postings = newest_lines(
            connection, tsquery, condition, min(found, max(postings_left, limit))
        )
        for seq in postings:
            total[seq] = total.get(seq, 0.0) + weight
        postings_left -= len(postings)
    best = heapq.nlargest(limit, ((score, seq) for seq, score in total.items()))
    return [(seq, score) for score, seq in best]


def nearby_lines(
    connection: PgConnection, seqs: Sequence[int], reach: int
) -> dict[int, tuple[str, int, int | None]]:
    """Run, position and last confirmation of those lines and of the lines near them."""
    found = connection.execute(
        "SELECT DISTINCT near.seq, near.run, near.position, near.confirmed "
        "FROM hermes.line asked JOIN hermes.line near ON near.run = asked.run "
        "AND near.position BETWEEN asked.position - %(reach)s AND asked.position + %(reach)s "
        "WHERE asked.seq = ANY(%(seqs)s) AND near.ended IS NULL AND NOT near.gone",
        {"seqs": list(seqs), "reach": reach},
    )
    return {seq: (run, position, confirmed) for seq, run, position, confirmed in found}


MAX_RANKED_LINES = 120
"""Lines with all the words that are read and ranked; the newest of them."""


def search_lines(
    connection: PgConnection, text_search: TextSearchSyntax, wanted: SessionQuery
) -> SearchResults:
    query, narrow = parse_query(wanted.words), search_condition(wanted)
    service = parse_term(wanted.service)
    also = [] if service is None else [service]
    ranked = _lines_with_all_words(connection, text_search, query, also, narrow)
    some = partial(_lines_with_some_words, connection, text_search, query, also, narrow)
    return build_hits(query, wanted.limit, ranked, some, partial(_neighbours, connection))


def read_events(connection: PgConnection, seqs: Iterable[int]) -> dict[int, Event | UnknownEvent]:
    """Damaged or deleted events are left out."""
    rows = connection.execute(
        "SELECT seq, at, run, kind, body FROM hermes.event WHERE seq = ANY(%s) "
        "AND body IS NOT NULL",
        (list(seqs),),
    )
    found: dict[int, Event | UnknownEvent] = {}
    for seq, at, run, kind, body in rows:
        try:
            found[seq] = read_event(seq, at, run.encode(), kind.encode(), body.encode())
        except StoreCorrupt:
            continue
    return found


def read_lines(connection: PgConnection, seqs: Iterable[int]) -> dict[int, TranscriptLine]:
    events = read_events(connection, seqs)
    lines = ((seq, line_from_event(seq, event)) for seq, event in events.items())
    return {seq: line for seq, line in lines if line is not None}


def _lines_with_all_words(
    connection: PgConnection,
    text_search: TextSearchSyntax,
    query: SearchQuery,
    extra_terms: Sequence[QueryTerm],
    condition: LineCondition,
) -> RankedLines:
    words = text_search.tsquery(query, *extra_terms)
    if not query.required:  # only filters: the newest lines
        if not extra_terms and condition == NO_CONDITION:
            return []
        seqs = newest_lines(connection, words, condition, MAX_HITS)
        lines = read_lines(connection, seqs)
        return [(lines[seq], 0.0) for seq in seqs if seq in lines]
    seqs = newest_lines(connection, words, condition, MAX_RANKED_LINES)
    now, total = datetime.now(UTC), estimate_lines(connection)
    weights = {
        term: rarity_weight(count_lines(connection, text_search.tsquery_term(term)), total)
        if query.terms[1:]
        else 1.0
        for term in query.terms
    }
    scored = [
        (line, score_line(line, weights, now)) for line in read_lines(connection, seqs).values()
    ]
    return sorted(scored, key=lambda each: (-each[1], -each[0].seq))


def _lines_with_some_words(
    connection: PgConnection,
    text_search: TextSearchSyntax,
    query: SearchQuery,
    extra_terms: Sequence[QueryTerm],
    condition: LineCondition,
    limit: int,
) -> RankedLines:
    """Part of the words, or the same error with other numbers in it."""
    tsqueries = [text_search.tsquery_term(term, TEXT_WEIGHTS) for term in query.terms]
    tsqueries += [f"'{error_token(each)}'" for each in query.signatures]
    more = [
        *(text_search.tsquery_term(term) for term in extra_terms),
        *text_search.exclusions(query),
    ]
    tsqueries = [" & ".join([tsquery, *more]) for tsquery in tsqueries]
    found = lines_by_weight(connection, tsqueries, condition, limit)
    lines = read_lines(connection, [seq for seq, _ in found])
    return [(lines[seq], points) for seq, points in found if seq in lines]


def _neighbours(connection: PgConnection, seqs: Sequence[int]) -> NeighbourLines:
    near = nearby_lines(connection, seqs, 1)
    lines = read_lines(connection, near)
    at = {(run, position): lines.get(seq) for seq, (run, position, _) in near.items()}
    return {
        seq: (at.get((run, position - 1)), at.get((run, position + 1)))
        for seq, (run, position, _) in near.items()
    }


Answer = TypeVar("Answer")
IndexQuery = Callable[[PgConnection, TextSearchSyntax], Answer]
INDEX_TIMEOUT_S = 2.0
"""Seconds that a query may wait for events that are not indexed yet."""


class PostgresSearch:
    """Fulfils `core.knowledge.SearchesSessions`."""

    def __init__(self, url: str, *, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._connection: PgConnection | None = None
        self._text_search = TextSearchSyntax()
        self._lock = Lock()
        self._unindexed_events = 0

    async def search(self, wanted: SessionQuery) -> SearchResults:
        found = await self.ask(partial(search_lines, wanted=wanted))
        return replace(found, notices=self.notices)

    @property
    def notices(self) -> tuple[str, ...]:
        if not self._unindexed_events:
            return ()
        return (f"{self._unindexed_events:,} newer events are not indexed yet",)

    async def ask(
        self, question: IndexQuery[Answer], *, seconds: float | None = INDEX_TIMEOUT_S
    ) -> Answer:
        """Bring the index up to date, then answer from it."""
        return await anyio.to_thread.run_sync(partial(self.ask_blocking, question, seconds=seconds))

    async def catch_up(
        self, *, seconds: float | None = None, progress: IndexProgress | None = None
    ) -> None:
        work = partial(self.ask_blocking, _no_query, seconds=seconds, progress=progress)
        await anyio.to_thread.run_sync(work)

    def ask_blocking(
        self,
        question: IndexQuery[Answer],
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
    ) -> Answer:
        """The same without an event loop."""
        with self._lock, translate_errors(self._url):
            try:
                return self._ask_connected(question, seconds, progress)
            except psycopg.OperationalError:
                if self._connection is not None and not self._connection.closed:
                    raise
                self._connection = None  # lost since the last query: once more on a new one
                return self._ask_connected(question, seconds, progress)

    def rebuild(self, progress: IndexProgress | None = None) -> None:
        """Delete the index and build it again."""
        self.ask_blocking(lambda connection, _: reset_index(connection), seconds=0)
        self.ask_blocking(_no_query, progress=progress)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask_connected(
        self, question: IndexQuery[Answer], seconds: float | None, progress: IndexProgress | None
    ) -> Answer:
        if self._connection is None:
            self._connection = connect(self._url, timeout_s=self._timeout_s)
            if not index_matches_journal(self._connection):
                reset_index(self._connection)
        self._unindexed_events = catch_up(
            self._connection, self._text_search, seconds=seconds, progress=progress
        )
        return question(self._connection, self._text_search)


def _no_query(connection: PgConnection, text_search: TextSearchSyntax) -> None:
    """For callers that only need the index to be up to date."""
