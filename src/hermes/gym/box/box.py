"""A box from outside: make it, ask its warden, let it go without a trace."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.gym.box.backend import BoxBackend, BoxOpener, BoxPlan, HostPlan
from hermes.gym.box.docker_backend import docker_box_opener
from hermes.gym.box.local_backend import open_forkserver, open_local_box
from hermes.gym.settings import GymSettings


class BoxCommandResult(Value, kw_only=True, frozen=True):
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
        opener: BoxOpener = open_local_box,
    ) -> None:
        self._plan = BoxPlan()
        self._plan.tls = tls
        self._plan.memory_mb, self._plan.processes = memory_mb, processes
        self._plan.hosts = tuple(vars(host) for host in hosts)
        self._opener = opener
        self._opened: AbstractAsyncContextManager[BoxBackend] | None = None
        self._backend: BoxBackend | None = None
        self._supervisor_lock = anyio.Lock()

    async def __aenter__(self) -> Self:
        self._opened = self._opener(self._plan)
        self._backend = await self._opened.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._backend = None
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)

    @property
    def backend(self) -> BoxBackend:
        if self._backend is None:
            raise EnvironmentFailed("the box is not open")
        return self._backend

    async def run(
        self, script: str, *, host: int = 0, timeout: float = 30.0, uid: int = 0, cwd: str = "/root"
    ) -> BoxCommandResult:
        """A bash script inside, not as the agent but as whoever breaks and checks the host."""
        wish = {"script": script, "host": host, "timeout": timeout, "uid": uid, "cwd": cwd}
        said = await self.backend.request({"do": "run", **wish})
        if "error" in said:
            raise EnvironmentFailed(f"the box could not run it: {said['error']}")
        output = said["output"].decode("utf-8", "replace")
        return BoxCommandResult(code=said["code"], output=output, timed_out=said["timed_out"])

    async def read(self, path: str, *, host: int = 0) -> bytes | None:
        """None when it cannot be read."""
        said = await self.backend.request({"do": "read", "path": path, "host": host})
        content: bytes | None = said.get("content")
        return content

    async def read_tree(self, path: str, *, host: int = 0) -> list[tuple[bytes, int, int, bytes]]:
        """A file, or all under a folder: path, mode, owner and content of each."""
        said = await self.backend.request({"do": "tree", "path": path, "host": host})
        if "error" in said:
            raise EnvironmentFailed(f"{path} cannot be looked at: {said['error']}")
        found: list[tuple[bytes, int, int, bytes]] = said["tree"]
        return found

    async def disk_space(self, path: str, *, host: int = 0) -> dict[str, Any]:
        """Free and total bytes and free inodes; `error` when there is no such place."""
        return await self.backend.request({"do": "space", "path": path, "host": host})

    async def send_over_network(self, question: dict[str, Any], *, host: int = 0) -> dict[str, Any]:
        """Over the host's own network; see `asking`."""
        return await self.backend.request({"do": "ask", "host": host, **question})

    async def call_supervisor(self, verb: str, unit: str = "", *, host: int = 0) -> dict[str, Any]:
        """To the supervisor: start, stop, restart, reload, show, list, daemon-reload, cron."""
        async with self._supervisor_lock:  # it answers in the order of asking
            return await self.backend.request(
                {"do": "tell", "verb": verb, "unit": unit, "host": host}
            )

    async def start_traffic(
        self, targets: Sequence[dict[str, Any]], *, pause: float, seed: str, host: int = 0
    ) -> None:
        """Begin to ask like users do, until the box ends."""
        wish = {"targets": list(targets), "pause": pause, "seed": seed, "host": host}
        await self.backend.start_request({"do": "traffic", **wish})


def box_opener(settings: GymSettings) -> BoxOpener:
    """For one box."""
    return docker_box_opener(settings) if settings.backend == "docker" else open_local_box


@asynccontextmanager
async def open_box_source(settings: GymSettings) -> AsyncGenerator[BoxOpener, None]:
    """Yields what opens a box; all of them are to be gone when this is left."""
    if settings.backend == "docker":
        yield docker_box_opener(settings)
        return
    async with open_forkserver() as opener:
        yield opener
