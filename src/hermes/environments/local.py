"""Runs commands on this machine, without isolation."""

import contextlib
import errno
import os
import pwd
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio import to_thread

from hermes.core.actions import ConfinementProfile, KernelSupport
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import (
    BackgroundProcess,
    CommandResult,
    ConfinedEnvironment,
    PipedProcess,
)
from hermes.environments.confinement.replacement import replace_file
from hermes.environments.copies import DEFAULT_LIMITS, CopyLimits, CopyService, HostCopy
from hermes.environments.open import EnvironmentOpening
from hermes.environments.processes import background
from hermes.environments.processes.background import LocalProcess, PtyProcess
from hermes.environments.processes.output import LeftoverPipes
from hermes.environments.processes.process_tree import remove_stale_folders, running_trees
from hermes.environments.processes.run import run_to_end
from hermes.environments.processes.shell_session import ShellSession, ShellState
from hermes.environments.sandboxing.root_commands import with_shim
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import SessionShell, new_tree_mark
from hermes.environments.sudo import PASSWORD_VARIABLE, SudoPasswordAgent, open_password_agent

if TYPE_CHECKING:
    from hermes.environments.sandboxing.confined_commands import (
        CommandConfinement,
        ForkServerClient,
    )

_SESSION_FOLDER_PREFIX = "hermes-shell-"
_STALE_AFTER_S = 3600.0
OWN_SECRETS = (".env", "audit.key", "exchange/signing.key")
"""Files of our home folder that hold keys and tokens."""
_MEMORY_FOLDER = "/dev/shm"
PIPED_MODULE = "hermes.environments.processes.piped_process"
COPY_MODULE = "hermes.environments.copies.machine_copy"
COMMANDS_MODULE = "hermes.environments.sandboxing.confined_commands"
CONFINED_MODULE = "hermes.environments.confined_local"
"""Loaded when they are first needed: many conversations run no command."""


NO_BASH_MESSAGE = (
    "there is no bash on this machine, and commands need it: install it with `apt install bash`, "
    "`apk add bash` or `dnf install bash`"
)


def open_local(opening: EnvironmentOpening) -> "LocalEnvironment":
    hidden = tuple(str(opening.home / name) for name in OWN_SECRETS)
    return LocalEnvironment(
        opening.folder,
        with_shim(opening.variables),
        settings=opening.settings,
        processes=opening.home / "processes",
        hidden=hidden,
        sudo=open_password_agent(opening.secrets.get(PASSWORD_VARIABLE, ""), owner=os.getpid()),
        server=_shared_server(opening.beside, hidden),
    )


def _shared_server(beside: object, hidden: tuple[str, ...]) -> "ForkServerClient | None":
    """The fork server of an open environment that hides the same files."""
    if not isinstance(beside, LocalEnvironment):
        return None
    return beside.server if beside.hidden == _real_paths(hidden) else None


def _real_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(os.path.realpath, paths))


def expected_kernel_support() -> KernelSupport:
    from hermes.environments.sandboxing.support import (  # noqa: PLC0415 - not for each start
        try_kernel_support,
    )

    return try_kernel_support()


async def why_not(opening: EnvironmentOpening) -> str | None:
    return (
        None
        if shutil.which("bash", path=opening.variables.get("PATH", os.defpath))
        else NO_BASH_MESSAGE
    )


