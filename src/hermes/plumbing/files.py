"""Replaces files in one step, and locks them between processes.

A reader sees the old content or the new, never half of it. Everything here blocks and raises
`OSError`.
"""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE_MODE = 0o600
PUBLIC_MODE = 0o666
"""The umask of the process takes bits away from it."""


def write_atomically(
    path: Path,
    data: bytes | str,
    *,
    mode: int = PRIVATE_MODE,
    keep_mode: bool = True,
    sync: bool = True,
) -> None:
    """Replaces the file. A symbolic link is replaced as well: resolve it first to keep it.

    A new file gets `mode`; an existing one keeps its own, unless `keep_mode` is false. Without
    `sync`, a power failure may lose the new content.
    """
    old_mode = _mode_of(path) if keep_mode else None
    given = mode if old_mode is None else old_mode
    with temporary_copy(path, data, mode=given, sync=sync) as temporary:
        if old_mode is not None:
            temporary.chmod(old_mode)  # the umask may have taken bits away
        temporary.replace(path)
    if sync:
        _sync_folder(path.parent)


@contextmanager
def temporary_copy(
    path: Path, data: bytes | str, *, mode: int = PRIVATE_MODE, sync: bool = True
) -> Iterator[Path]:
    """A new, complete file beside `path`, to be renamed or linked; it is removed at the end."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            if sync:
                file.flush()
                os.fsync(descriptor)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _mode_of(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems cannot; the content itself is safe
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class FileLock:
    """An exclusive lock, held from its creation to `release` or to the end of the process."""

    def __init__(self, path: Path, *, wait: bool = True) -> None:
        """Creates the file and its folder. Raises `BlockingIOError` when another process holds the
        lock and `wait` is false."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self.descriptor = os.open(path, flags, PRIVATE_MODE)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BaseException:
            os.close(self.descriptor)
            raise

    def release(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> "FileLock":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock. False for a file that does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
