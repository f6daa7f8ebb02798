"""Limits the resources of a sandbox: of each command, and of all together without a cgroup."""

import mmap
import os
import resource
import time

from hermes.environments.confinement import landlock, process_control
from hermes.environments.confinement.messages import SandboxPlan

PAGE_BYTES = resource.getpagesize()
MAX_OPEN_FILES = 1024


def apply_limits(plan: SandboxPlan, already_running: int) -> None:
    """Called in the child just before the exec of the command; the limits cannot be raised again.

    Memory is limited as RLIMIT_DATA, not as address space: several runtimes reserve far more
    addresses than they use. `already_running` is the number of the user's processes outside, which
    count where the sandbox has no user namespace and no separate user.
    """
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_NOFILE, plan.open_files or MAX_OPEN_FILES)
    if plan.cpu_seconds:
        _lower_limit(resource.RLIMIT_CPU, plan.cpu_seconds)
    if plan.memory:
        _lower_limit(resource.RLIMIT_DATA, plan.memory)
        _lower_limit(resource.RLIMIT_MEMLOCK, min(plan.memory, 8 << 20))
    if plan.file_size:
        _lower_limit(resource.RLIMIT_FSIZE, plan.file_size)
    if plan.processes:
        _lower_limit(resource.RLIMIT_NPROC, plan.processes + already_running)


def forbid_file_growth() -> None:
    _lower_limit(resource.RLIMIT_FSIZE, 0)


def _lower_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # The hard limit of CPU time is a second later: SIGXCPU first, which a program may handle.
    resource.setrlimit(kind, (value, value + (kind == resource.RLIMIT_CPU)))


