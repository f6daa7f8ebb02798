"""Starts background processes on this machine, and finds those of an earlier session.

A process writes its output to a file, so the output outlives Hermes. Output that was read and is
older than the window is freed by punching a hole: unlike truncating, that loses nothing that is
written at that moment. The file seems to grow forever, but uses little space.
"""

import contextlib
import errno
import os
import termios
from pathlib import Path

import anyio

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.environments.processes.process_tree import ProcessTree, process_birth
from hermes.environments.processes.shell_session import ShellSession
from hermes.environments.processes.spawn import ChildProcess, close_awaited, wait_for_exit
from hermes.environments.shell import new_tree_mark

OUTPUT_WINDOW_BYTES = 204_800
LOG_READ_BYTES = 65_536
_MAX_LAG_BYTES = 8 * 1024 * 1024
"""A reader that is further behind skips to the end of the output."""
_PUNCH_STEP_BYTES = 1024 * 1024
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02


class LogTail:
    """Reads the file from its start, or only the window before its end.

    `read` returns nothing at the end.
    """

    def __init__(
        self, path: Path, window: int = OUTPUT_WINDOW_BYTES, *, from_start: bool = False
    ) -> None:
        self._window = window
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._position = self._freed = 0 if from_start else max(0, self._size() - window)
        self._punches = True

    @property
    def closed(self) -> bool:
        return self._descriptor < 0

    def read(self) -> bytes:
        if self.closed:
            return b""
        behind = self._size() - self._position
        if behind < 0:  # truncated by Hermes or by the process
            self._position = self._freed = 0
        if behind > _MAX_LAG_BYTES:
            return self._skip_ahead(behind - self._window)
        data = os.pread(self._descriptor, LOG_READ_BYTES, self._position)
        self._position += len(data)
        self._free()
        return data

    def rest(self) -> bytes:
        """The unread output, or the end of it."""
        if self.closed:
            return b""
        self._position = max(self._position, self._size() - self._window)
        data = os.pread(self._descriptor, self._window, self._position)
        self._position += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
            self._descriptor = -1

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _skip_ahead(self, distance: int) -> bytes:
        self._position += distance
        self._free()
        return f"\n[… {distance:,} bytes came too fast to be kept …]\n".encode()

    def _free(self) -> None:
        old = (self._position - self._window) // 4096 * 4096
        if old - self._freed < _PUNCH_STEP_BYTES:
            return
        if self._punches and _punch_hole(self._descriptor, old):
            self._freed = old
        else:
            self._punches = False
            # Fallback: what is written between these two lines is lost.
            if self._position == self._size():
                os.ftruncate(self._descriptor, 0)
                self._position = self._freed = 0


def _punch_hole(descriptor: int, end: int) -> bool:
    """Return False when the system or the file system does not support it."""
    import ctypes  # noqa: PLC0415 - only for long output

    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fallocate = libc.fallocate
    except AttributeError:
        return False
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
    while fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, 0, end) != 0:
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True


_POLL_AFTER_LITTLE_S, _POLL_AFTER_MUCH_S, _POLL_AFTER_NOTHING_S = 0.001, 0.02, 0.1
"""Seconds between reads of the file: after little output, after much, and after none."""
_MUCH_OUTPUT_BYTES = 4096
_INPUT_TIMEOUT_S = 10.0
"""Seconds to wait until a process reads its input."""


