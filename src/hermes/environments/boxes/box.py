"""A box: isolated hosts, and the requests that can be sent to them from outside."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.environments.boxes.backend import (
    BoxBackend,
    BoxOpener,
    BoxPlan,
    HostPlan,
    host_plan_from_fields,
)
from hermes.environments.boxes.local_backend import open_local_box


class BoxCommandResult(Value, kw_only=True, frozen=True):
    code: int
    output: str
    timed_out: bool = False


class Box:
    """Used as `async with Box([host]) as box:`. It ends with the block, or with Hermes."""

    def __init__(
        self,
        hosts: Sequence[HostPlan],
        *,
        tls: bool = False,
        memory_mb: int = 768,
        processes: int = 512,
        opener: BoxOpener = open_local_box,
    ) -> None:
        self.plan = BoxPlan()
        self.plan.tls = tls
        self.plan.memory_mb, self.plan.processes = memory_mb, processes
        self.plan.hosts = tuple(vars(host) for host in hosts)
        self._opener = opener
        self._opened: AbstractAsyncContextManager[BoxBackend] | None = None
        self._backend: BoxBackend | None = None
        self._supervisor_lock = anyio.Lock()
        self._copies: list[Box] = []

    async def prepare_copy(
        self, *, memory_mb: int, disk_mb: int, processes: int, time_s: float
    ) -> "Box":
        """A box, not yet open, whose hosts begin with the files of this one; it ends with this one.

        Raises `EnvironmentFailed`.
        """
        pids = self.backend.copied_pids
        if not pids:
            raise EnvironmentFailed(
                f"{self.backend.label} cannot be copied: its namespaces are inside of a container. "
                "Set gym.backend to local"
            )
        hosts = []
        for number, fields in enumerate(self.plan.hosts):
            host = host_plan_from_fields(fields)
            host.disk_mb = min(host.disk_mb, disk_mb)
            if not host.boot:
                answer = await self.call_supervisor("list", host=number)
                running = [each["name"] for each in answer["said"]["units"] if each["pid"]]
                host.started_units = tuple(running)
            hosts.append(host)
        copied = Box(
            hosts,
            tls=self.plan.tls,
            memory_mb=memory_mb,
            processes=processes,
            opener=self._opener,
        )
        copied.plan.copied_pids, copied.plan.time_s = pids, time_s
        self._copies.append(copied)
        return copied

    async def __aenter__(self) -> Self:
        self._opened = self._opener(self.plan)
        self._backend = await self._opened.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for copied in self._copies:
            await copied.__aexit__(kind, error, trace)
        opened, self._opened, self._backend = self._opened, None, None
        if opened is not None:
            await opened.__aexit__(kind, error, trace)

    @property
    def backend(self) -> BoxBackend:
        if self._backend is None:
            raise EnvironmentFailed("the box is not open")
        return self._backend

    async def run(
        self,
        script: str,
        *,
        host: int = 0,
        timeout: float = 30.0,
        uid: int = 0,
        cwd: str = "/root",
        stdin: bytes = b"",
        trusted: bool = False,
    ) -> BoxCommandResult:
        """Runs a bash script on a host: for injections and checks, not for the agent.

        `trusted`: with programs and mounts that no process of the host can change, and not in
        `cwd`.
        """
        fields = {"script": script, "host": host, "timeout": timeout, "uid": uid, "cwd": cwd}
        fields |= {"stdin": stdin}
        fields["trusted"] = trusted
        return await self._run({"do": "run", **fields})

    async def run_nft(self, *words: str, stdin: bytes = b"", host: int = 0) -> BoxCommandResult:
        """Calls nft for the packet filter of a host, with rights that no process of it needs."""
        return await self._run({"do": "nft", "words": list(words), "stdin": stdin, "host": host})

    async def _run(self, request: dict[str, Any]) -> BoxCommandResult:
        answer = await self.backend.request(request)
        if "error" in answer:
            raise EnvironmentFailed(f"the box could not run it: {answer['error']}")
        output = answer["output"].decode("utf-8", "replace")
        return BoxCommandResult(code=answer["code"], output=output, timed_out=answer["timed_out"])

    async def read(self, path: str, *, host: int = 0) -> bytes | None:
        """Return None when it cannot be read."""
        answer = await self.backend.request({"do": "read", "path": path, "host": host})
        content: bytes | None = answer.get("content")
        return content

    async def read_tree(self, path: str, *, host: int = 0) -> list[tuple[bytes, int, int, bytes]]:
        """Path, mode, owner and content of a file, or of everything below a folder."""
        answer = await self.backend.request({"do": "tree", "path": path, "host": host})
        if "error" in answer:
            raise EnvironmentFailed(f"{path} cannot be read: {answer['error']}")
        tree: list[tuple[bytes, int, int, bytes]] = answer["tree"]
        return tree

    async def disk_space(self, path: str, *, host: int = 0) -> dict[str, Any]:
        """Free and total bytes and free inodes; `error` when the path does not exist."""
        return await self.backend.request({"do": "space", "path": path, "host": host})

    async def list_mounts(self, *, host: int = 0) -> list[tuple[str, str, str]]:
        """Return what the processes of the host see mounted, for `remove_mounts`."""
        answer = await self.backend.request({"do": "mounts", "host": host})
        mounts: list[tuple[str, str, str]] = answer.get("mounts", [])
        return mounts

    async def remove_mounts(
        self, known: Sequence[tuple[str, str, str]], *, host: int = 0
    ) -> list[str]:
        """Unmounts all others on the host, as a reboot would; returns the mount points."""
        answer = await self.backend.request({"do": "unmount", "known": list(known), "host": host})
        if "error" in answer:
            raise EnvironmentFailed(f"a mount could not be removed: {answer['error']}")
        removed: list[str] = answer["removed"]
        return removed

    async def send_over_network(self, message: dict[str, Any], *, host: int = 0) -> dict[str, Any]:
        """Over the host's own network; see `host_requests.send_to_port`."""
        return await self.backend.request({"do": "ask", "host": host, **message})

    async def send_load(
        self, message: dict[str, Any], *, requests: int, parallel: int, host: int = 0
    ) -> int:
        """Sends the same message many times at once; returns how many got a reply."""
        fields = {"host": host, "requests": requests, "parallel": parallel, **message}
        answer = await self.backend.request({"do": "load", **fields})
        if "error" in answer:
            raise EnvironmentFailed(f"no load could be sent: {answer['error']}")
        answered: int = answer["answered"]
        return answered

    async def call_supervisor(self, verb: str, unit: str = "", *, host: int = 0) -> dict[str, Any]:
        """Verbs: start, stop, restart, reload, show, list, daemon-reload, cron."""
        async with self._supervisor_lock:  # it replies in the order of the requests
            return await self.backend.request(
                {"do": "tell", "verb": verb, "unit": unit, "host": host}
            )

    async def start_traffic(
        self, targets: Sequence[dict[str, Any]], *, pause: float, seed: str, host: int = 0
    ) -> None:
        """Sends requests at random intervals, as users would, until the box ends."""
        fields = {"targets": list(targets), "pause": pause, "seed": seed, "host": host}
        await self.backend.start_request({"do": "traffic", **fields})
