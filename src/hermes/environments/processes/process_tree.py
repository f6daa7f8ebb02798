"""Finds all processes that a command started, and ends them with SIGTERM, then SIGKILL.

A process belongs to the tree when it is in the session of the shell that ran the command, descends
from a process that is, or has the tree's mark in its environment. Double forks and `setsid` change
the first two; only a program that also clears its environment escapes the third. Without /proc, the
process group is used.
"""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import anyio

from hermes.core.messages import Value
from hermes.environments.shell import TREE_VARIABLE

STOP_GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""

_PROC = Path("/proc")


class ProcessTree(Value, frozen=True):
    mark: str
    leader: int | None
    """The first process; None once it is reaped, because its id may be reused then."""

    def signal(self, number: signal.Signals, but: Collection[int] = ()) -> set[int]:
        """Signals all processes of the tree except `but`; returns those that still run.

        All are stopped first: a shell whose child was ended would go on with its next command.
        """
        found = tree_members(self)
        for each in (signal.SIGSTOP, number):
            for pid in found.difference(but):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, each)
        if not found and self.leader is not None and not _PROC.exists():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
        return found

    async def end(self, grace: float = STOP_GRACE_S) -> None:
        """Returns when no process is left that we may end."""
        asked: set[int] = set()
        pause = 0.002
        with anyio.move_on_after(grace):
            # Repeated for processes that were forked meanwhile; each gets the signal once.
            while found := self.signal(signal.SIGTERM, but=asked):
                for pid in found - asked:  # a stopped process would not handle the signal
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGCONT)
                asked |= found
                await anyio.sleep(pause)
                pause = min(2 * pause, 0.1)
            return
        await self.kill()

    async def kill(self) -> None:
        for _ in range(50):  # a fork bomb needs several rounds; another user's process stays
            if not self.signal(signal.SIGKILL):
                return
            await anyio.sleep(0.01)


class _ProcessStat(NamedTuple):
    parent: int
    group: int
    session: int


def tree_members(tree: ProcessTree) -> set[int]:
    """The running processes of the tree, without this one. Empty without /proc."""
    stats = {pid: stat for pid in _pids() if (stat := _read_stat(pid)) is not None}
    found = {
        pid
        for pid, stat in stats.items()
        if (tree.leader is not None and tree.leader in (pid, stat.group, stat.session))
        or carries_mark(pid, tree.mark)
    }
    while more := {pid for pid, stat in stats.items() if stat.parent in found} - found:
        found |= more
    return found - {os.getpid()}


def carries_mark(pid: int, mark: str) -> bool:
    return f"{TREE_VARIABLE}={mark}".encode() in _variables(pid)


def running_trees(marks: Collection[str]) -> list[ProcessTree]:
    """The trees with one of these marks that still have a process."""
    wanted = {f"{TREE_VARIABLE}={mark}".encode(): mark for mark in marks}
    found = {wanted[each] for pid in _pids() for each in _variables(pid) if each in wanted}
    return [ProcessTree(mark, None) for mark in sorted(found)]


def _variables(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def process_birth(pid: int) -> str:
    """Identifies a process by its start time; empty when it has ended."""
    try:
        fields = _stat_fields(pid)
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}-{fields[19]}"


def is_owner_alive(owner: str) -> bool:
    """`owner` is `pid:birth`, with anything behind another colon."""
    pid, _, rest = owner.partition(":")
    return pid.isdigit() and process_birth(int(pid)) == rest.partition(":")[0] != ""


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208 - twice as fast
    except OSError:
        return []


def _read_stat(pid: int) -> _ProcessStat | None:
    try:
        fields = _stat_fields(pid)
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return _ProcessStat(int(fields[1]), int(fields[2]), int(fields[3]))


def _stat_fields(pid: int) -> list[str]:
    """The fields after the name in /proc/N/stat; the name may contain any characters."""
    return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()


def remove_stale_folders(parent: Path, prefix: str, *, min_age_s: float) -> None:
    """Removes the folders `<prefix><pid>-*` whose owner was killed. Only old ones: an owner in
    another container that shares `parent` is not visible here."""
    for folder in parent.glob(f"{prefix}*-*"):
        owner = folder.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            old = time.time() - folder.stat().st_mtime > min_age_s
            if old and owner.isdigit() and not (_PROC / owner).exists():
                shutil.rmtree(folder, ignore_errors=True)
