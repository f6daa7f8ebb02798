"""The stored journal in PostgreSQL."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import LiteralString

from hermes.memory.journal.rows import EventRow
from hermes.memory.journal.stored_journal import (
    KINDS_KEPT_AFTER_DELETION,
    MAX_SCAN_PAGE_BYTES,
    SCAN_PAGE_ROWS,
    StoredJournal,
    StoredRow,
    StoreExtent,
    StoreStatus,
)
from hermes.memory.postgres.connection import PgConnection
from hermes.memory.postgres.schema import component_versions, open_existing
from hermes.memory.postgres.writer import append_rows
from hermes.memory.store import without_password

_STORED_COLUMNS_SQL: LiteralString = "seq, digest, at, run, kind, body, hash"
# A page is ended where it becomes too large; the sizes are known without loading the texts.
_SCAN_PAGE_SQL: LiteralString = (
    f"SELECT {_STORED_COLUMNS_SQL} FROM ("
    " SELECT *, sum(size) OVER (ORDER BY seq) - size AS before FROM ("
    "  SELECT *, octet_length(coalesce(body, '')) AS size FROM hermes.event"
    "  WHERE seq > %(after)s AND (%(run)s::text IS NULL OR run = %(run)s)"
    "  ORDER BY seq LIMIT %(rows)s) AS page"
    ") AS sized WHERE before < %(bytes)s ORDER BY seq"
)
_COPY_EVENTS_SQL = (
    "COPY hermes.event(seq, at, run, kind, digest, body, hash) FROM STDIN (FORMAT binary)"
)
# JSON functions fail on the escape of a NUL, which is a legal character in our texts.
_RUN_PARENTS_SQL = r"""
    SELECT run, coalesce(replace(body, '\u0000', '\ufffd')::json ->> 'parent', '')
    FROM hermes.event WHERE kind = 'run.started' AND body IS NOT NULL
"""
_STATUS_SQL = """
    SELECT (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
         WHERE relnamespace = 'hermes'::regnamespace AND relkind = 'r'),
        current_setting('server_version'),
        coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), ''),
        (SELECT count(DISTINCT application_name) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'hermes %')
