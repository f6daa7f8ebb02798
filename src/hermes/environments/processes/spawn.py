"""Starts programs and waits for their end, without threads and signal handlers.

The programs do not inherit the priority of this process: a watch must still run its checks on a
host whose processors are all busy, and a service that it restarts must not become more important
than the others.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError

_RESET_SIGNALS = [signal.SIGPIPE, signal.SIGXFSZ]
"""Ignored by Python; a child with this setting would not notice that its reader is gone."""


def spawn(
    argv: Sequence[str],
    variables: Mapping[str, str],
    *,
    stdin: int | None,
    output: int | None,
    errors: int | None = None,
    files: Mapping[int, int] | None = None,
) -> int:
    """Starts `argv` in a new session. None as a file descriptor means /dev/null; without
    `errors`, both streams go to `output`. `files` maps further descriptors of the child to ours,
    which must have higher numbers than all of them."""
    actions = [
        _file_actions(stdin, 0, os.O_RDONLY),
        _file_actions(output, 1, os.O_WRONLY),
        (os.POSIX_SPAWN_DUP2, 1 if errors is None else errors, 2),
        *((os.POSIX_SPAWN_DUP2, fd, target) for target, fd in (files or {}).items()),
    ]
    try:
        with normal_priority():
            return os.posix_spawn(
                argv[0],
                [os.fsencode(argument) for argument in argv],
                variables,
                file_actions=actions,
                setsid=True,
                setsigdef=_RESET_SIGNALS,
                setsigmask=[],
            )
    except FileNotFoundError as error:
        raise EnvironmentFailed(
            f"{argv[0]} is not there; install it to run commands here"
        ) from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ToolError(
                "the command and its variables are too long for one program start; "
                "write the data to a file first"
            ) from error
        raise EnvironmentFailed(f"cannot start {argv[0]}: {error.strerror}") from error


def _file_actions(source: int | None, target: int, mode: int) -> tuple[object, ...]:
    if source is None:
        return (os.POSIX_SPAWN_OPEN, target, os.devnull, mode, 0)
    return (os.POSIX_SPAWN_DUP2, source, target)


class StartProgram(Protocol):
    """Starts a program with its open files by number, as `spawn` does; returns its pid."""

    async def __call__(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str],
        *,
        stdin: int | None,
        output: int,
        files: Mapping[int, int],
    ) -> int: ...


async def start_unconfined(
    argv: Sequence[str],
    variables: Mapping[str, str],
    *,
    stdin: int | None,
    output: int,
    files: Mapping[int, int],
) -> int:
    """For commands that were allowed unconfined, and for programs that Hermes itself runs."""
    return spawn(argv, variables, stdin=stdin, output=output, files=files)


class ChildProcess:
    """A child that was not reaped yet, so that its process id is not reused."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    async def wait(self) -> int:
        """The exit code; 128 + n when signal n ended it."""
        while (code := self.reap()) is None:
            await wait_for_exit(self.pid)
        return code

    async def wait_or_kill(self, timeout_s: float) -> None:
        """Gives it some time to end by itself; not cancelled."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(timeout_s):
                await self.wait()
            if self.reap() is None:
                os.kill(self.pid, signal.SIGKILL)
                await self.wait()

    def reap(self) -> int | None:
        """The exit code; None while it runs."""
        if self.code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped elsewhere in this process
                self.code = 255
            else:
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.code = 128 - code if code < 0 else code
        return self.code


async def wait_for_exit(pid: int) -> None:
    """Returns when the process has ended, whether or not it is our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or no descriptor left: poll
        pause = 0.001
        while _is_running(pid):
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.05)
        return
    try:
        await wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def wait_readable(descriptor: int) -> None:
    """As `anyio.wait_readable`, without a round of the event loop before it waits."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def close_awaited(descriptor: int) -> None:
    """Closes a descriptor for which a task may wait with `anyio`: that gets `ClosedResourceError`.

    The event loop would otherwise keep the number, and never report the next file that gets it.
    """
    anyio.notify_closing(descriptor)
    os.close(descriptor)


def _is_running(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


NORMAL_NICENESS = 0


def raise_priority(niceness: int) -> bool:
    """Sets the niceness of this process; False where only root may do that."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    except (AttributeError, PermissionError):
        return False
    return True


@contextmanager
def normal_priority() -> Iterator[None]:
    """Programs started in this block have the normal priority, whatever this process has."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    if own >= NORMAL_NICENESS:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, NORMAL_NICENESS)
    try:
        yield
    finally:
        with suppress(PermissionError):  # the right to raise it was given up
            os.setpriority(os.PRIO_PROCESS, 0, own)
