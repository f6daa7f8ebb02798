"""Runs one program to its end, with limits on its output and its time."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator

import anyio

from hermes.core.protocols import CommandResult
from hermes.environments.processes.output import BoundedOutput, drain_output
from hermes.environments.processes.process_tree import STOP_GRACE_S, ProcessTree
from hermes.environments.processes.shell_session import PreparedCommand
from hermes.environments.processes.spawn import ChildProcess

TIMEOUT_EXIT_CODE = 124
"""The exit code that `timeout(1)` uses."""


async def run_to_end(
    prepared: PreparedCommand,
    *,
    tree: str,
    timeout: float,
    stdin: bytes = b"",
    release_pipe: Callable[[int], None] = os.close,
) -> CommandResult:
    """Runs a program until its first process ends; `tree` is the mark among its variables.

    Processes that it left running are not waited for. If they still hold the pipe, it is passed to
    `release_pipe`: closing it would kill them at their next output. The time-out terminates the
    whole tree and then kills it; cancelling kills it at once.
    """
    started = time.monotonic()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    try:
        with _open_input(stdin) as source:
            pid = await prepared.start(stdin=source, output=write_end)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    capture = BoundedOutput()
    release: Callable[[int], None] = os.close
    try:
        code, timed_out = await _wait_for_exit(ChildProcess(pid), tree, read_end, capture, timeout)
        if drain_output(read_end, capture.feed) and not timed_out:
            release = release_pipe
    finally:
        release(read_end)
    return CommandResult(
        exit_code=TIMEOUT_EXIT_CODE if timed_out else code,
        output=capture.text(),
        dropped_bytes=capture.dropped,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )


async def _wait_for_exit(
    child: ChildProcess, mark: str, pipe: int, capture: BoundedOutput, timeout: float
) -> tuple[int, bool]:
    """Reads the output in a callback: a task for it would take longer than a short command."""
    tree, loop = ProcessTree(mark, child.pid), asyncio.get_running_loop()

    def pump() -> None:
        if not drain_output(pipe, capture.feed):
            loop.remove_reader(pipe)

    loop.add_reader(pipe, pump)
    try:
        with anyio.move_on_after(timeout) as clock:
            await child.wait()
        if clock.cancelled_caught:
            await tree.end(STOP_GRACE_S)
    finally:
        loop.remove_reader(pipe)
        if child.reap() is None:  # cancelled, or blocked in the kernel
            tree.signal(signal.SIGKILL)
            with anyio.move_on_after(STOP_GRACE_S, shield=True):
                await child.wait()
                await ProcessTree(mark, None).kill()
    return child.code or 0, clock.cancelled_caught


@contextlib.contextmanager
def _open_input(data: bytes) -> Iterator[int | None]:
    """A file with the data: unlike a pipe, it needs no task that writes to it."""
    if not data:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()
