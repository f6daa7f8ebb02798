"""Limits the memory for the output of commands."""

import asyncio
import os
from collections.abc import Callable
from typing import Self

from hermes.core.messages import Value

HEAD_BYTES = 100_000
TAIL_BYTES = 100_000


class BoundedOutput:
    """Keeps the first and the last bytes of a stream, and counts those between."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        free = self._head_size - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:  # rarely, so that each byte is moved about once
            del self._tail[: -self._tail_size]

    @property
    def dropped(self) -> int:
        return max(0, self._total - len(self._head) - self._tail_size)

    def text(self) -> str:
        dropped = self.dropped
        if not dropped:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        # Drop the halves of a character that was cut here.
        head = whole_characters(bytes(self._head)).decode("utf-8", "replace")
        tail = bytes(self._tail[-self._tail_size :])
        while tail and len(tail) > self._tail_size - 3 and 0x80 <= tail[0] < 0xC0:
            tail = tail[1:]
        return f"{head}\n[… {dropped:,} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


def whole_characters(data: bytes) -> bytes:
    """The data without an incomplete last character."""
    for length in range(1, min(4, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-length] if length < needs else data
        if byte < 0x80:
            return data
    return data


class OutputPiece(Value, frozen=True):
    """Some output and its position in the whole stream."""

    start: int
    data: bytes


class RollingOutput:
    """Keeps the last bytes of an endless stream, and counts all of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._kept += data[-self._size :]
        if len(self._kept) > self._size + self._size // 4:
            del self._kept[: -self._size]

    def since(self, position: int) -> OutputPiece:
        """The kept part of the stream from `position` on."""
        kept = bytes(self._kept[-self._size :])
        first = self.total - len(kept)
        return OutputPiece(max(position, first), kept[max(0, position - first) :])

    def lines(self) -> list[str]:
        """The kept lines; the first may be incomplete."""
        return self.since(0).data.decode("utf-8", "replace").splitlines()


READ_BYTES = 65_536
_READ_PAUSE_S = 0.05
"""Seconds between reads: output that is discarded need not be fast."""
_MAX_PIPES = 64


class LeftoverPipes:
    """Reads pipes and discards the data until `close`, so that their writers get no SIGPIPE.

    Uses callbacks of the event loop, not tasks: an environment may be closed by another task than
    the one that opened it.
    """

    def __init__(self) -> None:
        self._pipes: dict[int, asyncio.TimerHandle | None] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def take(self, pipe: int) -> None:
        while len(self._pipes) >= _MAX_PIPES:  # close the oldest
            self._drop(next(iter(self._pipes)))
        self._listen(pipe)

    def close(self) -> None:
        for pipe in list(self._pipes):
            self._drop(pipe)

    def _listen(self, pipe: int) -> None:
        self._pipes[pipe] = None
        asyncio.get_running_loop().add_reader(pipe, self._swallow, pipe)

    def _swallow(self, pipe: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            more = os.read(pipe, READ_BYTES)
        except OSError:
            more = b""
        if not more:
            self._drop(pipe)
            return
        loop.remove_reader(pipe)
        self._pipes[pipe] = loop.call_later(_READ_PAUSE_S, self._listen, pipe)

    def _drop(self, pipe: int) -> None:
        pause = self._pipes.pop(pipe)
        if pause is not None:
            pause.cancel()
        else:
            asyncio.get_running_loop().remove_reader(pipe)
        os.close(pipe)


def drain_output(pipe: int, feed: Callable[[bytes], None]) -> bool:
    """Reads the available output, up to a limit, because a process may write as fast as we
    read. False at the end of the stream."""
    for _ in range(16):
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:  # EIO: the other end of a terminal is closed
            return False
        if not data:
            return False
        feed(data)
    return True
