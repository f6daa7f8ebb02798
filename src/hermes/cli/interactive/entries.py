"""What was entered and not yet read. A key press cannot wait, so there is no end to its length."""

from collections import deque

import anyio

from hermes.cli.interactive.shapes import Interrupted


class Entries:
    def __init__(self) -> None:
        self._waiting: deque[str | Interrupted] = deque()
        self._changed = anyio.Event()
        self._closed = False

    def put(self, entry: str | Interrupted) -> None:
        self._waiting.append(entry)
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def read(self) -> str:
        """Raises `Interrupted`, and `EOFError` when it is closed and empty."""
        while not self._waiting:
            if self._closed:
                raise EOFError
            self._changed = anyio.Event()
            await self._changed.wait()
        entry = self._waiting.popleft()
        if isinstance(entry, Interrupted):
            raise entry
        return entry
