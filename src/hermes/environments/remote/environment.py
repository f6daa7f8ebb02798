"""Runs commands on another host in one shell session, through a client program.

The environments differ in how they are started and how a program is started in them
(`remote.client.RemoteClient`); the rest is here. The state of the session is kept on the host, in a
separate folder.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Self

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import BackgroundProcess, CommandResult, PipedProcess
from hermes.environments.copies import (
    DEFAULT_LIMITS,
    CannotCopyError,
    CopyLimits,
    CopyService,
    HostCopy,
)
from hermes.environments.remote import background
from hermes.environments.remote.background import RemoteProcess, RemoteTerminal
from hermes.environments.remote.channels import ChannelPool
from hermes.environments.remote.client import (
    EarlierRemoteClient,
    RemoteClient,
    with_current_names,
)
from hermes.environments.remote.run import run_remote
from hermes.environments.remote.scripts import (
    FETCH_SCRIPT,
    FOLDER_MARK_TEXT,
    HELLO_SCRIPT,
    KEEP_LONG_COMMAND_SCRIPT,
    REPLACE_SCRIPT,
    ScriptVariables,
)
from hermes.environments.remote.session import FILE_TIMEOUT_S, RemoteConfinement, RemoteSession
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import (
    MAX_INLINE_COMMAND_BYTES,
    SessionShell,
    check_argument,
    new_tree_mark,
)
from hermes.environments.sudo import SudoPasswordAgent

PIPED_MODULE = "hermes.environments.remote.pipes"
_OPEN_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 15.0


class RemoteEnvironment:
    """`start` is the first working folder, empty for the default of the host; `variables` are
    those of commands, in addition to the host's own."""

    copyable = False

    def __init__(
        self,
        name: str,
        target: str,
        client: RemoteClient | EarlierRemoteClient,
        *,
        settings: TerminalSettings,
        isolated: bool,
        start: str = "",
        variables: Mapping[str, str] | None = None,
        sudo: SudoPasswordAgent | None = None,
    ) -> None:
        self.name, self.target, self.isolated = name, target, isolated
        self._settings, self._requested_start = settings, start
        self._variables = {"TERM": "dumb", **(variables or {})}
        self._sudo = sudo
        self._channels = ChannelPool(with_current_names(client))
        self._others: dict[str, ChannelPool] = {}
        self._started: list[RemoteProcess | RemoteTerminal] = []
        self._open: RemoteSession | None = None

    async def __aenter__(self) -> Self:
        try:
            words: ScriptVariables = {"wanted": self._requested_start, "id": new_tree_mark()}
            word, output = await self._channels.run_program(
                HELLO_SCRIPT, words, timeout=_OPEN_TIMEOUT_S
            )
            if word != "0":
                what = f"the working folder {self._requested_start} is not there; make it first"
                reason = output.decode("utf-8", "replace").strip()
                raise EnvironmentFailed(
                    f"{what} ({reason})" if word == "1" else f"no state: {reason}"
                )
        except BaseException:
            await self._disconnect(spare=False)
            raise
        folder, _, start = output.decode("utf-8", "surrogateescape").partition("\0")
        self._open = RemoteSession(self._channels, SessionShell(folder, start), self._variables)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        session, self._open = self._open, None
        spare = False
        with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True), suppress(EnvironmentFailed):
            if self._sudo is not None:
                await self._sudo.close()
            spare = await self._has_background()
            if session is not None:
                await session.close()
        await self._disconnect(spare=spare)

    async def copy(
        self, limits: CopyLimits = DEFAULT_LIMITS, *, units: Sequence[CopyService] = ()
    ) -> HostCopy:
        """Always raises `CannotCopyError` here."""
        raise CannotCopyError(
            f"{self.target} is reached over {self.name}, and only the host that Hermes runs on can "
            "be copied: run Hermes there"
        )

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        return await self.run_under(None, command, timeout=timeout, stdin=stdin, cwd=cwd)

    async def run_under(
        self,
        confinement: RemoteConfinement | None,
        command: str,
        *,
        timeout: float,
        stdin: bytes,
        cwd: str,
    ) -> CommandResult:
        check_argument(command)
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._begin)
        return await self._run(
            command, timeout=timeout, stdin=stdin, cwd=cwd, confinement=confinement
        )

    async def _run(
        self,
        command: str,
        *,
        timeout: float = 60.0,
        stdin: bytes = b"",
        cwd: str = "",
        confinement: RemoteConfinement | None = None,
    ) -> CommandResult:
        tree, session = new_tree_mark(), self.session
        long, script = _is_long(command), f"{session.shell.folder}/{tree}.sh"
        given = f". '{script}'" if long else command
        async with session.prepare_command(
            given, tree=tree, cwd=cwd, confinement=confinement
        ) as turn:
            body, words = turn.body, dict(turn.words)
            if long:
                body = f'{KEEP_LONG_COMMAND_SCRIPT}\n{body}\nrm -f -- "$script"'
                words |= {"long": command, "script": script}
            result, turn.last = await run_remote(
                self._channels,
                body,
                words,
                tree=tree,
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
            )
        return result

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        words = self._file(path) | {"offset": max(0, offset)}
        words["limit"] = "" if limit is None else max(0, limit)
        word, output = await self._channels.run_program(FETCH_SCRIPT, words, timeout=FILE_TIMEOUT_S)
        if word != "0":
            raise _refusal_error("read", path, output)
        return output

    async def write(self, path: str, data: bytes) -> None:
        words = self._file(path) | {"size": len(data), "id": new_tree_mark()}
        word, output = await self._channels.run_program(
            REPLACE_SCRIPT, words, data, ends_itself=True, timeout=FILE_TIMEOUT_S
        )
        if word != "0":
            raise _refusal_error("write", path, output)

    async def write_under(self, confinement: RemoteConfinement, path: str, data: bytes) -> None:
        self._file(path)
        await self.session.write(confinement, path, data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        return await self.start_under(None, command, pty=pty, cwd=cwd)

    async def start_under(
        self, confinement: RemoteConfinement | None, command: str, *, pty: bool, cwd: str
    ) -> RemoteProcess | RemoteTerminal:
        self._started = [process for process in self._started if not process.ended]
        check_argument(command)
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._begin)
        process = await self._begin(command, pty=pty, cwd=cwd, confinement=confinement)
        self._started.append(process)
        return process

    async def _begin(
        self,
        command: str,
        *,
        pty: bool = False,
        cwd: str = "",
        confinement: RemoteConfinement | None = None,
    ) -> RemoteProcess | RemoteTerminal:
        tree, session = new_tree_mark(), self.session
        folder, _, _ = session.shell.folder.rpartition("/")
        folder = f"{folder}/.hermes-process-{tree}"
        long = _is_long(command)
        of = await session.prepare_background(
            f". '{folder}/command'" if long else command,
            tree=tree,
            cwd=cwd,
            tty="/dev/tty" if pty else "",
            report=f"{folder}/report",
            confinement=confinement,
        )
        begin = background.start_remote_terminal if pty else background.start_remote
        return await begin(self._channels, of, folder, tree=tree, long=command if long else "")

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
        if scratch is not None:
            raise EnvironmentFailed(f"{self.name} makes no folder for a program with raw pipes")
        module = import_module(PIPED_MODULE)  # loaded with the first one
        async with module.open_remote_piped(
            self._channels.client, argv, variables=variables, cwd=cwd or self.folder, log=log
        ) as process:
            yield process

    async def find(self, handle: str) -> BackgroundProcess | None:
        where = background.parse_handle(handle)
        channels = self._channels_to(where.place) if where else None
        if where is None or channels is None:
            return None
        try:
            if await background.probe_process(channels, where) == "gone":
                return None
        except EnvironmentFailed:
            if channels is self._channels:
                raise
            return None  # the environment itself is gone
        process = RemoteProcess(channels, where)
        self._started.append(process)
        return process

    @property
    def folder(self) -> str:
        """The current folder of the session; its first one if the state is kept on the host."""
        return self.session.folder

    @property
    def session(self) -> RemoteSession:
        if self._open is None:
            raise EnvironmentFailed("the environment is not open")
        return self._open

    def _file(self, path: str) -> dict[str, str | int]:
        if "\0" in path or not path:
            raise ToolError(f"{path!r} is no name of a file")
        check_argument(path)
        session = self.session
        start, folder = session.folder or session.shell.start, session.shell.folder
        return {"path": path, "folder": folder, "start": start, "follows": FOLDER_MARK_TEXT}

    def _channels_to(self, environment: str) -> ChannelPool | None:
        if environment == self._channels.client.place:
            return self._channels
        if environment not in self._others:
            client = self._channels.client.reopen(environment)
            if client is None:
                return None
            self._others[environment] = ChannelPool(client, waiting=0)
        return self._others[environment]

    async def _has_background(self) -> bool:
        """Return whether background processes continue here."""
        spare = False
        for process in self._started:
            if isinstance(process, RemoteTerminal):
                if not process.ended:
                    await process.kill()
            elif process.channels is self._channels:
                spare = spare or await process.runs()
            await process.close()
        return spare

    async def _disconnect(self, *, spare: bool) -> None:
        with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
            for channels in (self._channels, *self._others.values()):
                await channels.close()
                await channels.client.close(spare=spare or channels is not self._channels)


def _is_long(command: str) -> bool:
    return (
        len(command) > MAX_INLINE_COMMAND_BYTES
        or len(command.encode("utf-8", "surrogateescape")) > MAX_INLINE_COMMAND_BYTES
    )


def _refusal_error(verb: str, path: str, output: bytes) -> ToolError:
    reason = output.decode("utf-8", "replace").strip()[-500:] or "it failed"
    if "No space left" in reason:
        reason = "disk full: free some space first"
    return ToolError(f"cannot {verb} {path}: {reason}")
