"""The stored journal in a SQLite file."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from hermes.core.errors import StoreError
from hermes.memory.journal.reading import BODY_JSON_SQL, BODY_SQL, EVENT_COLUMNS_SQL, PURGED_SQL
from hermes.memory.journal.rows import EventRow, compress_body, hash_text
from hermes.memory.journal.sqlite_file import (
    LOCK_TIMEOUT_S,
    last_seq_and_digest,
    open_existing,
    schema_version,
    translate_errors,
    unknown_schema_objects,
    write_transaction,
)
from hermes.memory.journal.stored_journal import (
    KINDS_KEPT_AFTER_DELETION,
    MAX_LISTED_PROBLEMS,
    MAX_SCAN_PAGE_BYTES,
    SCAN_PAGE_ROWS,
    StoredJournal,
    StoredRow,
    StoreExtent,
    StoreStatus,
)
from hermes.memory.journal.writer import insert_rows, notify_followers

_STORED_COLUMNS_SQL = f"seq, CAST(digest AS BLOB), {EVENT_COLUMNS_SQL}"
_IS_HIDDEN_SQL = "NOT (typeof(run) = 'text' AND typeof(kind) = 'text' AND typeof(digest) = 'blob')"


@contextmanager
def open_stored_file(
    path: Path, *, timeout_s: float | None = None, read_only: bool = False
) -> Iterator["SqliteStoredJournal"]:
    timeout_s = LOCK_TIMEOUT_S if timeout_s is None else timeout_s
    with open_existing(path, timeout_s=timeout_s, read_only=read_only) as connection:
        yield SqliteStoredJournal(connection, path)


class SqliteStoredJournal(StoredJournal):
    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self.name = str(path)
        self._connection = connection
        self._path = path

    def status(self) -> StoreStatus:
        started = time.perf_counter()
        self.newest()
        round_trip_s = time.perf_counter() - started
        extent = self.extent()
        return StoreStatus(
            kind="sqlite",
            place=self.name,
            version=schema_version(self._connection),
            events=extent.events,
            last=extent.last,
            bytes=self.size_bytes(),
            round_trip_ms=round(round_trip_s * 1000, 2),
        )

    def extent(self) -> StoreExtent:
        row: tuple[int, ...] = self._connection.execute(
            f"SELECT count(*), coalesce(sum({PURGED_SQL}), 0), coalesce(min(seq), 1), "
            "coalesce(max(seq), 0), "
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) FROM event"
        ).get
        return StoreExtent(*row)

    def newest(self) -> tuple[int, bytes] | None:
        return last_seq_and_digest(self._connection)

    def digest_at(self, seq: int) -> bytes | None:
        found = self._connection.execute("SELECT digest FROM event WHERE seq = ?", (seq,)).get
        return None if found is None else bytes(found)

    def pages(self, after: int = 0, run: str | None = None) -> Iterator[list[StoredRow]]:
        own, values = ("", ()) if run is None else ("AND run = ?", (run,))
        sql = (
            f"SELECT {_STORED_COLUMNS_SQL}, {_IS_HIDDEN_SQL} FROM event WHERE seq > ? {own} "
            f"ORDER BY seq LIMIT {SCAN_PAGE_ROWS}"
        )
        with translate_errors(self._path):
            while page := self._read_page(sql, (after, *values)):
                yield page
                after = page[-1].seq

    def _read_page(self, sql: str, values: tuple[Any, ...]) -> list[StoredRow]:
        page: list[StoredRow] = []
        size = 0
        for row in map(StoredRow._make, self._connection.execute(sql, values)):
            page.append(row)
            size += len(row.body)
            if size > MAX_SCAN_PAGE_BYTES:
                break
        return page

    def last_row(self, kind: str) -> StoredRow | None:
        sql = f"SELECT {_STORED_COLUMNS_SQL} FROM event WHERE kind = ? ORDER BY seq DESC LIMIT 1"
        found = self._connection.execute(sql, (kind,)).get
        return None if found is None else StoredRow(*found)

    def gaps(self) -> list[tuple[int, int]]:
        sql = "SELECT first, last FROM gap ORDER BY first"
        found: list[Any] = self._connection.execute(sql).fetchall()
        return found

    def purged_hashes(self) -> Iterator[tuple[int, bytes]]:
        yield from self._connection.execute(f"SELECT seq, body FROM event WHERE {PURGED_SQL}")

    def deleted_runs(self) -> list[str]:
        sql = "SELECT DISTINCT run FROM event WHERE kind = 'run.deleted'"
        return [run for (run,) in self._connection.execute(sql)]

    def run_parents(self) -> Iterator[tuple[str, str]]:
        sql = f"SELECT run, {BODY_JSON_SQL} ->> '$.parent' FROM event WHERE kind = 'run.started'"
        for run, parent in self._connection.execute(sql):
            yield run, parent or ""

    def size_bytes(self) -> int:
        log = self._path.with_name(self._path.name + "-wal")
        return sum(file.stat().st_size for file in (self._path, log) if file.exists())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.execute("PRAGMA synchronous=FULL; PRAGMA secure_delete=ON")
        with write_transaction(self._connection):
            yield
        notify_followers(self._path)

    def append(self, rows: Sequence[EventRow]) -> None:
        insert_rows(self._connection, rows)

    def purge_deleted_runs(self) -> int:
        self._connection.create_scalar_function("hash_text", _hash_for_sql, 1, deterministic=True)
        self._connection.execute(
            f"UPDATE event SET body = hash_text({BODY_SQL}) WHERE NOT {PURGED_SQL} "
            f"AND kind NOT IN ({', '.join('?' * len(KINDS_KEPT_AFTER_DELETION))}) "
            "AND run IN (SELECT run FROM event WHERE kind = 'run.deleted')",
            KINDS_KEPT_AFTER_DELETION,
        )
        return self._connection.changes()

    def free_space(self) -> None:
        try:
            self._connection.execute("VACUUM")
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError as error:
            raise StoreError(
                f"the texts of deleted runs are gone, but {self.name} is too busy to be made "
                "smaller now; try again when fewer processes use it"
            ) from error

    def insert_copies(self, rows: Sequence[StoredRow]) -> None:
        self._connection.executemany(
            "INSERT INTO event(seq, at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?, ?)",
            [
                (
                    *(stored.seq, stored.at, stored.run.decode(), stored.kind.decode()),
                    stored.digest,
                    stored.body if stored.purged else compress_body(stored.body.decode()),
                )
                for stored in rows
            ],
        )

    def finish_copy(
        self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]
    ) -> None:
        with self.transaction():
            self._connection.executemany("INSERT OR REPLACE INTO gap VALUES(?, ?)", gaps)
            top = max((last for _, last in gaps), default=0)
            self._connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?)", (top,))
            self._connection.executemany(
                f"UPDATE event SET body = ? WHERE seq = ? AND NOT {PURGED_SQL}",
                ((hashed, seq) for seq, hashed in purged),
            )
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def structure_problems(self) -> list[str]:
        checked = self._connection.execute(f"PRAGMA integrity_check({MAX_LISTED_PROBLEMS})")
        problems = [str(text) for (text,) in checked if text != "ok"]
        return problems + [
            f"the file holds {name}, which no Hermes made"
            for name in unknown_schema_objects(self._connection)
        ]


def _hash_for_sql(*values: Any) -> bytes:
    return hash_text(values[0])
