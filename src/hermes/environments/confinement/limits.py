"""Limits on one command, and the watch over the memory of all of them where no cgroup keeps it."""

import os
import resource

from hermes.environments.confinement.plan import Plan

PAGE = resource.getpagesize()
MOST_OPEN_FILES = 1024


def apply(plan: Plan, already_running: int) -> None:
    """Called in the child, just before the command takes over; raising them again is not possible.

    Memory is limited as RLIMIT_DATA, not as address space: several runtimes reserve far more
    addresses than they ever use. `already_running` are the user's processes outside, which count
    where there is no user namespace and no user of our own.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, plan.open_files or MOST_OPEN_FILES)
    if plan.cpu_seconds:
        _lower(resource.RLIMIT_CPU, plan.cpu_seconds)
    if plan.memory:
        _lower(resource.RLIMIT_DATA, plan.memory)
        _lower(resource.RLIMIT_MEMLOCK, min(plan.memory, 8 << 20))
    if plan.file_size:
        _lower(resource.RLIMIT_FSIZE, plan.file_size)
    if plan.processes:
        _lower(resource.RLIMIT_NPROC, plan.processes + already_running)


def no_larger_files() -> None:
    _lower(resource.RLIMIT_FSIZE, 0)


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # The hard limit of CPU time is a second later: SIGXCPU first, which a program may handle.
    resource.setrlimit(kind, (value, value + (kind == resource.RLIMIT_CPU)))


def tasks_of(uid: int) -> int:
    """How many threads this user runs, on the whole machine."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs the launcher 8 ms
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue
    return count


def descendants(root: int) -> list[int]:
    """All that came from `root` and still has a line of parents to it, children first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [root]
    while queue:
        mine = children.pop(queue.pop(), [])
        found += mine
        queue += mine
    return found


def name_of(pid: int) -> bytes:
    return _read(f"/proc/{pid}/comm")


def largest(pids: list[int], limit: int) -> int | None:
    """The process to end when all together use more memory than `limit`; None while they do not.

    Resident pages are quick to read but count shared ones again and again; only when that sum is
    too high is each process's fair share asked for.
    """
    used = {pid: _resident(pid) for pid in pids}
    if sum(used.values()) <= limit:
        return None
    used = {pid: _fair_share(pid, size) for pid, size in used.items()}
    return max(used, key=lambda pid: used[pid]) if sum(used.values()) > limit else None


def _resident(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE if len(fields) > 1 else 0


def _fair_share(pid: int, otherwise: int) -> int:
    """A process may hide its map from us; then all of its pages count."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return otherwise


def _read(path: str) -> bytes:
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
