"""Indexes new events, and updates lines that later events delete, forget or confirm."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import apsw

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
from hermes.memory.journal.reading import PURGED_SQL
from hermes.memory.journal.rows import decompress_body, read_event, to_micros
from hermes.memory.journal.sqlite_file import write_transaction
from hermes.memory.search.index_file import IndexUnusable
from hermes.memory.search.indexable_text import is_indexed_kind, line_from_event
from hermes.memory.search.text_analysis import index_columns, quoted_mark

LINE_UPDATE_KINDS = frozenset(
    {
        "run.deleted",
        "message.forgotten",
        "memory.forgotten",
        "memory.confirmed",
        "memory.ended",
    }
)


def apply_line_update(index: apsw.Connection, event: Event | UnknownEvent) -> None:
    match event:
        case RunDeleted(run=run):
            # Kept as a session without lines: later events in it are not found either.
            index.execute(
                "INSERT INTO session(run, lines, gone) VALUES(?, 0, 1) "
                "ON CONFLICT(run) DO UPDATE SET gone = 1",
                (run,),
            )
            index.execute(
                "INSERT OR IGNORE INTO gone SELECT seq FROM line "
                "JOIN session ON session.id = line.session WHERE session.run = ?",
                (run,),
            )
        case MessageForgotten(seq=seq):
            index.execute("INSERT OR IGNORE INTO gone VALUES(?)", (seq,))
        case FactForgotten(fact=fact):
            for seq in _fact_lines(index, fact):
                index.execute("INSERT OR IGNORE INTO gone VALUES(?)", (seq,))
        case FactConfirmed(fact=fact):
            at = to_micros(event.seen_at or event.at) // 1_000_000
            for seq in _fact_lines(index, fact):
                index.execute(
                    "INSERT INTO fate(seq, confirmed) VALUES(?, ?) ON CONFLICT DO UPDATE SET "
                    "confirmed = max(coalesce(confirmed, 0), excluded.confirmed)",
                    (seq, at),
                )
        case FactEnded(fact=fact):
            for seq in _fact_lines(index, fact):
                index.execute(
                    "INSERT INTO fate(seq, ended) VALUES(?, ?) "
                    "ON CONFLICT DO UPDATE SET ended = excluded.ended",
                    (seq, to_micros(event.at) // 1_000_000),
                )
        case _:
            pass


def _fact_lines(index: apsw.Connection, fact: str) -> list[int]:
    sql = "SELECT rowid FROM words WHERE words MATCH ?"
    return [seq for (seq,) in index.execute(sql, (quoted_mark("fact", fact),))]


INDEX_BATCH_EVENTS = 1000
"""Events of one transaction: other indexing processes wait for it."""
IndexProgress = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do."""


