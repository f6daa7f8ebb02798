"""Retries and fallbacks as a table: what failed, what is done, how long it takes."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from hermes.core.errors import (
    ContextTooLong,
    InvalidApiKey,
    MalformedReply,
    ModelError,
    ModelTimedOut,
    OutOfCredit,
    ProviderOverloaded,
    RateLimited,
    RequestRejected,
    TemporaryModelError,
)
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec
from hermes.core.protocols import Model, StreamsText
from hermes.models.retry import ResilientModel
from hermes.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

ASK = [Message(role="user", text="hi")]
FINE = Message(role="assistant", text="fine then")


class RetrySetup:
    """A chain with a clock of its own and an ear for failures."""

    def __init__(self, *chain: Model, **settings: Any) -> None:
        self.waits: list[float] = []
        self.told: list[tuple[str, str, str]] = []
        self.model = ResilientModel(
            chain, on_failure=self._hear, sleep=self._sleep, jitter=lambda: 1.0, **settings
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def _hear(self, model: str, error: ModelError, following: str, wait: float) -> None:
        self.told.append((model, type(error).__name__, following))


def script(name: str, *replies: Any, window: int = 200_000) -> ScriptedModel:
    model = ScriptedModel(replies, name=name)
    model.window = window  # type: ignore[misc]
    return model


async def test_an_overloaded_model_is_asked_again_after_longer_and_longer_waits() -> None:
    setup = RetrySetup(
        script("a", ProviderOverloaded("x"), ProviderOverloaded("x"), ProviderOverloaded("x"), FINE)
    )
    assert (await setup.model.complete(ASK)).message == FINE
    assert setup.waits == [0.5, 1.0, 2.0]
    assert setup.told == [("a", "ProviderOverloaded", "a")] * 3


async def test_the_wait_a_provider_asks_for_is_kept() -> None:
    setup = RetrySetup(script("a", RateLimited("x", wait=20), FINE))
    await setup.model.complete(ASK)
    assert setup.waits == [20.5]


async def test_a_wait_that_nobody_would_wait_is_a_reason_to_ask_another() -> None:
    setup = RetrySetup(script("a", RateLimited("x", wait=3600)), script("b", FINE))
    await setup.model.complete(ASK)
    assert setup.waits == []
    assert setup.told == [("a", "RateLimited", "b")]


async def test_without_another_the_long_wait_is_raised() -> None:
    setup = RetrySetup(script("a", RateLimited("x", wait=3600)))
    with pytest.raises(RateLimited):
        await setup.model.complete(ASK)
    assert setup.told == [("a", "RateLimited", "")]


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (ProviderOverloaded("x"), 4),
        (RateLimited("x"), 4),
        (TemporaryModelError("refused"), 4),
        (ModelTimedOut("x"), 3),
        (MalformedReply("x"), 3),
        (InvalidApiKey("x"), 1),
        (OutOfCredit("x"), 1),
        (RequestRejected("x"), 1),
        (ContextTooLong("x"), 1),
    ],
)
async def test_each_kind_is_tried_as_often_as_it_makes_sense(error: ModelError, tries: int) -> None:
    model = script("a", *[error] * 10)
    with pytest.raises(type(error)):
        await RetrySetup(model).model.complete(ASK)
    assert len(model.seen) == tries


@pytest.mark.parametrize("error", [InvalidApiKey("x"), OutOfCredit("x"), RequestRejected("x")])
async def test_what_cannot_be_mended_goes_to_the_next_model_at_once(error: ModelError) -> None:
    setup = RetrySetup(script("a", error), script("b", FINE))
    whole = await setup.model.complete(ASK)
    assert (whole.model, setup.waits) == ("b", [])


async def test_a_conversation_too_long_goes_only_where_more_fits() -> None:
    small = script("small", FINE, window=1000)
    large = script("large", FINE, window=300_000)
    first = script("first", ContextTooLong("x"))
    assert (await RetrySetup(first, small, large).model.complete(ASK)).model == "large"
    with pytest.raises(ContextTooLong):
        await RetrySetup(script("first", ContextTooLong("x")), small).model.complete(ASK)
    assert small.seen == []


async def test_the_last_error_is_raised_when_all_have_failed() -> None:
    setup = RetrySetup(script("a", InvalidApiKey("a")), script("b", OutOfCredit("b")))
    with pytest.raises(OutOfCredit):
        await setup.model.complete(ASK)
    assert [following for *_, following in setup.told] == ["b", ""]


async def test_each_call_begins_with_the_first_model_again() -> None:
    setup = RetrySetup(script("a", InvalidApiKey("x"), FINE), script("b", FINE))
    assert (await setup.model.complete(ASK)).model == "b"
    assert (await setup.model.complete(ASK)).model == "a"


class BreakingModel:
    """Shows a word, breaks, and does better the second time."""

    name, window = "breaking", 1000

    def __init__(self) -> None:
        self.asked = 0

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        raise NotImplementedError

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]:
        self.asked += 1
        yield CompletionDelta(text="fine ")
        if self.asked == 1:
            raise MalformedReply("closed")
        yield CompletionDelta(text="then")
        yield Completion(message=FINE)


async def test_a_stream_that_broke_starts_its_answer_anew_after_the_failure_is_told() -> None:
    setup = RetrySetup(BreakingModel())
    seen: list[Any] = []
    async for item in setup.model.stream(ASK):
        seen.append((item, len(setup.told)))
    words = [(item.text, told) for item, told in seen if isinstance(item, CompletionDelta)]
    assert words == [("fine ", 0), ("fine ", 1), ("then", 1)]
    assert seen[-1][0].message == FINE


async def test_the_chain_looks_like_a_model_that_streams() -> None:
    class Silent:
        name, window = "silent", 10

        async def complete(self, messages: Any, tools: Any = ()) -> Completion:
            return Completion(message=FINE)

    model = ResilientModel([Silent()])
    assert isinstance(model, StreamsText)
    items = [item async for item in model.stream(ASK)]
    assert items == [CompletionDelta(text="fine then"), Completion(message=FINE)]
    assert (model.name, model.window) == ("silent", 10)
