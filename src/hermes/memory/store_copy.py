"""Copies a whole journal between a SQLite file and PostgreSQL; can be interrupted and repeated."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.messages import Value
from hermes.memory.journal import sqlite_file
from hermes.memory.journal.reading import EVENT_COLUMNS_SQL, PURGED_SQL
from hermes.memory.journal.rows import EventRow, compress_body
from hermes.memory.journal.sqlite_errors import translate_errors as translate_file_errors
from hermes.memory.postgres import schema
from hermes.memory.postgres.connection import connect, translate_errors
from hermes.memory.postgres.reading import (
    MAX_SCAN_PAGE_BYTES,
    SCAN_PAGE_ROWS,
    StoredRow,
    scan_pages,
    seq_gaps,
)
from hermes.memory.postgres.url import without_password
from hermes.memory.store import StoreLocation, verify

SeqAndDigest = tuple[int, bytes] | None
"""Number and digest of the last event."""
_TARGET_BUSY = "another process writes to {}, the target of the move; end it and move again"

_COPY_EVENTS_SQL = (
    "COPY hermes.event(seq, at, run, kind, digest, body, hash) FROM STDIN (FORMAT binary)"
)


class CopyEndpoint(Protocol):
    name: str

    def newest(self) -> SeqAndDigest: ...
    def count(self) -> tuple[int, int]:
        """Events, and how many of them were purged."""
        ...

    def digest_at(self, seq: int) -> bytes | None: ...
    def pages(self, after: int) -> Iterator[list[StoredRow]]: ...
    def purged(self) -> Iterator[tuple[int, bytes]]: ...
    def gaps(self) -> Sequence[tuple[int, int]]: ...
    def append_rows(self, rows: Sequence[StoredRow], after: int) -> None:
        """All of them in one transaction. Raises `StoreError` when `after` is not the newest."""
        ...

    def finish(
        self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]
    ) -> None: ...


class SqliteEndpoint:
    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self.name = str(path)

    def newest(self) -> SeqAndDigest:
        return sqlite_file.last_seq_and_digest(self._connection)

    def count(self) -> tuple[int, int]:
        sql = f"SELECT count(*), coalesce(sum({PURGED_SQL}), 0) FROM event"
        events, purged = self._connection.execute(sql).get
        return events, purged

    def digest_at(self, seq: int) -> bytes | None:
        found = self._connection.execute("SELECT digest FROM event WHERE seq = ?", (seq,)).get
        return None if found is None else bytes(found)

    def pages(self, after: int) -> Iterator[list[StoredRow]]:
        columns = f"seq, CAST(digest AS BLOB), {EVENT_COLUMNS_SQL}"
        sql = f"SELECT {columns} FROM event WHERE seq > ? ORDER BY seq LIMIT {SCAN_PAGE_ROWS}"
        while True:
            page: list[StoredRow] = []
            size = 0
            for seq, digest, at, run, kind, purged, body in self._connection.execute(sql, (after,)):
                text = body if purged else body.decode()
                page.append(StoredRow(seq, digest, EventRow(at, run.decode(), kind.decode(), text)))
                size += len(body)
                if size > MAX_SCAN_PAGE_BYTES:
                    break
            if not page:
                return
            yield page
            after = page[-1].seq

    def purged(self) -> Iterator[tuple[int, bytes]]:
        yield from self._connection.execute(f"SELECT seq, body FROM event WHERE {PURGED_SQL}")

    def gaps(self) -> Sequence[tuple[int, int]]:
        sql = "SELECT first, last FROM gap ORDER BY first"
        found: list[Any] = self._connection.execute(sql).fetchall()
        return found

    def append_rows(self, rows: Sequence[StoredRow], after: int) -> None:
        with sqlite_file.write_transaction(self._connection):
            newest = self.newest()
            if (newest[0] if newest else 0) != after:
                raise StoreError(_TARGET_BUSY.format(self.name))
            self._connection.executemany(
                "INSERT INTO event(seq, at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?, ?)",
                [
                    (
                        seq,
                        at,
                        run,
                        kind,
                        digest,
                        body if isinstance(body, bytes) else compress_body(body),
                    )
                    for seq, digest, (at, run, kind, body) in rows
                ],
            )

    def finish(self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]) -> None:
        with sqlite_file.write_transaction(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO gap VALUES(?, ?)", gaps)
            top = max((last for _, last in gaps), default=0)
            self._connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?)", (top,))
            self._connection.executemany(
                f"UPDATE event SET body = ? WHERE seq = ? AND NOT {PURGED_SQL}",
                ((hashed, seq) for seq, hashed in purged),
            )


class PostgresEndpoint:
    def __init__(self, connection: psycopg.Connection[Any], url: str) -> None:
        self._connection = connection
        self.name = without_password(url)

    def newest(self) -> SeqAndDigest:
        sql = "SELECT seq, digest FROM hermes.event ORDER BY seq DESC LIMIT 1"
        found = self._connection.execute(sql).fetchone()
        return None if found is None else (found[0], bytes(found[1]))

    def count(self) -> tuple[int, int]:
        sql = "SELECT count(*), count(hash) FROM hermes.event"
        return self._connection.execute(sql).fetchone() or (0, 0)

    def digest_at(self, seq: int) -> bytes | None:
        sql = "SELECT digest FROM hermes.event WHERE seq = %s"
        found = self._connection.execute(sql, (seq,)).fetchone()
        return None if found is None else bytes(found[0])

    def pages(self, after: int) -> Iterator[list[StoredRow]]:
        return scan_pages(self._connection, after=after)

    def purged(self) -> Iterator[tuple[int, bytes]]:
        sql = "SELECT seq, hash FROM hermes.event WHERE hash IS NOT NULL ORDER BY seq"
        for seq, hashed in self._connection.execute(sql):
            yield seq, bytes(hashed)

    def gaps(self) -> Sequence[tuple[int, int]]:
        return seq_gaps(self._connection)

    def append_rows(self, rows: Sequence[StoredRow], after: int) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM hermes.head FOR UPDATE")
            newest = self.newest()
            if (newest[0] if newest else 0) != after:
                raise StoreError(_TARGET_BUSY.format(self.name))
            with cursor.copy(_COPY_EVENTS_SQL) as copy:
                copy.set_types(("int8", "int8", "text", "text", "bytea", "text", "bytea"))
                for seq, digest, (at, run, kind, body) in rows:
                    text, hashed = (None, body) if isinstance(body, bytes) else (body, None)
                    copy.write_row((seq, at, run, kind, digest, text, hashed))
            cursor.execute("UPDATE hermes.head SET last = %s, digest = %s", rows[-1][:2])

    def finish(self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]) -> None:
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


@contextmanager
def open_source(location: Path | str) -> Iterator[CopyEndpoint]:
    """An existing store, for reading."""
    if isinstance(location, Path):
        with sqlite_file.open_existing(location) as connection:
            yield SqliteEndpoint(connection, location)
    else:
        with schema.open_existing(location) as server:
            yield PostgresEndpoint(server, location)


@contextmanager
def open_target(location: Path | str) -> Iterator[CopyEndpoint]:
    """A store to be filled, created when it does not exist."""
    if isinstance(location, Path):
        connection = sqlite_file.open_for_writing(location).connection
        try:
            with translate_file_errors(location):
                yield SqliteEndpoint(connection, location)
        finally:
            connection.close()
    else:
        schema.migrate_schema(location)
        with translate_errors(location), connect(location) as server:
            yield PostgresEndpoint(server, location)


CopyProgress = Callable[[int, int], None]
"""Called after each page: the number that is safe in the target, and the one to reach."""


class StoreCopyResult(Value, kw_only=True, frozen=True):
    source: str
    target: str
    copied: int
    """Events of this copy; an earlier one that was interrupted had copied the others."""
    events: int
    last: int
    digest: str
    """Digest of the newest event, the same on both sides."""
    purged: int = 0


def copy_store(
    origin: StoreLocation,
    destination: StoreLocation,
    progress: CopyProgress = lambda safe, all_: None,
) -> StoreCopyResult:
    """Copy all events under their own numbers and compare. The source is only read.

    Raises `StoreError` when the target has another journal. Can be killed and run again.
    """
    if _is_same_location(origin, destination):
        raise StoreError(f"{origin if isinstance(origin, Path) else 'it'} is the store already")
    with open_source(origin) as out, open_target(destination) as into:
        start = _copied_up_to(out, into)
        copied = _copy_events(out, into, start, progress)
        into.finish(out.gaps(), out.purged())
        moved = _compare_stores(out, into, copied)
    report = verify(destination)
    if not report.ok:
        raise StoreCorrupt(
            f"the copy is not whole: {report.problems[0]}. Verify the source with `hermes journal "
            "verify`; it was not changed"
        )
    return moved


def _is_same_location(one: StoreLocation, other: StoreLocation) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.absolute() == other.absolute()
    return one == other


def _copied_up_to(source: CopyEndpoint, target: CopyEndpoint) -> int:
    """The number up to which the target already equals the source."""
    target_end = target.newest()
    if target_end is None:
        return 0
    if source.digest_at(target_end[0]) == target_end[1]:
        return target_end[0]
    ours = source.newest()
    if ours is not None and target.digest_at(ours[0]) == ours[1]:
        raise StoreError(
            f"{target.name} has all of {source.name} already, and has been used since: there is "
            "nothing to move in this direction"
        )
    events, _ = target.count()
    raise StoreError(
        f"{target.name} holds another journal ({events:,} events) and nothing was changed; name an "
        "empty place, or move that one away first"
    )


def _copy_events(
    source: CopyEndpoint, target: CopyEndpoint, start: int, progress: CopyProgress
) -> int:
    copied, at = 0, start
    while (newest := source.newest()) is not None and newest[
        0
    ] > at:  # others may still write there
        for page in source.pages(at):
            target.append_rows(page, at)
            at = page[-1].seq
            copied += len(page)
            progress(at, max(at, newest[0]))
    return copied


def _compare_stores(source: CopyEndpoint, target: CopyEndpoint, copied: int) -> StoreCopyResult:
    source_end, target_end = source.newest(), target.newest()
    if source.count() != target.count() or source_end != target_end:
        raise StoreError(
            f"{source.name} changed while it was compared with {target.name}; end the other Hermes "
            "processes and move again: it continues from here"
        )
    events, purged = target.count()
    last, digest = target_end or (0, bytes(32))
    return StoreCopyResult(
        source=source.name,
        target=target.name,
        copied=copied,
        events=events,
        last=last,
        digest=digest.hex(),
        purged=purged,
    )
