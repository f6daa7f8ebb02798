"""Space set aside on the disk of the journal, released in small steps when that disk is full.

A watch whose disk is full must record the incident about it, and record every change before making
it. In small steps, because other programs take the space that is freed as well: each step gives the
journal another chance to be first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MIB = 1024 * 1024
STEP_BYTES = 256 * 1024
DISK_SHARE = 8
"""The reserve takes at most this part of a small filesystem: one eighth."""
FILE = "reserve"


class Reserve:
    """A file of real blocks. Failures to make or shrink it are no errors: it is a precaution."""

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
        """What it should be on this filesystem; 0 where there is none to speak of."""
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            return 0
        wanted = min(self._size_bytes, disk.f_blocks * disk.f_frsize // DISK_SHARE)
        return wanted - wanted % STEP_BYTES

    def ensure(self) -> bool:
        """Make it whole, if as much as the whole stays free beside it. True when it is whole."""
        wanted, left = self.wanted_bytes, self.left_bytes
        if left < wanted and free_bytes(self.path.parent) < 2 * wanted - left:
            return False
        if left != wanted:
            with suppress(OSError), self._opened(os.O_CREAT) as file:
                _allocate(file, wanted)
        return self.left_bytes >= wanted

    def release(self) -> int:
        """Give one step back to the disk; returns the bytes, 0 when nothing is left."""
        left = self.left_bytes
        if not left:
            return 0
        step = min(STEP_BYTES, left)
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
    """What a process without special rights may still write there; 0 when nobody can say."""
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
