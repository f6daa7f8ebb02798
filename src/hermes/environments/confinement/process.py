"""A background process inside a sandbox. It lives no longer than the sandbox, nor than we."""

import os
from contextlib import suppress

import anyio

from hermes.core.errors import PlaceFailed, ToolError
from hermes.environments.confinement import wire
from hermes.environments.confinement.line import Call, Line
from hermes.environments.confinement.running import FULL, drain, end
from hermes.environments.confinement.wire import Request
from hermes.environments.output import Piece, Rolling

PIECE = 65_536
WINDOW = 204_800
"""Bytes of output that one who finds the process later can still read."""
PATIENCE = 10.0
LOOK = 0.1


class _Stream:
    """What the process prints, read from the pipe once and kept for a while."""

    def __init__(self, pipe: int, stdin: int, call: Call) -> None:
        self.pipe, self.stdin = pipe, stdin
        self.kept = Rolling(WINDOW)
        self.finished = False
        self._call = call
        self._lock = anyio.Lock()

    async def since(self, position: int) -> Piece:
        """What follows `position`; without data at the end."""
        while True:
            if position < self.kept.total:
                return self.kept.since(position)
            if self.finished:
                return Piece(position, b"")
            async with self._lock:
                if position == self.kept.total and not self.finished:
                    data = await self._next()
                    self.kept.feed(data)
                    if data:
                        return Piece(position, data)

    async def _next(self) -> bytes:
        ended = self._call.ended
        try:
            data = os.read(self.pipe, PIECE)
        except BlockingIOError:
            self.finished = ended  # something it left behind may still hold the pipe
        except OSError:  # EIO: nobody holds the other end of the terminal
            self.finished = True
        else:
            self.finished = not data
            return data
        if not self.finished:
            await self._wait_a_little()
        return b""

    async def settle(self) -> None:
        """Its process has ended: take what it printed last, and hold nothing open for it."""
        async with self._lock:
            if not self.finished:
                drain(self.pipe, self.kept.feed)
                self.kept.feed(FULL.encode() if self._call.full else b"")
                self.finished = True
            self.close()

    def close(self) -> None:
        self.finished = True
        for fd in {self.pipe, self.stdin} - {-1}:
            os.close(fd)
        self.pipe = self.stdin = -1
        self._call.close()

    async def _wait_a_little(self) -> None:
        with anyio.move_on_after(LOOK):
            await anyio.wait_readable(self.pipe)
            return
        with anyio.move_on_after(0.001), suppress(PlaceFailed, ToolError):
            await self._call.wait()


class SandboxProcess:
    def __init__(self, handle: str, call: Call, stream: _Stream, terminal: bool) -> None:
        self.handle = handle
        self.pid: int | None = None
        """Numbers of processes mean nothing outside of the sandbox."""
        self._call, self._stream, self._terminal = call, stream, terminal
        self._position = stream.kept.since(0).start

    def again(self) -> "SandboxProcess":
        """The same process for another reader, from the oldest output that is kept."""
        return SandboxProcess(self.handle, self._call, self._stream, self._terminal)

    async def output(self) -> bytes:
        piece = await self._stream.since(self._position)
        if not piece.data:
            await self.wait()
        self._position = piece.start + len(piece.data)
        return piece.data

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self._terminal:
            data = data.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
        try:
            with anyio.fail_after(PATIENCE):
                while data:
                    await anyio.wait_writable(self._stream.stdin)
                    data = data[os.write(self._stream.stdin, data) :]
        except (TimeoutError, OSError, ValueError) as error:
            raise ToolError("the process does not take its input") from error

    async def wait(self) -> int | None:
        """None when the sandbox went down with it."""
        code = None
        with suppress(PlaceFailed):
            code = await self._call.wait()
        await self._stream.settle()
        return code

    async def kill(self) -> None:
        with suppress(PlaceFailed):  # then it is gone as well
            await end(self._call)
        await self._stream.settle()

    @property
    def ended(self) -> bool:
        return self._call.ended

    def close(self) -> None:
        """Whatever still runs of it is killed. Once for all its readers."""
        self._stream.close()


async def start_inside(line: Line, request: Request, handle: str) -> SandboxProcess:
    if request.terminal:
        call = await line.ask(request)
        kind, words, files = await call.answer()
        if kind != wire.FILE:
            call.close()
            raise PlaceFailed(f"the sandbox has no terminal to give: {words.decode()}")
        os.set_blocking(files[0], False)
        return SandboxProcess(handle, call, _Stream(files[0], files[0], call), True)
    output, their_output = os.pipe()
    their_stdin, stdin = os.pipe()
    for fd in (output, stdin):
        os.set_blocking(fd, False)
    try:
        call = await line.ask(request, (their_stdin, their_output, their_output))
    except BaseException:
        os.close(output)
        os.close(stdin)
        raise
    finally:
        os.close(their_output)
        os.close(their_stdin)
    return SandboxProcess(handle, call, _Stream(output, stdin, call), False)
