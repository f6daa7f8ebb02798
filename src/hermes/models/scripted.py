"""A model that says what it is told to, for tests, demos and replays. It never calls out."""

from collections.abc import AsyncIterator, Iterable, Sequence

from hermes.core.errors import ModelError, PermanentModelError
from hermes.core.messages import Completion, Delta, Message, ToolSpec

Reply = Message | Completion | ModelError


class ScriptedModel:
    """Plays its replies in order; a `ModelError` among them is raised."""

    window = 200_000

    def __init__(self, replies: Iterable[Reply], *, name: str = "scripted") -> None:
        self.name = name
        self._replies = iter(replies)
        self.seen: list[tuple[Message, ...]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        self.seen.append(tuple(messages))
        reply = next(self._replies, None)
        if reply is None:
            raise PermanentModelError(f"the script of {self.name} has no more replies")
        if isinstance(reply, ModelError):
            raise reply
        if isinstance(reply, Completion):
            return reply
        return Completion(message=reply, model=self.name, finish="calls" if reply.calls else "stop")

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[Delta | Completion]:
        whole = await self.complete(messages, tools)
        for word in whole.message.text.split(" "):
            yield Delta(text=word + " ")
        yield whole
