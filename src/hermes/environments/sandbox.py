"""Runs untrusted commands in a sandbox on this machine.

They can read the system's programs, write to the working folder and to a separate /tmp, and reach
no network, no other process and none of our secrets. See `confinement` for how this is enforced,
and `sandboxing.host_access` for the user they run as. Background processes end with the sandbox.
"""

import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import BackgroundProcess, CommandResult, PipedProcess
from hermes.environments.open import EnvironmentOpening
from hermes.environments.processes.output import LeftoverPipes
from hermes.environments.sandboxing import launcher_client, support
from hermes.environments.sandboxing.launcher_client import LauncherClient, build_request
from hermes.environments.sandboxing.sandbox_processes import (
    SandboxProcess,
    run_in_sandbox,
    start_in_sandbox,
)
from hermes.environments.sandboxing.sandbox_records import SandboxRecords
from hermes.environments.sandboxing.sandbox_resources import SandboxResources
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import (
    MAX_INLINE_COMMAND_BYTES,
    SessionShell,
    check_argument,
    folder_in_state,
    new_tree_mark,
)

PIPED_MODULE = "hermes.environments.sandboxing.piped_calls"
_OWN_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR")
SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def open_sandbox(opening: EnvironmentOpening) -> "SandboxEnvironment":
    """`terminal.cwd: ""` means a new folder for the sandbox, which is removed with it."""
    directory = opening.folder if opening.settings.cwd else None
    records = SandboxRecords(opening.home)
    return SandboxEnvironment(
        directory, opening.variables, settings=opening.settings, records=records
    )


