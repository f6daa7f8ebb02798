"""A model that does not give up at once: tries again by kind of failure, then asks the next one.

Rate limited: waits as long as it was told to, if that is bearable. Overloaded, unreachable, timed
out: waits longer each time. Malformed: asks again, twice at most. Anything permanent goes to the
next model, except that a conversation which is too long is only worth trying where more fits;
otherwise it is raised, so that the agent compresses.

When a stream breaks after it has shown text, the answer starts anew: the failure is reported
first, so that a reader who shows text live knows that what follows replaces it.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass

import anyio

from hermes.core.errors import (
    ContextTooLong,
    MalformedReply,
    ModelError,
    ModelTimedOut,
    PermanentModelError,
    RateLimited,
    SettingsError,
    TemporaryModelError,
)
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec
from hermes.core.protocols import Model, StreamsText
from hermes.models.catalog import resolve_reference
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings

FailureCallback = Callable[[str, ModelError, str, float], Awaitable[None]]
"""Told of each failed attempt: the model, the error, who is next ("" for nobody), the wait."""

MAX_SLOW_RETRIES = 2
"""Tries again after an answer that was broken or did not come: each may have taken minutes."""
FIRST_RETRY_PAUSE_S = 0.5
RATE_LIMIT_PAUSE_S = 2.0
MAX_RETRY_PAUSE_S = 30.0


@dataclass(frozen=True)
class RetryState:
    """Whom to ask now, after which wait, and how often it has failed already."""

    model_index: int = 0
    failures: int = 0
    pause_s: float = 0.0


class ResilientModel:
    """A chain of models that looks like its first."""

    def __init__(
        self,
        chain: Sequence[Model],
        *,
        retries: int = 3,
        longest_wait: float = 60.0,
        on_failure: FailureCallback | None = None,
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
        step = RetryState()
        while True:
            try:
                return await self._chain[step.model_index].complete(messages, tools)
            except ModelError as error:
                step = await self._recover(step, error)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[CompletionDelta | Completion, None]:
        step = RetryState()
        while True:
            try:
                async with aclosing(
                    stream_answer(self._chain[step.model_index], messages, tools)
                ) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelError as error:
                step = await self._recover(step, error)

    async def _recover(self, step: RetryState, error: ModelError) -> RetryState:
        """What to do next. Raises the error when there is nothing left to do."""
        failed = self._chain[step.model_index].name
        following = self._next_state(step, error)
        if self._on_failure is not None:
            name = self._chain[following.model_index].name if following else ""
            await self._on_failure(failed, error, name, following.pause_s if following else 0.0)
        if following is None:
            raise error
        if following.pause_s:
            await self._sleep(following.pause_s)
        return following

    def _next_state(self, step: RetryState, error: ModelError) -> RetryState | None:
        wait = self._retry_pause(step, error)
        if step.failures < self._max_retries(error) and wait <= self._longest_wait:
            return RetryState(step.model_index, step.failures + 1, wait)
        here = self._chain[step.model_index].window
        for place in range(step.model_index + 1, len(self._chain)):
            if not isinstance(error, ContextTooLong) or self._chain[place].window > here:
                return RetryState(place)
        return None

    def _max_retries(self, error: ModelError) -> int:
        if isinstance(error, MalformedReply | ModelTimedOut):
            return min(self._retries, MAX_SLOW_RETRIES)
        return self._retries if isinstance(error, TemporaryModelError) else 0

    def _retry_pause(self, step: RetryState, error: ModelError) -> float:
        spread = 0.5 + self._jitter() / 2  # so that many agents do not come back all at once
        if isinstance(error, RateLimited):
            if error.wait is not None:
                return error.wait + self._jitter() * FIRST_RETRY_PAUSE_S
            return min(RATE_LIMIT_PAUSE_S * 2.0**step.failures, MAX_RETRY_PAUSE_S) * spread
        return min(FIRST_RETRY_PAUSE_S * 2.0**step.failures, MAX_RETRY_PAUSE_S) * spread


async def stream_answer(
    model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> AsyncGenerator[CompletionDelta | Completion, None]:
    """The answer of any model as a stream, in one piece where it cannot do better."""
    if not isinstance(model, StreamsText):
        whole = await model.complete(messages, tools)
        if whole.message.text:
            yield CompletionDelta(text=whole.message.text)
        yield whole
        return
    stream = model.stream(messages, tools)
    async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext():
        async for piece in stream:
            yield piece


def open_chain(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    connections: ModelConnections,
    on_failure: FailureCallback | None = None,
) -> ResilientModel:
    """`reference` with the fallbacks of the settings behind it. Raises `SettingsError`."""
    first = open_model(reference, settings, secrets, connections)
    chain: dict[str, Model] = {resolve_reference(reference, settings).reference: first}
    for fallback in settings.fallbacks:
        deferred = LazyModel(fallback, settings, secrets, connections)
        chain.setdefault(deferred.name, deferred)
    return ResilientModel(
        list(chain.values()),
        retries=settings.retries,
        longest_wait=settings.longest_wait,
        on_failure=on_failure,
    )


class LazyModel:
    """Opened when it is first asked: most fallbacks never are, and some are heavy to load."""

    def __init__(
        self,
        reference: str,
        settings: ModelSettings,
        secrets: Mapping[str, str],
        connections: ModelConnections,
    ) -> None:
        target = resolve_reference(reference, settings)
        self.name = target.reference
        self.window = target.window
        self._parts = (target.reference, settings, secrets, connections)
        self._model: Model | None = None

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        return await self._opened().complete(messages, tools)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[CompletionDelta | Completion, None]:
        async with aclosing(stream_answer(self._opened(), messages, tools)) as pieces:
            async for piece in pieces:
                yield piece

    def _opened(self) -> Model:
        if self._model is None:
            try:
                self._model = open_model(*self._parts)
            except SettingsError as error:
                raise PermanentModelError(f"{self.name} cannot be opened: {error}") from error
        return self._model