def count_user_threads(uid: int) -> int:
    """Return how many threads this user runs on the whole machine."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs the launcher 8 ms
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue
    return count


def find_descendants(root: int) -> list[int]:
    """All descendants of `root` whose parents still run, children first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            fields = _read_file(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [root]
    while queue:
        mine = children.pop(queue.pop(), [])
        found += mine
        queue += mine
    return found


def kill_descendants(root: int, keep: set[int]) -> None:
    """Kills the descendants of `root` except `keep`.

    All are stopped first: a shell whose child was killed would go on with its next command.
    """
    known: set[int] = set()
    while new := set(find_descendants(root)) - keep - known:
        while new:  # until none was forked meanwhile
            for pid in new:
                process_control.send_signal(pid, process_control.SIGSTOP)
            known |= new
            new = set(find_descendants(root)) - keep - known
        for pid in known:
            process_control.send_signal(pid, process_control.SIGKILL)


def process_name(pid: int) -> bytes:
    return _read_file(f"/proc/{pid}/comm")


def find_largest_process(pids: list[int], limit: int) -> int | None:
    """The process to end when all together use more memory than `limit`; else None.

    Resident pages are quick to read but count shared pages several times. Only when their sum is
    too high, the proportional share of each process is read.
    """
    used = {pid: _resident_bytes(pid) for pid in pids}
    if sum(used.values()) <= limit:
        return None
    used = {pid: _proportional_bytes(pid, size) for pid, size in used.items()}
    return max(used, key=lambda pid: used[pid]) if sum(used.values()) > limit else None


def _resident_bytes(pid: int) -> int:
    fields = _read_file(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def _proportional_bytes(pid: int, otherwise: int) -> int:
    """All resident pages count for a process whose memory map cannot be read."""
    for line in _read_file(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return otherwise


def _read_file(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
    finally:
        os.close(fd)


BLOCK_BYTES = 512
MIN_COUNT_STEP_BYTES = 1 << 20
"""The free space must shrink by at least this before files are counted again."""
FILE_TIME_MARGIN_NS = 20_000_000
"""File times come from a coarser clock than `time_ns`."""
RECOUNT_PAUSE_FACTOR = 50.0
"""Files are counted again after so many times as long as the last count took: other programs may
free as much space as the sandbox fills."""


class FileQuota:
    """Limits the size of all changed files. `full` is shared with processes forked later."""

    def __init__(self, plan: SandboxPlan) -> None:
        self._folders, self._limit = plan.writable, plan.total_size
        self._since_ns = plan.opened_ns - FILE_TIME_MARGIN_NS
        self._flag = mmap.mmap(-1, 1)
        self._next_count = 0.0
        self._free, self._free_limit = self._free_bytes(), self._limit
        if plan.opened_ns < time.time_ns() - 10**9:  # not the first launcher of this sandbox
            self.count([])

    @property
    def full(self) -> bool:
        return self._flag[0] == 1

    @property
    def watches(self) -> bool:
        return self._limit > 0

    def exceeded(self, commands: int) -> bool:
        """Return whether the descendants of the process `commands` must be ended."""
        if not self.watches:
            return False
        due = time.monotonic() >= self._next_count
        if not due and self._free - self._free_bytes() < self._free_limit:
            return False
        # A command that was ended has freed its deleted files: only `count` resets the flag.
        self._flag[0] |= self._is_too_much(find_descendants(commands))
        return self.full

    def count(self, pids: list[int]) -> bool:
        """Counts the files again; True when they are too large."""
        if not self.watches:
            return False
        self._flag[0] = self._is_too_much(pids)
        return self.full

    def _is_too_much(self, pids: list[int]) -> bool:
        started = time.monotonic()
        written = sum(self._changed(folder) for folder in self._folders) + self._unlinked(pids)
        now = time.monotonic()
        self._next_count = now + RECOUNT_PAUSE_FACTOR * (now - started)
        self._free = self._free_bytes()
        self._free_limit = max(self._limit - written, MIN_COUNT_STEP_BYTES)
        return written > self._limit

    def _free_bytes(self) -> int:
        return _free_bytes(self._folders)

    def _changed(self, folder: str) -> int:
        """Bytes of the changed files. An unreadable folder counts as over the limit."""
        total, waiting = 0, [folder]
        while waiting and total <= self._limit:
            path = waiting.pop()
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        total += self._size(entry)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
            except PermissionError:
                total += self._limit + 1 if self._is_new(path) else 0
            except OSError:  # removed meanwhile
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
        """Bytes of files that were deleted but are still open."""
        devices = _free_by_device(self._folders).keys()
        found: dict[tuple[int, int], int] = {}
        for pid in pids:
            for status in _open_files(pid):
                if status.st_nlink == 0 and status.st_dev in devices:
                    found[status.st_dev, status.st_ino] = status.st_blocks * BLOCK_BYTES
        return sum(found.values())


class DiskLimit:
    """Limits how much is written in folders while a command runs. Costs little until the free
    space has shrunk by half of that."""

    def __init__(self, folders: "tuple[str, ...]", limit: int) -> None:
        self.limit = limit
        plan = SandboxPlan()
        plan.writable, plan.total_size, plan.opened_ns = folders, limit, time.time_ns()
        self._quota = FileQuota(plan)
        self._places = tuple(map(_existing_folder, folders))
        self._free = _free_bytes(self._places)

    def exceeded(self, leader: int) -> bool:
        shrunk = self._free - _free_bytes(self._places)
        return shrunk > self.limit // 2 and self._quota.exceeded(leader)


def _existing_folder(path: str) -> str:
    """The command may make the folder itself."""
    while not os.path.isdir(path):  # noqa: PTH112
        path = os.path.dirname(path)  # noqa: PTH120
    return path


def _free_bytes(folders: "tuple[str, ...]") -> int:
    """The sum over all file systems with one of these folders."""
    return sum(_free_by_device(folders).values())


def _free_by_device(folders: "tuple[str, ...]") -> "dict[int, int]":
    found = {}
    for folder in folders:
        try:
            status = os.statvfs(folder)
            found[os.stat(folder).st_dev] = status.f_bfree * status.f_frsize  # noqa: PTH116
        except FileNotFoundError:
            continue
    return found


def _open_files(pid: int) -> "list[os.stat_result]":
    found = []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - see landlock
            found.append(os.stat(f"/proc/{pid}/fd/{name}"))  # noqa: PTH116
    except OSError:  # it has ended, or closed the file
        return found
    return found


def allow_only_removal(terminal: str = "") -> None:
    """From now on the calling process may remove files, but not make or change any."""
    if not landlock.landlock_version():
        forbid_file_growth()
        return
    grants = landlock.LandlockRuleset(
        network=True, rights=landlock.RIGHT_WRITE_FILE | landlock.RIGHTS_MAKE
    )
    # Not /tmp: a grant covers folders of the host that are mounted below it.
    for path in ("/dev/pts", terminal) if terminal else ("/dev/pts",):
        grants.writable(path)
    for name in ("null", "zero", "full", "tty", "ptmx"):
        grants.device(f"/dev/{name}")
    grants.restrict()
