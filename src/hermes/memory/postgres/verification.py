"""Is the journal in the database whole? Numbers, chain and every text."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import psycopg

from hermes.core.errors import StoreCorrupt
from hermes.memory.chain import GENESIS
from hermes.memory.postgres.address import shown
from hermes.memory.postgres.scan import Stored, gaps, head, pages
from hermes.memory.postgres.schema import opened
from hermes.memory.rows import read
from hermes.memory.upkeep import KEPT
from hermes.memory.verification import SHOWN, Report, See

LOWEST = -(1 << 62)
"""Numbers begin at 1; one below that is an intruder and must be seen."""


def verify(url: str, *, see: See | None = None) -> Report:
    """Look at everything and change nothing. Raises `StoreError` only when it cannot look.

    Others may go on writing meanwhile.
    """
    with opened(url) as connection:
        given, _ = head(connection)  # before the walk: others may write behind its end
        known = dict(gaps(connection))
        sql = "SELECT count(*), coalesce(max(seq), 0), count(hash) FROM hermes.event"
        events, last, purged = connection.execute(sql).fetchone() or (0, 0, 0)
        faults = list(islice(_faults(connection, known, given, see), SHOWN))
    return Report(
        path=shown(url),
        events=events,
        last=last,
        purged=purged,
        gaps=tuple(known.items()),
        problems=tuple(text for _, text in faults),
        first_broken=min((seq for seq, _ in faults), default=None),
    )


def _faults(
    connection: psycopg.Connection[Any], gaps_: dict[int, int], given: int, see: See | None
) -> Iterator[tuple[int, str]]:
    sql = "SELECT DISTINCT run FROM hermes.event WHERE kind = 'run.deleted'"
    deleted = {run for (run,) in connection.execute(sql)}
    expected, before = gaps_.get(1, 0) + 1, GENESIS
    for stored in chain.from_iterable(pages(connection, after=LOWEST)):
        seq = stored.seq
        if seq != expected:
            yield min(seq, expected), f"events {expected} to {seq - 1} are missing"
        event: object = None
        try:
            event = _event(stored)
        except StoreCorrupt as error:
            yield seq, str(error)
        for text in _wrong(stored, before, deleted):
            yield seq, text
        if see is not None:
            see(seq, stored.digest, event)
        before, expected = stored.digest, gaps_.get(seq + 1, seq) + 1
    if given >= expected:
        yield expected, f"the newest events, {expected} to {given}, are missing"


def _wrong(stored: Stored, before: bytes, deleted: set[str]) -> Iterator[str]:
    seq, kind = stored.seq, stored.row.kind
    if stored.row.link(before) != stored.digest:
        yield f"event {seq} is not what was written, or what stood before it is not"
    if stored.purged and kind in KEPT:
        yield f"the text of event {seq} ({kind}) is gone; such an event is never deleted"
    elif stored.purged and stored.row.run not in deleted:
        yield f"the text of event {seq} is gone, but its run was never deleted"


def _event(stored: Stored) -> object:
    at, run, kind, body = stored.row
    if isinstance(body, bytes):
        return None
    return read(stored.seq, at, run.encode(), kind.encode(), body.encode())
