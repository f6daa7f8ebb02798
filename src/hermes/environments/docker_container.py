"""A hardened container of our own: started when first needed, gone when nobody is left in it.

It lives while a shell of ours does (`remote.keep`): one in waiting is always connected to us, and
each background process has one around it. When we crash, the connection ends, and the container
with it or after its last background process; nobody has to come and clean up.
"""

import os
import socket
import time
from collections.abc import Sequence
from pathlib import PurePath

import anyio

from hermes.core.errors import PlaceFailed
from hermes.core.ids import new_id
from hermes.environments.docker_trouble import NO_BASH, daemon_trouble, start_trouble
from hermes.environments.errands.client import Client, Said
from hermes.environments.processes.tree import birth
from hermes.environments.remote.keep import KEEP
from hermes.environments.settings import TerminalSettings

_START = 600.0
"""Seconds; the first time, the image has to be fetched."""
_CALL = 30.0
_YOUNG = 10.0
LINGER = 60.0
"""Seconds a container waits for somebody to come back to it."""

# What root in a container needs to look after its own files, users and processes. Not among them:
# raw sockets, device nodes, setting capabilities, and binding low ports (which needs none there).
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


class DockerContainer:
    """Fulfils `remote.client.Client`. Without an `id`, a container is started when one is needed;
    one that died is replaced, after that has been told."""

    def __init__(
        self,
        docker: Client,
        settings: TerminalSettings,
        *,
        id: str = "",
        linger: float = LINGER,
    ) -> None:
        self.variables = docker.variables
        self._docker, self._settings, self._linger = docker, settings, linger
        self._id, self._found = id, bool(id)
        self._starting = anyio.Lock()
        self._started = 0.0

    @property
    def place(self) -> str:
        return f"container {self._id[:12]}"

    async def reach(self) -> None:
        if self._id:
            return
        async with self._starting:
            if not self._id:
                await self._sweep()
                self._id = await self._start()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        how = ["--interactive", "--tty"] if terminal else ["--interactive"]
        return [self._docker.program, *self._host, "exec", *how, self._id, *argv]

    async def broken(self, code: int, complaint: str, *, begun: bool) -> PlaceFailed | None:
        """Neither an exit code nor the words of the client tell for sure; the daemon does."""
        shown = "{{.State.Running}} {{.State.OOMKilled}} {{.State.ExitCode}}"
        said = await self._call("inspect", "--format", shown, self._id)
        if said.code == 0 and said.output.startswith(b"true"):
            if begun or not complaint:
                return None
            if NO_BASH.search(complaint):
                return start_trouble(self._settings.docker_image, complaint)
            return PlaceFailed(f"{self.place} takes no commands: {complaint}")
        trouble = daemon_trouble(self._docker.program, said.complaint)
        if trouble is not None:
            return trouble
        died = self.place
        if not self._found:
            self._id = ""
        if not begun and time.monotonic() - self._started < _YOUNG:
            await self._diagnose()
        _, out_of_memory, _ = (*said.output.decode().split(), "", "", "")[:3]
        why = "it ran out of memory (terminal.memory_mb)" if out_of_memory == "true" else ""
        return PlaceFailed(
            f"{died} ended under us{f': {why}' if why else ''}. The next command gets a new "
            "one: files and shell state that were in it are gone"
        )

    def elsewhere(self, place: str) -> "DockerContainer | None":
        kind, _, id = place.partition(" ")
        if kind != "container" or not id.isalnum():
            return None
        return DockerContainer(self._docker, self._settings, id=id)

    async def close(self, *, spare: bool) -> None:
        id, self._id = self._id, ""
        if id and not spare and not self._found:
            await self._call("rm", "--force", "--volumes", id)

    async def _start(self) -> str:
        image = self._settings.docker_image
        said = await self._docker.call([*self._host, *self._run_words()], timeout=_START)
        if said.code != 0:
            trouble = daemon_trouble(self._docker.program, said.complaint)
            raise trouble or start_trouble(image, said.complaint)
        self._started = time.monotonic()
        return said.output.decode().split()[-1]

    async def _diagnose(self) -> None:
        """With an init in it, a container without bash starts well and ends at once, and leaves
        nothing to ask. Raises what starting bash itself has to say."""
        image = self._settings.docker_image
        words = ["run", "--rm", "--network", "none", "--entrypoint", "bash", image, "-c", ":"]
        said = await self._call(*words)
        if said.code != 0:
            raise start_trouble(image, said.complaint)

    def _run_words(self) -> list[str]:
        settings = self._settings
        labels = ("hermes=1", f"hermes.session={new_id('place')}", f"hermes.owner={_owner()}")
        words = ["run", "--detach", "--rm", "--init", "--security-opt", "no-new-privileges"]
        words += [word for label in labels for word in ("--label", label)]
        words += ["--cap-drop", "ALL"]
        words += [word for name in CAPABILITIES for word in ("--cap-add", name)]
        words += limits(settings)
        words += [word for volume in settings.docker_volumes for word in ("--volume", volume)]
        if settings.cwd not in ("", "."):
            words += ["--workdir", settings.cwd]
        keep = ["-c", KEEP, "hermes-keeper", f"{self._linger / 3:g}"]
        return [*words, "--entrypoint", "bash", settings.docker_image, *keep]

    async def _sweep(self) -> None:
        """One that was made and never started does not remove itself."""
        shown = '{{.ID}} {{.Label "hermes.owner"}}'
        said = await self._call(
            "ps", "--all", "--format", shown, "--filter", "label=hermes=1",
            *("--filter", "status=created", "--filter", "status=exited"),
        )  # fmt: skip
        lines = [line.partition(" ") for line in said.output.decode().splitlines()]
        dead = [id for id, _, owner in lines if _is_dead(owner)]
        if dead:
            await self._call("rm", "--force", "--volumes", *dead)

    async def _call(self, *words: str) -> Said:
        return await self._docker.call([*self._host, *words], timeout=_CALL)

    @property
    def _host(self) -> list[str]:
        return host(self._docker.program, self._settings)


def host(program: str, settings: TerminalSettings) -> list[str]:
    """The words that tell the client where its daemon listens."""
    flag = "--url" if PurePath(program).name.startswith("podman") else "--host"
    return [flag, settings.docker_host] if settings.docker_host else []


def limits(settings: TerminalSettings) -> list[str]:
    """0 means no limit."""
    words = [] if settings.docker_network else ["--network", "none"]
    if settings.memory_mb:
        words += ["--memory", f"{settings.memory_mb}m", "--memory-swap", f"{settings.memory_mb}m"]
    if settings.processes:
        words += ["--pids-limit", str(settings.processes)]
    if settings.cpus:  # more than there are is refused
        words += ["--cpus", f"{min(settings.cpus, os.cpu_count() or 1):g}"]
    return words


def _owner() -> str:
    pid = os.getpid()
    return f"{socket.gethostname()}/{pid}/{birth(pid)}"


def _is_dead(owner: str) -> bool:
    host, _, rest = owner.partition("/")
    pid, _, born = rest.partition("/")
    return host == socket.gethostname() and pid.isdigit() and birth(int(pid)) != born
