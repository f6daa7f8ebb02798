"""The text index in PostgreSQL; words are split and stemmed by us, so that both stores agree."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    MessageForgotten,
)
from hermes.core.events.runs import RunDeleted
from hermes.core.knowledge import TranscriptLine
from hermes.memory.journal.rows import read_event, to_micros
from hermes.memory.search.indexable_text import is_indexed_kind, line_from_event
from hermes.memory.search.indexing import LINE_UPDATE_KINDS
from hermes.memory.search.query import QueryTerm, SearchQuery
from hermes.memory.search.stemming import Stemmer
from hermes.memory.search.text_analysis import (
    error_signatures,
    searchable_words,
    split_compounds,
    truncate_for_index,
)

TEXT_WEIGHTS = "AB"
"""The weights of spoken text, without dates and errors."""
_WORD = re.compile(r"[^\W_]+")
_MAX_WORD_CHARS = 200
"""Letters of a word; PostgreSQL refuses one of two thousand."""
_MAX_POSITIONS = 16_000
"""Positions that a tsvector can tell apart: later phrases are not found."""


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
        about = [*self._stems(f"{line.at:%Y-%m-%d %B}"), *map(error_token, error_signatures(text))]
        self._add_positions(positions, about, "D", last + 2)
        return " ".join(f"'{word}':{','.join(at[:250])}" for word, at in positions.items())

    def tsquery_term(self, term: QueryTerm, weights: str = "") -> str:
        """The text of a tsquery for one term."""
        own = self._phrase(term.words, weights, begins=term.is_prefix)
        return f"({own} | {self._phrase(term.alternative, weights)})" if term.alternative else own

    def tsquery(self, query: SearchQuery, *also: QueryTerm) -> str:
        """All required terms and no excluded one; empty when nothing is required."""
        groups = [
            "(" + " | ".join(self.tsquery_term(term, TEXT_WEIGHTS) for term in group) + ")"
            for group in query.required
        ]
        groups += [self.tsquery_term(term) for term in also]
        return " & ".join([*groups, *self.exclusions(query)])

    def exclusions(self, query: SearchQuery) -> list[str]:
        return [f"!({self.tsquery_term(term)})" for term in query.excluded]

    def _phrase(self, words: Sequence[str], weights: str, *, begins: bool = False) -> str:
        stems = [self._stem(word) for word in words]
        marks = [weights] * len(stems)
        if begins:
            marks[-1] = "*" + weights
        parts = (
            f"'{stem}'" + (f":{mark}" if mark else "")
            for stem, mark in zip(stems, marks, strict=True)
        )
        return "(" + " <-> ".join(parts) + ")"

    def _stems(self, text: str) -> Iterator[str]:
        return (self._stem(word) for word in _WORD.findall(text))

    def _stem(self, word: str) -> str:
        return self._stemmer.stem(word.lower()[:_MAX_WORD_CHARS])

    def _add_positions(
        self,
        positions: dict[str, list[str]],
        words: Iterator[str] | list[str],
        weight: str,
        first: int,
    ) -> int:
        at = first
        for at, word in enumerate(words, start=first):
            positions.setdefault(word, []).append(f"{min(at, _MAX_POSITIONS)}{weight}")
        return at


def error_token(signature: str) -> str:
    """A word that no text contains."""
    return f"error={signature}"


INDEX_BATCH_EVENTS = 1000
"""Events of one transaction: other indexing processes wait for it."""
INDEX_VERSION = 1
"""Version of the words in the tables: a change of the rules raises it, and the index is rebuilt."""
IndexProgress = Callable[[int, int], None]
PgConnection = psycopg.Connection[Any]


def catch_up(
    connection: PgConnection,
    text_search: TextSearchSyntax,
    *,
    seconds: float | None = None,
    progress: IndexProgress | None = None,
) -> int:
    """Index new events. Returns how many events are still missing when the time was over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    newest = _query_int(connection, "SELECT last FROM hermes.head")
    while (upto := _query_int(connection, "SELECT upto FROM hermes.searched")) < newest:
        if deadline is not None and time.monotonic() > deadline:
            return int(newest - upto)
        _index_batch(connection, text_search)
        if progress is not None:
            progress(_query_int(connection, "SELECT upto FROM hermes.searched"), newest)
    return 0


def reset_index(connection: PgConnection) -> None:
    with connection.transaction():
        connection.execute("TRUNCATE hermes.line, hermes.gone_run")
        connection.execute(
            "UPDATE hermes.searched SET upto = 0, digest = '', shape = %s", (INDEX_VERSION,)
        )


