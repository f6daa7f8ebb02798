"""Looking after a journal file: take its contents elsewhere, make it smaller."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from hermes.core.errors import StoreError
from hermes.core.events.runs import RunDeleted
from hermes.core.messages import Value
from hermes.memory.chain import hash_text
from hermes.memory.connection import PATIENCE
from hermes.memory.pages import COLUMNS, JSON, PLAIN, PURGED, scan
from hermes.memory.rows import json_of, read, row_of
from hermes.memory.schema import opened
from hermes.memory.writer import insert, ring

KEPT = (
    *("run.deleted", "model.answered", "tool.decided", "tool.approved", "tool.started"),
    *("approval.answered", "approval.settled", "grant.given", "grant.used", "action.stopped"),
    "audit.signed",
)
"""Kinds that outlive a deleted run: what was allowed, by whom, and what it cost."""
_DELETED = "SELECT DISTINCT run FROM event WHERE kind = 'run.deleted'"


class Compaction(Value, kw_only=True, frozen=True):
    bytes_before: int
    bytes_after: int
    purged: int = 0
    """How many texts left the store."""
    deleted: tuple[str, ...] = ()
    """All runs that were ever deleted, so that what is kept of them elsewhere can go too."""


def export(path: Path, *, run: str | None = None) -> Iterator[bytes]:
    """Every event, or those of one run, as lines of JSON: `seq`, `kind`, and the `event` itself,
    or the hash it left behind when it was `purged`."""
    with opened(path) as connection:
        for seq, at, of, kind, purged, body in scan(connection, COLUMNS, run=run):
            rest: dict[str, Any] = {"run": of.decode(), "purged": body.hex()}
            if not purged:
                read(seq, at, of, kind, body)  # what cannot be read is named, not passed on
                rest = {"event": msgspec.Raw(json_of(at, of.decode(), kind.decode(), body))}
            yield msgspec.json.encode({"seq": seq, "kind": kind.decode(), **rest})


def compact(path: Path, *, patience: float = PATIENCE) -> Compaction:
    """Drop the texts of deleted runs and the space they took, while others may go on working."""
    before = _size(path)
    with opened(path, patience=patience) as connection:
        purged = _purge(connection)
        deleted = tuple(run for (run,) in connection.execute(_DELETED))
        ring(path)
        try:
            connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError as error:
            raise StoreError(
                f"the texts of deleted runs are gone, but {path} is too busy to be made smaller "
                "now; try again when fewer processes use it"
            ) from error
    return Compaction(bytes_before=before, bytes_after=_size(path), purged=purged, deleted=deleted)


def _purge(connection: apsw.Connection) -> int:
    connection.create_scalar_function("hash_text", _hash_body, 1, deterministic=True)
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if orphans := _orphans(connection):
            insert(connection, [row_of(RunDeleted(run=run)) for run in orphans])
        connection.execute(
            f"UPDATE event SET body = hash_text({PLAIN}) WHERE NOT {PURGED} "
            f"AND kind NOT IN ({', '.join('?' * len(KEPT))}) "
            "AND run IN (SELECT run FROM event WHERE kind = 'run.deleted')",
            KEPT,
        )
        purged = connection.changes()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return purged


def _hash_body(*values: Any) -> bytes:
    return hash_text(values[0])


def _orphans(connection: apsw.Connection) -> Sequence[str]:
    """Subagents of deleted runs, at any depth, that are not marked as deleted themselves.

    They get their own mark: once the texts are gone nobody could tell whose children they were.
    """
    children: dict[str, list[str]] = {}
    for run, parent in connection.execute(
        f"SELECT run, {JSON} ->> '$.parent' FROM event WHERE kind = 'run.started'"
    ):
        children.setdefault(parent or "", []).append(run)
    marked = [run for (run,) in connection.execute(_DELETED)]
    gone = dict.fromkeys(marked)
    waiting = list(gone)
    while waiting:
        fresh = [run for run in children.get(waiting.pop(), ()) if run not in gone]
        gone.update(dict.fromkeys(fresh))
        waiting.extend(fresh)
    return [run for run in gone if run not in set(marked)]


def _size(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return sum(file.stat().st_size for file in (path, log) if file.exists())
