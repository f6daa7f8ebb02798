"""What later events say about lines that stand in the index: deleted, forgotten, confirmed."""

import apsw

from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.memory import FactConfirmed, FactEnded, FactForgotten, MessageForgotten
from hermes.core.events.runs import RunDeleted
from hermes.memory.rows import micros
from hermes.memory.search.marks import marked

FATES = frozenset(
    {
        "run.deleted",
        "message.forgotten",
        "memory.forgotten",
        "memory.confirmed",
        "memory.ended",
    }
)


def settle(index: apsw.Connection, event: Event | Unknown) -> None:
    match event:
        case RunDeleted(run=run):
            # Kept as a session without lines: what is still written in it is not found either.
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
            for seq in _fact(index, fact):
                index.execute("INSERT OR IGNORE INTO gone VALUES(?)", (seq,))
        case FactConfirmed(fact=fact):
            at = micros(event.seen_at or event.at) // 1_000_000
            for seq in _fact(index, fact):
                index.execute(
                    "INSERT INTO fate(seq, confirmed) VALUES(?, ?) ON CONFLICT DO UPDATE SET "
                    "confirmed = max(coalesce(confirmed, 0), excluded.confirmed)",
                    (seq, at),
                )
        case FactEnded(fact=fact):
            for seq in _fact(index, fact):
                index.execute(
                    "INSERT INTO fate(seq, ended) VALUES(?, ?) "
                    "ON CONFLICT DO UPDATE SET ended = excluded.ended",
                    (seq, micros(event.at) // 1_000_000),
                )
        case _:
            pass


def _fact(index: apsw.Connection, fact: str) -> list[int]:
    sql = "SELECT rowid FROM words WHERE words MATCH ?"
    return [seq for (seq,) in index.execute(sql, (marked("fact", fact),))]
