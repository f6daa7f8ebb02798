"""The journal's file on disk: its identity, free space, and a reserve for a full disk.

A watch whose disk is full must record the incident about it, and record every change before making
it. The reserve is freed in small steps, because other programs take freed space as well: each step
gives the journal another chance to be first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hermes.core.errors import StoreError

MIB = 1024 * 1024
RELEASE_STEP_BYTES = 256 * 1024
DISK_SHARE_DIVISOR = 8
"""The reserve takes at most this part of a small filesystem: one eighth."""
RESERVE_FILE_NAME = "reserve"


class DiskReserve:
    """A file of real blocks. Failures to create or shrink it are no errors: it is a precaution."""

    def __init__(self, path: Path, *, size_bytes: int) -> None:
        self.path = path
        self._size_bytes = size_bytes

    @property
    def left_bytes(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    @property
    def wanted_bytes(self) -> int:
        """Its size on this filesystem; 0 where the filesystem is too small."""
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            return 0
        wanted = min(self._size_bytes, disk.f_blocks * disk.f_frsize // DISK_SHARE_DIVISOR)
        return wanted - wanted % RELEASE_STEP_BYTES

    def ensure(self) -> bool:
        """Allocate all of it, if as much again stays free. True when it is complete."""
        wanted, left = self.wanted_bytes, self.left_bytes
        if left < wanted and free_bytes(self.path.parent) < 2 * wanted - left:
            return False
        if left != wanted:
            with suppress(OSError), self._opened(os.O_CREAT) as file:
                _allocate(file, wanted)
        return self.left_bytes >= wanted

    def release(self) -> int:
        """Free one step of it; returns the bytes, 0 when nothing is left."""
        left = self.left_bytes
        if not left:
            return 0
        step = min(RELEASE_STEP_BYTES, left)
        try:
            with self._opened() as file:
                os.ftruncate(file, left - step)
        except OSError:
            return 0
        return step

    @contextmanager
    def _opened(self, flags: int = 0) -> Iterator[int]:
        file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def free_bytes(folder: Path) -> int:
    """Return what an ordinary process may still write there; 0 when unknown."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


def _allocate(file: int, size: int) -> None:
    """Raises `OSError`, and then the file is as long as it was."""
    before = os.fstat(file).st_size
    try:
        if size > before:
            os.posix_fallocate(file, before, size - before)
        else:
            os.ftruncate(file, size)
    except OSError:
        os.ftruncate(file, before)
        raise


MIN_FREE_BYTES_TO_RESUME = 512 * 1024
"""Bytes that must be free on a disk that was full before the journal is tried again."""

FileIdentity = tuple[int, int]
"""Device and inode: another file under the same name has another one."""


def file_identity(path: Path) -> FileIdentity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class JournalFile:
    """Remembers which file it was, so that another one under the same name is noticed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known_identity: FileIdentity | None = None

    @property
    def is_same_file(self) -> bool:
        return self._known_identity is not None and file_identity(self.path) == self._known_identity

    @property
    def has_space(self) -> bool:
        return free_bytes(self.path.parent) >= MIN_FREE_BYTES_TO_RESUME

    def remember_identity(self) -> None:
        """Use the file as it is now as the journal."""
        self._known_identity = file_identity(self.path)

    def write_problem(self) -> str:
        """Return why it cannot be written, as far as that is visible without writing; empty: it
        can."""
        try:
            found = self.path.stat()
            read_only = os.statvfs(self.path).f_flag & os.ST_RDONLY
        except OSError as error:
            return (
                f"the journal {self.path} is gone ({error.strerror}); restore {self.path.parent}, "
                "or mount its filesystem"
            )
        if (found.st_dev, found.st_ino) != self._known_identity:
            return f"the journal {self.path} was replaced by another file while in use"
        if read_only:
            return f"the filesystem of {self.path} is read-only; repair it and mount it again"
        return ""

    def check_mounted(self) -> None:
        """Refuse a new journal below an empty mount point: the next mount would hide it.

        Raises `StoreError` when the journal seems to be on a filesystem that is not mounted now.
        """
        if self._known_identity is None or self.path.exists():
            return
        folder = next(each for each in self.path.parents if each.exists())
        if folder.stat().st_dev != self._known_identity[0]:
            raise StoreError(
                f"the journal {self.path} is gone with its filesystem; mount that again, or start "
                "the watch again to begin a new journal"
            )
