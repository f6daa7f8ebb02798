"""A model that retries depending on the kind of failure, and then asks the next model.

Rate limited: waits as long as the provider asked for, up to a limit. Overloaded, unreachable, timed
out: waits longer each time. Malformed: asks again, twice at most. Any permanent error goes to the
next model, except that a conversation which is too long only goes to a model with a larger window;
otherwise it is raised, so that the agent compresses.

When a stream breaks after it has shown text, the answer starts again: the failure is reported
first, so that a reader who shows text live knows that what follows replaces it.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext

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
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec, Value
from hermes.core.protocols import AsksOtherModels, Model, SeesPictures, StreamsText, provides
from hermes.models.catalog import resolve_reference
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings

FailureCallback = Callable[[str, ModelError, str, float], Awaitable[None]]
"""Called for each failed attempt: the model, the error, the next model ("" for none), the pause."""

MAX_SLOW_RETRIES = 2
"""Retries after an answer that was broken or did not come: each may have taken minutes."""
FIRST_RETRY_PAUSE_S = 0.5
RATE_LIMIT_PAUSE_S = 2.0
MAX_RETRY_PAUSE_S = 30.0


class RetryState(Value, frozen=True):
    """Which model to ask now, after which pause, and how often it has failed already."""

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

    @property
    def sees_pictures(self) -> bool:
        """Whether any of the chain does; the others get descriptions."""
        return any(isinstance(each, SeesPictures) and each.sees_pictures for each in self._chain)

    def models_to_ask(self, messages: Sequence[Message]) -> Sequence[str]:
        first = self._chain[0]
        return first.models_to_ask(messages) if provides(first, AsksOtherModels) else (self.name,)

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
                ) as items:
                    async for item in items:
                        yield item
                return
            except ModelError as error:
                step = await self._recover(step, error)

    async def _recover(self, step: RetryState, error: ModelError) -> RetryState:
        """The next state. Raises the error when there is nothing left to try."""
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
        window = self._chain[step.model_index].window
        for index in range(step.model_index + 1, len(self._chain)):
            if not isinstance(error, ContextTooLong) or self._chain[index].window > window:
                return RetryState(index)
        return None

    def _max_retries(self, error: ModelError) -> int:
        if isinstance(error, MalformedReply | ModelTimedOut):
            return min(self._retries, MAX_SLOW_RETRIES)
        return self._retries if isinstance(error, TemporaryModelError) else 0

    def _retry_pause(self, step: RetryState, error: ModelError) -> float:
        spread = 0.5 + self._jitter() / 2  # so that many agents do not retry all at once
        if isinstance(error, RateLimited):
            if error.wait is not None:
                return error.wait + self._jitter() * FIRST_RETRY_PAUSE_S
            return min(RATE_LIMIT_PAUSE_S * 2.0**step.failures, MAX_RETRY_PAUSE_S) * spread
        return min(FIRST_RETRY_PAUSE_S * 2.0**step.failures, MAX_RETRY_PAUSE_S) * spread


async def stream_answer(
    model: Model, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> AsyncGenerator[CompletionDelta | Completion, None]:
    """The answer of any model as a stream, in one part where it cannot stream."""
    if not provides(model, StreamsText):
        completion = await model.complete(messages, tools)
        if completion.message.text:
            yield CompletionDelta(text=completion.message.text)
        yield completion
        return
    stream = model.stream(messages, tools)
    async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext():
        async for item in stream:
            yield item


def open_chain(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    connections: ModelConnections,
    on_failure: FailureCallback | None = None,
) -> ResilientModel:
    """`reference` with the fallbacks of the settings after it. Raises `SettingsError`."""
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
    """Opened at its first use: most fallbacks are never used, and some take long to load."""

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
        self.sees_pictures = target.card.vision
        self._parts = (target.reference, settings, secrets, connections)
        self._model: Model | None = None

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        return await self._opened().complete(messages, tools)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[CompletionDelta | Completion, None]:
        async with aclosing(stream_answer(self._opened(), messages, tools)) as items:
            async for item in items:
                yield item

    def _opened(self) -> Model:
        if self._model is None:
            try:
                self._model = open_model(*self._parts)
            except SettingsError as error:
                raise PermanentModelError(f"{self.name} cannot be opened: {error}") from error
        return self._model
