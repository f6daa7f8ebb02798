"""A background process of this machine that outlives us: a later life of ours finds it again.

It prints to a file and reads from a named pipe that it holds open itself, so nothing breaks when
we are gone; its shell writes down the exit code. All three lie in one folder under its mark.
While nobody of ours is alive, nobody shortens the file.
"""

import contextlib
import os
from pathlib import Path

import anyio

from hermes.core.errors import ToolError
from hermes.environments.processes.log import LogTail
from hermes.environments.processes.session import Session
from hermes.environments.processes.spawn import Child, exited
from hermes.environments.processes.tree import Tree, birth
from hermes.environments.shell import new_tree

_QUICK, _BULK, _SLOW = 0.001, 0.02, 0.1
"""Seconds between two looks at the file: after a few words, after many, and after a silence."""
_MANY = 4096
_PATIENCE = 10.0
"""Seconds to wait for a process to take its input."""


class LocalProcess:
    def __init__(self, folder: Path, mark: str, pid: int, born: str, child: Child | None) -> None:
        self.pid: int | None = pid
        self._pid = pid
        self.handle = f"{mark}:{pid}:{born}"
        self._paths = _Paths(folder, mark)
        self._mark, self._born, self._child = mark, born, child
        self._log = LogTail(self._paths.log)
        self._found_code: int | None = None
        self._last_words = b""
        self._pause = _QUICK

    async def output(self) -> bytes:
        while True:
            ended = self.ended  # asked before reading: its last words come before its end
            data = self._last_words or self._log.read()
            if data:
                self._last_words = b""
                self._pause = _QUICK if len(data) < _MANY else _BULK
                return data
            if ended:
                self.close()
                return b""
            with anyio.move_on_after(self._pause):
                await exited(self._pid)
            self._pause = min(2 * self._pause, _SLOW)

    async def write(self, data: bytes) -> None:
        try:
            pipe = os.open(self._paths.input, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise ToolError("the process does not read its input any more") from error
        try:
            with anyio.fail_after(_PATIENCE):
                await feed(pipe, data)
        except (TimeoutError, BrokenPipeError) as error:
            raise ToolError("the process does not take its input") from error
        finally:
            os.close(pipe)

    async def wait(self) -> int | None:
        while not self.ended:
            await exited(self._pid)
        return self._exit_code()

    async def kill(self) -> None:
        await Tree(self._mark, None if self.ended else self.pid).end()
        with anyio.move_on_after(1):  # its end is ours to see, unless the kernel holds it
            await self.wait()
            self._last_words += self._log.rest()
            self.close()

    @property
    def ended(self) -> bool:
        if self._child is not None:
            return self._child.bury() is not None
        return birth(self._pid) != self._born

    def _exit_code(self) -> int | None:
        if self._child is not None:
            return self._child.code
        if not self.closed:
            with contextlib.suppress(OSError, ValueError):
                self._found_code = int(self._paths.exit.read_text())
        return self._found_code

    @property
    def closed(self) -> bool:
        return self._log.closed

    def close(self) -> None:
        """Let go of our end. What remains of one that has ended is removed."""
        if not self.closed and self.ended:
            self._exit_code()
            self._paths.remove()
        self._log.close()


class _Paths:
    def __init__(self, folder: Path, mark: str) -> None:
        self.log = folder / f"{mark}.log"
        self.input = folder / f"{mark}.in"
        self.exit = folder / f"{mark}.exit"

    def remove(self) -> None:
        for path in (self.log, self.input, self.exit):
            path.unlink(missing_ok=True)


async def start(session: Session, command: str, folder: Path, *, cwd: str) -> LocalProcess:
    mark = new_tree()
    paths = _Paths(folder, mark)
    try:
        with contextlib.ExitStack() as stack:
            os.mkfifo(paths.input, 0o600)
            # Both ways, so that the process itself keeps its input open and never sees its end.
            stdin = os.open(paths.input, os.O_RDWR)
            stack.callback(os.close, stdin)
            log = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            stack.callback(os.close, log)
            # Made now: a confined shell may write to it, and make no other file here.
            paths.exit.touch(0o600)
            prepared = stack.enter_context(
                session.prepare(command, tree=mark, cwd=cwd, exit_file=str(paths.exit))
            )
            pid = await prepared.start(stdin=stdin, output=log)
    except BaseException:
        paths.remove()
        raise
    return LocalProcess(folder, mark, pid, birth(pid), Child(pid))


def find(folder: Path, handle: str) -> LocalProcess | None:
    """One that runs, or that ended while nobody looked and left its last words."""
    mark, _, rest = handle.partition(":")
    pid, _, born = rest.partition(":")
    if not (mark.isalnum() and pid.isdigit() and born):
        return None
    with contextlib.suppress(FileNotFoundError):
        return LocalProcess(folder, mark, int(pid), born, None)
    return None


async def feed(descriptor: int, data: bytes) -> None:
    """Write all of it to something that may not take it at once."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)
