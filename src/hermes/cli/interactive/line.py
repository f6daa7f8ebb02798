"""A terminal of nothing but lines: no colour, no cursor, perhaps not even a terminal."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

import anyio

from hermes.cli.interactive.entries import Entries
from hermes.cli.interactive.shapes import Interrupted

MORE = "… "


class LineTerminal:
    """Asks for a line only when one is wanted, so that a script can be fed into it."""

    drawn = False

    def __init__(self, source: int, sink: TextIO, *, width: int = 80) -> None:
        self.width = max(width, 20)
        self._source = source
        self._sink = sink
        self._typed = b""
        self._label: str | None = None
        self._reading = False
        self._wanted = anyio.Event()
        self._life = anyio.CancelScope()
        self._entries = Entries()

    async def run(self) -> None:
        with self._life:
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._heed_signals)
                    await self._collect()
                    group.cancel_scope.cancel()
            finally:
                self._entries.close()

    async def read(self) -> str:
        return await self._entries.read()

    async def print(self, text: str, *, end: str = "\n") -> None:
        self._sink.write(text + end)
        self._sink.flush()

    async def clear(self) -> None:
        """There is no screen to clear."""

    def expect(self, label: str | None) -> None:
        if self._reading and label and label != self._label:
            self._write(f"\n{label}")  # the question that we had asked is no longer open
        self._label = label
        if label is not None:
            self._wanted.set()
        elif self._wanted.is_set():  # an unset one may be waited for
            self._wanted = anyio.Event()

    def discard(self) -> bool:
        return False  # the half line belongs to the terminal's own editor

    def show(self, live: Callable[[int, int], Sequence[str]]) -> None:
        """Nothing can be drawn in place."""

    def refresh(self) -> None:
        """Nothing can be drawn in place."""

    def leave(self) -> None:
        self._life.cancel()

    async def _heed_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                self._entries.put(Interrupted())

    async def _collect(self) -> None:
        while True:
            await self._wanted.wait()
            self._write(self._label or "")
            self._reading = True
            line = await self._entry()
            self._reading = False
            if line is None:
                self._write("\n")
                return
            self.expect(None)
            self._entries.put(line)

    async def _entry(self) -> str | None:
        """A line, together with those that a backslash at its end asks for."""
        lines: list[str] = []
        while True:
            line = await self._line()
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
            self._write(MORE)

    async def _line(self) -> str | None:
        while b"\n" not in self._typed:
            # A plain file is always ready, and epoll refuses to watch it.
            with suppress(PermissionError):
                await anyio.wait_readable(self._source)
            data = os.read(self._source, 65536)
            if not data:
                rest, self._typed = self._typed, b""
                return rest.decode(errors="replace") if rest else None
            self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _write(self, text: str) -> None:
        self._sink.write(text)
        self._sink.flush()
