"""Finds all that a command started, wherever it went, and ends it: first asking, then not.

A process is of the tree when it is in the session of the shell that ran the command, descends
from one that is, or carries the tree's mark in its environment: double forks and `setsid` change
the first two, and only a program that also empties its environment escapes the third. Without a
/proc to look into, the process group has to do.
"""

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import anyio

from hermes.core.messages import Value
from hermes.environments.shell import TREE_VARIABLE

STOP_GRACE_S = 2.0
"""Seconds between asking and killing."""

_PROC = Path("/proc")


class ProcessTree(Value, frozen=True):
    mark: str
    leader: int | None
    """The first process; None once it is buried, when its number may be somebody else's."""

    def signal(self, number: signal.Signals, but: Collection[int] = ()) -> set[int]:
        """Send to all of the tree but those; says who is still there."""
        found = tree_members(self)
        for pid in found.difference(but):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if not found and self.leader is not None and not _PROC.exists():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
        return found

    async def end(self, grace: float = STOP_GRACE_S) -> None:
        """Ask, wait, kill; returns when nobody is left, or nobody that we may end."""
        asked: set[int] = set()
        pause = 0.002
        with anyio.move_on_after(grace):
            # Asked again and again, for the sake of children born in between; each only once.
            while found := self.signal(signal.SIGTERM, but=asked):
                for pid in found - asked:  # one that is stopped cannot listen
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGCONT)
                asked |= found
                await anyio.sleep(pause)
                pause = min(2 * pause, 0.1)
            return
        await self.kill()

    async def kill(self) -> None:
        for _ in range(50):  # a fork bomb needs several rounds; one that is not ours never goes
            if not self.signal(signal.SIGKILL):
                return
            await anyio.sleep(0.01)


class _ProcessStat(NamedTuple):
    parent: int
    group: int
    session: int


def tree_members(tree: ProcessTree) -> set[int]:
    """Those alive now, without us. Empty where there is no /proc."""
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
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{TREE_VARIABLE}={mark}".encode() in variables.split(b"\0")


def process_birth(pid: int) -> str:
    """When it began, in a form that no other process ever shares; empty when it is gone."""
    try:
        fields = _stat_fields(pid)
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}-{fields[19]}"


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
    """What follows the name in /proc/N/stat; the name itself may contain anything."""
    return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
