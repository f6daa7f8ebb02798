"""Brings the search tables up to date from the journal, by number; one process at a time.

A process that is killed leaves a whole transaction or none of it; the next one goes on there.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    MessageForgotten,
)
from hermes.core.events.runs import RunDeleted
from hermes.memory.postgres.wording import Wording
from hermes.memory.rows import micros, read
from hermes.memory.search.fates import FATES
from hermes.memory.search.told import told, worth_finding

CHUNK = 1000
"""Events of one transaction: others who index wait for it."""
SHAPE = 1
"""Of the words in the tables: whatever changes them raises it, and they are made anew."""
Progress = Callable[[int, int], None]
Database = psycopg.Connection[Any]


def catch_up(
    connection: Database,
    wording: Wording,
    *,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> int:
    """Index what is new. Returns how many events are still missing when the time was over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    newest = _one(connection, "SELECT last FROM hermes.head")
    while (upto := _one(connection, "SELECT upto FROM hermes.searched")) < newest:
        if deadline is not None and time.monotonic() > deadline:
            return int(newest - upto)
        _advance(connection, wording)
        if progress is not None:
            progress(_one(connection, "SELECT upto FROM hermes.searched"), newest)
    return 0


def start_anew(connection: Database) -> None:
    with connection.transaction():
        connection.execute("TRUNCATE hermes.line, hermes.gone_run")
        connection.execute("UPDATE hermes.searched SET upto = 0, digest = '', shape = %s", (SHAPE,))


def is_ours(connection: Database) -> bool:
    """False when it was made from another journal, or by another version."""
    row = connection.execute(
        "SELECT shape = %s AND (upto = 0 OR upto > (SELECT coalesce(max(seq), 0) FROM hermes.event)"
        " OR digest = (SELECT digest FROM hermes.event WHERE seq = upto)) FROM hermes.searched",
        (SHAPE,),
    ).fetchone()
    return bool(row and row[0])


def _advance(connection: Database, wording: Wording) -> None:
    with connection.transaction():
        upto = _one(connection, "SELECT upto FROM hermes.searched FOR UPDATE")
        rows = connection.execute(
            "SELECT seq, at, run, kind, body, digest FROM hermes.event WHERE seq > %s "
            "ORDER BY seq LIMIT %s",
            (upto, CHUNK),
        ).fetchall()
        if not rows:
            # Numbers behind a salvage's gap were given, and there is nothing to read.
            connection.execute("UPDATE hermes.searched SET upto = (SELECT last FROM hermes.head)")
            return
        batch = Batch(connection, wording)
        for seq, at, run, kind, body, _ in rows:
            if body is not None:
                batch.take(seq, at, run, kind, body)
        batch.write()
        connection.execute(
            "UPDATE hermes.searched SET upto = %s, digest = %s", (rows[-1][0], rows[-1][5])
        )


@dataclass
class Batch:
    """The lines of one transaction, gathered and then written at once."""

    connection: Database
    wording: Wording
    positions: dict[str, int | None] = field(default_factory=dict)
    """Run → its next place; None when it was deleted."""
    lines: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self, seq: int, at: int, run: str, kind: str, body: str) -> None:
        if kind not in FATES and not worth_finding(kind):
            return
        try:
            event = read(seq, at, run.encode(), kind.encode(), body.encode())
        except StoreCorrupt:
            return  # `hermes journal verify` names it; what is whole can still be found
        if kind in FATES:
            self.write()  # what it speaks of may be in this very batch
            settle(self.connection, event)
            self.positions.clear()
        else:
            self._take_line(seq, at, event)

    def _take_line(self, seq: int, at: int, event: Event | Unknown) -> None:
        line = told(seq, event)
        if line is None or (place := self._position(line.run)) is None:
            return
        fact = event.fact if isinstance(event, FactNoted) else ""
        words = self.wording.vector(line)
        self.lines.append((seq, line.run, place, at, line.kind, line.role, fact, words))
        self.positions[line.run] = place + 1

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


def settle(connection: Database, event: Event | Unknown) -> None:
    """What later events say about lines: deleted, forgotten, confirmed, ended."""
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
                (micros(event.seen_at or event.at), fact),
            )
        case FactEnded(fact=fact):
            connection.execute(
                "UPDATE hermes.line SET ended = %s WHERE fact = %s", (micros(event.at), fact)
            )
        case _:
            pass


def _one(connection: Database, sql: str, values: Sequence[Any] = ()) -> int:
    row = connection.execute(sql.encode(), values).fetchone()
    return int(row[0]) if row else 0
