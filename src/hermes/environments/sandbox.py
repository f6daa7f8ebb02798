"""Commands behind walls: the embedded place for code that nobody vouches for.

It sees the system's programs read-only, may write to its working folder and to a /tmp of its own,
and reaches no network, no other process and none of our secrets. See `confinement` for what keeps
it in, and `confinement.identity` for the user it runs as. What it leaves in the background ends
with the sandbox.
"""

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import BackgroundProcess, CommandResult
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

SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def open_sandbox(opening: EnvironmentOpening) -> "SandboxEnvironment":
    """`terminal.cwd: ""` asks for a folder made for the sandbox, and removed with it."""
    directory = opening.folder if opening.settings.cwd else None
    records = SandboxRecords(opening.home)
    return SandboxEnvironment(
        directory, opening.variables, settings=opening.settings, records=records
    )


class SandboxEnvironment:
    """A sandbox with one shell session in `directory`; without one, in a folder made for it.

    `variables` is all that commands get to see (`select_variables` chooses it). `walls` are the
    kinds to try, in order; see `confinement.opening`. `records` keeps which folders it could
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
        walls: tuple[str, ...] = (),
        records: SandboxRecords | None = None,
    ) -> None:
        self.target = str(directory or "a folder of its own")
        self._settings = settings or TerminalSettings()
        self._variables = dict(variables)
        self._resources = SandboxResources(directory, self._settings, walls, records)
        self._leftovers = LeftoverPipes()
        self._started: dict[str, SandboxProcess] = {}
        self._stack = AsyncExitStack()
        self._open: SessionShell | None = None

    async def __aenter__(self) -> Self:
        reason = support.no_sandbox_reason()
        if reason:
            raise EnvironmentFailed(reason)
        async with AsyncExitStack() as stack:
            premises = await stack.enter_async_context(self._resources)
            self._variables |= _own_variables(premises)
            bash = _bash_path(self._variables.setdefault("PATH", SANDBOX_PATH))
            stack.callback(self._leftovers.close)
            self._open = SessionShell(f"{premises.scratch}/state", premises.directory, bash)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = None
        for process in self._started.values():
            process.close()
        await self._stack.aclose()

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        async with self._line() as line:
            command = await self._short(line, command)
            launch = self._shell.launch(command, tree=new_tree_mark(), cwd=cwd)
            return await run_in_sandbox(
                line,
                build_request(launch.argv, {**self._variables, **launch.variables}),
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
                let_go=self._leftovers.take,
            )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        async with self._line() as line:
            cwd, name = await self._place(line, path)
            return await launcher_client.read_sandbox_file(
                line, name, cwd=cwd, offset=offset, limit=limit
            )

    async def write(self, path: str, data: bytes) -> None:
        async with self._line() as line:
            cwd, name = await self._place(line, path)
            await launcher_client.replace_sandbox_file(line, name, data, cwd=cwd)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        self._started = {name: each for name, each in self._started.items() if not each.ended}
        handle = new_tree_mark()
        async with self._line() as line:
            command = await self._short(line, command)
            launch = self._shell.launch(command, tree=handle, cwd=cwd, exit_file=os.devnull)
            variables = {**self._variables, **launch.variables}
            asked = build_request(launch.argv, variables, terminal=pty)
            process = self._started[handle] = await start_in_sandbox(line, asked, handle)
        return process

    async def find(self, handle: str) -> BackgroundProcess | None:
        """Only of this life: what runs in a sandbox ends with the Hermes that made it."""
        process = self._started.get(handle)
        return None if process is None or process.ended else process.new_reader()

    @property
    def _shell(self) -> SessionShell:
        if self._open is None:
            raise EnvironmentFailed("the environment is not open")
        return self._open

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[LauncherClient]:
        """When the place fails under a command, the next one gets a new place."""
        line = await self._resources.launcher()
        try:
            yield line
        except EnvironmentFailed:
            await self._resources.discard_launcher(line)
            raise

    async def _place(self, line: LauncherClient, path: str) -> tuple[str, str]:
        """The folder to start from and the path, as the session's shell would see them."""
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
                line, state, cwd="/", offset=0, limit=None
            )
            folder = folder_in_state(found)
        return folder or shell.start, path

    async def _short(self, line: LauncherClient, command: str) -> str:
        """A command that is too long for an argument is read from a file instead."""
        check_argument(command)
        if (
            len(command) <= MAX_INLINE_COMMAND_BYTES
            and len(os.fsencode(command)) <= MAX_INLINE_COMMAND_BYTES
        ):
            return command
        script = f"{self._shell.folder}/{new_tree_mark()}.sh"
        await launcher_client.replace_sandbox_file(line, script, os.fsencode(command), cwd="/")
        return f". '{script}'"


def _bash_path(path: str) -> str:
    """By its real name: a link may lie where the sandbox does not see it."""
    found = shutil.which("bash", path=path)
    if found is None:
        raise EnvironmentFailed("there is no bash on this machine; the sandbox needs it")
    return str(Path(found).resolve())


def _own_variables(premises: SandboxResources) -> dict[str, str]:
    """What is true of the user outside is not true inside."""
    return {
        "HOME": f"{premises.scratch}/home",
        "USER": premises.user,
        "LOGNAME": premises.user,
        "SHELL": "/bin/bash",
        "TMPDIR": premises.temporary,
    }


async def why_not(opening: EnvironmentOpening, *, walls: tuple[str, ...] = ()) -> str | None:
    """Why there can be no sandbox here, found by opening one and closing it; None if there can."""
    settings = replace(opening.settings, cwd="")
    try:
        async with SandboxEnvironment(None, opening.variables, settings=settings, walls=walls):
            return None
    except EnvironmentFailed as error:
        return str(error)
