"""The lines in PostgreSQL: indexes new events, and answers queries in limited time.

Words are split and stemmed by us, so that both stores agree.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, TypeVar

import psycopg

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import FactConfirmed, FactEnded, FactForgotten, MessageForgotten
from hermes.core.events.runs import RunDeleted
from hermes.core.knowledge import TranscriptLine
from hermes.memory.journal.rows import from_micros, read_event, to_micros
from hermes.memory.postgres.connection import (
    SERVER_TIMEOUT_S,
    PgConnection,
    connect,
    translate_errors,
)
from hermes.memory.search.indexable_text import is_read_by_index
from hermes.memory.search.line_index import (
    INDEX_BATCH_EVENTS,
    MAX_COUNTED_LINES,
    IndexBatch,
    IndexProgress,
    LineFilter,
    LineIndex,
    LinePosition,
    Needle,
)
from hermes.memory.search.line_search import IndexedSearch, no_query
from hermes.memory.search.text_analysis import (
    Stemmer,
    error_signatures,
    searchable_words,
    split_compounds,
    truncate_for_index,
)

_TEXT_WEIGHTS = "AB"
"""The weights of spoken text, without dates and errors."""
_WORD = re.compile(r"[^\W_]+")
_MAX_WORD_CHARS = 200
"""Letters of a word; PostgreSQL refuses one of two thousand."""
_MAX_POSITIONS = 16_000
"""Positions that a tsvector can tell apart: later phrases are not found."""
INDEX_VERSION = 1
"""Version of the words in the tables: a change of the rules raises it, and the index is rebuilt."""


class TextSearchSyntax:
    def __init__(self) -> None:
        self._stemmer = Stemmer()

    def tsvector(self, line: TranscriptLine) -> str:
        """The literal of a tsvector: A the text, B identifiers and speaker, D dates and errors."""
        text = truncate_for_index(line.text)
        identifiers = [searchable_words(line.speaker), *split_compounds(text)]
        positions: dict[str, list[str]] = {}
        last = self._add_positions(positions, self._stems(searchable_words(text)), "A", 1)
        last = self._add_positions(positions, self._stems("\n".join(identifiers)), "B", last + 2)
        about = [*self._stems(f"{line.at:%Y-%m-%d %B}"), *map(_error_token, error_signatures(text))]
        self._add_positions(positions, about, "D", last + 2)
        return " ".join(f"'{word}':{','.join(at[:250])}" for word, at in positions.items())

    def tsquery(self, groups: Sequence[Sequence[Needle]], narrow: LineFilter) -> str:
        """One needle of each group and no excluded term; empty when nothing is required."""
        weights = "" if narrow.anywhere else _TEXT_WEIGHTS
        needed = [
            f"({' | '.join(self._needle(each, weights) for each in group)})" for group in groups
        ]
        if narrow.service is not None:
            needed.append(self._needle(narrow.service))
        needed += [f"!({self._needle(term, _TEXT_WEIGHTS)})" for term in narrow.excluded]
        return " & ".join(needed)

    def _needle(self, needle: Needle, weights: str = "") -> str:
        if isinstance(needle, str):
            return f"'{_error_token(needle)}'"
        own = self._phrase(needle.words, weights, is_prefix=needle.is_prefix)
        if not needle.alternative:
            return own
        return f"({own} | {self._phrase(needle.alternative, weights)})"

    def _phrase(self, words: Sequence[str], weights: str, *, is_prefix: bool = False) -> str:
        marks = [weights] * len(words)
        if is_prefix:
            marks[-1] = "*" + weights
        parts = (
            f"'{self._stem(word)}'" + (f":{mark}" if mark else "")
            for word, mark in zip(words, marks, strict=True)
        )
        return "(" + " <-> ".join(parts) + ")"

    def _stems(self, text: str) -> Iterator[str]:
        return (self._stem(word) for word in _WORD.findall(text))

    def _stem(self, word: str) -> str:
        return self._stemmer.stem(word.lower()[:_MAX_WORD_CHARS])

    def _add_positions(
        self, positions: dict[str, list[str]], words: Iterable[str], weight: str, first: int
    ) -> int:
        at = first
        for at, word in enumerate(words, start=first):
            positions.setdefault(word, []).append(f"{min(at, _MAX_POSITIONS)}{weight}")
        return at


def _error_token(signature: str) -> str:
    """A word that no text contains."""
    return f"error={signature}"


def filter_condition(narrow: LineFilter) -> tuple[str, dict[str, Any]]:
    """The condition on the columns of a line, and its values."""
    below = narrow.session.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "/%"
    conditions: dict[str, dict[str, Any]] = {
        "(run = %(session)s OR run LIKE %(below)s)": {"session": narrow.session, "below": below},
        "kind = %(kind)s": {"kind": narrow.kind},
        "role = %(role)s": {"role": narrow.role},
        "at >= %(since)s": {"since": narrow.since and to_micros(narrow.since)},
        "at <= %(until)s": {"until": narrow.until and to_micros(narrow.until)},
    }
    used = {text: values for text, values in conditions.items() if next(iter(values.values()))}
    merged = {name: value for values in used.values() for name, value in values.items()}
    return " AND ".join(["NOT gone", *used]), merged


class PostgresLineIndex(LineIndex):
    def __init__(self, connection: PgConnection, text_search: TextSearchSyntax) -> None:
        self.connection = connection
        self._text_search = text_search

    def newest_event(self) -> int:
        return self._query_int("SELECT last FROM hermes.head")

    def indexed_up_to(self) -> int:
        return self._query_int("SELECT upto FROM hermes.searched")

    def index_batch(self) -> None:
        with self.connection.transaction():
            upto = self._query_int("SELECT upto FROM hermes.searched FOR UPDATE")
            rows = self.connection.execute(
                "SELECT seq, at, run, kind, body, digest FROM hermes.event WHERE seq > %s "
                "ORDER BY seq LIMIT %s",
                (upto, INDEX_BATCH_EVENTS),
            ).fetchall()
            if not rows:
                # Numbers after a salvage's gap were assigned, and there is nothing to read.
                sql = "UPDATE hermes.searched SET upto = (SELECT last FROM hermes.head)"
                self.connection.execute(sql)
                return
            batch = PostgresIndexBatch(self.connection, self._text_search)
            for seq, at, run, kind, body, _ in rows:
                if body is not None and is_read_by_index(kind):
                    batch.add_event(seq, at, run.encode(), kind, body.encode())
            batch.write()
            self.connection.execute(
                "UPDATE hermes.searched SET upto = %s, digest = %s", (rows[-1][0], rows[-1][5])
            )

    def reset(self) -> None:
        with self.connection.transaction():
            self.connection.execute("TRUNCATE hermes.line, hermes.gone_run")
            self.connection.execute(
                "UPDATE hermes.searched SET upto = 0, digest = '', shape = %s", (INDEX_VERSION,)
            )

    def matches_journal(self) -> bool:
        """Return False when it was made from another journal, or by another version."""
        row = self.connection.execute(
            "SELECT shape = %s AND (upto = 0 OR upto > (SELECT coalesce(max(seq), 0)"
            " FROM hermes.event) OR digest = (SELECT digest FROM hermes.event WHERE seq = upto))"
            " FROM hermes.searched",
            (INDEX_VERSION,),
        ).fetchone()
        return bool(row and row[0])

    def count_lines(self, session: str = "") -> int:
        sql = "SELECT reltuples::bigint FROM pg_class WHERE oid = 'hermes.line'::regclass"
        if not session and (guess := self._query_int(sql)) >= MAX_COUNTED_LINES:
            return guess
        where, values = filter_condition(LineFilter(session))
        return self._query_int(f"SELECT count(*) FROM hermes.line WHERE {where}", values)

    def count(self, needle: Needle, narrow: LineFilter) -> int:
        """For a common word the planner's estimate: counting costs more."""
        where, values = self._where([[needle]], narrow._replace(since=None, until=None))
        sql = f"SELECT 1 FROM hermes.line WHERE {where}"
        plan = self.connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), values).fetchone()
        assert plan is not None
        parsed = plan[0] if isinstance(plan[0], list) else json.loads(plan[0])
        guess = int(parsed[0]["Plan"]["Plan Rows"])
        if guess >= MAX_COUNTED_LINES:
            return guess
        counted = f"SELECT count(*) FROM ({sql} LIMIT {MAX_COUNTED_LINES}) AS first"
        return self._query_int(counted, values)

    def newest(
        self, groups: Sequence[Sequence[Needle]], narrow: LineFilter, limit: int
    ) -> list[int]:
        where, values = self._where(groups, narrow)
        sql = f"SELECT seq FROM hermes.line WHERE {where} ORDER BY seq DESC LIMIT %(limit)s"
        return [seq for (seq,) in self.connection.execute(sql.encode(), {**values, "limit": limit})]

    def read_events(self, seqs: Iterable[int]) -> dict[int, Event | UnknownEvent]:
        rows = self.connection.execute(
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

    def nearby(self, seqs: Iterable[int], reach: int) -> dict[int, LinePosition]:
        found = self.connection.execute(
            "SELECT DISTINCT near.seq, near.position, near.confirmed, near.ended "
            "FROM hermes.line asked JOIN hermes.line near ON near.run = asked.run "
            "AND near.position BETWEEN asked.position - %(reach)s AND asked.position + %(reach)s "
            "WHERE asked.seq = ANY(%(seqs)s) AND NOT near.gone",
            {"seqs": list(seqs), "reach": reach},
        )
        return {
            seq: LinePosition(
                position, None if confirmed is None else from_micros(confirmed), ended is not None
            )
            for seq, position, confirmed, ended in found
        }

    def _where(
        self, groups: Sequence[Sequence[Needle]], narrow: LineFilter
    ) -> tuple[str, dict[str, Any]]:
        where, values = filter_condition(narrow)
        if words := self._text_search.tsquery(groups, narrow):
            where = f"words @@ %(words)s::tsquery AND {where}"
        return where, {**values, "words": words}

    def _query_int(self, sql: str, values: Any = ()) -> int:
        row = self.connection.execute(sql.encode(), values).fetchone()
        return int(row[0]) if row else 0


class PostgresIndexBatch(IndexBatch):
    def __init__(self, connection: PgConnection, text_search: TextSearchSyntax) -> None:
        self._connection = connection
        self._text_search = text_search
        self._positions: dict[str, int | None] = {}
        """Run → its next position; None when it was deleted."""
        self._lines: list[tuple[Any, ...]] = []

    def add_line(self, line: TranscriptLine, fact: str) -> None:
        position = self._position(line.run)
        if position is None:
            return
        at, words = to_micros(line.at), self._text_search.tsvector(line)
        self._lines.append((line.seq, line.run, position, at, line.kind, line.role, fact, words))
        self._positions[line.run] = position + 1

    def _position(self, run: str) -> int | None:
        if run not in self._positions:
            row = self._connection.execute(
                "SELECT EXISTS (SELECT 1 FROM hermes.gone_run WHERE run = %(run)s), "
                "(SELECT coalesce(max(position), -1) + 1 FROM hermes.line WHERE run = %(run)s)",
                {"run": run},
            ).fetchone()
            assert row is not None
            self._positions[run] = None if row[0] else row[1]
        return self._positions[run]

    def write(self) -> None:
        copy = "COPY hermes.line(seq, run, position, at, kind, role, fact, words) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(copy) as target:
            for line in self._lines:
                target.write_row(line)
        self._lines = []

    def apply_update(self, event: Event | UnknownEvent) -> None:
        self._positions.clear()
        gone = b"UPDATE hermes.line SET gone = true, words = '' WHERE "
        match event:
            case RunDeleted(run=run):
                self._connection.execute(
                    "INSERT INTO hermes.gone_run VALUES (%s) ON CONFLICT DO NOTHING", (run,)
                )
                self._connection.execute(gone + b"run = %s", (run,))
            case MessageForgotten(seq=seq):
                self._connection.execute(gone + b"seq = %s", (seq,))
            case FactForgotten(fact=fact):
                self._connection.execute(gone + b"fact = %s AND fact <> ''", (fact,))
            case FactConfirmed(fact=fact):
                self._connection.execute(
                    "UPDATE hermes.line SET confirmed = greatest(confirmed, %s) WHERE fact = %s",
                    (to_micros(event.seen_at or event.at), fact),
                )
            case FactEnded(fact=fact):
                self._connection.execute(
                    "UPDATE hermes.line SET ended = %s WHERE fact = %s", (to_micros(event.at), fact)
                )
            case _:
                pass


Answer = TypeVar("Answer")


class PostgresSearch(IndexedSearch):
    def __init__(self, url: str, *, timeout_s: float = SERVER_TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._connection: PgConnection | None = None
        self._text_search = TextSearchSyntax()
        self._lock = Lock()
        self._unindexed_events = 0

    @property
    def notices(self) -> tuple[str, ...]:
        if not self._unindexed_events:
            return ()
        return (f"{self._unindexed_events:,} newer events are not indexed yet",)

    def ask_blocking(
        self,
        question: Callable[[PostgresLineIndex], Answer],
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
    ) -> Answer:
        with self._lock, translate_errors(self._url):
            try:
                return self._ask_connected(question, seconds, progress)
            except psycopg.OperationalError:
                if self._connection is not None and not self._connection.closed:
                    raise
                self._connection = None  # lost since the last query: once more on a new one
                return self._ask_connected(question, seconds, progress)

    def rebuild(self, progress: IndexProgress | None = None) -> None:
        self.ask_blocking(PostgresLineIndex.reset, seconds=0)
        self.ask_blocking(no_query, progress=progress)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask_connected(
        self,
        question: Callable[[PostgresLineIndex], Answer],
        seconds: float | None,
        progress: IndexProgress | None,
    ) -> Answer:
        is_new = self._connection is None
        if self._connection is None:
            self._connection = connect(self._url, timeout_s=self._timeout_s)
        index = PostgresLineIndex(self._connection, self._text_search)
        if is_new and not index.matches_journal():
            index.reset()
        self._unindexed_events = index.catch_up(seconds, progress)
        return question(index)
