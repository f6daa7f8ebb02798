"""Messages of the protocol over two file descriptors: one JSON object on each line.

Whatever a client sends, the next line is read: a line that is no message is answered with an error.
"""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import msgspec

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is not read; its sender gets an error."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""What may wait for a client that does not read. Beyond that the connection ends."""
READ_CHUNK_BYTES = 64 * 1024
WRITE_CHUNK_BYTES = 4096
"""A pipe that can be written takes so much without blocking."""
FLUSH_TIMEOUT_S = 2.0
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603


@contextmanager
def own_standard_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of standard input and output for the protocol alone.

    Programs that are started read nothing from the client, and what anything prints goes to the
    error stream.
    """
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # the error stream is closed
            os.dup2(nothing, 1)
        yield kept
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for each in (*kept, nothing):
            os.close(each)


class MessageStream:
    """The transport of the library's connection. `write_messages` must run beside it."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._input, self._output = input_fd, output_fd
        self._buffer = bytearray()
        self._too_long = False
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._filled, self._written = anyio.Event(), anyio.Event()
        self._broken = False

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the input."""
        while True:
            line = await self._next_line()
            if line is None:
                return None
            if not line.strip():
                continue
            message, problem, code = _read_message(line)
            if not problem:
                return message
            await self._reject(code, problem)

    async def send(self, message: dict[str, Any]) -> None:
        """Does not wait for the client. Raises `ConnectionError` when it reads no more."""
        data = msgspec.json.encode(message, enc_hook=str) + b"\n"
        if self._broken or self._waiting_bytes + len(data) > MAX_UNREAD_BYTES:
            self._broken = True
            raise ConnectionError("the editor does not read any more")
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._filled.set()

    async def close(self) -> None:
        """Write what still waits, as far as the client reads it."""
        with anyio.move_on_after(FLUSH_TIMEOUT_S):
            while self._waiting_bytes and not self._broken:
                self._written = anyio.Event()
                await self._written.wait()

    async def write_messages(self) -> None:
        """Write messages until cancelled, or until the client reads no more."""
        try:
            while True:
                while self._waiting:
                    await self._write(self._waiting[0])
                    self._waiting_bytes -= len(self._waiting.popleft())
                    self._written.set()
                self._filled = anyio.Event()
                await self._filled.wait()
        except OSError:
            pass  # it is gone
        finally:
            self._broken = True
            self._written.set()

    async def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            with suppress(PermissionError):  # a file can always be written
                await anyio.wait_writable(self._output)
            rest = rest[os.write(self._output, rest[:WRITE_CHUNK_BYTES]) :]

    async def _next_line(self) -> bytes | None:
        start = 0
        while True:
            end = self._buffer.find(b"\n", start)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                if not self._too_long:
                    return line
                self._too_long, start = False, 0
                limit = MAX_LINE_BYTES // 2**20
                await self._reject(PARSE_ERROR, f"a message is longer than {limit} MB")
                continue
            if self._too_long or len(self._buffer) > MAX_LINE_BYTES:
                self._too_long = True
                self._buffer.clear()
            start = len(self._buffer)
            chunk = await self._read()
            if not chunk:  # half a line is no message
                return None
            self._buffer += chunk

    async def _read(self) -> bytes:
        with suppress(PermissionError):  # a file can always be read
            await anyio.wait_readable(self._input)
        try:
            return os.read(self._input, READ_CHUNK_BYTES)
        except OSError:
            return b""

    async def _reject(self, code: int, problem: str) -> None:
        error = {"code": code, "message": problem}
        with suppress(ConnectionError):
            await self.send({"jsonrpc": "2.0", "id": None, "error": error})


def _read_message(line: bytes) -> tuple[dict[str, Any], str, int]:
    """The message, or what is wrong with it and the code for that."""
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return {}, f"a line is not JSON: {error}", PARSE_ERROR
    if not isinstance(message, dict):
        return {}, "a message must be a JSON object", INVALID_REQUEST
    if not isinstance(message.get("id"), str | int | None):
        return {}, "the id of a message must be a number or a text", INVALID_REQUEST
    if "method" in message:
        if not isinstance(message["method"], str):
            return {}, "the method of a message must be a text", INVALID_REQUEST
    elif "id" not in message:
        return {}, "a message needs a method or an id", INVALID_REQUEST
    elif "error" in message and not isinstance(message["error"], dict):
        message["error"] = {"code": INTERNAL_ERROR, "message": "an error without a description"}
    return message, "", 0
