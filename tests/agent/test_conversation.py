"""What a person can do to a conversation: steer, interrupt, take back, switch."""

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest
from agent_setup import ByPosition, call, calls, check_valid, make_setup, says

from hermes.agent.conversation import Conversation
from hermes.core.errors import ModelError, SettingsError
from hermes.core.events import Event
from hermes.core.events.runs import TurnEnded
from hermes.core.messages import Risk
from hermes.core.protocols import Model, ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel
from hermes.tools.declare import tool

pytestmark = pytest.mark.anyio


async def test_interrupting_ends_a_running_tool_and_answers_its_call() -> None:
    wanted = calls(call("look", what="a"), call("hang"))
    home = make_setup([wanted, says("what now?")])
    talk = await Conversation.begin(home.dependencies)
    answers: list[str] = []

    async def speak() -> None:
        answers.append(await talk.say("go"))

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(speak)
            await home.waiting.wait()
            talk.interrupt()
    assert answers == [""]
    assert talk.ended is not None
    assert talk.ended.outcome == "interrupted"
    check_valid(talk.messages)
    looked, hung = [m.result for m in talk.messages if m.result]
    assert looked.content == "saw a"
    assert "an interruption; it is not known whether it took effect" in hung.content
    assert await talk.say("go on") == "what now?"
    again = await Conversation.resume(home.dependencies, talk.run)
    assert again.messages == talk.messages


async def test_cancelling_from_outside_leaves_a_closed_turn_too() -> None:
    home = make_setup([calls(call("hang"))])
    talk = await Conversation.begin(home.dependencies)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(talk.say, "go")
            await home.waiting.wait()
            group.cancel_scope.cancel()
    assert home.kinds()[-2:] == ["tool.finished", "turn.ended"]
    assert not talk.open
    check_valid(talk.messages)


async def test_interrupting_when_nothing_runs_does_nothing() -> None:
    home = make_setup([says("hi")])
    talk = await Conversation.begin(home.dependencies)
    talk.interrupt()
    assert await talk.say("hello") == "hi"


async def test_steering_reaches_the_model_before_its_next_answer() -> None:
    talk: Conversation

    @tool(risk=Risk.READ)
    async def overhear(context: ToolContext) -> str:
        """Somebody speaks meanwhile."""
        talk.steer("only the second one")
        return "heard"

    model = ScriptedModel([calls(call("overhear")), says("the second")])
    home = make_setup(model, more_tools=[overhear])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("look at both") == "the second"
    assert model.seen[1][-1].text == "only the second one"
    assert [m.role for m in model.seen[1]][-3:] == ["assistant", "tool", "user"]
    assert (await Conversation.resume(home.dependencies, talk.run)).messages == talk.messages


class Interrupted(ByPosition):
    """Somebody speaks while this model gives its first answer."""

    talk: Conversation

    async def complete(self, messages, tools=()):  # type: ignore[no-untyped-def]
        if not self.seen:
            self.talk.steer("and the weather?")
        return await super().complete(messages, tools)


async def test_what_is_said_during_the_last_answer_is_answered_as_well() -> None:
    model = Interrupted([says("hello"), says("it rains")])
    home = make_setup(model)
    model.talk = talk = await Conversation.begin(home.dependencies)
    assert await talk.say("hi") == "it rains"
    assert [m.text for m in talk.messages[1:]] == ["hi", "hello", "and the weather?", "it rains"]
    assert len(home.events("turn.started")) == 1


class Overheard(InMemoryJournal):
    """Somebody speaks in the very moment in which the first turn ends."""

    talk: Conversation

    async def append(self, *events: Event) -> Sequence[int]:
        if isinstance(events[-1], TurnEnded) and events[-1].turn == 1:
            self.talk.steer("and the weather?")
        return await super().append(*events)


async def test_what_is_said_as_the_turn_ends_becomes_a_turn_of_its_own() -> None:
    journal = Overheard()
    home = make_setup([says("hello"), says("it rains")], journal=journal)
    journal.talk = talk = await Conversation.begin(home.dependencies)
    assert await talk.say("hi") == "it rains"
    assert [m.text for m in talk.messages[1:]] == ["hi", "hello", "and the weather?", "it rains"]


async def test_two_turns_at_once_are_refused() -> None:
    home = make_setup([calls(call("hang"))])
    talk = await Conversation.begin(home.dependencies)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(talk.say, "go")
            await home.waiting.wait()
            with pytest.raises(SettingsError, match="a turn is running"):
                await talk.say("me too")
            talk.interrupt()


