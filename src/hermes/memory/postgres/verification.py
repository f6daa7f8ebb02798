"""Verifies a journal in PostgreSQL: numbers, chain and every text."""

from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import Any

import psycopg

from hermes.core.errors import StoreCorrupt
from hermes.memory.journal.maintenance import KINDS_KEPT_AFTER_DELETION
from hermes.memory.journal.rows import GENESIS_DIGEST, read_event
from hermes.memory.journal.verification import (
    MAX_LISTED_PROBLEMS,
    EventCleaner,
    EventVisitor,
    ExportRow,
    VerificationReport,
    export_line,
)
from hermes.memory.postgres.reading import StoredRow, last_seq_and_digest, scan_pages, seq_gaps
from hermes.memory.postgres.schema import open_existing
from hermes.memory.postgres.url import without_password

LOWEST_SCANNED_SEQ = -(1 << 62)
"""Numbers begin at 1; a lower one was not written by us and must be reported."""


def verify(url: str, *, visitor: EventVisitor | None = None) -> VerificationReport:
    """Check everything and change nothing. Raises `StoreError` only when it cannot be read.

    Others may continue to write.
    """
    with open_existing(url) as connection:
        last_given, _ = last_seq_and_digest(connection)  # before the rows: others may append
        known = dict(seq_gaps(connection))
        sql = "SELECT count(*), coalesce(max(seq), 0), count(hash) FROM hermes.event"
        events, last, purged = connection.execute(sql).fetchone() or (0, 0, 0)
        faults = list(
            islice(_find_faults(connection, known, last_given, visitor), MAX_LISTED_PROBLEMS)
        )
    return VerificationReport(
        path=without_password(url),
        events=events,
        last=last,
        purged=purged,
        gaps=tuple(known.items()),
        problems=tuple(text for _, text in faults),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


def _find_faults(
    connection: psycopg.Connection[Any],
    known_gaps: dict[int, int],
    last_given: int,
    visitor: EventVisitor | None,
) -> Iterator[tuple[int, str]]:
    sql = "SELECT DISTINCT run FROM hermes.event WHERE kind = 'run.deleted'"
    deleted = {run for (run,) in connection.execute(sql)}
    expected, before = known_gaps.get(1, 0) + 1, GENESIS_DIGEST
    for stored in chain.from_iterable(scan_pages(connection, after=LOWEST_SCANNED_SEQ)):
        seq = stored.seq
        if seq != expected:
            yield min(seq, expected), f"events {expected} to {seq - 1} are missing"
        event: object = None
        try:
            event = _stored_event(stored)
        except StoreCorrupt as error:
            yield seq, str(error)
        for text in _row_problems(stored, before, deleted):
            yield seq, text
        if visitor is not None:
            visitor(seq, stored.digest, event)
        before, expected = stored.digest, known_gaps.get(seq + 1, seq) + 1
    if last_given >= expected:
        yield expected, f"the newest events, {expected} to {last_given}, are missing"


def _row_problems(stored: StoredRow, previous_digest: bytes, deleted: set[str]) -> Iterator[str]:
    seq, kind = stored.seq, stored.row.kind
    if stored.row.digest_after(previous_digest) != stored.digest:
        yield f"event {seq} is not what was written, or what stood before it is not"
    if stored.purged and kind in KINDS_KEPT_AFTER_DELETION:
        yield f"the text of event {seq} ({kind}) is gone; such an event is never deleted"
    elif stored.purged and stored.row.run not in deleted:
        yield f"the text of event {seq} is gone, but its run was never deleted"


def _stored_event(stored: StoredRow) -> object:
    at, run, kind, body = stored.row
    if isinstance(body, bytes):
        return None
    return read_event(stored.seq, at, run.encode(), kind.encode(), body.encode())


def export_lines(
    url: str, kinds: Collection[str] | None = None, clean: EventCleaner | None = None
) -> Iterator[bytes]:
    """Every event; of other kinds than `kinds` only the hash."""
    with open_existing(url) as connection:
        for stored in chain.from_iterable(scan_pages(connection)):
            at, run, kind, body = stored.row
            plain = body if isinstance(body, bytes) else body.encode()
            row = ExportRow(
                stored.seq, stored.digest, at, run.encode(), kind.encode(), stored.purged, plain
            )
            yield export_line(row, kinds, clean)
