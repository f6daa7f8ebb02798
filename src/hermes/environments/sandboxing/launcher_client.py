"""Starts a launcher and sends it requests: to run commands, and to read and replace files."""

import contextlib
import errno
import fcntl
import os
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.environments import confinement
from hermes.environments.confinement import messages
from hermes.environments.confinement.messages import LauncherRequest, SandboxPlan
from hermes.environments.processes.spawn import ChildProcess, normal_priority

LAUNCHER_TIMEOUT_S = 20.0
"""Seconds for a launcher to isolate itself, or to end its commands."""
E2BIG = 7
"""E2BIG."""

# The parent packages are empty: their `__init__` may import what the launcher must not.
_BOOT = """
import sys
names = "hermes", "hermes.environments", "hermes.environments.confinement"
for name, folder in zip(names, sys.argv[1:]):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [folder]
from hermes.environments.confinement.MODULE import main
main()
"""


def launcher_argv(module: str = "launcher") -> list[str]:
    """The argv to start `main` of a module of `confinement`, with nothing else loaded."""
    here = Path(confinement.__file__).parent
    folders = [str(folder) for folder in (here.parent.parent, here.parent, here)]
    return [sys.executable, "-I", "-S", "-c", _BOOT.replace("MODULE", module), *folders]


class LauncherClient:
    """A running launcher. `argv` starts it directly or through another program."""

    def __init__(self, argv: list[str], files: Sequence[int] = ()) -> None:
        """`files` are further descriptors, passed as 4, 5..."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._error_file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        # Copies with high numbers: otherwise a target could overwrite a source before its use.
        given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (theirs.fileno(), *files)]
        try:
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, self._error_file.fileno(), 2),
                *(
                    (os.POSIX_SPAWN_DUP2, fd, messages.LAUNCHER_DESCRIPTOR + index)
                    for index, fd in enumerate(given)
                ),
            ]
            with normal_priority():
                pid = os.posix_spawn(
                    argv[0], argv, {}, file_actions=actions, setsid=True, setsigmask=[]
                )
            self._child = ChildProcess(pid)
        except OSError as error:
            ours.close()
            self._error_file.close()
            raise EnvironmentFailed(f"cannot start {argv[0]}: {error.strerror}") from error
        finally:
            theirs.close()
            for fd in given:
                os.close(fd)
        self.pid = self._child.pid
        self._socket = ours
        ours.setblocking(False)

    async def open(self, plan: SandboxPlan) -> str:
        """Lets the launcher isolate itself; returns what went wrong, or an empty text."""
        with anyio.move_on_after(LAUNCHER_TIMEOUT_S):
            try:
                messages.send_message(self._socket, plan.pack())
                await anyio.wait_readable(self._socket)
                answer = self._socket.recv(messages.MAX_MESSAGE_BYTES)
            except OSError:  # it has ended already
                answer = b""
            if answer == messages.ANSWER_OK:
                return ""
            return answer[1:].decode("utf-8", "replace") or self._error_output()
        return f"the launcher did not answer within {LAUNCHER_TIMEOUT_S:.0f} seconds"

    def _error_output(self) -> str:
        output = os.pread(self._error_file.fileno(), 4096, 0).decode("utf-8", "replace").strip()
        return output.splitlines()[-1] if output else "the launcher ended at once"

    async def close(self) -> None:
        """Closing the socket ends all that runs in the sandbox."""
        anyio.notify_closing(self._socket)
        self._socket.close()
        await self._child.wait_or_kill(LAUNCHER_TIMEOUT_S)
        self._error_file.close()

    def send(self, data: bytes, files: tuple[int, ...]) -> None:
        """Raises `BlockingIOError` while the socket is full."""
        messages.send_message(self._socket, data, files)

    async def writable(self) -> None:
        await anyio.wait_writable(self._socket)

    async def start_call(
        self, request: LauncherRequest, files: Sequence[int] = ()
    ) -> "LauncherCall":
        """Sends a request with its descriptors."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            while True:
                try:
                    messages.send_message(self._socket, request.pack(), (theirs.fileno(), *files))
                    return LauncherCall(ours)
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError | anyio.ClosedResourceError):
                if getattr(error, "errno", 0) == errno.EMSGSIZE:
                    raise too_long_error() from error
                raise sandbox_gone_error() from error
            raise
        finally:
            theirs.close()


def sandbox_gone_error() -> EnvironmentFailed:
    return EnvironmentFailed(
        "the sandbox ended under the command: it used too much memory, or the command killed the "
        "sandbox's own processes. The next command starts a new one"
    )


def too_long_error() -> ToolError:
    return ToolError(
        "the command and its variables are too long for one program start; "
        "write the data to a file first"
    )


