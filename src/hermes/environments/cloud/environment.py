"""Runs commands and background processes in a cloud box by remote calls."""

import contextlib
import os
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Self

import anyio

from hermes.core.errors import EnvironmentFailed, SettingsError, ToolError
from hermes.core.protocols import BackgroundProcess, CommandResult
from hermes.environments.cloud.remote_calls import (
    OUTPUT_WINDOW_BYTES,
    POLL_WAIT_S,
    CloudBox,
    RemoteCallAnswer,
    RemoteCalls,
)
from hermes.environments.open import EnvironmentOpening, granted_variables
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
"""A reader that is further behind skips to the end of the output."""


class ProcessProgress:
    """State shared by all readers of one process: its exit code and its amount of output."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        """Seconds between SIGTERM and SIGKILL."""
        self.ended = False
        self.code: int | None = None
        self.size = 0

    def update(self, answer: RemoteCallAnswer) -> None:
        self.size = max(self.size, answer.size)
        if (answer.code is not None or answer.gone) and not self.ended:
            self.ended, self.code = True, answer.code


class CloudProcess:
    """`pid` is None: process ids of the box mean nothing on this machine."""

    pid: int | None = None

    def __init__(
        self, calls: RemoteCalls, handle: str, *, terminal: bool, progress: ProcessProgress
    ) -> None:
        self.handle = handle
        self.progress = progress
        self._calls, self._terminal = calls, terminal
        self._position = max(0, progress.size - OUTPUT_WINDOW_BYTES)

    def new_reader(self) -> "CloudProcess":
        """The same process for another reader, from the oldest output that is kept."""
        return CloudProcess(
            self._calls, self.handle, terminal=self._terminal, progress=self.progress
        )

    async def output(self) -> bytes:
        while True:
            answer = await self._calls.call(
                "listen", self.handle, self._position, POLL_WAIT_S * 1000, waits_s=POLL_WAIT_S
            )
            self.progress.update(answer)
            behind = answer.size - self._position
            if behind > _MAX_LAG_BYTES:
                lost = behind - OUTPUT_WINDOW_BYTES
                self._position += lost
                return f"\n[… {lost:,} bytes came too fast to be kept …]\n".encode()
            if answer.data:
                self._position += len(answer.data)
                return answer.data
            if self.progress.ended:
                if not answer.gone:
                    await self._calls.call("forget", self.handle)
                return b""

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self._terminal:
            data = data.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
        await self._calls.call("feed", self.handle, stdin=data)

    async def wait(self) -> int | None:
        """Return None when the box ended together with the process."""
        try:
            while not self.progress.ended:
                answer = await self._calls.call(
                    "wait", self.handle, POLL_WAIT_S * 1000, waits_s=POLL_WAIT_S
                )
                self.progress.update(answer)
        except EnvironmentFailed:
            return None
        return self.progress.code

    async def kill(self) -> None:
        grace = self.progress.grace
        answer = await self._calls.call("kill", self.handle, int(grace * 10), waits_s=grace)
        self.progress.update(answer)


_CANCEL_TIMEOUT_S = 15.0
"""Seconds to stop a cancelled command; it is tried once."""
_UTF8_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""Bytes that no character begins with; at a cut they are dropped."""


