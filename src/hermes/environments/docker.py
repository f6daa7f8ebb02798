"""Opens an environment in a container of docker or podman."""

import os
import re
import socket
import time
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath

import anyio

from hermes.core.actions import KernelSupport
from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.run_ids import new_id
from hermes.environments.open import EnvironmentOpening, granted_variables
from hermes.environments.processes.process_tree import process_birth
from hermes.environments.remote.client import ClientOutput, ClientProgram, require_program
from hermes.environments.remote.confined import (
    ConfiningRemoteEnvironment,
    unknown_kernel_support,
)
from hermes.environments.remote.process_scripts import KEEP_ALIVE_SCRIPT
from hermes.environments.settings import TerminalSettings

NO_BASH_ERROR = re.compile(
    r'"?bash"?:? (?:executable file )?(?:not found|no such file)', re.IGNORECASE
)
_NO_DAEMON_ERROR = re.compile(
    r"cannot connect to the docker daemon|connection refused|error during connect|"
    r"cannot connect to podman|connect: no such file",
    re.IGNORECASE,
)
_PERMISSION_ERROR = re.compile(r"permission denied.*(?:daemon|\.sock)", re.IGNORECASE | re.DOTALL)
_NO_IMAGE_ERROR = re.compile(
    r"unable to find image|pull access denied|no such image|short-name|manifest unknown|"
    r"error response from daemon: get ",
    re.IGNORECASE,
)


def explain_daemon_error(program: str, complaint: str) -> EnvironmentFailed | None:
    """Return None when the daemon answers."""
    name = PurePath(program).name
    if _PERMISSION_ERROR.search(complaint):
        return EnvironmentFailed(
            f"this account may not talk to {name}: join its group (`sudo usermod -aG docker $USER`,"
            f" then log in again), or set terminal.docker_program to podman. {name} said: "
            f"{complaint}"
        )
    if _NO_DAEMON_ERROR.search(complaint):
        return EnvironmentFailed(
            f"the {name} daemon does not answer; start it (`sudo systemctl start docker`, or "
            f"`sudo dockerd`), or set terminal.docker_host to where it listens. {name} said: "
            f"{complaint}"
        )
    return None


def explain_start_error(image: str, complaint: str) -> EnvironmentFailed:
    if NO_BASH_ERROR.search(complaint):
        return EnvironmentFailed(
            f"the image {image} has no bash, and commands need it: choose another "
            "(terminal.docker_image), or add it to this one (`apk add bash`)"
        )
    if _NO_IMAGE_ERROR.search(complaint):
        return EnvironmentFailed(
            f"there is no image {image} here and it could not be fetched; check "
            f"terminal.docker_image, or fetch it yourself (`docker pull {image}`): {complaint}"
        )
    return EnvironmentFailed(f"cannot start a container of {image}: {complaint}")


_START_TIMEOUT_S = 600.0
"""Includes pulling the image the first time."""
_CALL_TIMEOUT_S = 30.0
_NEW_CONTAINER_GRACE_S = 10.0
LINGER_S = 60.0
"""Seconds that an unused container stays before it ends itself."""

# What root in a container needs to manage its files, users and processes. Without raw sockets,
# device nodes, setting capabilities, and binding low ports (which needs no capability there).
CONTAINER_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


