"""One line to a place elsewhere: a client program, and at its far end a bash that runs one program.

A line is used once. That it is there is heard before anything is sent, so a line that cannot be
had has surely run nothing; one that breaks later has run nobody knows how much.
"""

import contextlib
import os
import secrets
import signal
import tempfile
import termios
from collections.abc import Mapping, Sequence
from typing import IO

import anyio

from hermes.environments.processes.local import feed
from hermes.environments.processes.pty import COLUMNS, ROWS
from hermes.environments.processes.spawn import Child, spawn
from hermes.environments.remote.scripts import READY, mark

PIECE = 65_536
_COMPLAINT = 2000
_NOISE = 100_000
"""Bytes that a login may print before our shell is heard."""
_LEAVING = 2.0


class LineBroken(Exception):
    """The client program ended before the last word came."""

    def __init__(self, code: int, complaint: str) -> None:
        super().__init__(complaint or f"exit code {code}")
        self.code, self.complaint = code, complaint


class Line:
    """`input` and `output` are our ends of what connects us to the client program."""

    def __init__(self, client: Child, input: int, output: int, errors: IO[bytes]) -> None:
        self.pid = 0
        """Of the shell at the far end, once it was heard."""
        self.word: str | None = None
        """The last one, once it has come."""
        self.client = client
        self.expect(secrets.token_hex(8))
        self._input, self._output, self._errors = input, output, errors
        self._buffer = bytearray()
        os.set_blocking(input, False)
        os.set_blocking(output, False)

    def expect(self, nonce: str) -> None:
        """Before which mark the last word will stand."""
        self.nonce, self._mark = nonce, mark(nonce)

    @property
    def alive(self) -> bool:
        return self._output >= 0 and self.client.bury() is None

    async def ready(self) -> None:
        """Return when the far end was heard. Raises `LineBroken`."""
        while self.pid == 0:
            _, found, rest = bytes(self._buffer).partition(READY)
            number, end, rest = rest.partition(b"\n")
            if found and end:
                self.pid, self._buffer = int(number), bytearray(rest)
            elif not await self._more() or len(self._buffer) > _NOISE:
                raise await self._broken()

    async def send(self, program: str, stdin: bytes = b"", *, hold: bool = False) -> None:
        """`program` and then what it may read; `hold` keeps its input open and silent after."""
        await self.write(f"{len(program)}\n{program}".encode("ascii") + stdin)
        if not hold:
            self._hang_up()

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # why is told by whoever reads
            await feed(self._input, data)

    async def piece(self) -> bytes:
        """The next piece of output; empty when the last word has come. Raises `LineBroken`."""
        while True:
            if output := self._take():
                return output
            if self.word is not None:
                return b""
            if not await self._more():
                raise await self._broken()

    def let_go(self) -> int:
        """Our end of the pipe, for somebody who reads it on; -1 when it has ended already."""
        self._hang_up()
        self._errors.close()
        pipe, self._output = self._output, -1
        return pipe

    def close(self) -> None:
        """End the client program; the far end has to be ended on its own."""
        if self.client.bury() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.client.pid, signal.SIGKILL)
        pipe = self.let_go()
        if pipe >= 0:
            os.close(pipe)

    def _hang_up(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def _more(self) -> bool:
        while self._output >= 0:
            try:
                data = os.read(self._output, PIECE)
            except BlockingIOError:
                await anyio.wait_readable(self._output)
                continue
            except OSError:  # a terminal says so when nobody holds its other end
                return False
            self._buffer += data
            return bool(data)
        return False

    def _take(self) -> bytes:
        """What of the buffer surely is output: the mark may have arrived by half."""
        buffer = self._buffer
        at = buffer.find(self._mark)
        if at < 0:
            at = buffer.rfind(b"\0", max(0, len(buffer) - len(self._mark)))
            if at < 0 or not self._mark.startswith(buffer[at:]):
                at = len(buffer)
        elif (end := buffer.find(b"\n", at)) >= 0:
            self.word = os.fsdecode(bytes(buffer[at + len(self._mark) : end])).strip()
        output = bytes(buffer[:at])
        if self.word is None:
            del buffer[:at]
        else:
            buffer.clear()  # what follows is of somebody whom the command left behind
        return output

    async def _broken(self) -> LineBroken:
        with anyio.move_on_after(_LEAVING):
            await self.client.wait()
        code = self.client.bury()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _COMPLAINT))
        complaint = self._errors.read().decode("utf-8", "replace").strip()
        self.close()
        return LineBroken(255 if code is None else code, complaint)


def open_line(argv: Sequence[str], variables: Mapping[str, str]) -> Line:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the line
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ours.callback(errors.close)
        their_input, our_input = os.pipe()
        ours.callback(os.close, our_input)
        theirs.callback(os.close, their_input)
        our_output, their_output = os.pipe()
        ours.callback(os.close, our_output)
        theirs.callback(os.close, their_output)
        pid = spawn(argv, variables, stdin=their_input, output=their_output, errors=errors.fileno())
        ours.pop_all()
    return Line(Child(pid), our_input, our_output, errors)


def open_terminal(argv: Sequence[str], variables: Mapping[str, str]) -> Line:
    """Its client program has a terminal of ours. It sets that to pass on everything as it is, but
    may first give the far one the same modes: so nothing is changed here."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the line
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ours.callback(errors.close)
        output, their_end = os.openpty()
        ours.callback(os.close, output)
        theirs.callback(os.close, their_end)
        termios.tcsetwinsize(output, (ROWS, COLUMNS))
        pid = spawn(argv, variables, stdin=their_end, output=their_end)
        input = os.dup(output)
        ours.pop_all()
    return Line(Child(pid), input, output, errors)