async def run_by_remote_calls(
    calls: RemoteCalls, words: bytes, *, tree: str, timeout: float, stdin: bytes, grace: float
) -> CommandResult:
    """`words` is the argv to run, each word ended by NUL; `tree` is the mark among them. After
    the time-out, SIGTERM is followed by SIGKILL after `grace` seconds."""
    started = time.monotonic()
    answer = await _wait_for_exit(calls, words, tree, timeout, stdin)
    timed_out = answer is None
    if answer is None:
        answer = await calls.call("stop", tree, int(grace * 10), waits_s=grace)
    output, dropped = _render_output(answer)
    return CommandResult(
        exit_code=TIMEOUT_EXIT_CODE if timed_out else answer.code or 0,
        output=output,
        dropped_bytes=dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


async def _wait_for_exit(
    calls: RemoteCalls, words: bytes, tree: str, timeout: float, stdin: bytes
) -> RemoteCallAnswer | None:
    """Return None after a time-out. The time is measured in the box, without the latency of calls.
    Cancelling kills the command at once."""
    left, own = timeout, "rest" if stdin else "nothing"
    wait_s = min(left, POLL_WAIT_S)
    try:
        answer = await calls.call(
            *("run", tree, len(words), own, int(wait_s * 1000)), stdin=words + stdin, waits_s=wait_s
        )
        while answer.code is None and not answer.gone and left > wait_s:
            left -= wait_s
            wait_s = min(left, POLL_WAIT_S)
            answer = await calls.call("await", tree, int(wait_s * 1000), waits_s=wait_s)
    except anyio.get_cancelled_exc_class():
        with (
            anyio.move_on_after(_CANCEL_TIMEOUT_S, shield=True),
            contextlib.suppress(EnvironmentFailed),
        ):
            await calls.call("stop", tree, 0)
        raise
    if answer.gone:
        raise EnvironmentFailed(
            f"the files of the running command were removed in {calls.box.id}: what it printed, "
            "and how it ended, is lost"
        )
    return None if answer.code is None else answer


def _render_output(answer: RemoteCallAnswer) -> tuple[str, int]:
    """The box sends the beginning and the end of a long output, and its size."""
    dropped = answer.size - len(answer.data)
    if dropped <= 0:
        return answer.data.decode("utf-8", "replace"), 0
    head = whole_characters(answer.data[:HEAD_BYTES]).decode("utf-8", "replace")
    tail = answer.data[HEAD_BYTES:].lstrip(_UTF8_CONTINUATION_BYTES).decode("utf-8", "replace")
    return f"{head}\n[… {dropped:,} bytes left out …]\n{tail}", dropped


BoxProvider = Callable[[], Awaitable[CloudBox]]

_CLOSE_TIMEOUT_S = 60.0


class CloudEnvironment:
    """One shell session in the box that `get` creates.

    If the box fails during a command, the error says so, and the next command checks the box and
    creates a new one if it is gone. The content of the old box is lost.
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
        """Seconds between SIGTERM and SIGKILL."""
        self._get, self._settings = get, settings
        self._variables = {"TERM": "dumb", **variables}
        self._replacing = anyio.Lock()
        self._started: dict[str, CloudProcess] = {}
        self._remote_calls: RemoteCalls | None = None
        self._doubted = False

    async def __aenter__(self) -> Self:
        self._remote_calls = await self._open_calls()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        calls, self._remote_calls = self._remote_calls, None
        if calls is None:
            return
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_TIMEOUT_S):
            await calls.box.close()

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        tree = new_tree_mark()
        async with self._calls() as calls:
            launch = await self._launch(calls, command, tree=tree, cwd=cwd)
            return await run_by_remote_calls(
                calls,
                self._encode_launch(launch),
                tree=tree,
                timeout=min(timeout, self._settings.max_timeout),
                stdin=stdin,
                grace=self.grace,
            )

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        most = "" if limit is None else max(0, limit)
        async with self._calls() as calls:
            with _translate_refusal("read", path) as name:
                answer = await calls.call(
                    "read", "-", calls.start, max(0, offset), most, stdin=name
                )
        return answer.data

    async def write(self, path: str, data: bytes) -> None:
        async with self._calls() as calls:
            with _translate_refusal("write", path) as name:
                await calls.call("write", new_tree_mark(), calls.start, stdin=name + data)

    async def start(self, command: str, *, pty: bool = False, cwd: str = "") -> BackgroundProcess:
        self._started = {
            name: each for name, each in self._started.items() if not each.progress.ended
        }
        tree, kind = new_tree_mark(), "terminal" if pty else ""
        async with self._calls() as calls:
            tty = "/dev/tty" if pty else ""
            launch = await self._launch(
                calls, command, tree=tree, cwd=cwd, exit_file=os.devnull, tty=tty
            )
            words = self._encode_launch(_with_terminal(launch) if pty else launch)
            await calls.call("start", tree, len(words), kind, stdin=words)
        process = CloudProcess(calls, tree, terminal=pty, progress=ProcessProgress(self.grace))
        self._started[tree] = process
        return process

    async def find(self, handle: str) -> BackgroundProcess | None:
        """Finds only processes of this session: they end when the environment is closed."""
        process = self._started.get(handle)
        return None if process is None or process.progress.ended else process.new_reader()

    @contextlib.asynccontextmanager
    async def _calls(self) -> AsyncIterator[RemoteCalls]:
        if self._doubted:
            await self._replace()
        if self._remote_calls is None:
            raise EnvironmentFailed("the environment is not open")
        try:
            yield self._remote_calls
        except EnvironmentFailed:
            self._doubted = True
            raise

    async def _replace(self) -> None:
        async with self._replacing:
            if not self._doubted or self._remote_calls is None:
                return
            try:
                await self._remote_calls.call("wait", "-", 0)
            except EnvironmentFailed:
                with contextlib.suppress(EnvironmentFailed):
                    await self._remote_calls.box.close()
                self._remote_calls = await self._open_calls()
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
        calls: RemoteCalls,
        command: str,
        *,
        tree: str,
        cwd: str,
        exit_file: str = "",
        tty: str = "",
    ) -> ShellLaunch:
        """A command that is too long for an argument is passed in a file."""
        check_argument(command)
        data = os.fsencode(command)
        if len(data) > MAX_INLINE_COMMAND_BYTES:
            script = f"{calls.folder}/{tree}.sh"
            await calls.call("write", tree, "/", stdin=os.fsencode(script) + b"\0" + data)
            command = f". '{script}'"
        shell = SessionShell(calls.folder, calls.start)
        return shell.launch(command, tree=tree, cwd=cwd, exit_file=exit_file, tty=tty)

    def _encode_launch(self, launch: ShellLaunch) -> bytes:
        whole = ShellLaunch(launch.argv, {**self._variables, **launch.variables})
        return b"".join(os.fsencode(word) + b"\0" for word in whole.words)


def _with_terminal(launch: ShellLaunch) -> ShellLaunch:
    inner = f"stty rows 40 cols 120; exec {shlex.join(launch.argv)}"
    return ShellLaunch(("script", "-qefc", inner, os.devnull), launch.variables)


@contextlib.contextmanager
def _translate_refusal(verb: str, path: str) -> Iterator[bytes]:
    """Yields the path as the call takes it, and translates a refusal into a `ToolError`."""
    if "\0" in path or not path:
        raise ToolError(f"{path!r} is no name of a file")
    try:
        yield os.fsencode(path) + b"\0"
    except ToolError as error:
        raise ToolError(f"cannot {verb} {path}: {error}") from error


def open_cloud_environment(
    name: str,
    image: str,
    opening: EnvironmentOpening,
    why_not: Callable[[EnvironmentOpening], Awaitable[str | None]],
    key_variables: Sequence[str],
) -> CloudEnvironment:
    """The SDK is loaded with the first box. Entering raises `SettingsError` with `why_not`."""

    async def create_box() -> CloudBox:
        if (reason := await why_not(opening)) is not None:
            raise SettingsError(reason)
        create_sandbox = import_module(f"hermes.environments.cloud.{name}_sdk").create_sandbox
        keys = [opening.secrets[variable] for variable in key_variables]
        box: CloudBox = await create_sandbox(opening.settings, *keys)
        return box

    variables = granted_variables(opening)
    return CloudEnvironment(name, image, create_box, settings=opening.settings, variables=variables)
