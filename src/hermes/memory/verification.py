"""Is the journal whole? Structure, numbers, chain and every text."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.messages import Value
from hermes.memory.carving import carve
from hermes.memory.chain import GENESIS, hash_text, link
from hermes.memory.pages import COLUMNS, PURGED, scan
from hermes.memory.rows import read
from hermes.memory.schema import opened, strangers
from hermes.memory.upkeep import KEPT

SHOWN = 20
"""Problems that a report lists one by one."""


See = Callable[[int, bytes, object], None]
"""Is shown each event in order: its number, its digest, and itself, or None when it is purged."""


class Report(Value, kw_only=True, frozen=True):
    path: str
    events: int = 0
    last: int = 0
    purged: int = 0
    """Texts that left the store because their run was deleted."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Numbers that an earlier salvage could not save; known, and so no fault."""
    problems: tuple[str, ...] = ()
    first_broken: int | None = None
    salvageable: int | None = None
    """How many events a salvage would keep; counted only when something is wrong."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(path: Path, *, see: See | None = None, read_only: bool = False) -> Report:
    """Look at everything and change nothing. Raises `StoreError` only when it cannot look.

    Others may go on writing meanwhile; see `carve` for what a damaged file asks of this process.
    Whoever wants to `see` the events is not told what could be saved. `read_only` does not even
    leave SQLite's companion files behind, but a writer that starts meanwhile can look like damage.
    """
    try:
        with opened(path, read_only=read_only) as connection:
            report = _inspect(connection, path, see)
    except StoreCorrupt as error:
        report = Report(path=str(path), problems=(str(error),))
    if report.ok or see is not None:
        return report
    return msgspec.structs.replace(report, salvageable=len(carve(path)))


def _inspect(connection: apsw.Connection, path: Path, see: See | None) -> Report:
    structure = [
        str(text)
        for (text,) in connection.execute(f"PRAGMA integrity_check({SHOWN})")
        if text != "ok"
    ]
    structure += [f"the file holds {name}, which no Hermes made" for name in strangers(connection)]
    events, last, purged = connection.execute(
        f"SELECT count(*), coalesce(max(seq), 0), coalesce(sum({PURGED}), 0) FROM event"
    ).get
    gaps: list[Any] = connection.execute("SELECT first, last FROM gap ORDER BY first").fetchall()
    faults: list[tuple[int, str]] = []
    try:
        for fault in _faults(connection, dict(gaps), see):
            faults.append(fault)
            if len(faults) == SHOWN:
                break
    except apsw.CorruptError as error:
        structure.append(str(error))
    return Report(
        path=str(path),
        events=events,
        last=last,
        purged=purged,
        gaps=tuple(gaps),
        problems=(*structure, *(text for _, text in faults)),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


class _Stored(NamedTuple):
    seq: int
    odd: bool
    """Not of the types we write: a query may pass it by although it reads the same."""
    digest: bytes
    at: int
    run: bytes
    kind: bytes
    purged: bool
    body: bytes


_ODD = "NOT (typeof(run) = 'text' AND typeof(kind) = 'text' AND typeof(digest) = 'blob')"


def _faults(
    connection: apsw.Connection, gaps: dict[int, int], see: See | None
) -> Iterator[tuple[int, str]]:
    # Asked before the walk: others may go on writing behind its end.
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").get or 0
    if hidden := connection.execute("SELECT min(seq) FROM event WHERE seq < 1").get:
        yield hidden, f"there is an event with the number {hidden}, which is never given"
    deleted = set[str]()
    columns = f"{_ODD}, CAST(digest AS BLOB), {COLUMNS}"
    expected, before = gaps.get(1, 0) + 1, GENESIS
    for stored in map(_Stored._make, scan(connection, columns)):
        seq = stored.seq
        if seq != expected:
            yield expected, f"events {expected} to {seq - 1} are missing"
        event: object = None
        try:
            if not stored.purged:
                event = read(seq, stored.at, stored.run, stored.kind, stored.body)
        except StoreCorrupt as error:
            yield seq, str(error)
        for text in _wrong(connection, stored, before, deleted):
            yield seq, text
        if see is not None:
            see(seq, stored.digest, event)
        before, expected = stored.digest, gaps.get(seq + 1, seq) + 1
    if given >= expected:
        yield expected, f"the newest events, {expected} to {given}, are missing"


def _wrong(
    connection: apsw.Connection, stored: _Stored, before: bytes, deleted: set[str]
) -> Iterator[str]:
    seq, body = stored.seq, stored.body
    kind, run = stored.kind.decode(errors="replace"), stored.run.decode(errors="replace")
    if link(before, body if stored.purged else hash_text(body), kind, run, stored.at) != (
        stored.digest
    ):
        yield f"event {seq} is not what was written, or what stood before it is not"
    if stored.odd:
        yield f"event {seq} is stored in a way that hides it from searches"
    if stored.purged and kind in KEPT:
        yield f"the text of event {seq} ({kind}) is gone; such an event is never deleted"
    elif stored.purged and not _deleted(connection, run, deleted):
        yield f"the text of event {seq} is gone, but its run was never deleted"


def _deleted(connection: apsw.Connection, run: str, known: set[str]) -> bool:
    if run not in known:
        sql = "SELECT 1 FROM event WHERE kind = 'run.deleted' AND run = ? LIMIT 1"
        if connection.execute(sql, (run,)).get is None:
            return False
        known.add(run)
    return True
