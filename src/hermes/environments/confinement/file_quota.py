"""Bounds what the files written in a sandbox take up together, on the disks of the host.

A look costs two system calls: only when a file system has lost as much room as may still be
written are the files counted that changed since the sandbox was opened. When there are too many,
the commands are ended, and later ones may only remove files until there is room again.
"""

import mmap
import os
import time

from hermes.environments.confinement import landlock, limits
from hermes.environments.confinement.plan import Plan

BLOCK_BYTES = 512
SMALLEST_STEP_BYTES = 1 << 20
"""Room that is lost between two counts at least."""
MARGIN_NS = 20_000_000
"""The times of files come from a coarser clock than ours."""


class FileQuota:
    """`full` is shared with all processes that are forked later."""

    def __init__(self, plan: Plan) -> None:
        self._folders, self._limit = plan.writable, plan.total_size
        self._since_ns = plan.opened_ns - MARGIN_NS
        self._flag = mmap.mmap(-1, 1)
        self._free, self._room = self._free_bytes(), self._limit
        if plan.opened_ns < time.time_ns() - 10**9:  # not the first launcher of this sandbox
            self.count([])

    @property
    def full(self) -> bool:
        return self._flag[0] == 1

    @property
    def watches(self) -> bool:
        return self._limit > 0

    def exceeded(self, commands: int) -> bool:
        """Whether the commands below the process `commands` must be ended."""
        if not self.watches or self._free - self._free_bytes() < self._room:
            return False
        return self.count(limits.descendants(commands))

    def count(self, pids: list[int]) -> bool:
        """Counts anew; True when it is too much."""
        if not self.watches:
            return False
        written = sum(self._changed(folder) for folder in self._folders) + self._unlinked(pids)
        self._free = self._free_bytes()
        self._room = max(self._limit - written, SMALLEST_STEP_BYTES)
        self._flag[0] = int(written > self._limit)
        return self.full

    def _free_bytes(self) -> int:
        """Of all file systems that hold a granted folder."""
        found: dict[int, int] = {}
        for folder in self._folders:
            status = os.statvfs(folder)
            found[os.stat(folder).st_dev] = status.f_bfree * status.f_frsize  # noqa: PTH116
        return sum(found.values())

    def _changed(self, folder: str) -> int:
        """Bytes of the files that changed. One that is hidden from us counts as too many."""
        total, waiting = 0, [folder]
        while waiting and total <= self._limit:
            place = waiting.pop()
            try:
                with os.scandir(place) as entries:
                    for entry in entries:
                        total += self._size(entry)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except PermissionError:
                total += self._limit + 1 if self._is_new(place) else 0
            except OSError:  # it was removed meanwhile
                continue
        return total

    def _size(self, entry: "os.DirEntry[str]") -> int:
        status = entry.stat(follow_symlinks=False)
        return status.st_blocks * BLOCK_BYTES if status.st_ctime_ns >= self._since_ns else 0

    def _is_new(self, folder: str) -> bool:
        try:
            return os.lstat(folder).st_ctime_ns >= self._since_ns
        except OSError:
            return False

    def _unlinked(self, pids: list[int]) -> int:
        """Bytes of files that have no name any more, but are still open."""
        devices = {os.stat(folder).st_dev for folder in self._folders}  # noqa: PTH116
        found: dict[tuple[int, int], int] = {}
        for pid in pids:
            for status in _open_files(pid):
                if status.st_nlink == 0 and status.st_dev in devices:
                    found[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
        return sum(found.values())


def _open_files(pid: int) -> "list[os.stat_result]":
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - see landlock
            found.append(os.stat(f"/proc/{pid}/fd/{name}"))  # noqa: PTH116
    except OSError:  # it has ended, or closed the file
        return found
    return found


def only_remove(terminal: str = "") -> None:
    """The calling process may remove files from now on, but make and change none."""
    if not landlock.version():
        limits.no_larger_files()
        return
    grants = landlock.Grants(network=True, rights=landlock.WRITE_FILE | landlock.MAKE)
    # Not /tmp: a grant reaches the folders of the host that are mounted below it.
    for path in ("/dev/pts", terminal) if terminal else ("/dev/pts",):
        grants.writable(path)
    for name in ("null", "zero", "full", "tty", "ptmx"):
        grants.device(f"/dev/{name}")
    grants.restrict()
