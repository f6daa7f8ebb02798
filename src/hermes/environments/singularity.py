"""Opens an environment in an instance of Singularity or Apptainer."""

import os
import secrets
import time
from collections.abc import Sequence

import anyio
import msgspec

from hermes.core.errors import EnvironmentFailed
from hermes.environments.open import EnvironmentOpening, granted_variables
from hermes.environments.remote.client import ClientProgram, require_program
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.remote.process_scripts import BUSY_SCRIPT
from hermes.environments.settings import TerminalSettings

_START_TIMEOUT_S = 600.0
"""Includes pulling and converting the image the first time."""
_CALL_TIMEOUT_S = 30.0
_NEW_INSTANCE_GRACE_S = 120
"""Seconds in which a new instance may not be in use yet."""
_ISOLATION_OPTIONS = ("--containall", "--no-home", "--writable-tmpfs", "--cleanenv")

# The program gets our raw terminal and no own session, so the session is made here.
_TERMINAL_ARGV = ("setsid", "-c", "-w", "bash", "--norc", "-c", 'stty sane; exec "$@"', "bash")


class SingularityInstance:
    """Implements `RemoteClient`. Without a `name`, an instance is started when it is first needed;
    if it ends, the command fails with that error and the next one starts a new instance."""

    def __init__(
        self, client: ClientProgram, settings: TerminalSettings, *, name: str = ""
    ) -> None:
        self.variables = client.variables
        self._client, self._settings = client, settings
        self._name, self._found = name, bool(name)
        self._starting = anyio.Lock()

    @property
    def place(self) -> str:
        return f"instance {self._name}"

    async def connect(self) -> None:
        async with self._starting:
            if not self._name:
                await self._sweep()
                self._name = await self._start()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        """Repeats `--cleanenv`, which an instance does not remember."""
        how = _TERMINAL_ARGV if terminal else ()
        enter = ["exec", "--cleanenv", f"instance://{self._name}"]
        return [self._client.program, *enter, *how, *argv]

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        if self._name in await self._running(self._name):
            if "FATAL" in complaint or (complaint and not begun):
                return EnvironmentFailed(f"{self.place} takes no commands: {complaint}")
            return None
        died = self.place
        if not self._found:
            self._name = ""
        return EnvironmentFailed(
            f"{died} ended under us, perhaps out of memory (terminal.memory_mb). The next command "
            f"gets a new one: files and shell state that were in it are gone. {complaint}".rstrip()
        )

    def reopen(self, place: str) -> "SingularityInstance | None":
        kind, _, name = place.partition(" ")
        if kind != "instance" or not name.startswith("hermes-"):
            return None
        return SingularityInstance(self._client, self._settings, name=name)

    async def close(self, *, spare: bool) -> None:
        name, self._name = self._name, ""
        if name and not spare and not self._found:
            await self._stop(name)

    async def _start(self) -> str:
        known = await self._client.run_checked(
            f"{self._client.program} does not run",
            ["instance", "start", "--help"],
            timeout=_CALL_TIMEOUT_S,
        )
        name, image = new_instance_name(), self._settings.singularity_image
        result = await self._client.run(
            [
                "instance",
                "start",
                *_ISOLATION_OPTIONS,
                *optional_limits(self._settings, known),
                image,
                name,
            ],
            timeout=_START_TIMEOUT_S,
        )
        if result.code != 0:
            raise EnvironmentFailed(
                f"cannot start an instance of {image}: {_with_advice(result.complaint)}"
            )
        return name

    async def _stop(self, name: str) -> None:
        await self._client.run(
            ["instance", "stop", "--timeout", "2", name], timeout=_CALL_TIMEOUT_S
        )

    async def _sweep(self) -> None:
        """Stops instances that a crash of Hermes left, unless a process runs in them."""
        for name in await self._running("hermes-*"):
            if _instance_age_s(name) > _NEW_INSTANCE_GRACE_S:
                words = ["exec", "--cleanenv", f"instance://{name}", "bash", "-c", BUSY_SCRIPT]
                if (await self._client.run(words, timeout=_CALL_TIMEOUT_S)).code == 1:
                    await self._stop(name)

    async def _running(self, pattern: str) -> list[str]:
        result = await self._client.run(
            ["instance", "list", "--json", pattern], timeout=_CALL_TIMEOUT_S
        )
        try:
            return [
                each.instance
                for each in msgspec.json.decode(result.output, type=_InstanceList).instances
            ]
        except (msgspec.DecodeError, msgspec.ValidationError):
            return []


class _ListedInstance(msgspec.Struct):
    instance: str


class _InstanceList(msgspec.Struct):
    instances: list[_ListedInstance]


def optional_limits(settings: TerminalSettings, known: str) -> list[str]:
    """Restrictions and limits that not every version supports; 0 means no limit."""
    cpus = min(settings.cpus, os.cpu_count() or 1)  # more than the machine has is refused
    wanted: list[tuple[str, str]] = [("--no-privs", "")]
    if settings.memory_mb:
        wanted.append(("--memory", f"{settings.memory_mb}M"))
    if cpus:
        wanted.append(("--cpus", f"{cpus:g}"))
    if settings.processes:
        wanted.append(("--pids-limit", str(settings.processes)))
    words = [] if settings.docker_network else ["--net", "--network", "none"]
    for flag, value in wanted:
        if flag in known.split():
            words += [flag, value] if value else [flag]
    return words


def new_instance_name() -> str:
    return f"hermes-{int(time.time())}-{secrets.token_hex(4)}"


def _instance_age_s(name: str) -> float:
    _, born, *_ = (*name.split("-"), "")
    return time.time() - int(born) if born.isdigit() else 0.0


def _with_advice(complaint: str) -> str:
    if "cgroup" not in complaint.lower():
        return complaint
    return (
        f"{complaint}\nLimits need cgroups that this account may change (version 2, delegated by "
        "systemd). To go without, set terminal.memory_mb, terminal.cpus and terminal.processes "
        "to 0"
    )


SINGULARITY_PROGRAMS = ("apptainer", "singularity")
_CHECK_TIMEOUT_S = 30.0


def open_singularity(opening: EnvironmentOpening) -> RemoteEnvironment:
    """`terminal.cwd` is a folder of the image; "." is the default. Raises `EnvironmentFailed`
    when neither program is installed."""
    settings = opening.settings
    return RemoteEnvironment(
        "singularity",
        settings.singularity_image,
        SingularityInstance(_singularity_client(opening), settings),
        settings=settings,
        isolated=True,
        start="" if settings.cwd == "." else settings.cwd,
        variables=granted_variables(opening),
    )


async def why_not(opening: EnvironmentOpening) -> str | None:
    """Return what is missing for an instance, or None. Nothing is started."""
    try:
        await _singularity_client(opening).run_checked(
            "it does not run", ["version"], timeout=_CHECK_TIMEOUT_S
        )
    except EnvironmentFailed as error:
        return str(error)
    return None


def _singularity_client(opening: EnvironmentOpening) -> ClientProgram:
    program = require_program(
        SINGULARITY_PROGRAMS,
        opening.variables,
        advice="neither apptainer nor singularity is on the PATH: install one from apptainer.org "
        "or your distribution (`dnf install apptainer`, `apt install singularity-container`)",
    )
    return ClientProgram(program, dict(opening.variables))
