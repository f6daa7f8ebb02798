"""The file of the index: created, checked, and deleted when it is unusable.

It is never the only copy of anything: it can always be rebuilt from the journal.
"""

from pathlib import Path
from typing import NamedTuple

import apsw

from hermes.memory.journal.sqlite_file import (
    LOCK_TIMEOUT_S,
    connect,
    create_file,
    enable_wal,
    write_transaction,
)
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


class IndexConnection(NamedTuple):
    connection: apsw.Connection
    notices: tuple[str, ...] = ()
    """What the person should know: rebuilt, or only in memory."""
    in_memory: bool = False


def open_index(path: Path) -> IndexConnection:
    """The index in its file; in memory where the file cannot be written."""
    notices: list[str] = []
    for _ in range(2):
        try:
            return IndexConnection(_open_file(path), tuple(notices))
        except (apsw.CorruptError, apsw.NotADBError, IndexUnusable) as error:
            notices.append(f"the search index was rebuilt: {error}")
            delete_index(path)
        except (apsw.Error, OSError) as error:
            return open_index_in_memory(path, str(error))
    return open_index_in_memory(path, "it is damaged again and again")


class IndexUnusable(Exception):
    """Of another version, of another program or of another journal."""


def open_index_in_memory(path: Path, why: str) -> IndexConnection:
    """A copy that can be updated where nothing can be written."""
    connection = apsw.Connection(":memory:")
    notice = f"the search index {path} cannot be written ({why}); searching in memory"
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
    return IndexConnection(connection, (notice,), in_memory=True)


def delete_index(path: Path) -> None:
    """Delete the file, once, whichever of several processes comes first."""
    before = file_identity(path)
    with FileLock(path.with_name(f"{path.name}.lock")):
        if file_identity(path) == before:
            for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
                path.with_name(name).unlink(missing_ok=True)


def connect_read_only(path: Path) -> apsw.Connection:
    """Where nothing can be written, SQLite must be told that the file is immutable."""
    uri = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _open_file(path: Path) -> apsw.Connection:
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


def file_identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
