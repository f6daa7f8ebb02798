"""Pipes whose command has ended while something it started still prints into them."""

import asyncio
import os
from types import TracebackType
from typing import Self

_PIECE = 65_536
_PAUSE = 0.05
"""Between two pieces: what nobody reads need not come fast."""
_MOST = 64


class Leftovers:
    """Reads and forgets, so that nobody dies of a broken pipe, until `close`.

    Callbacks of the event loop rather than tasks: there is nothing to wait for and nothing that
    can fail, and an environment may be closed by another task than the one that opened it.
    """

    def __init__(self) -> None:
        self._pipes: dict[int, asyncio.TimerHandle | None] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def take(self, pipe: int) -> None:
        while len(self._pipes) >= _MOST:  # the oldest has to go
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
            more = os.read(pipe, _PIECE)
        except OSError:
            more = b""
        if not more:
            self._drop(pipe)
            return
        loop.remove_reader(pipe)
        self._pipes[pipe] = loop.call_later(_PAUSE, self._listen, pipe)

    def _drop(self, pipe: int) -> None:
        pause = self._pipes.pop(pipe)
        if pause is not None:
            pause.cancel()
        else:
            asyncio.get_running_loop().remove_reader(pipe)
        os.close(pipe)
