"""A background process reached by errands: it prints to a file, and they bring the news."""

import contextlib
import os
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import BackgroundProcess, CommandResult
from hermes.environments.cloud.remote_calls import (
    OUTPUT_WINDOW_BYTES,
    POLL_WAIT_S,
    CloudBox,
    RemoteCallAnswer,
    RemoteCalls,
)
from hermes.environments.open import ALWAYS_PASSED_VARIABLES, EnvironmentOpening
from hermes.environments.processes.output import HEAD_BYTES, whole_characters
from hermes.environments.processes.process_tree import STOP_GRACE_S
from hermes.environments.processes.run import TIMEOUT_EXIT_CODE
from hermes.environments.settings import TerminalSettings
from hermes.environments.shell import (
    MAX_INLINE_COMMAND_BYTES,
    SessionShell,
    ShellLaunch,
    check_argument,
    new_tree_mark,
)

_MAX_LAG_BYTES = 8 * 1024 * 1024
"""So far behind, reading everything would only fall back further: go on near the end."""


class ProcessProgress:
    """What all readers of one process know: how it ended, and how much it had printed."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        """Seconds between asking it to end and killing it."""
        self.ended = False
        self.code: int | None = None
        self.size = 0

    def update(self, answer: RemoteCallAnswer) -> None:
        self.size = max(self.size, answer.size)
        if (answer.code is not None or answer.gone) and not self.ended:
            self.ended, self.code = True, answer.code


class CloudProcess:
    """Numbers of processes mean nothing outside: `pid` is None."""

    pid: int | None = None

    def __init__(
        self, errands: RemoteCalls, handle: str, *, terminal: bool, progress: ProcessProgress
    ) -> None:
        self.handle = handle
        self.progress = progress
        self._errands, self._terminal = errands, terminal
        self._position = max(0, progress.size - OUTPUT_WINDOW_BYTES)

    def new_reader(self) -> "CloudProcess":
        """The same process for another reader, from the oldest output that is kept."""
        return CloudProcess(
            self._errands, self.handle, terminal=self._terminal, progress=self.progress
        )

    async def output(self) -> bytes:
        while True:
            answer = await self._errands.call(
                "listen", self.handle, self._position, POLL_WAIT_S * 1000, waits_s=POLL_WAIT_S
            )
            self.progress.update(answer)
            behind = answer.size - self._position
            if behind > _MAX_LAG_BYTES:
                self._position += behind - OUTPUT_WINDOW_BYTES
                return f"\n[… {behind - OUTPUT_WINDOW_BYTES:,} bytes came too fast to be kept …]\n".encode()
            if answer.data:
                self._position += len(answer.data)
                return answer.data
            if self.progress.ended:
                if not answer.gone:
                    await self._errands.call("forget", self.handle)
                return b""

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self._terminal:
            data = data.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
        await self._errands.call("feed", self.handle, stdin=data)

    async def wait(self) -> int | None:
        """None when the place went down with it."""
        try:
            while not self.progress.ended:
                answer = await self._errands.call(
                    "wait", self.handle, POLL_WAIT_S * 1000, waits_s=POLL_WAIT_S
                )
                self.progress.update(answer)
        except EnvironmentFailed:
            return None
        return self.progress.code

    async def kill(self) -> None:
        grace = self.progress.grace
        answer = await self._errands.call("kill", self.handle, int(grace * 10), waits_s=grace)
        self.progress.update(answer)


_CANCEL_TIMEOUT_S = 15.0
"""Seconds to end what was cancelled; a place that takes longer is not asked again."""
_UTF8_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""Bytes that no character begins with: the rest of one that was cut in two is left out."""


