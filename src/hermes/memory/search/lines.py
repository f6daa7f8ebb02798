"""Lines by their numbers, read from the journal: the index itself holds no text."""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.recall import Line
from hermes.memory.pages import COLUMNS
from hermes.memory.rows import read
from hermes.memory.search.told import told

_MANY = 500


def read_events(journal: apsw.Connection, seqs: Iterable[int]) -> dict[int, Event | Unknown]:
    """What is damaged, or no longer there, is left out."""
    found: dict[int, Event | Unknown] = {}
    wanted = sorted(set(seqs))
    for at in range(0, len(wanted), _MANY):
        part = wanted[at : at + _MANY]
        sql = f"SELECT seq, {COLUMNS} FROM event WHERE seq IN ({', '.join('?' * len(part))})"
        for seq, when, run, kind, purged, body in journal.execute(sql, part):
            if not purged:
                try:
                    found[seq] = read(seq, when, run, kind, body)
                except StoreCorrupt:
                    continue
    return found


def read_lines(journal: apsw.Connection, seqs: Iterable[int]) -> dict[int, Line]:
    events = read_events(journal, seqs)
    lines = ((seq, told(seq, event)) for seq, event in events.items())
    return {seq: line for seq, line in lines if line is not None}


def neighbours(
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
