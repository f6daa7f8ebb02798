"""Starts a program and learns of its end, without a thread or a signal handler of our own."""

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError

_RESET_SIGNALS = [signal.SIGPIPE, signal.SIGXFSZ]
"""Ignored by Python; a child that inherited that would never notice that its reader is gone."""


def spawn(
    argv: Sequence[str],
    variables: Mapping[str, str],
    *,
    stdin: int | None,
    output: int | None,
    errors: int | None = None,
    files: Mapping[int, int] | None = None,
) -> int:
    """Start `argv` in a session of its own. None as a file descriptor means /dev/null; without
    `errors`, both of its streams go to `output`. `files` are further open files by the number
    that they get; theirs must be higher than all of these."""
    actions = [
        _file_actions(stdin, 0, os.O_RDONLY),
        _file_actions(output, 1, os.O_WRONLY),
        (os.POSIX_SPAWN_DUP2, 1 if errors is None else errors, 2),
        *((os.POSIX_SPAWN_DUP2, fd, target) for target, fd in (files or {}).items()),
    ]
    try:
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
    """Starts a program with its open files by number, as `spawn` does; gives its process."""

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
    """Without any confinement: what is allowed without bounds, and what Hermes itself runs."""
    return spawn(argv, variables, stdin=stdin, output=output, files=files)


class ChildProcess:
    """A process that we started and have not yet buried: until then its number is its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    async def wait(self) -> int:
        """Its exit code, 128 + n when signal n ended it."""
        while (code := self.reap()) is None:
            await wait_for_exit(self.pid)
        return code

    def reap(self) -> int | None:
        """Its exit code if it has ended; None while it runs."""
        if self.code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else in this process was quicker
                self.code = 255
            else:
                if pid:
                    code = os.waitstatus_to_exitcode(status)
                    self.code = 128 - code if code < 0 else code
        return self.code


async def wait_for_exit(pid: int) -> None:
    """Return when the process has ended, whether or not it is a child of ours."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or no descriptor left: ask again and again
        pause = 0.001
        while _is_running(pid):
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.05)
        return
    try:
        await anyio.wait_readable(descriptor)
    finally:
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
