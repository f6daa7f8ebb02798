"""Runs one program inside to its end: output bounded, time bounded, nothing of it left behind."""

import os
import time
from collections.abc import Callable
from contextlib import suppress

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.core.protocols import CommandResult
from hermes.environments.confinement import wire
from hermes.environments.confinement.line import Call, Line
from hermes.environments.confinement.wire import Request
from hermes.environments.output import Capture

PIECE = 65_536
GRACE = 2.0
"""Seconds between asking a tree of processes to end and killing it."""
PATIENCE = 12.0
"""Seconds for the keeper to kill everything; it gives up before."""
TIMED_OUT = 124
FULL = (
    "\n[the files written in this sandbox take up more than terminal.total_mb: what was running "
    "was ended, and files can only be removed until there is room again. Remove some, or raise "
    "terminal.total_mb]\n"
)


async def run_inside(
    line: Line,
    request: Request,
    *,
    timeout: float,
    stdin: bytes,
    let_go: Callable[[int], None],
) -> CommandResult:
    """Raises `PlaceFailed` when the sandbox did not survive the command.

    What the program left running is not waited for; if it still holds the pipe, that goes to
    `let_go`.
    """
    started = time.monotonic()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    source, feed = _source(stdin)
    try:
        call = await line.ask(request, (source, write_end, write_end))
    except BaseException:
        feed.close()
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
        os.close(source)
    capture, held = Capture(), True
    try:
        code, timed_out = await _watch(call, read_end, capture, feed, timeout)
        held = drain(read_end, capture.feed)
    finally:
        (let_go if held else os.close)(read_end)
    return CommandResult(
        exit_code=TIMED_OUT if timed_out else code,
        output=capture.text() + (FULL if call.full else ""),
        dropped_bytes=capture.dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


class _Feed:
    """Our end of the program's input."""

    def __init__(self, pipe: int, data: bytes) -> None:
        self._pipe, self._rest = pipe, memoryview(data)

    async def __call__(self) -> None:
        """Until all is given, or nobody takes it any more."""
        with suppress(BrokenPipeError):
            while self._rest:
                await anyio.wait_writable(self._pipe)
                self._rest = self._rest[os.write(self._pipe, self._rest[:PIECE]) :]
        self.close()

    def close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe = -1


def _source(stdin: bytes) -> tuple[int, _Feed]:
    if not stdin:
        return os.open(os.devnull, os.O_RDONLY), _Feed(-1, b"")
    source, pipe = os.pipe()
    os.set_blocking(pipe, False)
    return source, _Feed(pipe, stdin)


async def _watch(
    call: Call, pipe: int, capture: Capture, feed: _Feed, timeout: float
) -> tuple[int, bool]:
    failure: PlaceFailed | ToolError | None = None
    code, clock = 0, anyio.CancelScope(deadline=anyio.current_time() + timeout)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_pump, pipe, capture)
            group.start_soon(feed)
            try:
                with clock:
                    code = await call.wait()
                if clock.cancelled_caught:
                    await end(call)
            except (PlaceFailed, ToolError) as error:  # as itself, not as one of a group
                failure = error
            group.cancel_scope.cancel()
    finally:
        if not call.ended:  # we are being cancelled
            with anyio.CancelScope(shield=True):
                await end(call, grace=0)
        feed.close()
        call.close()
    if failure is not None:
        raise failure
    return code, clock.cancelled_caught


async def end(call: Call, grace: float = GRACE) -> None:
    """Ask all that came from it to end, then kill it. Returns when nobody is left."""
    if grace and not call.ended:
        call.tell(wire.ASK)
        with anyio.move_on_after(grace):
            await call.wait()
    if not call.ended:
        call.tell(wire.KILL)
        with anyio.move_on_after(PATIENCE) as patience:
            await call.wait()
        if patience.cancelled_caught:
            raise PlaceFailed("a command in the sandbox cannot be ended; the sandbox is given up")


async def _pump(pipe: int, capture: Capture) -> None:
    while True:
        await anyio.wait_readable(pipe)
        if not drain(pipe, capture.feed):
            return


def drain(pipe: int, feed: Callable[[bytes], None]) -> bool:
    """Take what is there, but not for ever: somebody may write as fast as we read. False at the
    end of the stream."""
    for _ in range(16):
        try:
            data = os.read(pipe, PIECE)
        except BlockingIOError:
            return True
        except OSError:  # EIO: nobody holds the other end of a terminal
            return False
        if not data:
            return False
        feed(data)
    return True
