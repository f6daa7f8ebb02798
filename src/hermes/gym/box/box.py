"""A box from outside: make it, ask its warden, let it go without a trace."""

import marshal
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from anyio import to_thread

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.environments.confinement import grants, wire
from hermes.environments.confinement.identity import is_root
from hermes.gym.box.opening import Warden
from hermes.gym.box.plan import BoxPlan, HostPlan


class Ran(Value, kw_only=True, frozen=True):
    """How a script ended inside."""

    code: int
    output: str
    timed_out: bool = False


class Box:
    """`async with Box([host]) as box:`; it lives until the block ends, or Hermes does."""

    def __init__(
        self,
        hosts: Sequence[HostPlan],
        *,
        tls: bool = False,
        memory_mb: int = 768,
        processes: int = 512,
    ) -> None:
        self._plan = BoxPlan()
        self._plan.tls = tls
        self._plan.memory_mb, self._plan.processes = memory_mb, processes
        system = grants.system()
        copied = {path for path, _ in system.files}
        self._plan.readable = _shared([path for path in system.paths if path not in copied])
        self._plan.links = system.links
        common = tuple((path, content, 0o644, 0) for path, content in system.files)
        self._plan.hosts = tuple(vars(host) | {"files": (*common, *host.files)} for host in hosts)
        self._warden: Warden | None = None
        self._words = anyio.Lock()

    async def __aenter__(self) -> Self:
        self._warden = await to_thread.run_sync(Warden, self._plan)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        warden, self._warden = self._warden, None
        if warden is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(warden.end)

    @property
    def warden(self) -> Warden:
        if self._warden is None:
            raise PlaceFailed("the box is not open")
        return self._warden

    async def run(
        self, script: str, *, host: int = 0, timeout: float = 30.0, uid: int = 0, cwd: str = "/root"
    ) -> Ran:
        """A bash script inside, not as the agent but as whoever breaks and checks the host."""
        wish = {"script": script, "host": host, "timeout": timeout, "uid": uid, "cwd": cwd}
        said = await self._ask({"do": "run", **wish})
        if "error" in said:
            raise PlaceFailed(f"the box could not run it: {said['error']}")
        output = said["output"].decode("utf-8", "replace")
        return Ran(code=said["code"], output=output, timed_out=said["timed_out"])

    async def read(self, path: str, *, host: int = 0) -> bytes | None:
        """None when it cannot be read."""
        said = await self._ask({"do": "read", "path": path, "host": host})
        content: bytes | None = said.get("content")
        return content

    async def tree(self, path: str, *, host: int = 0) -> list[tuple[bytes, int, int, bytes]]:
        """A file, or all under a folder: path, mode, owner and content of each."""
        said = await self._ask({"do": "tree", "path": path, "host": host})
        if "error" in said:
            raise PlaceFailed(f"{path} cannot be looked at: {said['error']}")
        found: list[tuple[bytes, int, int, bytes]] = said["tree"]
        return found

    async def space(self, path: str, *, host: int = 0) -> dict[str, Any]:
        """Free and total bytes and free inodes; `error` when there is no such place."""
        return await self._ask({"do": "space", "path": path, "host": host})

    async def ask(self, question: dict[str, Any], *, host: int = 0) -> dict[str, Any]:
        """Over the host's own network; see `asking`."""
        return await self._ask({"do": "ask", "host": host, **question})

    async def tell(self, verb: str, unit: str = "", *, host: int = 0) -> dict[str, Any]:
        """To the supervisor: start, stop, restart, reload, show, list, daemon-reload, cron."""
        async with self._words:  # it answers in the order of asking
            return await self._ask({"do": "tell", "verb": verb, "unit": unit, "host": host})

    async def traffic(
        self, targets: Sequence[dict[str, Any]], *, pause: float, seed: str, host: int = 0
    ) -> None:
        """Begin to ask like users do, until the box ends."""
        wish = {"targets": list(targets), "pause": pause, "seed": seed, "host": host}
        ours, theirs = socket.socketpair()
        with ours, theirs:
            await self._send({"do": "traffic", **wish}, theirs)

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
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

    async def _send(self, request: dict[str, Any], reply: socket.socket) -> None:
        line = self.warden.line
        while True:
            try:
                return wire.send(line, marshal.dumps(request), (reply.fileno(),))
            except BlockingIOError:
                await anyio.wait_writable(line)
            except OSError as error:
                raise PlaceFailed(f"the box has ended: {error.strerror}") from error


def _shared(paths: Sequence[str]) -> tuple[str, ...]:
    """What of the machine a host sees. Root's box is nobody's outside: it reaches only what
    everybody does; and Python of a folder of one's own only where the system has none."""
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
