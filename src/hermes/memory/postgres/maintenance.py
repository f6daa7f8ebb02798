"""Export, compaction and status of a journal in PostgreSQL."""

import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
import psycopg

from hermes.core.events.runs import RunDeleted
from hermes.memory.journal.maintenance import (
    KINDS_KEPT_AFTER_DELETION,
    CompactionResult,
    StoreStatus,
)
from hermes.memory.journal.rows import event_json, read_event, row_from_event
from hermes.memory.postgres.reading import scan_pages
from hermes.memory.postgres.schema import component_versions, open_existing
from hermes.memory.postgres.url import without_password
from hermes.memory.postgres.writer import append_rows

_SIZE_SQL = "SELECT pg_total_relation_size('hermes.event')"
_DELETED_RUNS_SQL = "SELECT DISTINCT run FROM hermes.event WHERE kind = 'run.deleted'"
# Subagents of deleted runs, at any depth, that are not marked themselves.
_UNMARKED_SUBAGENT_RUNS_SQL = r"""
    WITH RECURSIVE child AS (
        SELECT run, replace(body, '\u0000', '\ufffd')::json ->> 'parent' AS parent
        FROM hermes.event WHERE kind = 'run.started' AND body IS NOT NULL
    ), gone AS (
        SELECT DISTINCT run FROM hermes.event WHERE kind = 'run.deleted'
        UNION SELECT child.run FROM child JOIN gone ON child.parent = gone.run
    )
    SELECT run FROM gone WHERE NOT EXISTS (
        SELECT 1 FROM hermes.event e WHERE e.run = gone.run AND e.kind = 'run.deleted')
"""


def export(url: str, *, run: str | None = None) -> Iterator[bytes]:
    """Every event, or those of one run, as lines of JSON: `seq`, `kind`, and the `event` itself,
    or its hash when it was `purged`."""
    with open_existing(url) as connection:
        for stored in chain.from_iterable(scan_pages(connection, run=run)):
            at, of, kind, body = stored.row
            rest: dict[str, Any]
            if isinstance(body, bytes):
                rest = {"run": of, "purged": body.hex()}
            else:
                # Raises for an event that cannot be read.
                read_event(stored.seq, at, of.encode(), kind.encode(), body.encode())
                rest = {"event": msgspec.Raw(event_json(at, of, kind, body.encode()))}
            yield msgspec.json.encode({"seq": stored.seq, "kind": kind, **rest})


def compact(url: str) -> CompactionResult:
    """Delete the texts of deleted runs and free their space, while others may continue to work."""
    with open_existing(url) as connection:
        before = _query_int(connection, _SIZE_SQL)
        with connection.transaction():
            connection.execute("SELECT 1 FROM hermes.head FOR UPDATE")
            _mark_subagent_runs_deleted(connection)
            purged = connection.execute(
                "UPDATE hermes.event SET hash = sha256(convert_to(body, 'UTF8')), body = NULL "
                "WHERE body IS NOT NULL AND kind <> ALL(%s) AND run IN "
                "(SELECT run FROM hermes.event WHERE kind = 'run.deleted')",
                (list(KINDS_KEPT_AFTER_DELETION),),
            ).rowcount
        deleted = tuple(run for (run,) in connection.execute(_DELETED_RUNS_SQL))
        # Plain, not FULL, which would lock out all others. The space is reused.
        connection.execute("VACUUM (ANALYZE) hermes.event")
        after = _query_int(connection, _SIZE_SQL)
    return CompactionResult(bytes_before=before, bytes_after=after, purged=purged, deleted=deleted)


def _mark_subagent_runs_deleted(connection: psycopg.Connection[Any]) -> None:
    """Without the texts their parent would be unknown."""
    rows = [
        row_from_event(RunDeleted(run=run))
        for (run,) in connection.execute(_UNMARKED_SUBAGENT_RUNS_SQL)
    ]
    if rows:
        append_rows(connection, rows)


def _query_int(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql.encode()).fetchone()
    return int(row[0]) if row else 0


_STATUS_SQL = """
    SELECT (SELECT count(*) FROM hermes.event), (SELECT last FROM hermes.head),
        (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
         WHERE relnamespace = 'hermes'::regnamespace AND relkind = 'r'),
        current_setting('server_version'),
        coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), ''),
        (SELECT count(DISTINCT application_name) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'hermes %')
"""


def read_status(url: str) -> StoreStatus:
    with open_existing(url) as connection:
        started = time.perf_counter()
        connection.execute("SELECT 1")
        round_trip_s = time.perf_counter() - started
        found = connection.execute(_STATUS_SQL).fetchone() or (0, 0, 0, "", "", 0)
        version = component_versions(connection, url)["journal"]
    events, last, size, server, pgvector, processes = found
    return StoreStatus(
        kind="postgresql",
        place=without_password(url),
        version=version,
        events=events,
        last=last,
        bytes=size,
        round_trip_ms=round(round_trip_s * 1000, 2),
        server=server,
        pgvector=pgvector,
        processes=processes,
    )
