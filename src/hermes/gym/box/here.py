"""Boxes on this machine: the warden is a process beside us, its hosts are namespaces."""

import marshal
import os
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from hermes.core.errors import PlaceFailed
from hermes.environments.confinement import grants, wire
from hermes.environments.confinement.identity import is_root
from hermes.gym.box.opening import Spawn, Warden, spawn
from hermes.gym.box.plan import BoxPlan

ENTER = ("nsenter", "-U", "-m", "-u", "-i", "-n", "-p", "-t")
_INTO = 'for entry in $1; do echo 0 > "$entry"; done; shift; exec "$@"'
"""What the agent starts counts among the processes of the box."""


class Here:
    """A `Carrier`: questions go over the warden's line, each with a socket for its answer."""

    def __init__(self, warden: Warden) -> None:
        self.warden = warden

    @property
    def place(self) -> str:
        return f"box {self.warden.pid}"

    async def reach(self) -> None:
        if shutil.which("nsenter") is None:
            raise PlaceFailed("nsenter is not installed (apt install util-linux)")

    def words(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        own = [] if is_root() else ["--preserve-credentials"]
        cgroups = " ".join(self.warden.cgroup.entries)
        enter = [*ENTER, str(self.warden.hosts[host]), *own]
        return ["/bin/sh", "-c", _INTO, "enter", cgroups, *enter, "--", *argv]

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                await self._send(request, theirs)
            ours.setblocking(False)
            heard = bytearray()
            while True:
                await anyio.wait_readable(ours)
                piece = ours.recv(1 << 18)
                if not piece:
                    break
                heard += piece
        if not heard:
            raise PlaceFailed("the box has ended")
        answer: dict[str, Any] = marshal.loads(bytes(heard))
        return answer

    async def begin(self, request: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            await self._send(request, theirs)

    async def _send(self, request: dict[str, Any], reply: socket.socket) -> None:
        line = self.warden.line
        while True:
            try:
                return wire.send(line, marshal.dumps(request), (reply.fileno(),))
            except BlockingIOError:
                await anyio.wait_writable(line)
            except OSError as error:
                raise PlaceFailed(f"the box has ended: {error.strerror}") from error


@asynccontextmanager
async def open_here(plan: BoxPlan, by: Spawn = spawn) -> AsyncGenerator[Here, None]:
    """`by` brings the warden into being. Raises `PlaceFailed` with what is not allowed here."""
    warden = await to_thread.run_sync(_made, plan, by)
    try:
        yield Here(warden)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(warden.end)


def _made(plan: BoxPlan, by: Spawn) -> Warden:
    surround(plan)
    return Warden(plan, by)


def surround(plan: BoxPlan) -> None:
    """What of this machine its hosts see."""
    system = grants.system()
    copied = {path for path, _ in system.files}
    plan.readable = _shared([path for path in system.paths if path not in copied])
    plan.links, plan.common = system.links, system.files


def _shared(paths: Sequence[str]) -> tuple[str, ...]:
    """Root's box is nobody's outside: it reaches only what everybody does; and Python of a folder
    of one's own only where the system has none."""
    own = {os.path.realpath(sys.base_prefix)}
    if Path("/usr/bin/python3").exists():
        own = set()
    return tuple(
        path
        for path in paths
        if (path in own or path.startswith((*grants.PROGRAMS, "/etc/"))) and _is_open(path)
    )


def _is_open(path: str) -> bool:
    folders = [each for each in (Path(path), *Path(path).parents) if each.is_dir()]
    return not is_root() or all(each.stat().st_mode & 0o001 for each in folders)
