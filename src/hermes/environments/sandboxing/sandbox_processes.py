"""Runs commands and background processes in a sandbox."""

import os
import time
from collections.abc import Callable
from contextlib import suppress

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import CommandResult
from hermes.environments.confinement import messages
from hermes.environments.confinement.messages import LauncherRequest
from hermes.environments.processes.output import (
    BoundedOutput,
    OutputPiece,
    RollingOutput,
    drain_output,
)
from hermes.environments.processes.run import TIMEOUT_EXIT_CODE
from hermes.environments.processes.spawn import close_awaited
from hermes.environments.sandboxing.launcher_client import LauncherCall, LauncherClient

RUN_READ_BYTES = 65_536
RUN_STOP_GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_TIMEOUT_S = 12.0
"""Seconds for the supervisor to kill everything; longer than its own time-out."""
QUOTA_EXCEEDED_NOTE = (
    "\n[the files written in this sandbox take up more than terminal.total_mb: what was running "
    "was ended, and files can only be removed until there is room again. Remove some, or raise "
    "terminal.total_mb]\n"
)


async def run_in_sandbox(
    launcher: LauncherClient,
    request: LauncherRequest,
    *,
    timeout: float,
    stdin: bytes,
    let_go: Callable[[int], None],
) -> CommandResult:
    """Raises `EnvironmentFailed` when the sandbox ended during the command.

    Processes that the program left are not waited for; if they still hold the pipe, it is
    passed to `let_go`.
    """
    started = time.monotonic()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    source, feed = _open_input(stdin)
    try:
        call = await launcher.start_call(request, (source, write_end, write_end))
    except BaseException:
        feed.close()
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
        os.close(source)
    capture, held = BoundedOutput(), True
    try:
        code, timed_out = await _wait_for_exit(call, read_end, capture, feed, timeout)
        held = drain_output(read_end, capture.feed)
    finally:
        (let_go if held else os.close)(read_end)
    return CommandResult(
        exit_code=TIMEOUT_EXIT_CODE if timed_out else code,
        output=capture.text() + (QUOTA_EXCEEDED_NOTE if call.full else ""),
        dropped_bytes=capture.dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


class _InputFeed:
    """Writes the input of the program."""

    def __init__(self, pipe: int, data: bytes) -> None:
        self._pipe, self._rest = pipe, memoryview(data)

    async def __call__(self) -> None:
        """Runs until everything is written, or the reader is gone."""
        with suppress(BrokenPipeError):
            while self._rest:
                await anyio.wait_writable(self._pipe)
                self._rest = self._rest[os.write(self._pipe, self._rest[:RUN_READ_BYTES]) :]
        self.close()

    def close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe = -1


def _open_input(stdin: bytes) -> tuple[int, _InputFeed]:
    if not stdin:
        return os.open(os.devnull, os.O_RDONLY), _InputFeed(-1, b"")
    source, pipe = os.pipe()
    os.set_blocking(pipe, False)
    return source, _InputFeed(pipe, stdin)


async def _wait_for_exit(
    call: LauncherCall, pipe: int, capture: BoundedOutput, feed: _InputFeed, timeout: float
) -> tuple[int, bool]:
    failure: EnvironmentFailed | ToolError | None = None
    code, clock = 0, anyio.CancelScope(deadline=anyio.current_time() + timeout)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_pump_output, pipe, capture)
            group.start_soon(feed)
            try:
                with clock:
                    code = await call.wait()
                if clock.cancelled_caught:
                    await end_call(call)
            except (EnvironmentFailed, ToolError) as error:  # re-raised outside of the task group
                failure = error
            group.cancel_scope.cancel()
    finally:
        if not call.ended:  # we are being cancelled
            with anyio.CancelScope(shield=True):
                await end_call(call, grace=0)
        feed.close()
        call.close()
    if failure is not None:
        raise failure
    return code, clock.cancelled_caught


async def end_call(call: LauncherCall, grace: float = RUN_STOP_GRACE_S) -> None:
    """Terminates its whole process tree, then kills it. Returns when no process is left."""
    if grace and not call.ended:
        call.send_order(messages.ORDER_TERMINATE)
        with anyio.move_on_after(grace):
            await call.wait()
    if not call.ended:
        call.send_order(messages.ORDER_KILL)
        with anyio.move_on_after(KILL_TIMEOUT_S) as timeout:
            await call.wait()
        if timeout.cancelled_caught:
            raise EnvironmentFailed(
                "a command in the sandbox cannot be ended; the sandbox is given up"
            )


async def _pump_output(pipe: int, capture: BoundedOutput) -> None:
    while True:
        await anyio.wait_readable(pipe)
        if not drain_output(pipe, capture.feed):
            return


PROCESS_READ_BYTES = 65_536
OUTPUT_WINDOW_BYTES = 204_800
"""Bytes of output that are kept for another reader."""
INPUT_TIMEOUT_S = 10.0
EXIT_POLL_INTERVAL_S = 0.1


