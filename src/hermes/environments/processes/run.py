"""Runs one program to its end: output bounded, time bounded, nothing of it left behind."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator

import anyio

from hermes.core.protocols import CommandResult
from hermes.environments.output import Capture
from hermes.environments.processes.session import Prepared
from hermes.environments.processes.spawn import Child
from hermes.environments.processes.tree import GRACE, Tree

PIECE = 65_536
TIMED_OUT = 124
"""The exit code that `timeout(1)` uses."""


async def run_to_end(
    prepared: Prepared,
    *,
    tree: str,
    timeout: float,
    stdin: bytes = b"",
    let_go: Callable[[int], None] = os.close,
) -> CommandResult:
    """Run it until its first process ends; `tree` is the mark among its variables.

    What it started and left running is not waited for. If it still holds our end of the pipe,
    the pipe is handed to `let_go`: to close it would kill the holder when it next prints. The
    time-out asks the whole tree to end and then kills it; cancelling kills it at once.
    """
    started = time.monotonic()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    try:
        with _source(stdin) as source:
            pid = await prepared.start(stdin=source, output=write_end)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    capture = Capture()
    release: Callable[[int], None] = os.close
    try:
        code, timed_out = await _watch(Child(pid), tree, read_end, capture, timeout)
        if _drain(read_end, capture) and not timed_out:
            release = let_go
    finally:
        release(read_end)
    return CommandResult(
        exit_code=TIMED_OUT if timed_out else code,
        output=capture.text(),
        dropped_bytes=capture.dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


async def _watch(
    child: Child, mark: str, pipe: int, capture: Capture, timeout: float
) -> tuple[int, bool]:
    tree = Tree(mark, child.pid)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_pump, pipe, capture)
            with anyio.move_on_after(timeout) as clock:
                await child.wait()
            if clock.cancelled_caught:
                await tree.end(GRACE)
            group.cancel_scope.cancel()
    finally:
        if child.bury() is None:  # cancelled, or stuck in the kernel where nothing reaches it
            tree.signal(signal.SIGKILL)
            with anyio.move_on_after(GRACE, shield=True):
                await child.wait()
                await Tree(mark, None).kill()
    return child.code or 0, clock.cancelled_caught


async def _pump(pipe: int, capture: Capture) -> None:
    while True:
        await anyio.wait_readable(pipe)
        if not _drain(pipe, capture):
            return


def _drain(pipe: int, capture: Capture) -> bool:
    """Take what is there, but not for ever: somebody may write as fast as we read. False at the
    end of the stream."""
    for _ in range(16):
        try:
            data = os.read(pipe, PIECE)
        except BlockingIOError:
            return True
        if not data:
            return False
        capture.feed(data)
    return True


@contextlib.contextmanager
def _source(data: bytes) -> Iterator[int | None]:
    """A file with the data: unlike a pipe it needs nobody to feed it, and cannot break."""
    if not data:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()