class DockerContainer:
    """Implements `RemoteClient`. Without an `id`, a container is started when it is first needed;
    if it ends, the command fails with that error and the next one starts a new container."""

    def __init__(
        self,
        docker: ClientProgram,
        settings: TerminalSettings,
        *,
        id: str = "",
        linger: float = LINGER_S,
    ) -> None:
        self.variables = docker.variables
        self._docker, self._settings, self._linger = docker, settings, linger
        self._id, self._found = id, bool(id)
        self._starting = anyio.Lock()
        self._started = 0.0

    @property
    def place(self) -> str:
        return f"container {self._id[:12]}"

    async def connect(self) -> None:
        if self._id:
            return
        async with self._starting:
            if not self._id:
                await self._sweep()
                self._id = await self._start()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        how = ["--interactive", "--tty"] if terminal else ["--interactive"]
        return [self._docker.program, *self._host, "exec", *how, self._id, *argv]

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        """Asks the daemon: the client's exit code and its messages are ambiguous."""
        template = "{{.State.Running}} {{.State.OOMKilled}} {{.State.ExitCode}}"
        result = await self._call("inspect", "--format", template, self._id)
        if result.code == 0 and result.output.startswith(b"true"):
            if begun or not complaint:
                return None
            if NO_BASH_ERROR.search(complaint):
                return explain_start_error(self._settings.docker_image, complaint)
            return EnvironmentFailed(f"{self.place} takes no commands: {complaint}")
        trouble = explain_daemon_error(self._docker.program, result.complaint)
        if trouble is not None:
            return trouble
        died = self.place
        if not self._found:
            self._id = ""
        if not begun and time.monotonic() - self._started < _NEW_CONTAINER_GRACE_S:
            await self._diagnose()
        _, out_of_memory, _ = (*result.output.decode().split(), "", "", "")[:3]
        why = "it ran out of memory (terminal.memory_mb)" if out_of_memory == "true" else ""
        return EnvironmentFailed(
            f"{died} ended under us{f': {why}' if why else ''}. The next command gets a new "
            "one: files and shell state that were in it are gone"
        )

    def reopen(self, place: str) -> "DockerContainer | None":
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
        result = await self._docker.run([*self._host, *self._run_words()], timeout=_START_TIMEOUT_S)
        if result.code != 0:
            trouble = explain_daemon_error(self._docker.program, result.complaint)
            raise trouble or explain_start_error(image, result.complaint)
        self._started = time.monotonic()
        return result.output.decode().split()[-1]

    async def _diagnose(self) -> None:
        """With an init process, a container without bash starts, ends at once and is removed.
        Starts bash directly and raises its error."""
        image = self._settings.docker_image
        words = ["run", "--rm", "--network", "none", "--entrypoint", "bash", image, "-c", ":"]
        result = await self._call(*words)
        if result.code != 0:
            raise explain_start_error(image, result.complaint)

    def _run_words(self) -> list[str]:
        settings = self._settings
        labels = ("hermes=1", f"hermes.session={new_id('place')}", f"hermes.owner={_owner_label()}")
        words = ["run", "--detach", "--rm", "--init", "--security-opt", "no-new-privileges"]
        words += [word for label in labels for word in ("--label", label)]
        words += ["--cap-drop", "ALL"]
        words += [word for name in CONTAINER_CAPABILITIES for word in ("--cap-add", name)]
        words += limit_options(settings)
        words += [word for volume in settings.docker_volumes for word in ("--volume", volume)]
        if settings.cwd not in ("", "."):
            words += ["--workdir", settings.cwd]
        keep = ["-c", KEEP_ALIVE_SCRIPT, "hermes-keeper", f"{self._linger / 3:g}"]
        return [*words, "--entrypoint", "bash", settings.docker_image, *keep]

    async def _sweep(self) -> None:
        """Removes containers that were created but never started: they do not remove themselves."""
        template = '{{.ID}} {{.Label "hermes.owner"}}'
        result = await self._call(
            "ps", "--all", "--format", template, "--filter", "label=hermes=1",
            *("--filter", "status=created", "--filter", "status=exited"),
        )  # fmt: skip
        lines = [line.partition(" ") for line in result.output.decode().splitlines()]
        dead = [id for id, _, owner in lines if _is_owner_dead(owner)]
        if dead:
            await self._call("rm", "--force", "--volumes", *dead)

    async def _call(self, *words: str) -> ClientOutput:
        return await self._docker.run([*self._host, *words], timeout=_CALL_TIMEOUT_S)

    @property
    def _host(self) -> list[str]:
        return daemon_options(self._docker.program, self._settings)


def daemon_options(program: str, settings: TerminalSettings) -> list[str]:
    """The options of the client for the address of its daemon."""
    flag = "--url" if PurePath(program).name.startswith("podman") else "--host"
    return [flag, settings.docker_host] if settings.docker_host else []


def limit_options(settings: TerminalSettings) -> list[str]:
    """0 means no limit."""
    words = [] if settings.docker_network else ["--network", "none"]
    if settings.memory_mb:
        words += ["--memory", f"{settings.memory_mb}m", "--memory-swap", f"{settings.memory_mb}m"]
    if settings.processes:
        words += ["--pids-limit", str(settings.processes)]
    if settings.cpus:  # more than the machine has is refused
        words += ["--cpus", f"{min(settings.cpus, os.cpu_count() or 1):g}"]
    return words


def _owner_label() -> str:
    pid = os.getpid()
    return f"{socket.gethostname()}/{pid}/{process_birth(pid)}"


def _is_owner_dead(owner: str) -> bool:
    host, _, rest = owner.partition("/")
    pid, _, born = rest.partition("/")
    return host == socket.gethostname() and pid.isdigit() and process_birth(int(pid)) != born


DOCKER_PROGRAMS = ("docker", "podman")
_CHECK_TIMEOUT_S = 30.0


def open_docker(opening: EnvironmentOpening) -> ConfiningRemoteEnvironment:
    """`terminal.cwd` is a folder in the container; "." is the default of the image. Raises
    `SettingsError` for an invalid one, and `EnvironmentFailed` without docker and podman."""
    settings = opening.settings
    if settings.cwd not in ("", ".") and not PurePosixPath(settings.cwd).is_absolute():
        raise SettingsError(
            f"terminal.cwd is {settings.cwd!r}: in a container it must be an absolute path, or "
            '"." for the image\'s own folder'
        )
    return ConfiningRemoteEnvironment(
        "docker",
        settings.docker_image,
        DockerContainer(_docker_client(opening), settings),
        settings=settings,
        isolated=True,
        variables=granted_variables(opening),
    )


def expected_kernel_support() -> KernelSupport:
    return unknown_kernel_support("docker")


async def why_not(opening: EnvironmentOpening) -> str | None:
    """Return what is missing for a container, or None. Nothing is started."""
    try:
        client = _docker_client(opening)
        where = daemon_options(client.program, opening.settings)
        result = await client.run(
            [*where, "version", "--format", "{{.Server.Version}}"], timeout=_CHECK_TIMEOUT_S
        )
    except EnvironmentFailed as error:
        return str(error)
    if result.code == 0:
        return None
    return str(explain_daemon_error(client.program, result.complaint) or result.complaint)


def _docker_client(opening: EnvironmentOpening) -> ClientProgram:
    chosen = opening.settings.docker_program
    program = require_program(
        [chosen] if chosen else DOCKER_PROGRAMS,
        opening.variables,
        advice=f"{chosen or 'neither docker nor podman'} is not on the PATH: install one "
        "(`apt install docker.io`, `apt install podman`, or see docs.docker.com/engine)",
    )
    return ClientProgram(program, dict(opening.variables))