class LocalProcess:
    def __init__(
        self, folder: Path, mark: str, pid: int, born: str, child: ChildProcess | None
    ) -> None:
        self.pid: int | None = pid
        self._pid = pid
        self.handle = f"{mark}:{pid}:{born}"
        self._paths = _ProcessFiles(folder, mark)
        self._mark, self._birth, self._child = mark, born, child
        # An earlier session has read the start of a process that was found, and may have freed it.
        self._log = LogTail(self._paths.log, from_start=child is not None)
        self._found_code: int | None = None
        self._rest_read = b""
        self._pause = _POLL_AFTER_LITTLE_S

    async def output(self) -> bytes:
        while True:
            ended = self.ended  # read first: the last output comes before the end
            data = self._rest_read or self._log.read()
            if data:
                self._rest_read = b""
                self._pause = (
                    _POLL_AFTER_LITTLE_S if len(data) < _MUCH_OUTPUT_BYTES else _POLL_AFTER_MUCH_S
                )
                return data
            if ended:
                self.close()
                return b""
            with anyio.move_on_after(self._pause):
                await wait_for_exit(self._pid)
            self._pause = min(2 * self._pause, _POLL_AFTER_NOTHING_S)

    async def write(self, data: bytes) -> None:
        try:
            pipe = os.open(self._paths.input, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise ToolError("the process does not read its input any more") from error
        try:
            with anyio.fail_after(_INPUT_TIMEOUT_S):
                await write_all(pipe, data)
        except (TimeoutError, BrokenPipeError) as error:
            raise ToolError("the process does not take its input") from error
        finally:
            os.close(pipe)

    async def wait(self) -> int | None:
        while not self.ended:
            await wait_for_exit(self._pid)
        return self._exit_code()

    async def kill(self) -> None:
        await ProcessTree(self._mark, None if self.ended else self.pid).end()
        with anyio.move_on_after(1):  # it ends at once unless it is blocked in the kernel
            await self.wait()
            self._rest_read += self._log.rest()
            self.close()

    @property
    def ended(self) -> bool:
        if self._child is not None:
            return self._child.reap() is not None
        return process_birth(self._pid) != self._birth

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
        """Closes our descriptors, and removes the files of a process that has ended."""
        if not self.closed and self.ended:
            self._exit_code()
            self._paths.remove()
        self._log.close()


class _ProcessFiles:
    def __init__(self, folder: Path, mark: str) -> None:
        self.log = folder / f"{mark}.log"
        self.input = folder / f"{mark}.in"
        self.exit = folder / f"{mark}.exit"

    def remove(self) -> None:
        for path in (self.log, self.input, self.exit):
            path.unlink(missing_ok=True)


async def start_background(
    session: ShellSession, command: str, folder: Path, *, cwd: str
) -> LocalProcess:
    mark = new_tree_mark()
    paths = _ProcessFiles(folder, mark)
    try:
        with contextlib.ExitStack() as stack:
            os.mkfifo(paths.input, 0o600)
            # For reading and writing, so that the process keeps its own input open.
            stdin = os.open(paths.input, os.O_RDWR)
            stack.callback(os.close, stdin)
            log = os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            stack.callback(os.close, log)
            # Created now: a confined shell may write to it, but create no files here.
            paths.exit.touch(0o600)
            prepared = stack.enter_context(
                session.prepare(command, tree=mark, cwd=cwd, exit_file=str(paths.exit))
            )
            pid = await prepared.start(stdin=stdin, output=log)
    except BaseException:
        paths.remove()
        raise
    return LocalProcess(folder, mark, pid, process_birth(pid), ChildProcess(pid))


def find_background(folder: Path, handle: str) -> LocalProcess | None:
    """A running process, or one that ended meanwhile and left its output."""
    mark, _, rest = handle.partition(":")
    pid, _, born = rest.partition(":")
    if not (mark.isalnum() and pid.isdigit() and born):
        return None
    with contextlib.suppress(FileNotFoundError):
        return LocalProcess(folder, mark, int(pid), born, None)
    return None


async def write_all(descriptor: int, data: bytes) -> None:
    """Writes all data to a descriptor that may not accept it at once."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)


TERMINAL_ROWS, TERMINAL_COLUMNS = 40, 120
_PTY_READ_BYTES = 65_536
_EXIT_POLL_INTERVAL_S = 0.1
_PTY_INPUT_TIMEOUT_S = 10.0


class PtyProcess:
    def __init__(self, child: ChildProcess, mark: str, terminal: int) -> None:
        self.pid: int | None = child.pid
        self.handle = f"pty:{child.pid}"
        self._child, self._mark, self._terminal = child, mark, terminal

    async def output(self) -> bytes:
        while True:
            ended = self.ended
            try:
                return os.read(self._terminal, _PTY_READ_BYTES)
            except BlockingIOError:
                if ended:  # a process it left may still hold the terminal
                    break
            except OSError:  # EIO: the other end is closed
                break
            waiting = contextlib.suppress(anyio.ClosedResourceError)
            with anyio.move_on_after(_EXIT_POLL_INTERVAL_S), waiting:
                await anyio.wait_readable(self._terminal)
        await self.wait()
        self.close()
        return b""

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        try:
            with anyio.fail_after(_PTY_INPUT_TIMEOUT_S):
                await write_all(self._terminal, data.replace(b"\r\n", b"\r").replace(b"\n", b"\r"))
        except (TimeoutError, OSError, anyio.ClosedResourceError) as error:
            raise ToolError("the process does not take its input") from error

    async def wait(self) -> int | None:
        return await self._child.wait()

    async def kill(self) -> None:
        await ProcessTree(self._mark, None if self.ended else self.pid).end()
        with anyio.move_on_after(1):
            await self.wait()

    @property
    def ended(self) -> bool:
        return self._child.reap() is not None

    @property
    def closed(self) -> bool:
        return self._terminal < 0

    def close(self) -> None:
        if self._terminal >= 0:
            close_awaited(self._terminal)
            self._terminal = -1


async def start_in_pty(session: ShellSession, command: str, *, cwd: str) -> PtyProcess:
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise EnvironmentFailed(
            f"this machine has no terminal to give: {error.strerror}"
        ) from error
    mark = new_tree_mark()
    try:
        termios.tcsetwinsize(ours, (TERMINAL_ROWS, TERMINAL_COLUMNS))
        # Opening the terminal by name makes it the controlling terminal of the shell.
        tty = os.ttyname(theirs)
        with session.prepare(
            command, tree=mark, cwd=cwd, exit_file=os.devnull, tty=tty
        ) as prepared:
            pid = await prepared.start(stdin=theirs, output=theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return PtyProcess(ChildProcess(pid), mark, ours)
