"""A model that does not give up at once: tries again by kind of failure, then asks the next one.

Rate limited: waits as long as it was told to, if that is bearable. Overloaded, unreachable, timed
out: waits longer each time. Malformed: asks again, twice at most. Anything permanent goes to the
next model, except that a conversation which is too long is only worth trying where more fits;
otherwise it is raised, so that the agent compresses.

When a stream breaks after it has shown text, the answer starts anew: the failure is reported
first, so that a reader who shows text live knows that what follows replaces it.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass

import anyio

from hermes.core.errors import (
    ContextTooLong,
    MalformedReply,
    ModelError,
    ModelTimedOut,
    RateLimited,
    TemporaryModelError,
)
from hermes.core.messages import Completion, Delta, Message, ToolSpec
from hermes.core.protocols import Model, StreamsText

Failed = Callable[[str, ModelError, str, float], Awaitable[None]]
"""Told of each failed attempt: the model, the error, who is next ("" for nobody), the wait."""

FEW = 2
"""Tries again after an answer that was broken or did not come: each may have taken minutes."""
FIRST_WAIT = 0.5
LIMITED_WAIT = 2.0
LONGEST_BACKOFF = 30.0


@dataclass(frozen=True)
class Step:
    """Whom to ask now, after which wait, and how often it has failed already."""

    place: int = 0
    failures: int = 0
    wait: float = 0.0


class ResilientModel:
    """A chain of models that looks like its first."""

    def __init__(
        self,
        chain: Sequence[Model],
        *,
        retries: int = 3,
        longest_wait: float = 60.0,
        on_failure: Failed | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = chain[0].name
        self.window = chain[0].window
        self._chain = tuple(chain)
        self._retries = retries
        self._longest_wait = longest_wait
        self._on_failure = on_failure
        self._sleep = sleep
        self._jitter = jitter

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        step = Step()
        while True:
            try:
                return await self._chain[step.place].complete(messages, tools)
            except ModelError as error:
                step = await self._recover(step, error)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Delta | Completion, None]:
        step = Step()
        while True:
            try:
                async with aclosing(shown(self._chain[step.place], messages, tools)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelError as error:
                step = await self._recover(step, error)

    async def _recover(self, step: Step, error: ModelError) -> Step:
        """What to do next. Raises the error when there is nothing left to do."""
        failed = self._chain[step.place].name
        following = self._after(step, error)
        if self._on_failure is not None:
            name = self._chain[following.place].name if following else ""
            await self._on_failure(failed, error, name, following.wait if following else 0.0)
        if following is None:
            raise error
        if following.wait:
            await self._sleep(following.wait)
        return following

    def _after(self, step: Step, error: ModelError) -> Step | None:
        wait = self._wait(step, error)
        if step.failures < self._tries(error) and wait <= self._longest_wait:
            return Step(step.place, step.failures + 1, wait)
        here = self._chain[step.place].window
        for place in range(step.place + 1, len(self._chain)):
            if not isinstance(error, ContextTooLong) or self._chain[place].window > here:
                return Step(place)
        return None

    def _tries(self, error: ModelError) -> int:
        if isinstance(error, MalformedReply | ModelTimedOut):
            return min(self._retries, FEW)
        return self._retries if isinstance(error, TemporaryModelError) else 0

    def _wait(self, step: Step, error: ModelError) -> float:
        spread = 0.5 + self._jitter() / 2  # so that many agents do not come back all at once
        if isinstance(error, RateLimited):
            if error.wait is not None:
                return error.wait + self._jitter() * FIRST_WAIT
            return min(LIMITED_WAIT * 2.0**step.failures, LONGEST_BACKOFF) * spread
        return min(FIRST_WAIT * 2.0**step.failures, LONGEST_BACKOFF) * spread


async def shown(
    model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> AsyncGenerator[Delta | Completion, None]:
    """The answer of any model as a stream, in one piece where it cannot do better."""
    if not isinstance(model, StreamsText):
        whole = await model.complete(messages, tools)
        if whole.message.text:
            yield Delta(text=whole.message.text)
        yield whole
        return
    stream = model.stream(messages, tools)
    async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext():
        async for piece in stream:
            yield piece
