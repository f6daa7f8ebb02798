"""Puts a signed checkpoint at the end of the journal: read, sign and append in one transaction."""

from collections.abc import Callable
from typing import Any

import psycopg

from hermes.core.errors import StoreError
from hermes.core.events.audit import CheckpointSigned
from hermes.memory.postgres.connecting import PATIENCE, connect
from hermes.memory.postgres.faults import explained
from hermes.memory.postgres.scan import head
from hermes.memory.postgres.sending import send
from hermes.memory.rows import read, row_of
from hermes.memory.sealing import Tip

_LAST = (
    "SELECT seq, at, run, body FROM hermes.event WHERE kind = 'audit.signed' "
    "ORDER BY seq DESC LIMIT 1"
)


def seal(
    url: str, sign: Callable[[Tip], CheckpointSigned], *, patience: float = PATIENCE
) -> Tip | None:
    """The new end, which is the checkpoint itself; None when there was nothing new to sign."""
    with explained(url), connect(url, patience=patience) as connection, connection.transaction():
        # Whoever signs at the same time waits here, and signs what comes behind us.
        connection.execute("SELECT 1 FROM hermes.head FOR UPDATE")
        last, digest = head(connection)
        seq, checkpoint = _newest(connection)
        if last in (0, seq):
            return None
        signed = sign(Tip(last, digest.hex(), checkpoint))
        send(connection, [row_of(signed)])
        end, digest = head(connection)
        return Tip(end, digest.hex(), signed)


def _newest(connection: psycopg.Connection[Any]) -> tuple[int, CheckpointSigned | None]:
    found = connection.execute(_LAST).fetchone()
    if found is None:
        return -1, None
    seq, at, run, body = found
    event = read(seq, at, run.encode(), b"audit.signed", (body or "").encode())
    if not isinstance(event, CheckpointSigned):
        raise StoreError(f"event {seq} is no checkpoint; `hermes audit verify` says more")
    return seq, event
