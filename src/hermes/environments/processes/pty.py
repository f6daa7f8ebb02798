"""A background process with a terminal of its own, for programs that insist on one.

The terminal is ours: when we die it is hung up, and the process with it. It cannot be found again.
"""

import os
import termios

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.environments.processes.local import feed
from hermes.environments.processes.session import Session
from hermes.environments.processes.spawn import Child
from hermes.environments.processes.tree import Tree
from hermes.environments.shell import new_tree

ROWS, COLUMNS = 40, 120
_PIECE = 65_536
_LOOK = 0.1
_PATIENCE = 10.0


class PtyProcess:
    def __init__(self, child: Child, mark: str, terminal: int) -> None:
        self.pid: int | None = child.pid
        self.handle = f"pty:{child.pid}"
        self._child, self._mark, self._terminal = child, mark, terminal

    async def output(self) -> bytes:
        while True:
            ended = self.ended
            try:
                return os.read(self._terminal, _PIECE)
            except BlockingIOError:
                if ended:  # something it left behind may still hold the terminal
                    break
            except OSError:  # EIO: nobody holds the other end
                break
            with anyio.move_on_after(_LOOK):
                await anyio.wait_readable(self._terminal)
        await self.wait()
        self.close()
        return b""

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        try:
            with anyio.fail_after(_PATIENCE):
                await feed(self._terminal, data.replace(b"\r\n", b"\r").replace(b"\n", b"\r"))
        except (TimeoutError, OSError) as error:
            raise ToolError("the process does not take its input") from error

    async def wait(self) -> int | None:
        return await self._child.wait()

    async def kill(self) -> None:
        await Tree(self._mark, None if self.ended else self.pid).end()
        with anyio.move_on_after(1):
            await self.wait()

    @property
    def ended(self) -> bool:
        return self._child.bury() is not None

    @property
    def closed(self) -> bool:
        return self._terminal < 0

    def close(self) -> None:
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


async def start(session: Session, command: str, *, cwd: str) -> PtyProcess:
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise PlaceFailed(f"this machine has no terminal to give: {error.strerror}") from error
    mark = new_tree()
    try:
        termios.tcsetwinsize(ours, (ROWS, COLUMNS))
        # The shell opens the terminal by its name, which makes it the terminal of its session.
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
    return PtyProcess(Child(pid), mark, ours)
