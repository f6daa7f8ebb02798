"""Verifies a journal or an export: structure, numbers, chain and every text."""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.messages import Value
from hermes.memory.journal.maintenance import KINDS_KEPT_AFTER_DELETION
from hermes.memory.journal.reading import EVENT_COLUMNS_SQL, PURGED_SQL, scan_rows
from hermes.memory.journal.recovery import recover_rows
from hermes.memory.journal.rows import (
    GENESIS_DIGEST,
    chain_digest,
    event_json,
    hash_text,
    read_event,
    to_micros,
)
from hermes.memory.journal.sqlite_file import open_existing, unknown_schema_objects

MAX_LISTED_PROBLEMS = 20
"""Problems that a report lists one by one."""


EventVisitor = Callable[[int, bytes, object], None]
"""Called with each event in order: its number, its digest, and itself, or None when purged."""


class VerificationReport(Value, kw_only=True, frozen=True):
    path: str
    events: int = 0
    last: int = 0
    purged: int = 0
    """Texts that were deleted because their run was deleted."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Numbers that an earlier salvage could not recover; known, and so no fault."""
    problems: tuple[str, ...] = ()
    first_broken: int | None = None
    salvageable: int | None = None
    """How many events a salvage would recover; counted only when something is wrong."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    path: Path, *, visitor: EventVisitor | None = None, read_only: bool = False
) -> VerificationReport:
    """Check everything and change nothing. Raises `StoreError` only when it cannot be read.

    Others may continue to write; see `recover_rows` for the limits with a damaged file. With a
    `visitor` the report does not count what could be recovered. `read_only` does not even create
    SQLite's companion files, but a writer that starts meanwhile can look like damage.
    """
    try:
        with open_existing(path, read_only=read_only) as connection:
            report = _check_journal(connection, path, visitor)
    except StoreCorrupt as error:
        report = VerificationReport(path=str(path), problems=(str(error),))
    if report.ok or visitor is not None:
        return report
    return msgspec.structs.replace(report, salvageable=len(recover_rows(path)))


def _check_journal(
    connection: apsw.Connection, path: Path, visitor: EventVisitor | None
) -> VerificationReport:
    structure = [
        str(text)
        for (text,) in connection.execute(f"PRAGMA integrity_check({MAX_LISTED_PROBLEMS})")
        if text != "ok"
    ]
    structure += [
        f"the file holds {name}, which no Hermes made"
        for name in unknown_schema_objects(connection)
    ]
    events, last, purged = connection.execute(
        f"SELECT count(*), coalesce(max(seq), 0), coalesce(sum({PURGED_SQL}), 0) FROM event"
    ).get
    gaps: list[Any] = connection.execute("SELECT first, last FROM gap ORDER BY first").fetchall()
    faults: list[tuple[int, str]] = []
    try:
        for fault in _find_faults(connection, dict(gaps), visitor):
            faults.append(fault)
            if len(faults) == MAX_LISTED_PROBLEMS:
                break
    except apsw.CorruptError as error:
        structure.append(str(error))
    return VerificationReport(
        path=str(path),
        events=events,
        last=last,
        purged=purged,
        gaps=tuple(gaps),
        problems=(*structure, *(text for _, text in faults)),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


class _CheckedRow(NamedTuple):
    seq: int
    has_unexpected_types: bool
    """Not of the types we write: a query may miss it although it reads the same."""
    digest: bytes
    at: int
    run: bytes
    kind: bytes
    purged: bool
    body: bytes


_UNEXPECTED_TYPES_SQL = (
    "NOT (typeof(run) = 'text' AND typeof(kind) = 'text' AND typeof(digest) = 'blob')"
)


def _find_faults(
    connection: apsw.Connection, gaps: dict[int, int], visitor: EventVisitor | None
) -> Iterator[tuple[int, str]]:
    # Read before the rows: others may continue to append.
    last_given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").get or 0
    if hidden := connection.execute("SELECT min(seq) FROM event WHERE seq < 1").get:
        yield hidden, f"there is an event with the number {hidden}, which is never given"
    deleted = set[str]()
    columns = f"{_UNEXPECTED_TYPES_SQL}, CAST(digest AS BLOB), {EVENT_COLUMNS_SQL}"
    expected, before = gaps.get(1, 0) + 1, GENESIS_DIGEST
    for stored in map(_CheckedRow._make, scan_rows(connection, columns)):
        seq = stored.seq
        if seq != expected:
            yield expected, f"events {expected} to {seq - 1} are missing"
        event: object = None
        try:
            if not stored.purged:
                event = read_event(seq, stored.at, stored.run, stored.kind, stored.body)
        except StoreCorrupt as error:
            yield seq, str(error)
        for text in _row_problems(connection, stored, before, deleted):
            yield seq, text
        if visitor is not None:
            visitor(seq, stored.digest, event)
        before, expected = stored.digest, gaps.get(seq + 1, seq) + 1
    if last_given >= expected:
        yield expected, f"the newest events, {expected} to {last_given}, are missing"


def _row_problems(
    connection: apsw.Connection, stored: _CheckedRow, previous_digest: bytes, deleted: set[str]
) -> Iterator[str]:
    seq, body = stored.seq, stored.body
    kind, run = stored.kind.decode(errors="replace"), stored.run.decode(errors="replace")
    if chain_digest(
        previous_digest, body if stored.purged else hash_text(body), kind, run, stored.at
    ) != (stored.digest):
        yield f"event {seq} is not what was written, or what stood before it is not"
    if stored.has_unexpected_types:
        yield f"event {seq} is stored in a way that hides it from searches"
    if stored.purged and kind in KINDS_KEPT_AFTER_DELETION:
        yield f"the text of event {seq} ({kind}) is gone; such an event is never deleted"
    elif stored.purged and not _run_was_deleted(connection, run, deleted):
        yield f"the text of event {seq} is gone, but its run was never deleted"


def _run_was_deleted(connection: apsw.Connection, run: str, known_deleted_runs: set[str]) -> bool:
    if run not in known_deleted_runs:
        sql = "SELECT 1 FROM event WHERE kind = 'run.deleted' AND run = ? LIMIT 1"
        if connection.execute(sql, (run,)).get is None:
            return False
        known_deleted_runs.add(run)
    return True


NO_JSON = msgspec.Raw()
EventCleaner = Callable[[Event | UnknownEvent], Event | UnknownEvent]


class ExportLine(Value, kw_only=True, frozen=True):
    seq: int
    digest: str
    event: msgspec.Raw = NO_JSON
    """Exactly as it was written."""
    kind: str = ""
    run: str = ""
    at: int = 0
    hash: str = ""
    """Hash of the text that is left out; then kind, run and time are beside it."""
    shown: msgspec.Raw = NO_JSON


class ExportRow(NamedTuple):
    seq: int
    digest: bytes
    at: int
    run: bytes
    kind: bytes
    purged: bool
    body: bytes
    """The text, or its hash when it is purged."""


def export_lines(
    path: Path, kinds: Collection[str] | None = None, clean: EventCleaner | None = None
) -> Iterator[bytes]:
    """Every event; of other kinds than `kinds` only the hash."""
    with open_existing(path) as connection:
        for row in scan_rows(connection, f"digest, {EVENT_COLUMNS_SQL}"):
            yield export_line(ExportRow._make(row), kinds, clean)


def export_line(
    stored: ExportRow, kinds: Collection[str] | None, clean: EventCleaner | None
) -> bytes:
    seq, digest, at, run, kind, purged, body = stored
    name, of = kind.decode(), run.decode()
    line = ExportLine(
        seq=seq,
        digest=digest.hex(),
        kind=name,
        run=of,
        at=at,
        hash=(body if purged else hash_text(body)).hex(),
    )
    if not purged and (kinds is None or name in kinds):
        event = read_event(seq, at, run, kind, body)
        shown = event if clean is None else clean(event)
        if shown == event:
            raw = msgspec.Raw(event_json(at, of, name, body))
            line = ExportLine(seq=seq, digest=digest.hex(), event=raw)
        else:
            line = msgspec.structs.replace(line, shown=msgspec.Raw(msgspec.json.encode(shown)))
    return msgspec.json.encode(line)


def verify_export_lines(
    lines: Iterable[bytes], *, name: str, visitor: EventVisitor
) -> VerificationReport:
    """Verifies an export as `verify` does a journal."""
    faults: list[tuple[int, str]] = []
    before, count, expected = GENESIS_DIGEST, 0, 1
    for number, text in enumerate(lines, start=1):
        if len(faults) >= MAX_LISTED_PROBLEMS:
            break
        try:
            line = msgspec.json.decode(text, type=ExportLine)
            row, event = _chain_parts(line)
            digest = bytes.fromhex(line.digest)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError, StoreCorrupt) as error:
            faults.append((expected, f"line {number} of the export cannot be read: {error}"))
            continue
        if line.seq != expected:
            what = f"events {expected} to {line.seq - 1} are missing, or were moved"
            faults.append((expected, what))
        if chain_digest(before, *row) != digest:
            what = f"event {line.seq} is not what was written, or what stood before it is not"
            faults.append((line.seq, what))
        visitor(line.seq, digest, event)
        before, count, expected = digest, count + 1, line.seq + 1
    return VerificationReport(
        path=name,
        events=count,
        last=expected - 1,
        problems=tuple(text for _, text in faults),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


def _chain_parts(line: ExportLine) -> tuple[tuple[bytes, str, str, int], object]:
    """The inputs of the chain, and the event if it is there."""
    if line.event == NO_JSON:
        hashed = bytes.fromhex(line.hash)
        if len(hashed) != 32:
            raise ValueError("it has neither an event nor a hash")
        return (hashed, line.kind, line.run, line.at), None
    raw = bytes(line.event)
    head: dict[str, Any] = msgspec.json.decode(raw)
    kind, run = str(head["kind"]), str(head["run"])
    at = to_micros(msgspec.convert(head["at"], datetime))
    start = event_json(at, run, kind, b"{}")
    if raw != start and not raw.startswith(start[:-1] + b","):
        raise ValueError("its event is not as it was written")
    body = b"{}" if raw == start else b"{" + raw[len(start) :]
    event = read_event(line.seq, at, run.encode(), kind.encode(), body)
    return (hash_text(body), kind, run, at), event