async def run_by_remote_calls(
    errands: RemoteCalls, words: bytes, *, tree: str, timeout: float, stdin: bytes, grace: float
) -> CommandResult:
    """`words` is the argv to run, each word ended by NUL; `tree` is the mark among them. After
    the time-out, `grace` seconds lie between asking and killing."""
    started = time.monotonic()
    answer = await _wait_for_exit(errands, words, tree, timeout, stdin)
    timed_out = answer is None
    if answer is None:
        answer = await errands.call("stop", tree, int(grace * 10), waits_s=grace)
    output, dropped = _render_output(answer)
    return CommandResult(
        exit_code=TIMEOUT_EXIT_CODE if timed_out else answer.code or 0,
        output=output,
        dropped_bytes=dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


async def _wait_for_exit(
    errands: RemoteCalls, words: bytes, tree: str, timeout: float, stdin: bytes
) -> RemoteCallAnswer | None:
    """None when the time was up first, which is counted inside: how long an errand takes on its
    way is not the command's fault. Cancelling kills at once."""
    left, own = timeout, "rest" if stdin else "nothing"
    look = min(left, POLL_WAIT_S)
    try:
        answer = await errands.call(
            *("run", tree, len(words), own, int(look * 1000)), stdin=words + stdin, waits_s=look
        )
        while answer.code is None and not answer.gone and left > look:
            left -= look
            look = min(left, POLL_WAIT_S)
            answer = await errands.call("await", tree, int(look * 1000), waits_s=look)
    except anyio.get_cancelled_exc_class():
        with (
            anyio.move_on_after(_CANCEL_TIMEOUT_S, shield=True),
            contextlib.suppress(EnvironmentFailed),
        ):
            await errands.call("stop", tree, 0)
        raise
    if answer.gone:
        raise EnvironmentFailed(
            f"the files of the running command were removed in {errands.box.id}: what it printed, "
            "and how it ended, is lost"
        )
    return None if answer.code is None else answer


def _render_output(answer: RemoteCallAnswer) -> tuple[str, int]:
    """The place sends the ends of a long output; what lay between is only counted."""
    dropped = answer.size - len(answer.data)
    if dropped <= 0:
        return answer.data.decode("utf-8", "replace"), 0
    head = whole_characters(answer.data[:HEAD_BYTES]).decode("utf-8", "replace")
    tail = answer.data[HEAD_BYTES:].lstrip(_UTF8_CONTINUATION_BYTES).decode("utf-8", "replace")
    return f"{head}\n[… {dropped:,} bytes left out …]\n{tail}", dropped


BoxProvider = Callable[[], Awaitable[CloudBox]]

_CLOSE_TIMEOUT_S = 60.0


class CloudEnvironment:
    """One shell session in the box that `get` brings.

    When the box fails under a command, the next command asks it whether it still lives, and gets
    a new one if not: what was in the old one is gone, and the error has said so.
    """

    isolated = True

    def __init__(
        self,
        name: str,
        target: str,
        get: BoxProvider,
        *,
        settings: TerminalSettings,
        variables: Mapping[str, str],
    ) -> None:
        self.name, self.target = name, target
        self.grace = STOP_GRACE_S
        """Seconds between asking what takes too long to end, and killing it."""
        self._get, self._settings = get, settings
        self._variables = {"TERM": "dumb", **variables}
        self._replacing = anyio.Lock()
        self._started: dict[str, CloudProcess] = {}
        self._open: RemoteCalls | None = None
        self._doubted = False

    async def __aenter__(self) -> Self:
        self._open = await self._open_calls()
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
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_TIMEOUT_S):
            await errands.box.close()

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        tree = new_tree_mark()
        async with self._calls() as errands:
            launch = await self._launch(errands, command, tree=tree, cwd=cwd)
            return await run_by_remote_calls(
                errands,
                self._encode_launch(launch),
                tree=tree,
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
                grace=self.grace,
            )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        most = "" if limit is None else max(0, limit)
        async with self._calls() as errands:
            with _translate_refusal("read", path) as name:
                answer = await errands.call(
                    "read", "-", errands.start, max(0, offset), most, stdin=name
                )
        return answer.data

    async def write(self, path: str, data: bytes) -> None:
        async with self._calls() as errands:
            with _translate_refusal("write", path) as name:
                await errands.call("write", new_tree_mark(), errands.start, stdin=name + data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        self._started = {
            name: each for name, each in self._started.items() if not each.progress.ended
        }
        tree, kind = new_tree_mark(), "terminal" if pty else ""
        async with self._calls() as errands:
            tty = "/dev/tty" if pty else ""
            launch = await self._launch(
                errands, command, tree=tree, cwd=cwd, exit_file=os.devnull, tty=tty
            )
            words = self._encode_launch(_with_terminal(launch) if pty else launch)
            await errands.call("start", tree, len(words), kind, stdin=words)
        process = CloudProcess(errands, tree, terminal=pty, progress=ProcessProgress(self.grace))
        self._started[tree] = process
        return process

    async def find(self, handle: str) -> BackgroundProcess | None:
        """Only of this life: what we started in the box ends when we leave it."""
        process = self._started.get(handle)
        return None if process is None or process.progress.ended else process.new_reader()

    @contextlib.asynccontextmanager
    async def _calls(self) -> AsyncIterator[RemoteCalls]:
        if self._doubted:
            await self._replace()
        if self._open is None:
            raise EnvironmentFailed("the environment is not open")
        try:
            yield self._open
        except EnvironmentFailed:
            self._doubted = True
            raise

    async def _replace(self) -> None:
        async with self._replacing:
            if not self._doubted or self._open is None:
                return
            try:
                await self._open.call("wait", "-", 0)
            except EnvironmentFailed:
                with contextlib.suppress(EnvironmentFailed):
                    await self._open.box.close()
                self._open = await self._open_calls()
            self._doubted = False

    async def _open_calls(self) -> RemoteCalls:
        box = await self._get()
        wanted = "" if self._settings.cwd == "." else self._settings.cwd
        try:
            return await RemoteCalls(box).open(wanted)
        except BaseException as error:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_TIMEOUT_S):
                await box.close()
            if isinstance(error, ToolError):
                raise EnvironmentFailed(f"{box.id}: {error}") from error
            raise

    async def _launch(
        self,
        errands: RemoteCalls,
        command: str,
        *,
        tree: str,
        cwd: str,
        exit_file: str = "",
        tty: str = "",
    ) -> ShellLaunch:
        """A command that is too long for an argument is read from a file instead."""
        check_argument(command)
        data = os.fsencode(command)
        if len(data) > MAX_INLINE_COMMAND_BYTES:
            script = f"{errands.folder}/{tree}.sh"
            await errands.call("write", tree, "/", stdin=os.fsencode(script) + b"\0" + data)
            command = f". '{script}'"
        shell = SessionShell(errands.folder, errands.start)
        return shell.launch(command, tree=tree, cwd=cwd, exit_file=exit_file, tty=tty)

    def _encode_launch(self, launch: ShellLaunch) -> bytes:
        whole = ShellLaunch(launch.argv, {**self._variables, **launch.variables})
        return b"".join(os.fsencode(word) + b"\0" for word in whole.words)


def _with_terminal(launch: ShellLaunch) -> ShellLaunch:
    inner = f"stty rows 40 cols 120; exec {shlex.join(launch.argv)}"
    return ShellLaunch(("script", "-qefc", inner, os.devnull), launch.variables)


@contextlib.contextmanager
def _translate_refusal(verb: str, path: str) -> Iterator[bytes]:
    """The path as an errand takes it; and what the place refuses, in words for the model."""
    if "\0" in path or not path:
        raise ToolError(f"{path!r} is no name of a file")
    try:
        yield os.fsencode(path) + b"\0"
    except ToolError as error:
        raise ToolError(f"cannot {verb} {path}: {error}") from error


def granted_variables(opening: EnvironmentOpening) -> dict[str, str]:
    """Variables of ours that the operator wants inside; the usual ones describe this machine."""
    return {
        name: value
        for name, value in opening.variables.items()
        if any(fnmatchcase(name, pattern) for pattern in opening.settings.pass_variables)
        and not any(fnmatchcase(name, pattern) for pattern in ALWAYS_PASSED_VARIABLES)
    }
