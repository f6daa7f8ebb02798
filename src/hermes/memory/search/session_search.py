"""The search of one home: the file of its index, and its journal, opened at the first use.

The index is never the only copy of anything: it can always be rebuilt from the journal.
"""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

import apsw

from hermes.core.errors import StoreError
from hermes.memory.journal.disk import FileIdentity, file_identity
from hermes.memory.journal.rows import decompress_body
from hermes.memory.journal.sqlite_file import (
    LOCK_TIMEOUT_S,
    check_wal,
    connect,
    create_file,
    enable_wal,
    translate_errors,
    write_transaction,
)
from hermes.memory.search.line_index import IndexProgress
from hermes.memory.search.line_search import IndexedSearch, no_query
from hermes.memory.search.sqlite_index import IndexUnusable, SqliteLineIndex
from hermes.plumbing.files import FileLock

INDEX_VERSION = 1
"""Version of tables and analysis: every change of the index content raises it."""
INDEX_APPLICATION_ID = 0x48657278

_SCHEMA_SQL = f"""
CREATE VIRTUAL TABLE words USING fts5(
    body, facts, about, content='', columnsize=0, tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TABLE session(id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, lines INTEGER NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE line(seq INTEGER PRIMARY KEY, session INTEGER NOT NULL, position INTEGER NOT NULL,
    at INTEGER NOT NULL);
CREATE INDEX line_in_session ON line(session, position);
CREATE TABLE gone(seq INTEGER PRIMARY KEY);
CREATE TABLE fate(seq INTEGER PRIMARY KEY, confirmed INTEGER, ended INTEGER);
CREATE TABLE day(day INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE TABLE state(upto INTEGER NOT NULL, digest BLOB NOT NULL, lines INTEGER NOT NULL);
INSERT INTO state VALUES(0, x'', 0);
PRAGMA application_id={INDEX_APPLICATION_ID};
PRAGMA user_version={INDEX_VERSION};
"""
# `body` is the text, `facts` the parts of its identifiers and its speaker, `about` our own marks
# and the date. `line` has the positions: `at` in seconds, `position` in its session. `gone` are
# lines that must not be found; their words leave the file when it is rebuilt. `day` has the range
# of numbers of each day's lines: clocks jump, so numbers and times need not agree.


def copy_index_to_memory(path: Path) -> apsw.Connection:
    """A copy that can be updated where nothing can be written; empty when there is none."""
    connection = apsw.Connection(":memory:")
    try:
        source = connect_read_only(path)
        try:
            _check_version(source)
            with connection.backup("main", source, "main") as copying:
                copying.step()
        finally:
            source.close()
    except (apsw.Error, IndexUnusable):
        connection.close()
        connection = apsw.Connection(":memory:")
        connection.execute(_SCHEMA_SQL)
    return connection


def delete_index(path: Path) -> None:
    """Delete the file, once, whichever of several processes comes first."""
    before = file_identity(path)
    with FileLock(path.with_name(f"{path.name}.lock")):
        if file_identity(path) == before:
            for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(name).unlink(missing_ok=True)


