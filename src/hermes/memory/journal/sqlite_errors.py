"""Translates errors of SQLite and the disk into our own errors, with advice."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull

REPAIR_HINT = "`hermes journal verify` says what can be saved, `hermes journal salvage` saves it"
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