class LocalEnvironment:
    """One shell session on this machine, which starts in `directory`.

    `variables` are all variables of commands (see `select_variables`). `processes` is the folder
    in which a later session finds background processes; without one they end with the session.
    `hidden` are files that confined commands find empty, unless they were judged to read secrets.
    `server` is that of another environment with the same hidden files, which closes it.
    """

    name = "local"
    isolated = False
    copyable = sys.platform == "linux"

    def __init__(
        self,
        directory: Path,
        variables: Mapping[str, str],
        *,
        settings: TerminalSettings | None = None,
        processes: Path | None = None,
        hidden: tuple[str, ...] = (),
        sudo: SudoPasswordAgent | None = None,
        server: "ForkServerClient | None" = None,
    ) -> None:
        self.target = socket.gethostname()
        self._directory = directory
        self._variables = {"SHELL": _login_shell(), **variables}
        self._settings = settings or TerminalSettings()
        self._processes = processes
        self._sudo = sudo
        self._leftovers = LeftoverPipes()
        self.hidden = _real_paths(hidden)
        self._shared_server = server
        self._own_server: ForkServerClient | None = None
        self._started: list[LocalProcess | PtyProcess] = []
        self._confined_trees: set[str] = set()
        """Marks of confined commands: what they leave running ends with the session."""
        self._stack = contextlib.ExitStack()
        self._open: ShellSession | None = None
        self._copier: Any = None

    async def __aenter__(self) -> Self:
        bash = shutil.which("bash", path=self._variables.get("PATH", os.defpath))
        if bash is None:
            raise EnvironmentFailed(NO_BASH_MESSAGE)
        if not self._directory.is_dir():
            raise EnvironmentFailed(
                f"the working folder {self._directory} is not there; make it first"
            )
        with contextlib.suppress(FileNotFoundError):  # all usual folders are full or read-only
            remove_stale_folders(
                Path(tempfile.gettempdir()), _SESSION_FOLDER_PREFIX, min_age_s=_STALE_AFTER_S
            )
        if self._processes is not None:
            try:
                self._processes.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError:  # only background processes need it
                self._processes = None
        shell = SessionShell("", str(self._directory.absolute()), bash)
        self._open = ShellSession(shell, self._variables, ShellState(self._variables))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with anyio.CancelScope(shield=True):
            if self._sudo is not None:
                await self._sudo.close()
            if self._copier is not None:
                await self._copier.close()
            async with anyio.create_task_group() as group:
                for process in self._started:
                    if self._processes is None or isinstance(process, PtyProcess):
                        group.start_soon(process.kill)
                for tree in running_trees(self._confined_trees) if self._confined_trees else ():
                    group.start_soon(tree.end)
            for process in self._started:
                process.close()
            self._open = None
            if self._own_server is not None:
                await self._own_server.close()
        self._leftovers.close()
        self._stack.close()

    async def copy(
        self, limits: CopyLimits = DEFAULT_LIMITS, *, units: Sequence[CopyService] = ()
    ) -> HostCopy:
        """Raises `CannotCopyError`."""
        if self._copier is None:  # loaded when the first copy is made
            make = import_module(COPY_MODULE).MachineCopier
            self._copier = make(hidden=self.hidden, cwd=str(self._directory))
        copied: HostCopy = await self._copier.copy(limits, units)
        return copied

    @property
    def server(self) -> "ForkServerClient":
        """Starts confined commands."""
        if self._shared_server is not None:
            return self._shared_server
        if self._own_server is None:
            self._own_server = import_module(COMMANDS_MODULE).ForkServerClient(self.hidden)
        return self._own_server

    async def kernel_support(self) -> KernelSupport:
        return await self.server.support()

    def confined(self, profile: ConfinementProfile) -> ConfinedEnvironment:
        within: ConfinedEnvironment
        within = import_module(CONFINED_MODULE).ConfinedLocalEnvironment(self, profile)
        return within

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        return await self.run_in(self.session, command, timeout=timeout, stdin=stdin, cwd=cwd)

    async def run_in(
        self, session: ShellSession, command: str, *, timeout: float, stdin: bytes, cwd: str
    ) -> CommandResult:
        """`session` is that of this environment, possibly confined."""
        await self._prepare_sudo(command)
        return await self._run(command, timeout=timeout, stdin=stdin, cwd=cwd, session=session)

    async def _run(
        self,
        command: str,
        *,
        timeout: float = 60.0,
        stdin: bytes = b"",
        cwd: str = "",
        session: ShellSession | None = None,
    ) -> CommandResult:
        tree = new_tree_mark()
        if session is not None and session.confinement is not None:
            self._confined_trees.add(tree)
        try:
            with (session or self.session).prepare(command, tree=tree, cwd=cwd) as prepared:
                result = await run_to_end(
                    prepared,
                    tree=tree,
                    timeout=min(timeout, self._settings.max_timeout),
                    stdin=stdin,
                    release_pipe=self._leftovers.take,
                )
                if not result.timed_out:
                    prepared.finish()
                return result
        except OSError as error:  # no descriptor or memory is left, /tmp is full, or no answer
            why = error.strerror or str(error) or type(error).__name__
            raise EnvironmentFailed(f"cannot run a command: {why}") from error

    async def _prepare_sudo(self, command: str) -> None:
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._keep_running)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        read = partial(read_bytes, self.path(path), offset=offset, limit=limit)
        return await to_thread.run_sync(read)

    async def write(self, path: str, data: bytes) -> None:
        await to_thread.run_sync(write_bytes, self.path(path), data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        return await self.start_in(self.session, command, pty=pty, cwd=cwd)

    async def start_in(
        self, session: ShellSession, command: str, *, pty: bool, cwd: str
    ) -> BackgroundProcess:
        await self._prepare_sudo(command)
        self._started = [process for process in self._started if not process.closed]
        process: LocalProcess | PtyProcess
        if pty:
            process = await background.start_in_pty(session, command, cwd=cwd)
        else:
            process = await background.start_background(
                session, command, self._process_folder, cwd=cwd
            )
        self._started.append(process)
        return process

    @contextlib.asynccontextmanager
    async def open_piped(
        self,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str],
        cwd: str = "",
        log: Path | None = None,
        scratch: Path | None = None,
    ) -> AsyncIterator[PipedProcess]:
        module = import_module(PIPED_MODULE)  # loaded with the first one
        records = self._processes / "piped" if self._processes is not None else None
        if records is not None:
            await module.end_orphans(records)
        folder = str(self.path(cwd)) if cwd else self.folder
        async with module.open_piped(
            argv, variables=variables, cwd=folder, log=log, records=records, scratch=scratch
        ) as process:
            yield process

    async def _keep_running(self, command: str) -> LocalProcess:
        return await background.start_background(
            self.session, command, self._process_folder, cwd=""
        )

    def keep_confinement(self, confinement: "CommandConfinement") -> None:
        """Keeps the confinement of a background process until its refusals were read."""
        self._stack.callback(confinement.close)

    async def find(self, handle: str) -> BackgroundProcess | None:
        process = background.find_background(self._process_folder, handle)
        if process is not None:
            self._started.append(process)
        return process

    @property
    def session(self) -> ShellSession:
        if self._open is None:
            raise EnvironmentFailed("the environment is not open")
        return self._open

    @property
    def _process_folder(self) -> Path:
        return self._processes or self.temporary

    @property
    def folder(self) -> str:
        """The current working folder of the session."""
        return self.session.state.folder or self.session.shell.start

    @cached_property
    def temporary(self) -> Path:
        """A folder for this session only, removed with it; in memory when no disk is writable."""
        try:
            folder = tempfile.gettempdir()
        except FileNotFoundError:
            folder = _MEMORY_FOLDER
        prefix = f"{_SESSION_FOLDER_PREFIX}{os.getpid()}-"
        try:
            made = tempfile.TemporaryDirectory(
                prefix=prefix, dir=folder, ignore_cleanup_errors=True
            )
        except OSError as error:
            raise EnvironmentFailed(
                f"no folder for temporary files of commands: {error}; free some space in /tmp, or "
                "set TMPDIR to a folder that can be written"
            ) from error
        return Path(os.path.realpath(self._stack.enter_context(made)))

    def path(self, path: str) -> Path:
        """The path as the session's shell resolves it, relative to its working folder."""
        if "\0" in path or not path:
            raise ToolError(f"{path!r} is no name of a file")
        if path == "~" or path.startswith("~/"):
            return Path(self._variables.get("HOME", "/") + path[1:])
        return Path(self.folder) / path


