"""Verifies a journal or an export: structure, numbers, chain and every text."""

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.messages import Value
from hermes.memory.journal.recovery import recover_rows
from hermes.memory.journal.rows import (
    GENESIS_DIGEST,
    event_json,
    hash_text,
    to_micros,
)
from hermes.memory.journal.stored_journal import (
    KINDS_KEPT_AFTER_DELETION,
    MAX_LISTED_PROBLEMS,
    StoredJournal,
    StoredRow,
    StoreExtent,
    open_stored,
)

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
    location: Path | str, *, visitor: EventVisitor | None = None, read_only: bool = False
) -> VerificationReport:
    """Check everything and change nothing. Raises `StoreError` only when it cannot be read.

    Others may continue to write; see `recover_rows` for the limits with a damaged file. With a
    `visitor` the report does not count what could be recovered. `read_only` does not even create
    SQLite's companion files, but a writer that starts meanwhile can look like damage.
    """
    try:
        with open_stored(location, read_only=read_only) as journal:
            report = _check_journal(journal, visitor)
    except StoreCorrupt as error:
        report = VerificationReport(path=str(location), problems=(str(error),))
    if report.ok or visitor is not None or not isinstance(location, Path):
        return report
    return msgspec.structs.replace(report, salvageable=len(recover_rows(location)))


def _check_journal(journal: StoredJournal, visitor: EventVisitor | None) -> VerificationReport:
    structure = journal.structure_problems()
    extent, gaps = journal.extent(), journal.gaps()  # before the rows: others may append
    faults: list[tuple[int, str]] = []
    try:
        for fault in islice(
            _find_faults(journal, extent, dict(gaps), visitor), MAX_LISTED_PROBLEMS
        ):
            faults.append(fault)
    except StoreCorrupt as error:
        structure.append(str(error))
    return VerificationReport(
        path=journal.name,
        events=extent.events,
        last=extent.last,
        purged=extent.purged,
        gaps=tuple(gaps),
        problems=(*structure, *(text for _, text in faults)),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


def _find_faults(
    journal: StoredJournal, extent: StoreExtent, gaps: dict[int, int], visitor: EventVisitor | None
) -> Iterator[tuple[int, str]]:
    if extent.lowest < 1:
        what = f"there is an event with the number {extent.lowest}, which is never given"
        yield extent.lowest, what
    deleted = set[str]()
    expected, before = gaps.get(1, 0) + 1, GENESIS_DIGEST
    for stored in journal.rows():
        seq = stored.seq
        if seq != expected:
            yield expected, f"events {expected} to {seq - 1} are missing"
        event: object = None
        try:
            event = stored.event()
        except StoreCorrupt as error:
            yield seq, str(error)
        if stored.purged and stored.run.decode(errors="replace") not in deleted:
            deleted = set(journal.deleted_runs())
        for text in _row_problems(stored, before, deleted):
            yield seq, text
        if visitor is not None:
            visitor(seq, stored.digest, event)
        before, expected = stored.digest, gaps.get(seq + 1, seq) + 1
    if extent.last_given >= expected:
        yield expected, f"the newest events, {expected} to {extent.last_given}, are missing"


def _row_problems(stored: StoredRow, previous_digest: bytes, deleted: set[str]) -> Iterator[str]:
    seq, kind = stored.seq, stored.kind.decode(errors="replace")
    if stored.digest_after(previous_digest) != stored.digest:
        yield f"event {seq} is not what was written, or what stood before it is not"
    if stored.is_hidden:
        yield f"event {seq} is stored in a way that hides it from searches"
    if stored.purged and kind in KINDS_KEPT_AFTER_DELETION:
        yield f"the text of event {seq} ({kind}) is gone; such an event is never deleted"
    elif stored.purged and stored.run.decode(errors="replace") not in deleted:
        yield f"the text of event {seq} is gone, but its run was never deleted"


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


def export_verifiable(
    location: Path | str, kinds: Collection[str] | None = None, clean: EventCleaner | None = None
) -> Iterator[bytes]:
    """Lines of JSON that can be verified: every event; of other kinds than `kinds` the hash."""
    with open_stored(location) as journal:
        for stored in journal.rows():
            yield _export_line(stored, kinds, clean)


def _export_line(
    stored: StoredRow, kinds: Collection[str] | None, clean: EventCleaner | None
) -> bytes:
    seq, digest, at, run, kind, purged, body, _ = stored
    name, of = kind.decode(), run.decode()
    line = ExportLine(
        seq=seq,
        digest=digest.hex(),
        kind=name,
        run=of,
        at=at,
        hash=(body if purged else hash_text(body)).hex(),
    )
    event = stored.event() if kinds is None or name in kinds else None
    if event is not None:
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
            stored = _exported_row(msgspec.json.decode(text, type=ExportLine))
            event = stored.event()
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError, StoreCorrupt) as error:
            faults.append((expected, f"line {number} of the export cannot be read: {error}"))
            continue
        seq = stored.seq
        if seq != expected:
            what = f"events {expected} to {seq - 1} are missing, or were moved"
            faults.append((expected, what))
        if stored.digest_after(before) != stored.digest:
            what = f"event {seq} is not what was written, or what stood before it is not"
            faults.append((seq, what))
        visitor(seq, stored.digest, event)
        before, count, expected = stored.digest, count + 1, seq + 1
    return VerificationReport(
        path=name,
        events=count,
        last=expected - 1,
        problems=tuple(text for _, text in faults),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


def _exported_row(line: ExportLine) -> StoredRow:
    """Raises `ValueError` when it is not as it was written."""
    digest = bytes.fromhex(line.digest)
    if line.event == NO_JSON:
        hashed = bytes.fromhex(line.hash)
        if len(hashed) != 32:
            raise ValueError("it has neither an event nor a hash")
        run, kind = line.run.encode(), line.kind.encode()
        return StoredRow(line.seq, digest, line.at, run, kind, True, hashed)
    raw = bytes(line.event)
    head: dict[str, Any] = msgspec.json.decode(raw)
    at = to_micros(msgspec.convert(head["at"], datetime))
    start = event_json(at, str(head["run"]), str(head["kind"]), b"{}")
    if raw != start and not raw.startswith(start[:-1] + b","):
        raise ValueError("its event is not as it was written")
    body = b"{}" if raw == start else b"{" + raw[len(start) :]
    run, kind = str(head["run"]).encode(), str(head["kind"]).encode()
    return StoredRow(line.seq, digest, at, run, kind, False, body)