class _ProcessOutput:
    """The output of a process, read from the pipe once and kept for all readers."""

    def __init__(self, pipe: int, stdin: int, call: LauncherCall) -> None:
        self.pipe, self.stdin = pipe, stdin
        self.kept = RollingOutput(OUTPUT_WINDOW_BYTES)
        self.finished = False
        self._call = call
        self._lock = anyio.Lock()

    async def since(self, position: int) -> OutputPiece:
        """The output after `position`; empty at the end."""
        while True:
            if position < self.kept.total:
                return self.kept.since(position)
            if self.finished:
                return OutputPiece(position, b"")
            async with self._lock:
                if position == self.kept.total and not self.finished:
                    data = await self._next()
                    self.kept.feed(data)
                    if data:
                        return OutputPiece(position, data)

    async def _next(self) -> bytes:
        ended = self._call.ended
        try:
            data = os.read(self.pipe, PROCESS_READ_BYTES)
        except BlockingIOError:
            self.finished = ended  # a process it left may still hold the pipe
        except OSError:  # EIO: the other end of the terminal is closed
            self.finished = True
        else:
            self.finished = not data
            return data
        if not self.finished:
            await self._wait_a_little()
        return b""

    async def settle(self) -> None:
        """Reads the last output after its process has ended, and closes the pipe."""
        async with self._lock:
            if not self.finished:
                drain_output(self.pipe, self.kept.feed)
                self.kept.feed(QUOTA_EXCEEDED_NOTE.encode() if self._call.full else b"")
                self.finished = True
            self.close()

    def close(self) -> None:
        self.finished = True
        for fd in {self.pipe, self.stdin} - {-1}:
            close_awaited(fd)
        self.pipe = self.stdin = -1
        self._call.close()

    async def _wait_a_little(self) -> None:
        with anyio.move_on_after(EXIT_POLL_INTERVAL_S), suppress(anyio.ClosedResourceError):
            await anyio.wait_readable(self.pipe)
            return
        with anyio.move_on_after(0.001), suppress(EnvironmentFailed, ToolError):
            await self._call.wait()


class SandboxProcess:
    def __init__(
        self, handle: str, call: LauncherCall, stream: _ProcessOutput, terminal: bool
    ) -> None:
        self.handle = handle
        self.pid: int | None = None
        """None: process ids of the sandbox mean nothing outside."""
        self._call, self._stream, self._terminal = call, stream, terminal
        self._position = stream.kept.since(0).start

    def new_reader(self) -> "SandboxProcess":
        """The same process for another reader, from the oldest output that is kept."""
        return SandboxProcess(self.handle, self._call, self._stream, self._terminal)

    async def output(self) -> bytes:
        piece = await self._stream.since(self._position)
        if not piece.data:
            await self.wait()
        self._position = piece.start + len(piece.data)
        return piece.data

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self._terminal:
            data = data.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
        try:
            with anyio.fail_after(INPUT_TIMEOUT_S):
                while data:
                    await anyio.wait_writable(self._stream.stdin)
                    data = data[os.write(self._stream.stdin, data) :]
        except (TimeoutError, OSError, ValueError, anyio.ClosedResourceError) as error:
            raise ToolError("the process does not take its input") from error

    async def wait(self) -> int | None:
        """Return None when the sandbox ended together with the process."""
        code = None
        with suppress(EnvironmentFailed):
            code = await self._call.wait()
        await self._stream.settle()
        return code

    async def kill(self) -> None:
        with suppress(EnvironmentFailed):  # then the process is gone as well
            await end_call(self._call)
        await self._stream.settle()

    @property
    def ended(self) -> bool:
        return self._call.ended

    def close(self) -> None:
        """Kills what still runs; once for all readers."""
        self._stream.close()


async def start_in_sandbox(
    launcher: LauncherClient, request: LauncherRequest, handle: str
) -> SandboxProcess:
    if request.terminal:
        call = await launcher.start_call(request)
        kind, words, files = await call.answer()
        if kind != messages.ANSWER_FILE:
            call.close()
            raise EnvironmentFailed(f"the sandbox has no terminal to give: {words.decode()}")
        os.set_blocking(files[0], False)
        return SandboxProcess(handle, call, _ProcessOutput(files[0], files[0], call), True)
    output, their_output = os.pipe()
    their_stdin, stdin = os.pipe()
    for fd in (output, stdin):
        os.set_blocking(fd, False)
    try:
        call = await launcher.start_call(request, (their_stdin, their_output, their_output))
    except BaseException:
        os.close(output)
        os.close(stdin)
        raise
    finally:
        os.close(their_output)
        os.close(their_stdin)
    return SandboxProcess(handle, call, _ProcessOutput(output, stdin, call), False)