class SandboxEnvironment:
    """A sandbox with one shell session in `directory`, or in a new folder.

    `variables` are all variables of commands (see `select_variables`). `isolation` are the kinds of
    isolation to try, in order; see `isolation_kinds`. `records` keeps which folders it could
    write to.
    """

    name = "sandbox"
    isolated = True

    def __init__(
        self,
        directory: Path | None,
        variables: Mapping[str, str],
        *,
        settings: TerminalSettings | None = None,
        isolation: tuple[str, ...] = (),
        records: SandboxRecords | None = None,
    ) -> None:
        self.target = str(directory or "a folder of its own")
        self._settings = settings or TerminalSettings()
        self._variables = dict(variables)
        self._resources = SandboxResources(directory, self._settings, isolation, records)
        self._leftovers = LeftoverPipes()
        self._started: dict[str, SandboxProcess] = {}
        self._stack = AsyncExitStack()
        self._open: SessionShell | None = None

    async def __aenter__(self) -> Self:
        reason = support.no_sandbox_reason()
        if reason:
            raise EnvironmentFailed(reason)
        async with AsyncExitStack() as stack:
            resources = await stack.enter_async_context(self._resources)
            self._variables |= _own_variables(resources)
            bash = _bash_path(self._variables.setdefault("PATH", SANDBOX_PATH))
            stack.callback(self._leftovers.close)
            self._open = SessionShell(f"{resources.scratch}/state", resources.directory, bash)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._open = None
        for process in self._started.values():
            process.close()
        await self._stack.aclose()

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        async with self._launcher() as launcher:
            command = await self._shorten(launcher, command)
            launch = self._shell.launch(command, tree=new_tree_mark(), cwd=cwd)
            return await run_in_sandbox(
                launcher,
                build_request(launch.argv, {**self._variables, **launch.variables}),
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
                let_go=self._leftovers.take,
            )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        async with self._launcher() as launcher:
            cwd, name = await self._session_path(launcher, path)
            return await launcher_client.read_sandbox_file(
                launcher, name, cwd=cwd, offset=offset, limit=limit
            )

    async def write(self, path: str, data: bytes) -> None:
        async with self._launcher() as launcher:
            cwd, name = await self._session_path(launcher, path)
            await launcher_client.replace_sandbox_file(launcher, name, data, cwd=cwd)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        self._started = {name: each for name, each in self._started.items() if not each.ended}
        handle = new_tree_mark()
        async with self._launcher() as launcher:
            command = await self._shorten(launcher, command)
            launch = self._shell.launch(command, tree=handle, cwd=cwd, exit_file=os.devnull)
            variables = {**self._variables, **launch.variables}
            asked = build_request(launch.argv, variables, terminal=pty)
            process = self._started[handle] = await start_in_sandbox(launcher, asked, handle)
        return process

    @asynccontextmanager
    async def open_piped(
        self,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str],
        cwd: str = "",
        log: Path | None = None,
        scratch: Path | None = None,
    ) -> AsyncIterator[PipedProcess]:
        """Its HOME and PATH are those of the sandbox."""
        if scratch is not None:
            raise EnvironmentFailed("a sandbox makes no folder for a program with raw pipes")
        for word in (*argv, cwd):
            check_argument(word)
        module = import_module(PIPED_MODULE)  # loaded with the first one
        start = ["/bin/sh", "-c", 'cd -- "$1" || exit 126; shift; exec "$@"', "sh"]
        own = {name: self._variables[name] for name in _OWN_VARIABLES}
        request = build_request([*start, cwd or self._shell.start, *argv], {**own, **variables})
        async with (
            self._launcher() as launcher,
            module.open_sandbox_piped(launcher, request, log) as process,
        ):
            yield process

    async def find(self, handle: str) -> BackgroundProcess | None:
        """Finds only processes of this sandbox: they end with it."""
        process = self._started.get(handle)
        return None if process is None or process.ended else process.new_reader()

    @property
    def _shell(self) -> SessionShell:
        if self._open is None:
            raise EnvironmentFailed("the environment is not open")
        return self._open

    @asynccontextmanager
    async def _launcher(self) -> AsyncIterator[LauncherClient]:
        """If the sandbox fails during a command, the next command gets a new one."""
        launcher = await self._resources.launcher()
        try:
            yield launcher
        except EnvironmentFailed:
            await self._resources.discard_launcher(launcher)
            raise

    async def _session_path(self, launcher: LauncherClient, path: str) -> tuple[str, str]:
        """The folder and the path, as the session's shell resolves them."""
        if "\0" in path or not path:
            raise ToolError(f"{path!r} is no name of a file")
        if path == "~" or path.startswith("~/"):
            return "/", self._variables["HOME"] + path[1:]
        if path.startswith("/"):
            return "/", path
        shell, folder = self._shell, None
        with suppress(ToolError):  # no command has ended yet
            state = f"{shell.folder}/state"
            found = await launcher_client.read_sandbox_file(
                launcher, state, cwd="/", offset=0, limit=None
            )
            folder = folder_in_state(found)
        return folder or shell.start, path

    async def _shorten(self, launcher: LauncherClient, command: str) -> str:
        """A command that is too long for an argument is passed in a file."""
        check_argument(command)
        if (
            len(command) <= MAX_INLINE_COMMAND_BYTES
            and len(os.fsencode(command)) <= MAX_INLINE_COMMAND_BYTES
        ):
            return command
        script = f"{self._shell.folder}/{new_tree_mark()}.sh"
        await launcher_client.replace_sandbox_file(launcher, script, os.fsencode(command), cwd="/")
        return f". '{script}'"


def _bash_path(path: str) -> str:
    """The real path: a link may be invisible in the sandbox."""
    found = shutil.which("bash", path=path)
    if found is None:
        raise EnvironmentFailed("there is no bash on this machine; the sandbox needs it")
    return str(Path(found).resolve())


def _own_variables(resources: SandboxResources) -> dict[str, str]:
    """Variables that have other values inside than outside."""
    return {
        "HOME": f"{resources.scratch}/home",
        "USER": resources.user,
        "LOGNAME": resources.user,
        "SHELL": "/bin/bash",
        "TMPDIR": resources.temporary,
    }


async def why_not(opening: EnvironmentOpening, *, isolation: tuple[str, ...] = ()) -> str | None:
    """Return why a sandbox cannot be opened, or None; tried by opening one."""
    settings = replace(opening.settings, cwd="")
    try:
        async with SandboxEnvironment(
            None, opening.variables, settings=settings, isolation=isolation
        ):
            return None
    except EnvironmentFailed as error:
        return str(error)