async def test_undo_takes_back_turn_after_turn_and_survives_a_restart() -> None:
    home = make_setup([says("1"), calls(call("look", what="x")), says("2"), says("3")])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("first")
    before = talk.messages
    await talk.say("second")
    assert await talk.undo() == "second"
    assert talk.messages == before
    assert (await Conversation.resume(home.dependencies, talk.run)).messages == before
    assert await talk.say("third") == "3"
    assert await talk.undo() == "third"
    assert await talk.undo() == "first"
    assert await talk.undo() is None
    assert [m.role for m in talk.messages] == ["system"]


async def test_a_switched_model_answers_and_is_opened_again_on_resume() -> None:
    other = ScriptedModel([says("from b"), says("still b")], name="b")
    home = make_setup([says("from a")])
    dependencies = replace(home.dependencies, open_model=lambda name: {"b": other}[name])
    talk = await Conversation.begin(dependencies)
    assert await talk.say("who?") == "from a"
    await talk.switch(other)
    assert await talk.say("who?") == "from b"
    again = await Conversation.resume(dependencies, talk.run)
    assert again.model is other
    assert await again.say("who?") == "still b"


async def test_a_model_that_is_gone_does_not_lose_the_conversation() -> None:
    def gone(name: str) -> Model:
        raise SettingsError(f"no model {name}")

    home = make_setup([says("from a")])
    dependencies = replace(home.dependencies, open_model=gone)
    talk = await Conversation.begin(dependencies)
    await talk.switch(ScriptedModel([], name="b"))
    again = await Conversation.resume(dependencies, talk.run)
    assert await again.say("who?") == "from a"
    assert "no model b" in again.notes[0]


class Silent(ByPosition):
    """A provider that never answers."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = anyio.Event()

    async def complete(self, messages, tools=()):  # type: ignore[no-untyped-def]
        self.asked.set()
        await anyio.sleep_forever()


async def test_interrupting_a_model_that_never_answers_ends_the_turn() -> None:
    model = Silent()
    home = make_setup(model)
    talk = await Conversation.begin(home.dependencies)
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(talk.say, "go")
            await model.asked.wait()
            talk.interrupt()
    assert talk.ended is not None
    assert talk.ended.outcome == "interrupted"
    assert await talk.undo() == "go"


async def test_the_system_prompt_is_frozen_when_the_run_begins(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    home = make_setup([says("1"), says("2")])
    talk = await Conversation.begin(home.dependencies, directory=str(tmp_path))
    await talk.say("a")
    (tmp_path / "AGENTS.md").write_text("Use spaces.")
    again = await Conversation.resume(home.dependencies, talk.run)
    await again.say("b")
    seen = home.model.seen  # type: ignore[attr-defined]
    assert "Use tabs." in seen[0][0].text
    assert seen[0][0] == seen[1][0]


async def test_a_run_that_is_not_there_or_there_already_is_named() -> None:
    home = make_setup([])
    with pytest.raises(SettingsError, match="'nope' is not in the journal"):
        await Conversation.resume(home.dependencies, "nope")
    talk = await Conversation.begin(home.dependencies, run="mine")
    with pytest.raises(SettingsError, match="resume it"):
        await Conversation.begin(home.dependencies, run=talk.run)


async def test_a_broken_tool_of_many_leaves_the_others_alone() -> None:
    wanted = calls(call("fail", what="disk"), call("look", what="a"), call("look", what="b"))
    home = make_setup([wanted, says("ok")])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "ok"
    assert [m.result.status for m in talk.messages if m.result] == ["error", "ok", "ok"]


class Broken(ByPosition):
    async def complete(self, messages, tools=()):  # type: ignore[no-untyped-def]
        if len(self.seen) == 1:
            self.seen.append(())
            raise ZeroDivisionError
        return await super().complete(messages, tools)


async def test_after_a_bug_the_same_conversation_can_be_carried_on() -> None:
    home = make_setup(Broken([calls(call("change", what="a")), says("fine")]))
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(ZeroDivisionError):
        await talk.say("go")
    assert talk.open
    assert await talk.finish_open_turn() == "fine"
    assert home.done == ["change a"]


async def test_speaking_after_a_failure_of_the_model_keeps_the_sequence_valid() -> None:
    home = make_setup([calls(call("look", what="a")), ModelError("gone"), says("back")])
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(ModelError):
        await talk.say("go")
    assert await talk.finish_open_turn() is None
    assert await talk.say("hello?") == "back"
    check_valid(talk.messages)
