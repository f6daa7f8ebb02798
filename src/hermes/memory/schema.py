"""The shape of the file: its tables, and how an older one is brought up to date."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw

from hermes.core.errors import StoreError, StoreReadOnly, StoreTooNew
from hermes.memory.connection import (
    PATIENCE,
    check_log,
    close_untouched,
    connect,
    make_file,
    use_wal,
)
from hermes.memory.faults import explained

APPLICATION = 0x4865726D  # "Herm", in the header of every journal

STEPS: Sequence[str] = (
    """
    CREATE TABLE event(
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        run TEXT NOT NULL,
        kind TEXT NOT NULL,
        digest BLOB NOT NULL,
        body NOT NULL
    );
    CREATE INDEX event_by_run ON event(run, seq, kind);
    CREATE INDEX event_by_kind ON event(kind);
    CREATE INDEX event_by_time ON event(at);
    CREATE TABLE gap(first INTEGER PRIMARY KEY, last INTEGER NOT NULL);
    """,
    "",
)
"""Step n leads from version n to n + 1. A step that was released is never changed.

`body` is text, or the 32 bytes of its hash after a purge. `gap` names numbers that a salvage could
not save. From version 2 on a body may also be packed; see `packing`.
"""


class Opened(NamedTuple):
    connection: apsw.Connection
    path: Path
    backup: Path | None
    """Copy of the file as it was before a migration."""


def prepare(path: Path, *, steps: Sequence[str] = STEPS, patience: float = PATIENCE) -> Opened:
    """Open the journal for writing, made or migrated as needed."""
    with explained(path):
        check_log(path)
        make_file(path)
        connection = connect(path, patience=patience)
        try:
            if connection.readonly("main"):
                raise StoreReadOnly(f"the journal {path} cannot be written: see its permissions")
            use_wal(connection, path, patience)
            backup = _bring_up_to_date(connection, path, steps)
            connection.execute("PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=8388608")
            last_link(connection)
        except BaseException:
            close_untouched(connection)
            raise
    return Opened(connection, path, backup)


@contextmanager
def opened(
    path: Path, *, patience: float = PATIENCE, read_only: bool = False
) -> Iterator[apsw.Connection]:
    """A connection for looking after a journal that is there; it is not made and not migrated."""
    with explained(path):
        check_log(path)
        if not path.exists():
            raise StoreError(f"there is no journal at {path}")
        connection = connect(path, patience=patience, read_only=read_only)
        try:
            version = _version(connection, path, STEPS)
            if version < len(STEPS):
                raise StoreError(f"{path} has the old version {version}; start Hermes to update it")
            yield connection
        finally:
            close_untouched(connection)


def version_of(connection: apsw.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").get)


def last_link(connection: apsw.Connection) -> tuple[int, bytes] | None:
    """Number and digest of the newest event."""
    sql = "SELECT seq, digest FROM event ORDER BY seq DESC LIMIT 1"
    newest: tuple[int, bytes] | None = connection.execute(sql).get
    return newest


def strangers(connection: apsw.Connection) -> list[str]:
    """Triggers, views, indexes and tables over ours that no step of ours made."""
    listing = "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema"
    usual = apsw.Connection(":memory:")
    try:
        usual.execute("".join(STEPS))
        ours = set(usual.execute(listing))
    finally:
        usual.close()
    found: set[tuple[str, str]] = set(connection.execute(listing))
    tables = ("event", "gap")
    return sorted(
        name
        for name, sql in found - ours
        if name.startswith(("trigger ", "view ")) or any(table in name for table in tables)
    )


def _bring_up_to_date(connection: apsw.Connection, path: Path, steps: Sequence[str]) -> Path | None:
    if _version(connection, path, steps) == len(steps):
        return None
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, path, steps)  # again: another process may have been faster
        backup = _back_up(path, version) if 0 < version < len(steps) else None
        for step in steps[version:]:
            connection.execute(step)
        connection.execute(f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return backup


def _version(connection: apsw.Connection, path: Path, steps: Sequence[str]) -> int:
    version = version_of(connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if connection.pragma("application_id") != APPLICATION and (version or tables):
        raise StoreError(f"{path} is a database of another program, not a journal; move it away")
    if version > len(steps):
        raise StoreTooNew(
            f"the journal {path} has version {version}, this Hermes knows {len(steps)}; "
            "update Hermes, or use another home"
        )
    return version


def _back_up(path: Path, version: int) -> Path:
    """Copy the committed state; the caller holds the write lock, so nobody can change it."""
    backup = path.with_name(f"{path.name}.v{version}-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    partial = backup.with_name(backup.name + ".partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    source, target = connect(path), apsw.Connection(str(partial))
    try:
        with target.backup("main", source, "main") as copying:
            copying.step()
    finally:
        target.close()
        source.close()
    return partial.rename(backup)
