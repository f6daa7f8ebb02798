"""A place elsewhere in which one shell session goes on: what `docker` and `ssh` have in common.

They differ in how the place is had and how a program is started in it (`remote.client.Client`);
the rest is here. The session's state lies over there, in a folder of its own.
"""

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.core.protocols import CommandResult, Process
from hermes.environments.remote import process as remote_process
from hermes.environments.remote import terminal as remote_terminal
from hermes.environments.remote.client import Client
from hermes.environments.remote.lines import Lines
from hermes.environments.remote.process import RemoteProcess
from hermes.environments.remote.run import run_there
from hermes.environments.remote.scripts import (
    FETCH,
    FOLLOWS,
    HELLO,
    KEEP_LONG,
    REPLACE,
    Words,
    inner,
)  # fmt: skip
from hermes.environments.remote.terminal import RemoteTerminal
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import LONGEST, Launch, Shell, check, new_tree
from hermes.environments.sudo import SudoDesk

_OPENING = 60.0
_FILES = 600.0
"""Seconds for a file to come or go."""
_CLOSING = 15.0


class RemoteEnvironment:
    """`start` is the first working folder, empty for the place's own; `variables` is what commands
    get to see besides what the place itself gives them."""

    def __init__(
        self,
        name: str,
        target: str,
        client: Client,
        *,
        settings: TerminalSettings,
        isolated: bool,
        start: str = "",
        variables: Mapping[str, str] | None = None,
        sudo: SudoDesk | None = None,
    ) -> None:
        self.name, self.target, self.isolated = name, target, isolated
        self._settings, self._wanted = settings, start
        self._variables = {"TERM": "dumb", **(variables or {})}
        self._sudo = sudo
        self._lines = Lines(client)
        self._others: dict[str, Lines] = {}
        self._started: list[RemoteProcess | RemoteTerminal] = []
        self._open: Shell | None = None

    async def __aenter__(self) -> Self:
        try:
            words: Words = {"wanted": self._wanted, "id": new_tree()}
            word, said = await self._lines.ask(HELLO, words, patience=_OPENING)
            if word != "0":
                what = f"the working folder {self._wanted} is not there; make it first"
                reason = said.decode("utf-8", "replace").strip()
                raise PlaceFailed(f"{what} ({reason})" if word == "1" else f"no state: {reason}")
        except BaseException:
            await self._leave(spare=False)
            raise
        folder, _, start = said.decode("utf-8", "surrogateescape").partition("\0")
        self._open = Shell(folder, start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shell, self._open = self._open, None
        spare = False
        with anyio.move_on_after(_CLOSING, shield=True), suppress(PlaceFailed):
            if self._sudo is not None:
                await self._sudo.close()
            spare = await self._part()
            if shell is not None:
                await self._lines.ask('rm -rf -- "$folder"', {"folder": shell.folder})
        await self._leave(spare=spare)

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        check(command)
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._begin)
        return await self._run(command, timeout=timeout, stdin=stdin, cwd=cwd)

    async def _run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        tree, shell = new_tree(), self._shell
        long, script = _is_long(command), f"{shell.folder}/{tree}.sh"
        launch = self._launch(f". '{script}'" if long else command, tree=tree, cwd=cwd)
        body, words = inner(launch) + " 2>&1", {}
        if long:
            body = f'{KEEP_LONG}\n{body}\nword=$?; rm -f -- "$script"'
            words = {"long": command, "script": script}
        return await run_there(
            self._lines,
            body,
            words,
            tree=tree,
            timeout=min(timeout, self._settings.max_timeout),
            stdin=stdin,
        )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        words = self._file(path) | {"offset": max(0, offset)}
        words["limit"] = "" if limit is None else max(0, limit)
        word, said = await self._lines.ask(FETCH, words, patience=_FILES)
        if word != "0":
            raise _told("read", path, said)
        return said

    async def write(self, path: str, data: bytes) -> None:
        words = self._file(path) | {"size": len(data), "id": new_tree()}
        word, said = await self._lines.ask(REPLACE, words, data, ends_itself=True, patience=_FILES)
        if word != "0":
            raise _told("write", path, said)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> Process:
        self._started = [process for process in self._started if not process.ended]
        check(command)
        if self._sudo is not None:
            await self._sudo.ready(command, self._run, self._begin)
        process = await self._begin(command, pty=pty, cwd=cwd)
        self._started.append(process)
        return process

    async def _begin(
        self, command: str, *, pty: bool = False, cwd: str = ""
    ) -> RemoteProcess | RemoteTerminal:
        tree = new_tree()
        folder, _, _ = self._shell.folder.rpartition("/")
        folder = f"{folder}/.hermes-process-{tree}"
        long = _is_long(command)
        launch = self._launch(
            f". '{folder}/command'" if long else command,
            tree=tree,
            cwd=cwd,
            exit_file="/dev/null",
            tty="/dev/tty" if pty else "",
        )
        begin = remote_terminal.start if pty else remote_process.start
        return await begin(self._lines, launch, folder, tree=tree, long=command if long else "")

    async def find(self, handle: str) -> Process | None:
        where = remote_process.whereabouts(handle)
        lines = self._lines_to(where.place) if where else None
        if where is None or lines is None:
            return None
        try:
            if await remote_process.look(lines, where) == "gone":
                return None
        except PlaceFailed:
            if lines is self._lines:
                raise
            return None  # the place itself is gone
        process = RemoteProcess(lines, where)
        self._started.append(process)
        return process

    @property
    def _shell(self) -> Shell:
        if self._open is None:
            raise PlaceFailed("the environment is not open")
        return self._open

    def _launch(
        self, command: str, *, tree: str, cwd: str, exit_file: str = "", tty: str = ""
    ) -> Launch:
        launch = self._shell.launch(command, tree=tree, cwd=cwd, exit_file=exit_file, tty=tty)
        return Launch(launch.argv, {**self._variables, **launch.variables})

    def _file(self, path: str) -> dict[str, str | int]:
        if "\0" in path or not path:
            raise ToolError(f"{path!r} is no name of a file")
        check(path)
        shell = self._shell
        return {"path": path, "folder": shell.folder, "start": shell.start, "follows": FOLLOWS}

    def _lines_to(self, place: str) -> Lines | None:
        if place == self._lines.client.place:
            return self._lines
        if place not in self._others:
            client = self._lines.client.elsewhere(place)
            if client is None:
                return None
            self._others[place] = Lines(client, waiting=0)
        return self._others[place]

    async def _part(self) -> bool:
        """Whether some of our processes go on here without us."""
        spare = False
        for process in self._started:
            if isinstance(process, RemoteTerminal):
                if not process.ended:
                    await process.kill()
            elif process.lines is self._lines:
                spare = spare or await process.runs()
            await process.close()
        return spare

    async def _leave(self, *, spare: bool) -> None:
        with anyio.move_on_after(_CLOSING, shield=True):
            for lines in (self._lines, *self._others.values()):
                await lines.close()
                await lines.client.close(spare=spare or lines is not self._lines)


def _is_long(command: str) -> bool:
    return len(command) > LONGEST or len(command.encode("utf-8", "surrogateescape")) > LONGEST


def _told(verb: str, path: str, said: bytes) -> ToolError:
    reason = said.decode("utf-8", "replace").strip()[-500:] or "it failed"
    if "No space left" in reason:
        reason = "disk full: free some space first"
    return ToolError(f"cannot {verb} {path}: {reason}")