def connect_read_only(path: Path) -> apsw.Connection:
    """Where nothing can be written, the file is opened as immutable."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_index(path: Path) -> apsw.Connection:
    create_file(path)
    connection = connect(path, timeout_s=LOCK_TIMEOUT_S)
    try:
        if connection.readonly("main"):
            raise apsw.ReadOnlyError("no right to write")
        enable_wal(connection, path, LOCK_TIMEOUT_S)
        connection.execute("PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=8388608")
        if connection.pragma("user_version") == 0:
            _create_tables(connection)
        _check_version(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: apsw.Connection) -> None:
    with write_transaction(connection):
        if connection.pragma("user_version") == 0:  # another process may have been faster
            connection.execute(_SCHEMA_SQL)


def _check_version(connection: apsw.Connection) -> None:
    version = connection.pragma("user_version")
    if connection.pragma("application_id") != INDEX_APPLICATION_ID or version != INDEX_VERSION:
        raise IndexUnusable(f"it has version {version}, this Hermes makes version {INDEX_VERSION}")


Answer = TypeVar("Answer")
_RETRY_PAUSE_S = 60.0
"""Seconds after which a file that could not be written is tried again."""
_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, IndexUnusable)
_NOT_WRITABLE_ERRORS = (apsw.FullError, apsw.ReadOnlyError, apsw.IOError, apsw.CantOpenError)


class SessionSearch(IndexedSearch):
    """Finds everything that is in the journal at that time."""

    def __init__(self, journal: Path, index: Path) -> None:
        self.path = index
        self._journal_path = journal
        self._lock = Lock()
        self._index: apsw.Connection | None = None
        self._journal: apsw.Connection | None = None
        self._identity: FileIdentity | None = None
        self._notices: list[str] = []
        self._retry_at: float | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._notices))

    def ask_blocking(
        self,
        question: Callable[[SqliteLineIndex], Answer],
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
    ) -> Answer:
        with self._lock, translate_errors(self.path):
            for _ in range(3):
                try:
                    index = SqliteLineIndex(*self._connections())
                    index.check_same_journal()
                    self._report_unindexed(index.catch_up(seconds, progress))
                    return question(index)
                except _DAMAGE_ERRORS as error:
                    self._discard_index(str(error))
                except _NOT_WRITABLE_ERRORS as error:
                    self._use_memory_index(error)
            raise StoreError(f"the search index {self.path} cannot be made; is the disk in order?")

    def rebuild(self, progress: IndexProgress | None = None) -> None:
        with self._lock:
            self._close_index()
            delete_index(self.path)
        self.ask_blocking(no_query, progress=progress)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _connections(self) -> tuple[apsw.Connection, apsw.Connection]:
        if self._index is not None and self._identity not in (None, file_identity(self.path)):
            self._close_index()  # another process has rebuilt it
        if self._retry_at is not None and time.monotonic() > self._retry_at:
            self._close()
            self._notices.clear()
        if self._journal is None:
            self._journal = self._open_journal()
        return self._index or self._open_index(), self._journal

    def _open_index(self) -> apsw.Connection:
        try:
            self._index = open_index(self.path)
        except _DAMAGE_ERRORS:
            raise
        except (apsw.Error, OSError) as error:
            return self._use_memory_index(error)
        self._identity = file_identity(self.path)
        return self._index

    def _open_journal(self) -> apsw.Connection:
        path = self._journal_path
        check_wal(path)
        if not path.exists():
            raise StoreError(f"there is no journal at {path} yet; nothing can be found")
        try:
            connection = connect(path)
            connection.execute("PRAGMA query_only=1; SELECT max(seq) FROM event").fetchall()
        except _NOT_WRITABLE_ERRORS:
            self._notices.append(
                f"{path.parent} cannot be written: what another process wrote last may be missing"
            )
            self._retry_at = time.monotonic() + _RETRY_PAUSE_S
            connection = connect_read_only(path)
            connection.create_scalar_function("plain", decompress_body, 1, deterministic=True)
        return connection

    def _report_unindexed(self, missing: int) -> None:
        if missing:
            self._notices.append(
                f"{missing:,} newer events are not indexed yet; `hermes sessions reindex` "
                "shows how far it is"
            )

    def _discard_index(self, why: str) -> None:
        self._close_index()
        delete_index(self.path)
        self._notices.append(f"the search index was rebuilt: {why}")

    def _use_memory_index(self, error: Exception) -> apsw.Connection:
        self._close_index()
        self._notices.append(
            f"the search index {self.path} cannot be written ({error}); searching in memory"
        )
        self._retry_at = time.monotonic() + _RETRY_PAUSE_S
        self._index, self._identity = copy_index_to_memory(self.path), None
        return self._index

    def _close(self) -> None:
        self._close_index()
        self._retry_at = None
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
