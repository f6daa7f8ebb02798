"""Several models answer side by side, and one acts on what they said."""

from collections.abc import Sequence

import anyio
import pytest

from hermes.core.errors import PermanentModelError, RateLimited, SettingsError
from hermes.core.messages import Completion, Message, Risk, ToolCall, ToolResult, ToolSpec, Usage
from hermes.models.mixture import MixtureModel, find_mixture
from hermes.models.open import ModelConnections, open_model
from hermes.models.retry import ResilientModel
from hermes.models.scripted import ScriptedModel
from hermes.models.settings import MixtureSettings, ModelSettings

pytestmark = pytest.mark.anyio
ASK = [Message(role="system", text="Be brief."), Message(role="user", text="why is it slow?")]
TOOLS = [ToolSpec(name="run", description="Runs.", parameters={"type": "object"}, risk=Risk.CHANGE)]


def says(text: str, cost: float = 0.0) -> Completion:
    return Completion(
        message=Message(role="assistant", text=text), usage=Usage(10, 5, 0, cost), model="m"
    )


class Recorder(ScriptedModel):
    """A scripted model that keeps the tools it was offered."""

    def __init__(self, *replies: object, name: str = "scripted") -> None:
        super().__init__(replies, name=name)  # type: ignore[arg-type]
        self.offered: list[Sequence[ToolSpec]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        self.offered.append(tools)
        return await super().complete(messages, tools)


async def test_the_aggregator_reads_the_answers_and_only_it_has_tools() -> None:
    first, second = Recorder(says("the disk", 0.25), name="a"), Recorder(says("the net"), name="b")
    last = Recorder(says("the disk it is", 0.5), name="c")
    answer = await MixtureModel([first, second], last).complete(ASK, TOOLS)
    assert answer.message.text == "the disk it is"
    assert first.offered == second.offered == [()]
    assert last.offered == [TOOLS]
    shown = last.seen[0][-1].text
    assert shown.startswith("why is it slow?")
    assert "## a\nthe disk" in shown
    assert "## b\nthe net" in shown
    assert (answer.usage.cost_usd, answer.beside.cost_usd) == (0.5, 0.25)
    assert answer.beside.input_tokens == 20


async def test_references_are_asked_at_the_same_time() -> None:
    met, waiting = anyio.Event(), []

    class Meeting(ScriptedModel):
        async def complete(
            self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
        ) -> Completion:
            waiting.append(self.name)
            if len(waiting) == 3:
                met.set()
            with anyio.fail_after(120):
                await met.wait()
            return await super().complete(messages, tools)

    references = [Meeting([says(name)], name=name) for name in "abc"]
    assert (await MixtureModel(references, ScriptedModel([says("x")])).complete(ASK)).message.text


async def test_the_references_are_asked_once_for_a_question() -> None:
    reference, last = Recorder(says("look"), name="a"), Recorder(says("1"), says("2"), name="c")
    mixture = MixtureModel([reference], last)
    assert mixture.models_to_ask(ASK) == ("a", "c")
    first = await mixture.complete(ASK, TOOLS)
    call = Message(role="assistant", calls=(ToolCall("c1", "run"),))
    later = [*ASK, call, Message(role="tool", result=ToolResult(call_id="c1", content="ok"))]
    assert mixture.models_to_ask(later) == ("c",)
    second = await mixture.complete(later, TOOLS)
    assert len(reference.seen) == 1
    assert "## a\nlook" in last.seen[1][1].text
    assert (first.beside.tokens, second.beside.tokens) == (15, 0)


async def test_a_reference_that_fails_is_named_and_two_of_three_suffice() -> None:
    references = [
        ScriptedModel([says("one")], name="a"),
        ScriptedModel([RateLimited("too many requests")], name="b"),
        ScriptedModel([says("three")], name="c"),
    ]
    last = Recorder(says("done"), name="d")
    await MixtureModel(references, last).complete(ASK)
    assert "## b\n[it gave no answer: too many requests]" in last.seen[0][-1].text


async def test_one_answer_of_three_is_too_little() -> None:
    broken = [ScriptedModel([PermanentModelError("no key")], name=name) for name in "ab"]
    mixture = MixtureModel([*broken, ScriptedModel([says("x")])], ScriptedModel([says("y")]))
    with pytest.raises(PermanentModelError, match="a: no key; b: no key"):
        await mixture.complete(ASK)


async def test_a_chain_knows_whom_its_first_model_asks() -> None:
    mixture = MixtureModel([ScriptedModel([], name="a")], ScriptedModel([], name="b"))
    assert ResilientModel([mixture]).models_to_ask(ASK) == ("a", "b")
    assert ResilientModel([ScriptedModel([], name="a")]).models_to_ask(ASK) == ("a",)


async def test_a_stream_ends_with_the_whole_answer_and_its_cost() -> None:
    mixture = MixtureModel([ScriptedModel([says("x")])], ScriptedModel([says("a b")]))
    items = [item async for item in mixture.stream(ASK)]
    assert isinstance(items[-1], Completion)
    assert items[-1].beside.tokens == 15
    assert len(items) == 3


def test_a_preset_must_exist_and_name_models() -> None:
    settings = ModelSettings(
        mixtures={
            "deep": MixtureSettings(references=("sonnet", "gpt")),
            "empty": MixtureSettings(),
            "loop": MixtureSettings(references=("moa:deep",)),
        }
    )
    assert find_mixture("deep", settings) == (("sonnet", "gpt"), settings.default)
    for name, words in (("dep", "deep"), ("empty", "no model"), ("loop", "a mixture itself")):
        with pytest.raises(SettingsError, match=words):
            find_mixture(name, settings)
    with pytest.raises(SettingsError, match=r"hermes config set model\.mixtures\.x\.references"):
        find_mixture("x", ModelSettings())


async def test_a_mixture_is_opened_by_its_name() -> None:
    preset = MixtureSettings(references=("sonnet", "gpt"), aggregator="haiku")
    settings = ModelSettings(mixtures={"deep": preset})
    async with ModelConnections() as connections:
        model = open_model("moa:deep", settings, {}, connections)
    assert (model.name, model.window) == ("moa:deep", 200_000)
    assert isinstance(model, MixtureModel)
    assert model.sees_pictures