"""


@contextmanager
def open_stored_database(
    url: str, *, timeout_s: float | None = None
) -> Iterator["PostgresStoredJournal"]:
    with open_existing(url, timeout_s=timeout_s) as connection:
        yield PostgresStoredJournal(connection, url)


class PostgresStoredJournal(StoredJournal):
    def __init__(self, connection: PgConnection, url: str) -> None:
        self.name = without_password(url)
        self._connection = connection
        self._url = url

    def status(self) -> StoreStatus:
        started = time.perf_counter()
        self._connection.execute("SELECT 1")
        round_trip_s = time.perf_counter() - started
        found = self._connection.execute(_STATUS_SQL).fetchone() or (0, "", "", 0)
        size, server, pgvector, processes = found
        extent = self.extent()
        return StoreStatus(
            kind="postgresql",
            place=self.name,
            version=component_versions(self._connection, self._url)["journal"],
            events=extent.events,
            last=extent.last_given,
            bytes=size,
            round_trip_ms=round(round_trip_s * 1000, 2),
            server=server,
            pgvector=pgvector,
            processes=processes,
        )

    def extent(self) -> StoreExtent:
        found = self._connection.execute(
            "SELECT count(*), count(hash), coalesce(min(seq), 1), coalesce(max(seq), 0), "
            "(SELECT last FROM hermes.head) FROM hermes.event"
        ).fetchone()
        return StoreExtent(*found or (0, 0, 1, 0, 0))

    def newest(self) -> tuple[int, bytes] | None:
        sql = "SELECT seq, digest FROM hermes.event ORDER BY seq DESC LIMIT 1"
        found = self._connection.execute(sql).fetchone()
        return None if found is None else (found[0], bytes(found[1]))

    def digest_at(self, seq: int) -> bytes | None:
        sql = "SELECT digest FROM hermes.event WHERE seq = %s"
        found = self._connection.execute(sql, (seq,)).fetchone()
        return None if found is None else bytes(found[0])

    def pages(self, after: int = 0, run: str | None = None) -> Iterator[list[StoredRow]]:
        asked = {"run": run, "rows": SCAN_PAGE_ROWS, "bytes": MAX_SCAN_PAGE_BYTES}
        while True:
            values = {**asked, "after": after}
            found = self._connection.execute(_SCAN_PAGE_SQL, values, binary=True).fetchall()
            if not found:
                return
            yield [_stored_row(*row) for row in found]
            after = found[-1][0]

    def last_row(self, kind: str) -> StoredRow | None:
        sql: LiteralString = f"SELECT {_STORED_COLUMNS_SQL} FROM hermes.event WHERE kind = %s "
        found = self._connection.execute(sql + "ORDER BY seq DESC LIMIT 1", (kind,)).fetchone()
        return None if found is None else _stored_row(*found)

    def gaps(self) -> list[tuple[int, int]]:
        sql = "SELECT first, last FROM hermes.gap ORDER BY first"
        return self._connection.execute(sql).fetchall()

    def purged_hashes(self) -> Iterator[tuple[int, bytes]]:
        sql = "SELECT seq, hash FROM hermes.event WHERE hash IS NOT NULL ORDER BY seq"
        for seq, hashed in self._connection.execute(sql):
            yield seq, bytes(hashed)

    def deleted_runs(self) -> list[str]:
        sql = "SELECT DISTINCT run FROM hermes.event WHERE kind = 'run.deleted'"
        return [run for (run,) in self._connection.execute(sql)]

    def run_parents(self) -> Iterator[tuple[str, str]]:
        yield from self._connection.execute(_RUN_PARENTS_SQL)

    def size_bytes(self) -> int:
        sql = "SELECT pg_total_relation_size('hermes.event')"
        return int((self._connection.execute(sql).fetchone() or (0,))[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._connection.transaction():
            self._connection.execute("SELECT 1 FROM hermes.head FOR UPDATE")
            yield

    def append(self, rows: Sequence[EventRow]) -> None:
        append_rows(self._connection, rows)

    def purge_deleted_runs(self) -> int:
        return self._connection.execute(
            "UPDATE hermes.event SET hash = sha256(convert_to(body, 'UTF8')), body = NULL "
            "WHERE body IS NOT NULL AND kind <> ALL(%s) AND run IN "
            "(SELECT run FROM hermes.event WHERE kind = 'run.deleted')",
            (list(KINDS_KEPT_AFTER_DELETION),),
        ).rowcount

    def free_space(self) -> None:
        # Plain, not FULL, which would lock out all others. The space is reused.
        self._connection.execute("VACUUM (ANALYZE) hermes.event")

    def insert_copies(self, rows: Sequence[StoredRow]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(_COPY_EVENTS_SQL) as copy:
            copy.set_types(("int8", "int8", "text", "text", "bytea", "text", "bytea"))
            for stored in rows:
                at, run, kind, body = stored.event_row()
                text, hashed = (None, body) if isinstance(body, bytes) else (body, None)
                copy.write_row((stored.seq, at, run, kind, stored.digest, text, hashed))
        self._connection.execute("UPDATE hermes.head SET last = %s, digest = %s", rows[-1][:2])

    def finish_copy(
        self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]
    ) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO hermes.gap VALUES (%s, %s) ON CONFLICT (first) DO UPDATE "
                "SET last = excluded.last",
                list(gaps),
            )
            top = max((last for _, last in gaps), default=0)
            cursor.execute("UPDATE hermes.head SET last = greatest(last, %s)", (top,))
            cursor.executemany(
                "UPDATE hermes.event SET body = NULL, hash = %s "
                "WHERE seq = %s AND body IS NOT NULL",
                [(hashed, seq) for seq, hashed in purged],
            )
        self._connection.execute("ANALYZE hermes.event")


def _stored_row(
    seq: int, digest: bytes, at: int, run: str, kind: str, body: str | None, hashed: bytes | None
) -> StoredRow:
    text = bytes(hashed or b"") if body is None else body.encode()
    return StoredRow(seq, bytes(digest), at, run.encode(), kind.encode(), body is None, text)
