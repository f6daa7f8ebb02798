"""One question to the person at a time; the others wait their turn."""

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

from hermes.cli.interactive.shapes import Terminal

T = TypeVar("T")


class _Open(Generic[T]):
    def __init__(self, label: str, understand: Callable[[str], T | None], otherwise: T) -> None:
        self.label = label
        self.answer = otherwise
        self.done = anyio.Event()
        self._understand = understand

    def offer(self, line: str) -> bool:
        answer = self._understand(line)
        if answer is None:
            return False
        self.answer = answer
        self.done.set()
        return True


class Questions:
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._turn = anyio.Lock()
        self._open: _Open[str] | None = None
        self._closed = False
        self.changed: Callable[[], None] = lambda: None
        """Called when a question opens or closes: the prompt changes."""

    @property
    def label(self) -> str:
        """The prompt of the open question; empty when there is none."""
        return self._open.label if self._open else ""

    async def put(
        self,
        text: str,
        label: str,
        understand: Callable[[str], str | None],
        *,
        otherwise: str = "",
        settled: Callable[[], str | None] = lambda: None,
    ) -> str:
        """Ask, and wait. `settled` may know the answer by the time it is our turn."""
        async with self._turn:
            known = settled()
            if known is not None or self._closed:
                return known or otherwise
            question = self._open = _Open(label, understand, otherwise)
            try:
                await self._terminal.print(text)
                self.changed()
                await question.done.wait()
                return question.answer
            finally:
                self._open = None
                self.changed()

    def offer(self, line: str) -> bool:
        """An answer to the open question; False when it was not understood."""
        return self._open is not None and self._open.offer(line)

    def refuse(self) -> bool:
        """No answer; False when nothing was asked."""
        if self._open is None:
            return False
        self._open.done.set()
        return True

    def close(self) -> None:
        """Nobody is here any more: whoever asks, or will ask, gets no answer."""
        self._closed = True
        self.refuse()
