"""Brings the index up to date from the journal, by number: many lines a transaction, one writer.

A process that is killed leaves a whole transaction or none of it; the next one goes on there.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import apsw

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.memory import FactNoted
from hermes.memory.packing import plain
from hermes.memory.pages import PURGED
from hermes.memory.rows import read
from hermes.memory.search.fates import FATES, settle
from hermes.memory.search.index import UnusableIndex
from hermes.memory.search.marks import columns
from hermes.memory.search.told import told, worth_finding

CHUNK = 1000
"""Events of one transaction: others who index wait for it."""
Progress = Callable[[int, int], None]
"""Told how far it is, and how far it has to go."""


def catch_up(
    index: apsw.Connection,
    journal: apsw.Connection,
    *,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> int:
    """Index what is new. Returns how many events are still missing when the time was over.

    Raises `UnusableIndex` when it was made from another journal.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    newest = journal.execute("SELECT max(seq) FROM event").get or 0
    _same_journal(index, journal)
    while (upto := progress_of(index)) < newest:
        if deadline is not None and time.monotonic() > deadline:
            return int(newest - upto)
        _advance(index, journal)
        if progress is not None:
            progress(progress_of(index), newest)
    return 0


def progress_of(index: apsw.Connection) -> int:
    return int(index.execute("SELECT upto FROM state").get)


def _same_journal(index: apsw.Connection, journal: apsw.Connection) -> None:
    upto, digest = index.execute("SELECT upto, digest FROM state").get
    if not upto:
        return
    found = journal.execute("SELECT CAST(digest AS BLOB) FROM event WHERE seq = ?", (upto,)).get
    if found != digest:
        raise UnusableIndex("it was made from another journal")


def _advance(index: apsw.Connection, journal: apsw.Connection) -> None:
    index.execute("BEGIN IMMEDIATE")
    try:
        upto = progress_of(index)  # again: another process may have been faster
        rows: list[Any] = journal.execute(
            f"SELECT seq, at, CAST(run AS BLOB), CAST(kind AS BLOB), {PURGED}, CAST(body AS BLOB), "
            f"CAST(digest AS BLOB) FROM event WHERE seq > ? ORDER BY seq LIMIT {CHUNK}",
            (upto,),
        ).fetchall()
        if rows:
            batch = Batch(index)
            for seq, at, run, kind, purged, body, _ in rows:
                if not purged:
                    batch.take(seq, at, run, kind, body)
            batch.write()
            index.execute("UPDATE state SET upto = ?, digest = ?", (rows[-1][0], rows[-1][-1]))
        index.execute("COMMIT")
    except BaseException:
        if index.in_transaction:
            index.execute("ROLLBACK")
        raise


@dataclass
class Session:
    id: int
    lines: int
    gone: bool


@dataclass
class Batch:
    """The lines of one transaction, gathered and then written table by table."""

    index: apsw.Connection
    sessions: dict[str, Session] = field(default_factory=dict)
    words: list[tuple[Any, ...]] = field(default_factory=list)
    lines: list[tuple[int, int, int, int]] = field(default_factory=list)
    days: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, seq: int, at: int, run: bytes, kind: bytes, body: bytes) -> None:
        name = kind.decode(errors="replace")
        if name not in FATES and not worth_finding(name):
            return
        try:
            event = read(seq, at, run, kind, plain(body))
        except StoreCorrupt:
            return  # `hermes journal verify` names it; what is whole can still be found
        if name in FATES:
            self.write()  # what it speaks of may be in this very batch
            settle(self.index, event)
            self.sessions.clear()
        else:
            self._take_line(seq, event, at // 1_000_000)

    def _take_line(self, seq: int, event: Event | Unknown, second: int) -> None:
        line = told(seq, event)
        if line is None:
            return
        session = self._session(line.run)
        if session.gone:
            return
        fact = event.fact if isinstance(event, FactNoted) else ""
        self.words.append((seq, *columns(line, fact=fact)))
        self.lines.append((seq, session.id, session.lines, second))
        session.lines += 1
        first, last = self.days.get(second // 86400, (seq, seq))
        self.days[second // 86400] = min(first, seq), max(last, seq)

    def _session(self, run: str) -> Session:
        found = self.sessions.get(run)
        if found is None:
            sql = "SELECT id, lines, gone FROM session WHERE run = ?"
            row = self.index.execute(sql, (run,)).get
            if row is None:
                self.index.execute("INSERT INTO session(run, lines) VALUES(?, 0)", (run,))
                row = (self.index.last_insert_rowid(), 0, 0)
            found = self.sessions[run] = Session(row[0], row[1], bool(row[2]))
        return found

    def write(self) -> None:
        _insert(self.index, "words(rowid, body, facts, about) VALUES(?, ?, ?, ?)", self.words)
        _insert(self.index, "line VALUES(?, ?, ?, ?)", self.lines)
        _insert(
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


def _insert(index: apsw.Connection, what: str, rows: Iterable[tuple[Any, ...]]) -> None:
    index.executemany(f"INSERT INTO {what}", rows)