def _login_shell() -> str:
    """Set for bash, which would otherwise query the name services."""
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


_NO_SPACE_ERRORS = {errno.ENOSPC, errno.EDQUOT}


def read_bytes(path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
    with _translate_errors("read", path):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe or terminal might block forever
            raise ToolError(f"cannot read {path}: it is {_file_kind(path)}, not a file")
        with path.open("rb") as file:
            file.seek(max(0, offset))
            return file.read(-1 if limit is None else max(0, limit))


def real_path(path: Path) -> Path:
    """Raises `ToolError` for a path that changes while it is resolved."""
    with _translate_errors("look up", path):
        return Path(os.path.realpath(path))


def write_bytes(path: Path, data: bytes, *, follow: bool = True) -> None:
    """Keeps the mode and the owner of the replaced file, and follows symlinks. Other hard links
    keep the old text.

    Without `follow`, a symlink anywhere in the path is an error: the path was judged as written,
    and a folder in it may be replaced by a link at any time.
    """
    with _translate_errors("write", path):
        replace_file(os.path.realpath(path) if follow else str(path), data)


def _file_kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or pipe"


@contextlib.contextmanager
def _translate_errors(verb: str, path: Path) -> Iterator[None]:
    """Raises a `ToolError` with a message for the model instead of an `OSError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"cannot {verb} {path}: there is no such file") from error
    except ValueError as error:
        raise ToolError(f"cannot {verb} {str(path)!r}: {error}") from error
    except OSError as error:
        reason = (
            "disk full: free some space first"
            if error.errno in _NO_SPACE_ERRORS
            else error.strerror
        )
        raise ToolError(f"cannot {verb} {path}: {reason}") from error
