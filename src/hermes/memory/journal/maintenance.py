"""Export, compaction and status of a journal file."""

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import apsw
import msgspec

from hermes.core.errors import StoreError
from hermes.core.events.runs import RunDeleted
from hermes.core.messages import Value
from hermes.memory.journal.reading import (
    BODY_JSON_SQL,
    BODY_SQL,
    EVENT_COLUMNS_SQL,
    PURGED_SQL,
    scan_rows,
)
from hermes.memory.journal.rows import event_json, hash_text, read_event, row_from_event
from hermes.memory.journal.sqlite_file import (
    LOCK_TIMEOUT_S,
    open_existing,
    schema_version,
    write_transaction,
)
from hermes.memory.journal.writer import insert_rows, notify_followers

KINDS_KEPT_AFTER_DELETION = (
    *("run.deleted", "model.answered", "tool.decided", "tool.approved", "tool.started"),
    *("approval.answered", "approval.settled", "grant.given", "grant.used", "action.stopped"),
    "audit.signed",
)
"""Kinds kept of a deleted run: what was allowed, by whom, and what it cost."""
_DELETED_RUNS_SQL = "SELECT DISTINCT run FROM event WHERE kind = 'run.deleted'"


class CompactionResult(Value, kw_only=True, frozen=True):
    bytes_before: int
    bytes_after: int
    purged: int = 0
    """How many texts were deleted from the store."""
    deleted: tuple[str, ...] = ()
    """All runs that were ever deleted, so that copies elsewhere can be deleted too."""


def export(path: Path, *, run: str | None = None) -> Iterator[bytes]:
    """Every event, or those of one run, as lines of JSON: `seq`, `kind`, and the `event` itself,
    or its hash when it was `purged`."""
    with open_existing(path) as connection:
        for seq, at, of, kind, purged, body in scan_rows(connection, EVENT_COLUMNS_SQL, run=run):
            rest: dict[str, Any] = {"run": of.decode(), "purged": body.hex()}
            if not purged:
                read_event(seq, at, of, kind, body)  # raises for an event that cannot be read
                rest = {"event": msgspec.Raw(event_json(at, of.decode(), kind.decode(), body))}
            yield msgspec.json.encode({"seq": seq, "kind": kind.decode(), **rest})


def compact(path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> CompactionResult:
    """Delete the texts of deleted runs and free their space, while others may continue to work."""
    before = _file_bytes(path)
    with open_existing(path, timeout_s=timeout_s) as connection:
        purged = _purge_deleted_runs(connection)
        deleted = tuple(run for (run,) in connection.execute(_DELETED_RUNS_SQL))
        notify_followers(path)
        try:
            connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError as error:
            raise StoreError(
                f"the texts of deleted runs are gone, but {path} is too busy to be made smaller "
                "now; try again when fewer processes use it"
            ) from error
    return CompactionResult(
        bytes_before=before, bytes_after=_file_bytes(path), purged=purged, deleted=deleted
    )


def _purge_deleted_runs(connection: apsw.Connection) -> int:
    connection.create_scalar_function("hash_text", _hash_body_for_sql, 1, deterministic=True)
    connection.execute("PRAGMA secure_delete=ON")
    with write_transaction(connection):
        if orphans := _unmarked_subagent_runs(connection):
            insert_rows(connection, [row_from_event(RunDeleted(run=run)) for run in orphans])
        connection.execute(
            f"UPDATE event SET body = hash_text({BODY_SQL}) WHERE NOT {PURGED_SQL} "
            f"AND kind NOT IN ({', '.join('?' * len(KINDS_KEPT_AFTER_DELETION))}) "
            "AND run IN (SELECT run FROM event WHERE kind = 'run.deleted')",
            KINDS_KEPT_AFTER_DELETION,
        )
        return connection.changes()


def _hash_body_for_sql(*values: Any) -> bytes:
    return hash_text(values[0])


def _unmarked_subagent_runs(connection: apsw.Connection) -> Sequence[str]:
    """Subagents of deleted runs, at any depth, that are not marked as deleted themselves.

    They get their own mark: without the texts their parent would be unknown.
    """
    children: dict[str, list[str]] = {}
    for run, parent in connection.execute(
        f"SELECT run, {BODY_JSON_SQL} ->> '$.parent' FROM event WHERE kind = 'run.started'"
    ):
        children.setdefault(parent or "", []).append(run)
    marked = [run for (run,) in connection.execute(_DELETED_RUNS_SQL)]
    gone = dict.fromkeys(marked)
    waiting = list(gone)
    while waiting:
        fresh = [run for run in children.get(waiting.pop(), ()) if run not in gone]
        gone.update(dict.fromkeys(fresh))
        waiting.extend(fresh)
    return [run for run in gone if run not in set(marked)]


def _file_bytes(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return sum(file.stat().st_size for file in (path, log) if file.exists())


class StoreStatus(Value, kw_only=True, frozen=True, omit_defaults=False):
    kind: str
    place: str
    version: int
    events: int
    last: int
    bytes: int
    round_trip_ms: float
    server: str = ""
    pgvector: str = ""
    """Version of the extension; empty when the server has none."""
    processes: int = 1
    """How many Hermes processes are connected, this one included."""


def read_status(location: Path | str) -> StoreStatus:
    """Raises `StoreError` when it cannot be reached, or does not exist."""
    if isinstance(location, str):
        postgres = import_module("hermes.memory.postgres.maintenance")
        found: StoreStatus = postgres.read_status(location)
        return found
    started = time.perf_counter()
    with open_existing(location) as connection:
        last = connection.execute("SELECT coalesce(max(seq), 0) FROM event").get
        round_trip_s = time.perf_counter() - started
        events = connection.execute("SELECT count(*) FROM event").get
        version = schema_version(connection)
    return StoreStatus(
        kind="sqlite",
        place=str(location),
        version=version,
        events=events,
        last=last,
        bytes=_file_bytes(location),
        round_trip_ms=round(round_trip_s * 1000, 2),
    )
