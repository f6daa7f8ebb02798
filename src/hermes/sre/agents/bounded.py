"""A model that is asked no more than it may be, nor after it has said what was asked of it."""

from collections.abc import AsyncIterator, Callable, Sequence

from hermes.core.messages import Completion, Delta, Message, ToolSpec
from hermes.core.protocols import Model, StreamsText

OURS = "hermes"
"""In place of the model's name where it was not asked."""
ENOUGH = "Written down."
SPENT = "All turns are used."


class Bounded:
    """Fulfils `Model` and `StreamsText`. Once it is over it answers by itself, at no cost."""

    def __init__(self, model: Model, turns: int, over: Callable[[], bool]) -> None:
        self._model, self._left, self._over = model, turns, over
        self.name, self.window = model.name, model.window

    @property
    def spent(self) -> bool:
        return self._left <= 0 and not self._over()

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        if (own := self._own()) is not None:
            return own
        return await self._model.complete(messages, tools)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[Delta | Completion]:
        if (own := self._own()) is not None:
            yield own
        elif isinstance(self._model, StreamsText):
            async for piece in self._model.stream(messages, tools):
                yield piece
        else:
            yield await self._model.complete(messages, tools)

    def _own(self) -> Completion | None:
        if self._over():
            return _said(ENOUGH)
        if self._left <= 0:
            return _said(SPENT)
        self._left -= 1
        return None


def _said(text: str) -> Completion:
    return Completion(message=Message(role="assistant", text=text), model=OURS)