class LauncherCall:
    """A request that is being executed inside."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._code: int | None = None
        self._error: EnvironmentFailed | ToolError | None = None
        self.full = False
        """Whether the files of the sandbox exceeded their limit when the program ended."""
        self._lock = anyio.Lock()

    async def answer(self) -> tuple[bytes, bytes, list[int]]:
        """The next answer: kind, text, files. Raises `EnvironmentFailed` if the sandbox ended."""
        while True:
            try:
                await anyio.wait_readable(self._link)
                data, files = messages.receive_message(self._link)
            except BlockingIOError:
                continue
            except (OSError, anyio.ClosedResourceError) as error:
                raise sandbox_gone_error() from error
            if not data:
                raise sandbox_gone_error()
            return data[:1], data[1:], files

    async def wait(self) -> int:
        """The exit code; 128 + n when signal n ended the program."""
        async with self._lock:
            if self._error is None and self._code is None:
                try:
                    self._code = await self._result()
                except (EnvironmentFailed, ToolError) as error:
                    self._error = error
        if self._error is not None:
            raise self._error
        return self._code or 0

    async def _result(self) -> int:
        kind, words, _ = await self.answer()
        if kind == messages.ANSWER_FAILED:
            raise _not_started_error(words)
        self.full = kind == messages.ANSWER_QUOTA_EXCEEDED
        try:
            code = int(words)
        except ValueError as error:
            raise sandbox_gone_error() from error
        return 128 - code if code < 0 else code

    @property
    def ended(self) -> bool:
        return self._code is not None or self._error is not None

    def send_order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            messages.send_message(self._link, order)

    def close(self) -> None:
        """Kills what still runs."""
        anyio.notify_closing(self._link)
        self._link.close()


def _not_started_error(words: bytes) -> EnvironmentFailed | ToolError:
    number, _, reason = words.decode("utf-8", "replace").partition(" ")
    if number == str(E2BIG):
        return too_long_error()
    return EnvironmentFailed(f"the sandbox could not start the command: {reason}")


def build_request(
    argv: Sequence[str], variables: Mapping[str, str], *, terminal: bool = False
) -> LauncherRequest:
    made = LauncherRequest()
    made.argv = tuple(os.fsencode(each) for each in argv)
    made.variables = tuple((os.fsencode(n), os.fsencode(v)) for n, v in variables.items())
    made.terminal = terminal
    return made


MAX_UNSIZED_READ_BYTES = 16 << 20
"""Bytes that are read of a file without a known size."""


async def read_sandbox_file(
    launcher: LauncherClient, path: str, *, cwd: str, offset: int, limit: int | None
) -> bytes:
    """Raises `ToolError`."""
    call = await launcher.start_call(_file_request("read", path, cwd))
    try:
        descriptor = await _receive_descriptor(call, "read", path)
    finally:
        call.close()
    return await to_thread.run_sync(partial(_read, descriptor, offset, limit))


async def replace_sandbox_file(
    launcher: LauncherClient, path: str, data: bytes, *, cwd: str
) -> None:
    """Replaces the file atomically. Raises `ToolError`."""
    call = await launcher.start_call(_file_request("write", path, cwd))
    try:
        descriptor = await _receive_descriptor(call, "write", path)
        try:
            await to_thread.run_sync(_write, descriptor, data)
        except OSError as error:
            raise ToolError(f"cannot write {path}: {error.strerror}") from error
        call.send_order(messages.ORDER_COMMIT)
        kind, words, _ = await call.answer()
        if kind != messages.ANSWER_OK:
            raise _refusal_error("write", path, words)
    finally:
        call.close()


def _file_request(kind: str, path: str, cwd: str) -> LauncherRequest:
    made = LauncherRequest()
    made.kind, made.path, made.cwd = kind, os.fsencode(path), os.fsencode(cwd)
    return made


async def _receive_descriptor(call: LauncherCall, verb: str, path: str) -> int:
    kind, words, files = await call.answer()
    if kind != messages.ANSWER_FILE or not files:
        raise _refusal_error(verb, path, words)
    return files[0]


def _refusal_error(verb: str, path: str, words: bytes) -> ToolError:
    number, _, reason = words.decode("utf-8", "replace").partition(" ")
    if number == "2":
        reason = "there is no such file"
    return ToolError(f"cannot {verb} {path}: {reason}")


def _read(descriptor: int, offset: int, limit: int | None) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, offset))
        if limit is None:  # a file generated by the kernel may be endless
            limit = max(os.fstat(descriptor).st_size, MAX_UNSIZED_READ_BYTES)
        return file.read(max(0, limit))


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
