"""Commands on this very machine. Not isolated: policies treat it with care."""

import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio import to_thread

from hermes.core.errors import PlaceFailed, ToolError
from hermes.core.protocols import CommandResult, Process
from hermes.environments.files import read_bytes, write_bytes
from hermes.environments.open import Opening
from hermes.environments.processes import local as process_local
from hermes.environments.processes import pty as process_pty
from hermes.environments.processes.leftover import Leftovers
from hermes.environments.processes.local import LocalProcess
from hermes.environments.processes.pty import PtyProcess
from hermes.environments.processes.run import run_to_end
from hermes.environments.processes.session import Session
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import Shell, new_tree
from hermes.environments.sudo import VARIABLE, SudoDesk, desk_for

_TEMPORARY = "hermes-shell-"
_OLD = 3600.0


NO_BASH = (
    "there is no bash on this machine, and commands need it: install it with `apt install bash`, "
    "`apk add bash` or `dnf install bash`"
)


def open_local(opening: Opening) -> "LocalEnvironment":
    return LocalEnvironment(
        opening.folder,
        opening.variables,
        settings=opening.settings,
        processes=opening.home / "processes",
        sudo=desk_for(opening.secrets.get(VARIABLE, ""), owner=os.getpid()),
    )


async def why_not(opening: Opening) -> str | None:
    return None if shutil.which("bash", path=opening.variables.get("PATH", os.defpath)) else NO_BASH


class LocalEnvironment:
    """This machine, in one shell session that begins in `directory`.

    `variables` is all that commands get to see (`child_variables` chooses it). `processes` is the
    folder in which background processes can be found again; without one they end with us.
    """

    name = "local"
    isolated = False

    def __init__(
        self,
        directory: Path,
        variables: Mapping[str, str],
        *,
        settings: TerminalSettings | None = None,
        processes: Path | None = None,
        sudo: SudoDesk | None = None,
    ) -> None:
        self.target = socket.gethostname()
        self._directory = directory
        self._variables = dict(variables)
        self._settings = settings or TerminalSettings()
        self._processes = processes
        self._sudo = sudo
        self._leftovers = Leftovers()
        self._started: list[LocalProcess | PtyProcess] = []
        self._stack = contextlib.ExitStack()
        self._open: Session | None = None

    async def __aenter__(self) -> Self:
        bash = shutil.which("bash", path=self._variables.get("PATH", os.defpath))
        if bash is None:
            raise PlaceFailed(NO_BASH)
        if not self._directory.is_dir():
            raise PlaceFailed(f"the working folder {self._directory} is not there; make it first")
        _sweep(Path(tempfile.gettempdir()))
        if self._processes is not None:
            try:
                self._processes.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise PlaceFailed(
                    f"no folder for background processes at {self._processes}: {error.strerror}; "
                    "make it writable, or set HERMES_HOME to a folder that is"
                ) from error
        shell = Shell("", str(self._directory.absolute()), bash)
        self._open = Session(shell, self._variables)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            if self._sudo is not None:
                await self._sudo.close()
            async with anyio.create_task_group() as group:
                for process in self._started:
                    if self._processes is None or isinstance(process, PtyProcess):
                        group.start_soon(process.kill)
        for process in self._started:
            process.close()
        self._open = None
        self._leftovers.close()
        self._stack.close()

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._keep_running)
        return await self._run(command, timeout=timeout, stdin=stdin, cwd=cwd)

    async def _run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        tree = new_tree()
        with self._session.prepare(command, tree=tree, cwd=cwd) as prepared:
            result = await run_to_end(
                prepared,
                tree=tree,
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
                let_go=self._leftovers.take,
            )
            if not result.timed_out:
                prepared.finish()
            return result

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        read = partial(read_bytes, self._path(path), offset=offset, limit=limit)
        return await to_thread.run_sync(read)

    async def write(self, path: str, data: bytes) -> None:
        await to_thread.run_sync(write_bytes, self._path(path), data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> Process:
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._keep_running)
        self._started = [process for process in self._started if not process.closed]
        process: LocalProcess | PtyProcess
        if pty:
            process = await process_pty.start(self._session, command, cwd=cwd)
        else:
            process = await self._keep_running(command, cwd=cwd)
        self._started.append(process)
        return process

    async def _keep_running(self, command: str, *, cwd: str = "") -> LocalProcess:
        return await process_local.start(self._session, command, self._process_folder, cwd=cwd)

    async def find(self, handle: str) -> Process | None:
        process = process_local.find(self._process_folder, handle)
        if process is not None:
            self._started.append(process)
        return process

    @property
    def _session(self) -> Session:
        if self._open is None:
            raise PlaceFailed("the environment is not open")
        return self._open

    @property
    def _process_folder(self) -> Path:
        return self._processes or self._temporary

    @property
    def folder(self) -> str:
        """Where the session is now."""
        return self._session.state.folder or self._session.shell.start

    @cached_property
    def _temporary(self) -> Path:
        """A folder of this session alone, removed with it."""
        prefix = f"{_TEMPORARY}{os.getpid()}-"
        made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        return Path(os.path.realpath(self._stack.enter_context(made)))

    def _path(self, path: str) -> Path:
        """As the session's shell would see it: relative to where it is now."""
        if "\0" in path or not path:
            raise ToolError(f"{path!r} is no name of a file")
        if path == "~" or path.startswith("~/"):
            return Path(self._variables.get("HOME", "/") + path[1:])
        return Path(self.folder) / path


def _sweep(folder: Path) -> None:
    """Remove the folders of sessions whose owner was killed. Only what is old, too: an owner in
    another container that shares this folder merely seems to be gone."""
    for state in folder.glob(f"{_TEMPORARY}*-*"):
        owner = state.name.removeprefix(_TEMPORARY).partition("-")[0]
        with contextlib.suppress(OSError):
            old = time.time() - state.stat().st_mtime > _OLD
            if old and owner.isdigit() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(state, ignore_errors=True)