def catch_up(
    index: apsw.Connection,
    journal: apsw.Connection,
    *,
    seconds: float | None = None,
    progress: IndexProgress | None = None,
) -> int:
    """Index new events. Returns how many events are still missing when the time was over.

    Raises `IndexUnusable` when it was made from another journal.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    newest = journal.execute("SELECT max(seq) FROM event").get or 0
    _check_same_journal(index, journal)
    while (upto := indexed_up_to(index)) < newest:
        if deadline is not None and time.monotonic() > deadline:
            return int(newest - upto)
        _index_batch(index, journal)
        if progress is not None:
            progress(indexed_up_to(index), newest)
    return 0


def indexed_up_to(index: apsw.Connection) -> int:
    return int(index.execute("SELECT upto FROM state").get)


def _check_same_journal(index: apsw.Connection, journal: apsw.Connection) -> None:
    upto, digest = index.execute("SELECT upto, digest FROM state").get
    if not upto:
        return
    found = journal.execute("SELECT CAST(digest AS BLOB) FROM event WHERE seq = ?", (upto,)).get
    if found != digest:
        raise IndexUnusable("it was made from another journal")


def _index_batch(index: apsw.Connection, journal: apsw.Connection) -> None:
    with write_transaction(index):
        upto = indexed_up_to(index)  # again: another process may have been faster
        rows: list[Any] = journal.execute(
            f"SELECT seq, at, CAST(run AS BLOB), CAST(kind AS BLOB), {PURGED_SQL}, "
            "CAST(body AS BLOB), CAST(digest AS BLOB) "
            f"FROM event WHERE seq > ? ORDER BY seq LIMIT {INDEX_BATCH_EVENTS}",
            (upto,),
        ).fetchall()
        if rows:
            batch = SqliteIndexBatch(index)
            for seq, at, run, kind, purged, body, _ in rows:
                if not purged:
                    batch.add_event(seq, at, run, kind, body)
            batch.write()
            index.execute("UPDATE state SET upto = ?, digest = ?", (rows[-1][0], rows[-1][-1]))


@dataclass
class IndexedSession:
    id: int
    lines: int
    deleted: bool


@dataclass
class SqliteIndexBatch:
    """The lines of one transaction, collected and then written table by table."""

    index: apsw.Connection
    sessions: dict[str, IndexedSession] = field(default_factory=dict)
    words: list[tuple[Any, ...]] = field(default_factory=list)
    lines: list[tuple[int, int, int, int]] = field(default_factory=list)
    days: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add_event(self, seq: int, at: int, run: bytes, kind: bytes, body: bytes) -> None:
        name = kind.decode(errors="replace")
        if name not in LINE_UPDATE_KINDS and not is_indexed_kind(name):
            return
        try:
            event = read_event(seq, at, run, kind, decompress_body(body))
        except StoreCorrupt:
            return  # `hermes journal verify` reports it; intact events can still be found
        if name in LINE_UPDATE_KINDS:
            self.write()  # it may refer to an event in this batch
            apply_line_update(self.index, event)
            self.sessions.clear()
        else:
            self._add_line(seq, event, at // 1_000_000)

    def _add_line(self, seq: int, event: Event | UnknownEvent, second: int) -> None:
        line = line_from_event(seq, event)
        if line is None:
            return
        session = self._session(line.run)
        if session.deleted:
            return
        fact = event.fact if isinstance(event, FactNoted) else ""
        self.words.append((seq, *index_columns(line, fact=fact)))
        self.lines.append((seq, session.id, session.lines, second))
        session.lines += 1
        first, last = self.days.get(second // 86400, (seq, seq))
        self.days[second // 86400] = min(first, seq), max(last, seq)

    def _session(self, run: str) -> IndexedSession:
        found = self.sessions.get(run)
        if found is None:
            sql = "SELECT id, lines, gone FROM session WHERE run = ?"
            row = self.index.execute(sql, (run,)).get
            if row is None:
                self.index.execute("INSERT INTO session(run, lines) VALUES(?, 0)", (run,))
                row = (self.index.last_insert_rowid(), 0, 0)
            found = self.sessions[run] = IndexedSession(row[0], row[1], bool(row[2]))
        return found

    def write(self) -> None:
        _insert_rows(self.index, "words(rowid, body, facts, about) VALUES(?, ?, ?, ?)", self.words)
        _insert_rows(self.index, "line VALUES(?, ?, ?, ?)", self.lines)
        _insert_rows(
            self.index,
            "day VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET "
            "first = min(first, excluded.first), last = max(last, excluded.last)",
            [(day, *bounds) for day, bounds in self.days.items()],
        )
        self.index.executemany(
            "UPDATE session SET lines = ? WHERE id = ?",
            [(session.lines, session.id) for session in self.sessions.values()],
        )
        self.index.execute("UPDATE state SET lines = lines + ?", (len(self.lines),))
        self.words, self.lines, self.days = [], [], {}


def _insert_rows(index: apsw.Connection, what: str, rows: Iterable[tuple[Any, ...]]) -> None:
    index.executemany(f"INSERT INTO {what}", rows)
