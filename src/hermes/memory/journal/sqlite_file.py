"""Opens, creates and migrates SQLite files that several processes share, and explains errors."""

import errno
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreTooNew
from hermes.memory.journal.rows import REPAIR_HINT, decompress_body

LOCK_TIMEOUT_S = 10.0
"""Seconds to wait for another process's transaction; ours take milliseconds."""


_NO_SPACE_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Errors of the block are raised as `StoreError`."""
    try:
        yield
    except (apsw.Error, OSError) as error:
        raise translate_error(error, path) from error


def translate_error(error: apsw.Error | OSError, path: Path) -> StoreError:
    match error:
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(f"the journal {path} is damaged ({error}); {REPAIR_HINT}")
        case apsw.BusyError() | apsw.LockedError():
            return StoreError(
                f"another process kept the journal {path} locked for too long ({error}); "
                "see which one holds it, for example with `fuser`, and try again"
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() | OSError():
            if isinstance(error, OSError) and error.errno in _NO_SPACE_ERRNOS:
                return _store_full_error(path)
            return StoreError(
                f"the journal {path} cannot be opened or written: {error}. Make {path.parent} "
                "writable for this user, or set HERMES_HOME to a folder of yours."
            )
    if isinstance(error, apsw.FullError) or _disk_is_full(path):
        return _store_full_error(path)
    return StoreError(f"the journal {path} could not be read or written: {error}")


def _store_full_error(path: Path) -> StoreFull:
    return StoreFull(
        f"no space left for the journal {path}; nothing that was acknowledged is lost, "
        "free some space and try again"
    )


def _disk_is_full(path: Path) -> bool:
    """A full disk can also appear as a plain I/O error, as when the shared memory file cannot
    grow."""
    try:
        filesystem = os.statvfs(path.parent)
    except OSError:
        return False
    return filesystem.f_bavail * filesystem.f_frsize < 64 * 1024


def connect(
    path: Path, *, timeout_s: float = LOCK_TIMEOUT_S, read_only: bool = False
) -> apsw.Connection:
    """`read_only` leaves no trace: unless another process has the file open, it is opened as
    immutable, and so SQLite creates neither a log nor a shared memory file beside it."""
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE
    if read_only and not path.with_name(f"{path.name}-wal").exists():
        name, flags = f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI)
    connection.set_busy_handler(_busy_handler(timeout_s))
    connection.create_scalar_function("plain", decompress_body, 1, deterministic=True)
    return connection


def _busy_handler(timeout_s: float) -> Callable[[int], bool]:
    """Waits in short random steps: SQLite's own grow to 100 ms and starve one of two writers."""
    deadline = 0.0

    def wait(tries: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if tries == 0:
            deadline = now + timeout_s
        time.sleep(random.uniform(0.0005, 0.002 if tries < 50 else 0.02))
        return now < deadline

    return wait


def close_without_checkpoint(connection: apsw.Connection) -> None:
    """Without SQLite's cleanup: a file that may be damaged is not changed."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def check_wal(path: Path) -> None:
    wal = path.with_name(path.name + "-wal")
    if _size(wal) and not _size(path):
        # SQLite would take the main file for a new one and delete the log.
        raise StoreCorrupt(
            f"the journal {path} is gone but its log {wal.name} is there; {REPAIR_HINT}"
        )


def _size(path: Path) -> int:
    """0 without the file: another process may remove its log at any moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def create_file(path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # O_EXCL: opening and closing a file that a connection of this process has open would
        # release that connection's locks.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return


def enable_wal(connection: apsw.Connection, path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while connection.pragma("journal_mode") != "wal":
        try:
            if connection.pragma("journal_mode", "wal") != "wal":
                raise StoreError(f"the file system of {path} cannot hold a shared journal")
        except apsw.BusyError:  # two first starts at once: SQLite does not wait here
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


APPLICATION_ID = 0x4865726D  # "Herm", in the header of every journal

MIGRATIONS: Sequence[str] = (
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
"""Step n migrates from version n to n + 1. A released step is never changed.

`body` is text, or the 32 bytes of its hash after a purge. `gap` has the numbers that a salvage
could not recover. From version 2 on a body may also be compressed; see `rows`.
"""


def open_for_writing(
    path: Path, *, migrations: Sequence[str] = MIGRATIONS, timeout_s: float = LOCK_TIMEOUT_S
) -> apsw.Connection:
    """Open the journal for writing, created or migrated as needed.

    Before a migration the file is copied beside itself.
    """
    with translate_errors(path):
        check_wal(path)
        create_file(path)
        connection = connect(path, timeout_s=timeout_s)
        try:
            if connection.readonly("main"):
                raise StoreReadOnly(f"the journal {path} cannot be written: see its permissions")
            enable_wal(connection, path, timeout_s)
            _migrate(connection, path, migrations)
            connection.execute("PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=8388608")
            last_seq_and_digest(connection)
        except BaseException:
            close_without_checkpoint(connection)
            raise
    return connection


@contextmanager
def open_existing(
    path: Path, *, timeout_s: float = LOCK_TIMEOUT_S, read_only: bool = False
) -> Iterator[apsw.Connection]:
    """A connection for maintenance of an existing journal; it is neither created nor migrated."""
    with translate_errors(path):
        check_wal(path)
        if not path.exists():
            raise StoreError(f"there is no journal at {path}")
        connection = connect(path, timeout_s=timeout_s, read_only=read_only)
        try:
            version = _checked_version(connection, path, MIGRATIONS)
            if version < len(MIGRATIONS):
                raise StoreError(f"{path} has the old version {version}; start Hermes to update it")
            yield connection
        finally:
            close_without_checkpoint(connection)


@contextmanager
def write_transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commits the block as one transaction, or rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def schema_version(connection: apsw.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").get)


def last_seq_and_digest(connection: apsw.Connection) -> tuple[int, bytes] | None:
    """Number and digest of the newest event."""
    sql = "SELECT seq, digest FROM event ORDER BY seq DESC LIMIT 1"
    newest: tuple[int, bytes] | None = connection.execute(sql).get
    return newest


def unknown_schema_objects(connection: apsw.Connection) -> list[str]:
    """Triggers, views, indexes and tables on ours that no migration of ours created."""
    listing = "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema"
    usual = apsw.Connection(":memory:")
    try:
        usual.execute("".join(MIGRATIONS))
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


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[str]) -> None:
    if _checked_version(connection, path, migrations) == len(migrations):
        return
    with write_transaction(connection):
        # Again: another process may have been faster.
        version = _checked_version(connection, path, migrations)
        if 0 < version < len(migrations):
            _back_up_file(path, version)
        for step in migrations[version:]:
            connection.execute(step)
        connection.execute(
            f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={len(migrations)}"
        )


def _checked_version(connection: apsw.Connection, path: Path, migrations: Sequence[str]) -> int:
    version = schema_version(connection)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if connection.pragma("application_id") != APPLICATION_ID and (version or tables):
        raise StoreError(f"{path} is a database of another program, not a journal; move it away")
    if version > len(migrations):
        raise StoreTooNew(
            f"the journal {path} has version {version}, this Hermes knows {len(migrations)}; "
            "update Hermes, or use another home"
        )
    return version


def _back_up_file(path: Path, version: int) -> None:
    """Copy the committed state; the caller holds the write lock, so it cannot change."""
    backup = path.with_name(f"{path.name}.v{version}-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    partial = backup.with_name(backup.name + ".partial")
    partial.unlink(missing_ok=True)
    _copy_pages(connect(path), partial)
    partial.rename(backup)


def copy_database(path: Path, target: Path) -> None:
    """Copy one committed state to a new file, while others may write. Raises `StoreError`."""
    with translate_errors(path):
        _copy_pages(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY), target)


def _copy_pages(source: apsw.Connection, path: Path) -> None:
    """Closes `source`. In one step: a commit of others in between would start it again."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    target = apsw.Connection(str(path))
    try:
        with target.backup("main", source, "main") as copying:
            copying.step()
    finally:
        target.close()
        source.close()
