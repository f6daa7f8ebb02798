"""The lines of a home in SQLite's full-text index: indexes new events, and answers queries."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import FactConfirmed, FactEnded, FactForgotten, MessageForgotten
from hermes.core.events.runs import RunDeleted
from hermes.core.knowledge import TranscriptLine
from hermes.memory.journal.reading import EVENT_COLUMNS_SQL, PURGED_SQL
from hermes.memory.journal.rows import decompress_body, read_event, to_micros
from hermes.memory.journal.sqlite_file import write_transaction
from hermes.memory.search.indexable_text import is_read_by_index
from hermes.memory.search.line_index import (
    INDEX_BATCH_EVENTS,
    MAX_COUNTED_LINES,
    IndexBatch,
    LineFilter,
    LineIndex,
    LinePosition,
    Needle,
)
from hermes.memory.search.text_analysis import index_columns, quoted_mark, session_mark

_TEXT_COLUMNS = "{body facts} : "
_MAX_SQL_VARIABLES = 500
_SCAN_ROWS = 2000
_FAR_S = 1 << 60
"""Seconds, later than every time and, negative, earlier."""


class IndexUnusable(Exception):
    """The index belongs to another version, another program or another journal."""


class SqliteLineIndex(LineIndex):
    def __init__(self, connection: apsw.Connection, journal: apsw.Connection) -> None:
        self.connection = connection
        self.journal = journal

    def newest_event(self) -> int:
        return self.journal.execute("SELECT max(seq) FROM event").get or 0

    def indexed_up_to(self) -> int:
        return int(self.connection.execute("SELECT upto FROM state").get)

    def check_same_journal(self) -> None:
        """Raises `IndexUnusable` when it was made from another journal."""
        upto, digest = self.connection.execute("SELECT upto, digest FROM state").get
        sql = "SELECT CAST(digest AS BLOB) FROM event WHERE seq = ?"
        if upto and self.journal.execute(sql, (upto,)).get != digest:
            raise IndexUnusable("it was made from another journal")

    def index_batch(self) -> None:
        with write_transaction(self.connection):
            upto = self.indexed_up_to()  # again: another process may have been faster
            rows: list[Any] = self.journal.execute(
                f"SELECT seq, at, CAST(run AS BLOB), CAST(kind AS BLOB), {PURGED_SQL}, "
                "CAST(body AS BLOB), CAST(digest AS BLOB) "
                f"FROM event WHERE seq > ? ORDER BY seq LIMIT {INDEX_BATCH_EVENTS}",
                (upto,),
            ).fetchall()
            if not rows:
                return
            batch = SqliteIndexBatch(self.connection)
            for seq, at, run, kind, purged, body, _ in rows:
                name = kind.decode(errors="replace")
                if not purged and is_read_by_index(name):
                    batch.add_event(seq, at, run, name, decompress_body(body))
            batch.write()
            sql = "UPDATE state SET upto = ?, digest = ?"
            self.connection.execute(sql, (rows[-1][0], rows[-1][-1]))

    def count_lines(self, session: str = "") -> int:
        if not session:
            return int(self.connection.execute("SELECT lines FROM state").get)
        sql = "SELECT lines FROM session WHERE run = ?"
        return int(self.connection.execute(sql, (session,)).get or 0)

    def session_seqs(self, session: str) -> list[int]:
        sql = "SELECT seq FROM line JOIN session ON session.id = line.session WHERE run = ?"
        return [seq for (seq,) in self.connection.execute(sql, (session,))]

    def seqs_after(self, seq: int) -> list[int]:
        """The next lines, a part at a time."""
        sql = f"SELECT seq FROM line WHERE seq > ? ORDER BY seq LIMIT {_SCAN_ROWS}"
        return [found for (found,) in self.connection.execute(sql, (seq,))]

    def count(self, needle: Needle, narrow: LineFilter) -> int:
        sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
        asked = (_expression([[needle]], narrow), MAX_COUNTED_LINES)
        return int(self.connection.execute(sql, asked).get)

    def newest(
        self, groups: Sequence[Sequence[Needle]], narrow: LineFilter, limit: int
    ) -> list[int]:
        times, values = self._time_condition(narrow)
        found = self.connection.execute(
            f"SELECT rowid FROM words WHERE words MATCH ? {times} "
            "AND rowid NOT IN (SELECT seq FROM gone) ORDER BY rowid DESC LIMIT ?",
            (_expression(groups, narrow), *values, limit),
        )
        return [seq for (seq,) in found]

    def _time_condition(self, narrow: LineFilter) -> tuple[str, tuple[int, ...]]:
        """The numbers between which all lines of those days are, and the time itself."""
        if narrow.since is None and narrow.until is None:
            return "", ()
        since = -_FAR_S if narrow.since is None else to_micros(narrow.since) // 1_000_000
        until = _FAR_S if narrow.until is None else to_micros(narrow.until) // 1_000_000
        first, last = self.connection.execute(
            "SELECT min(first), max(last) FROM day WHERE day BETWEEN ? AND ?",
            (since // 86400, until // 86400),
        ).get
        return (
            "AND rowid BETWEEN ? AND ? AND EXISTS("
            "SELECT 1 FROM line WHERE seq = words.rowid AND at BETWEEN ? AND ?)",
            (first or 0, last or 0, since, until),
        )

    def read_events(self, seqs: Iterable[int]) -> dict[int, Event | UnknownEvent]:
        found: dict[int, Event | UnknownEvent] = {}
        wanted = sorted(set(seqs))
        for at in range(0, len(wanted), _MAX_SQL_VARIABLES):
            part = wanted[at : at + _MAX_SQL_VARIABLES]
            marks = ", ".join("?" * len(part))
            sql = f"SELECT seq, {EVENT_COLUMNS_SQL} FROM event WHERE seq IN ({marks})"
            for seq, when, run, kind, purged, body in self.journal.execute(sql, part):
                if not purged:
                    try:
                        found[seq] = read_event(seq, when, run, kind, body)
                    except StoreCorrupt:
                        continue
        return found

    def nearby(self, seqs: Iterable[int], reach: int) -> dict[int, LinePosition]:
        asked = ", ".join(str(int(seq)) for seq in seqs)
        found = self.connection.execute(
            f"WITH asked AS (SELECT session, position FROM line WHERE seq IN ({asked})) "
            "SELECT DISTINCT near.seq, near.position, confirmed, ended FROM asked JOIN line near "
            "ON near.session = asked.session "
            "AND near.position BETWEEN asked.position - ? AND asked.position + ? "
            "LEFT JOIN fate ON fate.seq = near.seq "
            "WHERE near.seq NOT IN (SELECT seq FROM gone)",
            (reach, reach),
        )
        return {
            seq: LinePosition(
                position,
                None if confirmed is None else datetime.fromtimestamp(confirmed, UTC),
                ended is not None,
            )
            for seq, position, confirmed, ended in found
        }


def _expression(groups: Sequence[Sequence[Needle]], narrow: LineFilter) -> str:
    """The query as FTS5 reads it."""
    columns = "" if narrow.anywhere else _TEXT_COLUMNS
    needed = [
        "("
        + " OR ".join(
            quoted_mark("error", each) if isinstance(each, str) else columns + each.expression
            for each in group
        )
        + ")"
        for group in groups
    ]
    if narrow.session:
        needed.append(session_mark(narrow.session))
    if narrow.kind is not None:
        needed.append(quoted_mark("kind", narrow.kind))
    if narrow.role is not None:
        needed.append(quoted_mark("role", narrow.role))
    if narrow.service is not None:
        needed.append(narrow.service.expression)
    expression = " AND ".join(needed)
    for term in narrow.excluded:
        expression = f"({expression}) NOT {_TEXT_COLUMNS}{term.expression}"
    return expression


class IndexedSession(msgspec.Struct):
    id: int
    lines: int
    deleted: bool


class SqliteIndexBatch(IndexBatch):
    """Its lines are written table by table."""

    def __init__(self, index: apsw.Connection) -> None:
        self._index = index
        self._sessions: dict[str, IndexedSession] = {}
        self._words: list[tuple[Any, ...]] = []
        self._lines: list[tuple[int, int, int, int]] = []
        self._days: dict[int, tuple[int, int]] = {}

    def add_line(self, line: TranscriptLine, fact: str) -> None:
        session = self._session(line.run)
        if session.deleted:
            return
        seq, second = line.seq, to_micros(line.at) // 1_000_000
        self._words.append((seq, *index_columns(line, fact=fact)))
        self._lines.append((seq, session.id, session.lines, second))
        session.lines += 1
        first, last = self._days.get(second // 86400, (seq, seq))
        self._days[second // 86400] = min(first, seq), max(last, seq)

    def apply_update(self, event: Event | UnknownEvent) -> None:
        self._sessions.clear()
        match event:
            case RunDeleted(run=run):
                # Kept as a session without lines: later events in it are not found either.
                self._index.execute(
                    "INSERT INTO session(run, lines, gone) VALUES(?, 0, 1) "
                    "ON CONFLICT(run) DO UPDATE SET gone = 1",
                    (run,),
                )
                self._index.execute(
                    "INSERT OR IGNORE INTO gone SELECT seq FROM line "
                    "JOIN session ON session.id = line.session WHERE session.run = ?",
                    (run,),
                )
            case MessageForgotten(seq=seq):
                self._index.execute("INSERT OR IGNORE INTO gone VALUES(?)", (seq,))
            case FactForgotten(fact=fact):
                for seq in self._fact_lines(fact):
                    self._index.execute("INSERT OR IGNORE INTO gone VALUES(?)", (seq,))
            case FactConfirmed(fact=fact):
                at = to_micros(event.seen_at or event.at) // 1_000_000
                for seq in self._fact_lines(fact):
                    self._index.execute(
                        "INSERT INTO fate(seq, confirmed) VALUES(?, ?) ON CONFLICT DO UPDATE SET "
                        "confirmed = max(coalesce(confirmed, 0), excluded.confirmed)",
                        (seq, at),
                    )
            case FactEnded(fact=fact):
                for seq in self._fact_lines(fact):
                    self._index.execute(
                        "INSERT INTO fate(seq, ended) VALUES(?, ?) "
                        "ON CONFLICT DO UPDATE SET ended = excluded.ended",
                        (seq, to_micros(event.at) // 1_000_000),
                    )
            case _:
                pass

    def _fact_lines(self, fact: str) -> list[int]:
        sql = "SELECT rowid FROM words WHERE words MATCH ?"
        return [seq for (seq,) in self._index.execute(sql, (quoted_mark("fact", fact),))]

    def _session(self, run: str) -> IndexedSession:
        found = self._sessions.get(run)
        if found is None:
            sql = "SELECT id, lines, gone FROM session WHERE run = ?"
            row = self._index.execute(sql, (run,)).get
            if row is None:
                self._index.execute("INSERT INTO session(run, lines) VALUES(?, 0)", (run,))
                row = (self._index.last_insert_rowid(), 0, 0)
            found = self._sessions[run] = IndexedSession(row[0], row[1], bool(row[2]))
        return found

    def write(self) -> None:
        execute = self._index.executemany
        execute("INSERT INTO words(rowid, body, facts, about) VALUES(?, ?, ?, ?)", self._words)
        execute("INSERT INTO line VALUES(?, ?, ?, ?)", self._lines)
        execute(
            "INSERT INTO day VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET "
            "first = min(first, excluded.first), last = max(last, excluded.last)",
            [(day, *bounds) for day, bounds in self._days.items()],
        )
        execute(
            "UPDATE session SET lines = ? WHERE id = ?",
            [(session.lines, session.id) for session in self._sessions.values()],
        )
        self._index.execute("UPDATE state SET lines = lines + ?", (len(self._lines),))
        self._words, self._lines, self._days = [], [], {}
