"""Is the journal whole? Structure, numbers, chain and every text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.messages import Value
from hermes.memory.carving import carve
from hermes.memory.chain import GENESIS, hash_text, link
from hermes.memory.pages import COLUMNS, scan
from hermes.memory.rows import read
from hermes.memory.schema import opened

SHOWN = 20
"""Problems that a report lists one by one."""


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


def verify(path: Path) -> Report:
    """Look at everything and change nothing. Raises `StoreError` only when it cannot look.

    Others may go on writing meanwhile; see `carve` for what a damaged file asks of this process.
    """
    try:
        with opened(path) as connection:
            report = _inspect(connection, path)
    except StoreCorrupt as error:
        report = Report(path=str(path), problems=(str(error),))
    if report.ok:
        return report
    return msgspec.structs.replace(report, salvageable=len(carve(path)))


def _inspect(connection: apsw.Connection, path: Path) -> Report:
    structure = [
        str(text)
        for (text,) in connection.execute(f"PRAGMA integrity_check({SHOWN})")
        if text != "ok"
    ]
    events, last, purged = connection.execute(
        "SELECT count(*), coalesce(max(seq), 0), coalesce(sum(typeof(body) = 'blob'), 0) FROM event"
    ).get
    gaps: list[Any] = connection.execute("SELECT first, last FROM gap ORDER BY first").fetchall()
    faults: list[tuple[int, str]] = []
    try:
        for fault in _faults(connection, dict(gaps)):
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


def _faults(connection: apsw.Connection, gaps: dict[int, int]) -> Iterator[tuple[int, str]]:
    # Asked before the walk: others may go on writing behind its end.
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").get or 0
    deleted = set[str]()
    columns = f"CAST(digest AS BLOB), {COLUMNS}"
    expected, before = gaps.get(1, 0) + 1, GENESIS
    for seq, digest, at, run, kind, purged, body in scan(connection, columns):
        if seq != expected:
            yield expected, f"events {expected} to {seq - 1} are missing"
        name, of = kind.decode(errors="replace"), run.decode(errors="replace")
        if link(before, body if purged else hash_text(body), name, of, at) != digest:
            yield seq, f"event {seq} is not what was written, or what stood before it is not"
        if purged and not _deleted(connection, of, deleted):
            yield seq, f"the text of event {seq} is gone, but its run was never deleted"
        if not purged:
            try:
                read(seq, at, run, kind, body)
            except StoreCorrupt as error:
                yield seq, str(error)
        before, expected = digest, gaps.get(seq + 1, seq) + 1
    if given >= expected:
        yield expected, f"the newest events, {expected} to {given}, are missing"


def _deleted(connection: apsw.Connection, run: str, known: set[str]) -> bool:
    if run not in known:
        sql = "SELECT 1 FROM event WHERE kind = 'run.deleted' AND run = ? LIMIT 1"
        if connection.execute(sql, (run,)).get is None:
            return False
        known.add(run)
    return True
