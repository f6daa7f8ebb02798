"""Our end of the line to a launcher: start one, hand it commands, learn how they end."""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.environments.confinement import wire
from hermes.environments.confinement.launcher import LINE
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.wire import Request
from hermes.environments.processes.spawn import Child

PATIENCE = 20.0
"""Seconds for a launcher to go behind its walls, or to end what ran there."""
TOO_LONG = 7
"""E2BIG."""

# The packages above are empty shells: their own modules may import what the launcher must not.
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
    """How to start the `main` of a module of this package, with nothing else loaded."""
    here = Path(__file__).parent
    folders = [str(folder) for folder in (here.parent.parent, here.parent, here)]
    return [sys.executable, "-I", "-S", "-c", _BOOT.replace("MODULE", module), *folders]


class Line:
    """A running launcher. `argv` starts it, itself or inside of another program."""

    def __init__(self, argv: list[str], files: Sequence[int] = ()) -> None:
        """`files` are further descriptors to pass, as 4, 5..."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        # Copies far above the targets: else one could be overwritten before its turn comes.
        given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (theirs.fileno(), *files)]
        try:
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, self._complaints.fileno(), 2),
                *((os.POSIX_SPAWN_DUP2, fd, LINE + place) for place, fd in enumerate(given)),
            ]
            self._child = Child(
                os.posix_spawn(argv[0], argv, {}, file_actions=actions, setsid=True, setsigmask=[])
            )
        except OSError as error:
            ours.close()
            self._complaints.close()
            raise PlaceFailed(f"cannot start {argv[0]}: {error.strerror}") from error
        finally:
            theirs.close()
            for fd in given:
                os.close(fd)
        self.pid = self._child.pid
        self._socket = ours
        ours.setblocking(False)

    async def open(self, plan: Plan) -> str:
        """Send it behind its walls; what went wrong, or nothing."""
        with anyio.move_on_after(PATIENCE):
            try:
                wire.send(self._socket, plan.pack())
                await anyio.wait_readable(self._socket)
                answer = self._socket.recv(wire.LONGEST)
            except OSError:  # it is gone already
                answer = b""
            if answer == wire.OK:
                return ""
            return answer[1:].decode("utf-8", "replace") or self._last_words()
        return f"the launcher did not answer within {PATIENCE:.0f} seconds"

    def _last_words(self) -> str:
        said = os.pread(self._complaints.fileno(), 4096, 0).decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else "the launcher ended at once"

    async def close(self) -> None:
        """The end of the line is the end of all that runs behind it."""
        self._socket.close()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(PATIENCE):
                await self._child.wait()
            if self._child.bury() is None:
                os.kill(self._child.pid, signal.SIGKILL)
                await self._child.wait()
        self._complaints.close()

    def send(self, data: bytes, files: tuple[int, ...]) -> None:
        """Raises `BlockingIOError` while there is no room."""
        wire.send(self._socket, data, files)

    async def writable(self) -> None:
        await anyio.wait_writable(self._socket)

    async def ask(self, request: Request, files: Sequence[int] = ()) -> "Call":
        """Hand over a request with the descriptors it needs."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            while True:
                try:
                    wire.send(self._socket, request.pack(), (theirs.fileno(), *files))
                    return Call(ours)
                except BlockingIOError:
                    await anyio.wait_writable(self._socket)
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                if error.errno == 90:  # EMSGSIZE
                    raise too_long() from error
                raise gone() from error
            raise
        finally:
            theirs.close()


def gone() -> PlaceFailed:
    return PlaceFailed(
        "the sandbox ended under the command: it used too much memory, or the command killed the "
        "sandbox's own processes. The next command starts a new one"
    )


def too_long() -> ToolError:
    return ToolError(
        "the command and its variables are too long for one program start; "
        "write the data to a file first"
    )


class Call:
    """One request being carried out inside."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._code: int | None = None
        self._error: PlaceFailed | ToolError | None = None
        self.full = False
        """Whether the files of the sandbox took up too much when the program ended."""
        self._lock = anyio.Lock()

    async def answer(self) -> tuple[bytes, bytes, list[int]]:
        """The next answer: its kind, its words, its files. Raises `PlaceFailed` when it breaks."""
        while True:
            await anyio.wait_readable(self._link)
            try:
                data, files = wire.receive(self._link)
            except BlockingIOError:
                continue
            except OSError as error:
                raise gone() from error
            if not data:
                raise gone()
            return data[:1], data[1:], files

    async def wait(self) -> int:
        """How the program ended: its exit code, 128 + n when signal n ended it."""
        async with self._lock:
            if self._error is None and self._code is None:
                try:
                    self._code = await self._result()
                except (PlaceFailed, ToolError) as error:
                    self._error = error
        if self._error is not None:
            raise self._error
        return self._code or 0

    async def _result(self) -> int:
        kind, words, _ = await self.answer()
        if kind == wire.FAILED:
            raise _not_started(words)
        self.full = kind == wire.FULL
        try:
            code = int(words)
        except ValueError as error:
            raise gone() from error
        return 128 - code if code < 0 else code

    @property
    def ended(self) -> bool:
        return self._code is not None or self._error is not None

    def tell(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            wire.send(self._link, order)

    def close(self) -> None:
        """Whatever still runs is killed."""
        self._link.close()


def _not_started(words: bytes) -> PlaceFailed | ToolError:
    number, _, reason = words.decode("utf-8", "replace").partition(" ")
    if number == str(TOO_LONG):
        return too_long()
    return PlaceFailed(f"the sandbox could not start the command: {reason}")


def request(
    argv: Sequence[str], variables: Mapping[str, str], *, terminal: bool = False
) -> Request:
    made = Request()
    made.argv = tuple(os.fsencode(each) for each in argv)
    made.variables = tuple((os.fsencode(n), os.fsencode(v)) for n, v in variables.items())
    made.terminal = terminal
    return made
