"""A model behind a wire: what every dialect has in common."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from hermes.core.messages import Completion, Delta, Message, ToolSpec
from hermes.models.conversation import paired
from hermes.models.failures import malformed
from hermes.models.wire import Wire


class Reply(Protocol):
    """An answer while it comes in."""

    def feed(self, data: bytes) -> Delta | None:
        """Take the next event, or a whole answer. `ValueError`: not what the dialect promises."""
        ...

    def settled(self) -> bool:
        """True once the model has said all it will say."""
        ...

    def completion(self) -> Completion:
        """The answer. Raises `MalformedReply` when it was cut off."""
        ...


class Dialect(Protocol):
    """How to ask, and how to understand the answer."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> dict[str, Any]: ...
    def reply(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply: ...


class RemoteModel:
    """A `Model` that also `StreamsText`."""

    def __init__(self, name: str, window: int, wire: Wire, dialect: Dialect) -> None:
        self.name = name
        self.window = window
        self._wire = wire
        self._dialect = dialect

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        messages = paired(messages)
        reply = self._dialect.reply(messages, tools)
        self._feed(
            reply, await self._wire.ask(self._dialect.request(messages, tools, stream=False))
        )
        return reply.completion()

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Delta | Completion, None]:
        messages = paired(messages)
        reply = self._dialect.reply(messages, tools)
        request = self._dialect.request(messages, tools, stream=True)
        async with aclosing(self._wire.events(request, reply.settled)) as events:
            async for data in events:
                delta = self._feed(reply, data)
                if delta is not None:
                    yield delta
        yield reply.completion()

    def _feed(self, reply: Reply, data: bytes) -> Delta | None:
        try:
            return reply.feed(data)
        except ValueError as error:
            what = f"sent something that is not its dialect ({error})"
            raise malformed(self._wire.peer, what, data) from error
