"""Puts a signed checkpoint at the end of the journal: read, sign and append in one transaction.

Nobody can write in between, so of several processes that sign at once each signs after the other,
and a checkpoint always names the event right before it.
"""

from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.core.errors import StoreError
from hermes.core.events.audit import CheckpointSigned
from hermes.core.messages import Value
from hermes.memory.connection import PATIENCE
from hermes.memory.pages import COLUMNS
from hermes.memory.rows import read, row_of
from hermes.memory.schema import last_link, opened
from hermes.memory.writer import insert, ring


class Tip(Value, frozen=True):
    """The end of the journal."""

    seq: int
    digest: str
    last: CheckpointSigned | None = None
    """The newest checkpoint."""


def seal(
    path: Path, sign: Callable[[Tip], CheckpointSigned], *, patience: float = PATIENCE
) -> Tip | None:
    """The new end, which is the checkpoint itself; None when there was nothing new to sign."""
    with opened(path, patience=patience) as connection:
        # On the disk before anybody is told: a head that knows more than the journal after a
        # power cut would look like a journal that was cut off.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            sealed = _seal(connection, sign)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if sealed is not None:
            ring(path)
        return sealed


def _seal(connection: apsw.Connection, sign: Callable[[Tip], CheckpointSigned]) -> Tip | None:
    newest = last_link(connection)
    last = connection.execute("SELECT max(seq) FROM event WHERE kind = 'audit.signed'").get
    if newest is None or newest[0] == last:
        return None
    checkpoint = sign(Tip(newest[0], newest[1].hex(), _checkpoint(connection, last)))
    insert(connection, [row_of(checkpoint)])
    end = last_link(connection)
    assert end is not None
    return Tip(end[0], end[1].hex(), checkpoint)


def _checkpoint(connection: apsw.Connection, seq: int | None) -> CheckpointSigned | None:
    if seq is None:
        return None
    sql = f"SELECT {COLUMNS} FROM event WHERE seq = ?"
    at, run, kind, _, body = connection.execute(sql, (seq,)).get
    event = read(seq, at, run, kind, body)
    if not isinstance(event, CheckpointSigned):
        raise StoreError(f"event {seq} is no checkpoint; `hermes audit verify` says more")
    return event