def index_matches_journal(connection: PgConnection) -> bool:
    """False when it was made from another journal, or by another version."""
    row = connection.execute(
        "SELECT shape = %s AND (upto = 0 OR upto > (SELECT coalesce(max(seq), 0) FROM hermes.event)"
        " OR digest = (SELECT digest FROM hermes.event WHERE seq = upto)) FROM hermes.searched",
        (INDEX_VERSION,),
    ).fetchone()
    return bool(row and row[0])


def _index_batch(connection: PgConnection, text_search: TextSearchSyntax) -> None:
    with connection.transaction():
        upto = _query_int(connection, "SELECT upto FROM hermes.searched FOR UPDATE")
        rows = connection.execute(
            "SELECT seq, at, run, kind, body, digest FROM hermes.event WHERE seq > %s "
            "ORDER BY seq LIMIT %s",
            (upto, INDEX_BATCH_EVENTS),
        ).fetchall()
        if not rows:
            # Numbers after a salvage's gap were assigned, and there is nothing to read.
            connection.execute("UPDATE hermes.searched SET upto = (SELECT last FROM hermes.head)")
            return
        batch = PostgresIndexBatch(connection, text_search)
        for seq, at, run, kind, body, _ in rows:
            if body is not None:
                batch.add_event(seq, at, run, kind, body)
        batch.write()
        connection.execute(
            "UPDATE hermes.searched SET upto = %s, digest = %s", (rows[-1][0], rows[-1][5])
        )


@dataclass
class PostgresIndexBatch:
    """The lines of one transaction, collected and then written at once."""

    connection: PgConnection
    text_search: TextSearchSyntax
    positions: dict[str, int | None] = field(default_factory=dict)
    """Run → its next position; None when it was deleted."""
    lines: list[tuple[Any, ...]] = field(default_factory=list)

    def add_event(self, seq: int, at: int, run: str, kind: str, body: str) -> None:
        if kind not in LINE_UPDATE_KINDS and not is_indexed_kind(kind):
            return
        try:
            event = read_event(seq, at, run.encode(), kind.encode(), body.encode())
        except StoreCorrupt:
            return  # `hermes journal verify` reports it; intact events can still be found
        if kind in LINE_UPDATE_KINDS:
            self.write()  # it may refer to an event in this batch
            apply_line_update(self.connection, event)
            self.positions.clear()
        else:
            self._add_line(seq, at, event)

    def _add_line(self, seq: int, at: int, event: Event | UnknownEvent) -> None:
        line = line_from_event(seq, event)
        if line is None or (position := self._position(line.run)) is None:
            return
        fact = event.fact if isinstance(event, FactNoted) else ""
        words = self.text_search.tsvector(line)
        self.lines.append((seq, line.run, position, at, line.kind, line.role, fact, words))
        self.positions[line.run] = position + 1

    def _position(self, run: str) -> int | None:
        if run not in self.positions:
            row = self.connection.execute(
                "SELECT EXISTS (SELECT 1 FROM hermes.gone_run WHERE run = %(run)s), "
                "(SELECT coalesce(max(position), -1) + 1 FROM hermes.line WHERE run = %(run)s)",
                {"run": run},
            ).fetchone()
            assert row is not None
            self.positions[run] = None if row[0] else row[1]
        return self.positions[run]

    def write(self) -> None:
        copy = "COPY hermes.line(seq, run, position, at, kind, role, fact, words) FROM STDIN"
        with self.connection.cursor() as cursor, cursor.copy(copy) as target:
            for line in self.lines:
                target.write_row(line)
        self.lines = []


def apply_line_update(connection: PgConnection, event: Event | UnknownEvent) -> None:
    """Applies what later events say about lines: deleted, forgotten, confirmed, ended."""
    gone = b"UPDATE hermes.line SET gone = true, words = '' WHERE "
    match event:
        case RunDeleted(run=run):
            connection.execute(
                "INSERT INTO hermes.gone_run VALUES (%s) ON CONFLICT DO NOTHING", (run,)
            )
            connection.execute(gone + b"run = %s", (run,))
        case MessageForgotten(seq=seq):
            connection.execute(gone + b"seq = %s", (seq,))
        case FactForgotten(fact=fact):
            connection.execute(gone + b"fact = %s AND fact <> ''", (fact,))
        case FactConfirmed(fact=fact):
            connection.execute(
                "UPDATE hermes.line SET confirmed = greatest(confirmed, %s) WHERE fact = %s",
                (to_micros(event.seen_at or event.at), fact),
            )
        case FactEnded(fact=fact):
            connection.execute(
                "UPDATE hermes.line SET ended = %s WHERE fact = %s", (to_micros(event.at), fact)
            )
        case _:
            pass


def _query_int(connection: PgConnection, sql: str, values: Sequence[Any] = ()) -> int:
    row = connection.execute(sql.encode(), values).fetchone()
    return int(row[0]) if row else 0
