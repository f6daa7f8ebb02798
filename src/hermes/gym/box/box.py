"""A box from outside: make it, ask its warden, let it go without a trace."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import anyio

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.gym.box.carrier import Carrier, Opener
from hermes.gym.box.here import open_here
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
        opener: Opener = open_here,
    ) -> None:
        self._plan = BoxPlan()
        self._plan.tls = tls
        self._plan.memory_mb, self._plan.processes = memory_mb, processes
        self._plan.hosts = tuple(vars(host) for host in hosts)
        self._opener = opener
        self._opening: AbstractAsyncContextManager[Carrier] | None = None
        self._carrier: Carrier | None = None
        self._words = anyio.Lock()

    async def __aenter__(self) -> Self:
        self._opening = self._opener(self._plan)
        self._carrier = await self._opening.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._carrier = None
        if self._opening is not None:
            await self._opening.__aexit__(kind, error, trace)

    @property
    def carrier(self) -> Carrier:
        if self._carrier is None:
            raise PlaceFailed("the box is not open")
        return self._carrier

    async def run(
        self, script: str, *, host: int = 0, timeout: float = 30.0, uid: int = 0, cwd: str = "/root"
    ) -> Ran:
        """A bash script inside, not as the agent but as whoever breaks and checks the host."""
        wish = {"script": script, "host": host, "timeout": timeout, "uid": uid, "cwd": cwd}
        said = await self.carrier.ask({"do": "run", **wish})
        if "error" in said:
            raise PlaceFailed(f"the box could not run it: {said['error']}")
        output = said["output"].decode("utf-8", "replace")
        return Ran(code=said["code"], output=output, timed_out=said["timed_out"])

    async def read(self, path: str, *, host: int = 0) -> bytes | None:
        """None when it cannot be read."""
        said = await self.carrier.ask({"do": "read", "path": path, "host": host})
        content: bytes | None = said.get("content")
        return content

    async def tree(self, path: str, *, host: int = 0) -> list[tuple[bytes, int, int, bytes]]:
        """A file, or all under a folder: path, mode, owner and content of each."""
        said = await self.carrier.ask({"do": "tree", "path": path, "host": host})
        if "error" in said:
            raise PlaceFailed(f"{path} cannot be looked at: {said['error']}")
        found: list[tuple[bytes, int, int, bytes]] = said["tree"]
        return found

    async def space(self, path: str, *, host: int = 0) -> dict[str, Any]:
        """Free and total bytes and free inodes; `error` when there is no such place."""
        return await self.carrier.ask({"do": "space", "path": path, "host": host})

    async def ask(self, question: dict[str, Any], *, host: int = 0) -> dict[str, Any]:
        """Over the host's own network; see `asking`."""
        return await self.carrier.ask({"do": "ask", "host": host, **question})

    async def tell(self, verb: str, unit: str = "", *, host: int = 0) -> dict[str, Any]:
        """To the supervisor: start, stop, restart, reload, show, list, daemon-reload, cron."""
        async with self._words:  # it answers in the order of asking
            return await self.carrier.ask({"do": "tell", "verb": verb, "unit": unit, "host": host})

    async def traffic(
        self, targets: Sequence[dict[str, Any]], *, pause: float, seed: str, host: int = 0
    ) -> None:
        """Begin to ask like users do, until the box ends."""
        wish = {"targets": list(targets), "pause": pause, "seed": seed, "host": host}
        await self.carrier.begin({"do": "traffic", **wish})
