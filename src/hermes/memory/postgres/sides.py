"""A file and a database as the two ends of a move: rows go in under the numbers they had."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from hermes.core.errors import StoreError
from hermes.memory import schema as file_schema
from hermes.memory.faults import explained as file_explained
from hermes.memory.packing import pack
from hermes.memory.pages import COLUMNS, PURGED
from hermes.memory.postgres import schema
from hermes.memory.postgres.address import shown
from hermes.memory.postgres.connecting import connect
from hermes.memory.postgres.faults import explained
from hermes.memory.postgres.scan import BYTES, ROWS, Stored, gaps, pages
from hermes.memory.rows import Row

Newest = tuple[int, bytes] | None
"""Number and digest of the last event."""
_BUSY = "somebody writes to {}, the target of the move; end that process and move again"

_COPY = "COPY hermes.event(seq, at, run, kind, digest, body, hash) FROM STDIN (FORMAT binary)"


class Side(Protocol):
    name: str

    def newest(self) -> Newest: ...
    def count(self) -> tuple[int, int]:
        """Events, and how many of them were purged."""
        ...

    def digest_at(self, seq: int) -> bytes | None: ...
    def pages(self, after: int) -> Iterator[list[Stored]]: ...
    def purged(self) -> Iterator[tuple[int, bytes]]: ...
    def gaps(self) -> Sequence[tuple[int, int]]: ...
    def take(self, rows: Sequence[Stored], after: int) -> None:
        """All of them in one transaction. Raises `StoreError` when `after` is not the newest."""
        ...

    def settle(
        self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]
    ) -> None: ...


class FileSide:
    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self.name = str(path)

    def newest(self) -> Newest:
        return file_schema.last_link(self._connection)

    def count(self) -> tuple[int, int]:
        sql = f"SELECT count(*), coalesce(sum({PURGED}), 0) FROM event"
        events, purged = self._connection.execute(sql).get
        return events, purged

    def digest_at(self, seq: int) -> bytes | None:
        found = self._connection.execute("SELECT digest FROM event WHERE seq = ?", (seq,)).get
        return None if found is None else bytes(found)

    def pages(self, after: int) -> Iterator[list[Stored]]:
        columns = f"seq, CAST(digest AS BLOB), {COLUMNS}"
        sql = f"SELECT {columns} FROM event WHERE seq > ? ORDER BY seq LIMIT {ROWS}"
        while True:
            page: list[Stored] = []
            size = 0
            for seq, digest, at, run, kind, purged, body in self._connection.execute(sql, (after,)):
                text = body if purged else body.decode()
                page.append(Stored(seq, digest, Row(at, run.decode(), kind.decode(), text)))
                size += len(body)
                if size > BYTES:
                    break
            if not page:
                return
            yield page
            after = page[-1].seq

    def purged(self) -> Iterator[tuple[int, bytes]]:
        yield from self._connection.execute(f"SELECT seq, body FROM event WHERE {PURGED}")

    def gaps(self) -> Sequence[tuple[int, int]]:
        sql = "SELECT first, last FROM gap ORDER BY first"
        found: list[Any] = self._connection.execute(sql).fetchall()
        return found

    def take(self, rows: Sequence[Stored], after: int) -> None:
        with _immediate(self._connection):
            newest = self.newest()
            if (newest[0] if newest else 0) != after:
                raise StoreError(_BUSY.format(self.name))
            self._connection.executemany(
                "INSERT INTO event(seq, at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?, ?)",
                [
                    (seq, at, run, kind, digest, body if isinstance(body, bytes) else pack(body))
                    for seq, digest, (at, run, kind, body) in rows
                ],
            )

    def settle(self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]) -> None:
        with _immediate(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO gap VALUES(?, ?)", gaps)
            top = max((last for _, last in gaps), default=0)
            self._connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?)", (top,))
            self._connection.executemany(
                f"UPDATE event SET body = ? WHERE seq = ? AND NOT {PURGED}",
                ((hashed, seq) for seq, hashed in purged),
            )


class DatabaseSide:
    def __init__(self, connection: psycopg.Connection[Any], url: str) -> None:
        self._connection = connection
        self.name = shown(url)

    def newest(self) -> Newest:
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

    def pages(self, after: int) -> Iterator[list[Stored]]:
        return pages(self._connection, after=after)

    def purged(self) -> Iterator[tuple[int, bytes]]:
        sql = "SELECT seq, hash FROM hermes.event WHERE hash IS NOT NULL ORDER BY seq"
        for seq, hashed in self._connection.execute(sql):
            yield seq, bytes(hashed)

    def gaps(self) -> Sequence[tuple[int, int]]:
        return gaps(self._connection)

    def take(self, rows: Sequence[Stored], after: int) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM hermes.head FOR UPDATE")
            newest = self.newest()
            if (newest[0] if newest else 0) != after:
                raise StoreError(_BUSY.format(self.name))
            with cursor.copy(_COPY) as copy:
                copy.set_types(("int8", "int8", "text", "text", "bytea", "text", "bytea"))
                for seq, digest, (at, run, kind, body) in rows:
                    text, hashed = (None, body) if isinstance(body, bytes) else (body, None)
                    copy.write_row((seq, at, run, kind, digest, text, hashed))
            cursor.execute("UPDATE hermes.head SET last = %s, digest = %s", rows[-1][:2])

    def settle(self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]) -> None:
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
def source(place: Path | str) -> Iterator[Side]:
    """A store that is there, to be read."""
    if isinstance(place, Path):
        with file_schema.opened(place) as connection:
            yield FileSide(connection, place)
    else:
        with schema.opened(place) as server:
            yield DatabaseSide(server, place)


@contextmanager
def target(place: Path | str) -> Iterator[Side]:
    """A store to be filled, made when it is not there."""
    if isinstance(place, Path):
        connection = file_schema.prepare(place).connection
        try:
            with file_explained(place):
                yield FileSide(connection, place)
        finally:
            connection.close()
    else:
        schema.prepare(place)
        with explained(place), connect(place) as server:
            yield DatabaseSide(server, place)


@contextmanager
def _immediate(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
