"""A place that is reached by errands alone: a machine lent by a service, through its SDK.

They differ in how they are had and how a short program is run there (`Box`); the rest is here.
"""

import contextlib
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.core.protocols import CommandResult, Process
from hermes.environments.errands.errand import Box, Errands
from hermes.environments.errands.process import Course, ErrandProcess
from hermes.environments.errands.run import run_by_errands
from hermes.environments.open import Opening
from hermes.environments.processes.tree import GRACE
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import LONGEST, Launch, Shell, check, new_tree
from hermes.environments.variables import ALWAYS

Get = Callable[[], Awaitable[Box]]

_CLOSING = 60.0


class ErrandEnvironment:
    """One shell session in the box that `get` brings.

    When the box fails under a command, the next command asks it whether it still lives, and gets
    a new one if not: what was in the old one is gone, and the error has said so.
    """

    isolated = True

    def __init__(
        self,
        name: str,
        target: str,
        get: Get,
        *,
        settings: TerminalSettings,
        variables: Mapping[str, str],
    ) -> None:
        self.name, self.target = name, target
        self.grace = GRACE
        """Seconds between asking what takes too long to end, and killing it."""
        self._get, self._settings = get, settings
        self._variables = {"TERM": "dumb", **variables}
        self._replacing = anyio.Lock()
        self._started: dict[str, ErrandProcess] = {}
        self._open: Errands | None = None
        self._doubted = False

    async def __aenter__(self) -> Self:
        self._open = await self._opened()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        errands, self._open = self._open, None
        if errands is None:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
            await errands.box.close()

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        tree = new_tree()
        async with self._place() as errands:
            launch = await self._launch(errands, command, tree=tree, cwd=cwd)
            return await run_by_errands(
                errands,
                self._words(launch),
                tree=tree,
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
                grace=self.grace,
            )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        most = "" if limit is None else max(0, limit)
        async with self._place() as errands:
            with _told("read", path) as name:
                answer = await errands.send(
                    "read", "-", errands.start, max(0, offset), most, stdin=name
                )
        return answer.data

    async def write(self, path: str, data: bytes) -> None:
        async with self._place() as errands:
            with _told("write", path) as name:
                await errands.send("write", new_tree(), errands.start, stdin=name + data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> Process:
        self._started = {
            name: each for name, each in self._started.items() if not each.course.ended
        }
        tree, kind = new_tree(), "terminal" if pty else ""
        async with self._place() as errands:
            tty = "/dev/tty" if pty else ""
            launch = await self._launch(
                errands, command, tree=tree, cwd=cwd, exit_file=os.devnull, tty=tty
            )
            words = self._words(_with_terminal(launch) if pty else launch)
            await errands.send("start", tree, len(words), kind, stdin=words)
        process = ErrandProcess(errands, tree, terminal=pty, course=Course(self.grace))
        self._started[tree] = process
        return process

    async def find(self, handle: str) -> Process | None:
        """Only of this life: what we started in the box ends when we leave it."""
        process = self._started.get(handle)
        return None if process is None or process.course.ended else process.again()

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[Errands]:
        if self._doubted:
            await self._replace()
        if self._open is None:
            raise PlaceFailed("the environment is not open")
        try:
            yield self._open
        except PlaceFailed:
            self._doubted = True
            raise

    async def _replace(self) -> None:
        async with self._replacing:
            if not self._doubted or self._open is None:
                return
            try:
                await self._open.send("wait", "-", 0)
            except PlaceFailed:
                with contextlib.suppress(PlaceFailed):
                    await self._open.box.close()
                self._open = await self._opened()
            self._doubted = False

    async def _opened(self) -> Errands:
        box = await self._get()
        wanted = "" if self._settings.cwd == "." else self._settings.cwd
        try:
            return await Errands(box).open(wanted)
        except BaseException as error:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
                await box.close()
            if isinstance(error, ToolError):
                raise PlaceFailed(f"{box.id}: {error}") from error
            raise

    async def _launch(
        self,
        errands: Errands,
        command: str,
        *,
        tree: str,
        cwd: str,
        exit_file: str = "",
        tty: str = "",
    ) -> Launch:
        """A command that is too long for an argument is read from a file instead."""
        check(command)
        data = os.fsencode(command)
        if len(data) > LONGEST:
            script = f"{errands.folder}/{tree}.sh"
            await errands.send("write", tree, "/", stdin=os.fsencode(script) + b"\0" + data)
            command = f". '{script}'"
        shell = Shell(errands.folder, errands.start)
        return shell.launch(command, tree=tree, cwd=cwd, exit_file=exit_file, tty=tty)

    def _words(self, launch: Launch) -> bytes:
        whole = Launch(launch.argv, {**self._variables, **launch.variables})
        return b"".join(os.fsencode(word) + b"\0" for word in whole.words)


def _with_terminal(launch: Launch) -> Launch:
    inner = f"stty rows 40 cols 120; exec {shlex.join(launch.argv)}"
    return Launch(("script", "-qefc", inner, os.devnull), launch.variables)


@contextlib.contextmanager
def _told(verb: str, path: str) -> Iterator[bytes]:
    """The path as an errand takes it; and what the place refuses, in words for the model."""
    if "\0" in path or not path:
        raise ToolError(f"{path!r} is no name of a file")
    try:
        yield os.fsencode(path) + b"\0"
    except ToolError as error:
        raise ToolError(f"cannot {verb} {path}: {error}") from error


def granted(opening: Opening) -> dict[str, str]:
    """Variables of ours that the operator wants inside; the usual ones describe this machine."""
    return {
        name: value
        for name, value in opening.variables.items()
        if any(fnmatchcase(name, pattern) for pattern in opening.settings.pass_variables)
        and not any(fnmatchcase(name, pattern) for pattern in ALWAYS)
    }
