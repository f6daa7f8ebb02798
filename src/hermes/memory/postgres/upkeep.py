"""Looking after a journal in the database: take its contents elsewhere, make it smaller."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
import psycopg

from hermes.core.events.runs import RunDeleted
from hermes.memory.postgres.scan import pages
from hermes.memory.postgres.schema import opened
from hermes.memory.postgres.sending import send
from hermes.memory.rows import json_of, read, row_of
from hermes.memory.upkeep import KEPT, Compaction

_SIZE = "SELECT pg_total_relation_size('hermes.event')"
_DELETED = "SELECT DISTINCT run FROM hermes.event WHERE kind = 'run.deleted'"
# Subagents of deleted runs, at any depth, that are not marked themselves.
_ORPHANS = r"""
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
    or the hash it left behind when it was `purged`."""
    with opened(url) as connection:
        for stored in chain.from_iterable(pages(connection, run=run)):
            at, of, kind, body = stored.row
            rest: dict[str, Any]
            if isinstance(body, bytes):
                rest = {"run": of, "purged": body.hex()}
            else:
                # What cannot be read is named, not passed on.
                read(stored.seq, at, of.encode(), kind.encode(), body.encode())
                rest = {"event": msgspec.Raw(json_of(at, of, kind, body.encode()))}
            yield msgspec.json.encode({"seq": stored.seq, "kind": kind, **rest})


def compact(url: str) -> Compaction:
    """Drop the texts of deleted runs and the space they took, while others may go on working."""
    with opened(url) as connection:
        before = _number(connection, _SIZE)
        with connection.transaction():
            connection.execute("SELECT 1 FROM hermes.head FOR UPDATE")
            _mark_orphans(connection)
            purged = connection.execute(
                "UPDATE hermes.event SET hash = sha256(convert_to(body, 'UTF8')), body = NULL "
                "WHERE body IS NOT NULL AND kind <> ALL(%s) AND run IN "
                "(SELECT run FROM hermes.event WHERE kind = 'run.deleted')",
                (list(KEPT),),
            ).rowcount
        deleted = tuple(run for (run,) in connection.execute(_DELETED))
        # Plain, not FULL: that one would lock everybody out. The space is used again.
        connection.execute("VACUUM (ANALYZE) hermes.event")
        after = _number(connection, _SIZE)
    return Compaction(bytes_before=before, bytes_after=after, purged=purged, deleted=deleted)


def _mark_orphans(connection: psycopg.Connection[Any]) -> None:
    """Once the texts are gone nobody could tell whose children they were."""
    rows = [row_of(RunDeleted(run=run)) for (run,) in connection.execute(_ORPHANS)]
    if rows:
        send(connection, rows)


def _number(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql.encode()).fetchone()
    return int(row[0]) if row else 0
