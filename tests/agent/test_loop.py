"""The loop: model, tools, on and on until words; and what comes back malformed on the way."""

from dataclasses import replace

import pytest
from agent_setup import ByPosition, call, calls, check_valid, make_setup, says

from hermes.agent.conversation import Conversation
from hermes.agent.prompt import CUT_OFF_NOTE, EMPTY_ANSWER_NOTE, OUT_OF_STEPS_NOTE
from hermes.agent.settings import AgentSettings
from hermes.core.bus import Glimpse
from hermes.core.errors import InvalidApiKey, MalformedReply, PermanentModelError
from hermes.core.messages import Completion, Message, ToolCall, Usage

pytestmark = pytest.mark.anyio


async def test_a_turn_goes_on_until_the_model_answers_in_words() -> None:
    home = make_setup(
        [calls(call("look", what="a")), calls(call("look", what="b")), says("it is b")]
    )
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("what is it?") == "it is b"
    assert home.done == ["look a", "look b"]
    check_valid(talk.messages)
    assert [m.role for m in talk.messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip


async def test_the_answer_stands_in_the_journal_before_its_tools_run() -> None:
    home = make_setup([calls(call("look", what="a")), says("ok")])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    assert home.kinds() == [
        "run.started",
        "message.added",
        "turn.started",
        "message.added",
        "message.added",
        "model.answered",
        "tool.requested",
        "tool.decided",
        "tool.started",
        "tool.finished",
        "message.added",
        "model.answered",
        "turn.ended",
    ]


async def test_calls_of_one_message_run_at_once_and_answer_in_order() -> None:
    wanted = [call("meet", id=f"m{number}", others=4) for number in range(4)]
    home = make_setup([calls(*wanted), says("ok")])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    assert home.most == 4
    answers = [m.result for m in talk.messages if m.result]
    assert [a.call_id for a in answers] == ["m0", "m1", "m2", "m3"]
    assert {a.content for a in answers} == {"4 met"}


async def test_a_tool_that_wants_to_be_alone_runs_after_those_before_it() -> None:
    wanted = [
        call("meet", id="m1", others=2),
        call("meet", id="m2", others=2),
        call("alone", what="x"),
        call("look", what="y"),
    ]
    home = make_setup([calls(*wanted), says("ok")])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    assert {m.result.status for m in talk.messages if m.result} == {"ok"}
    assert home.done == ["alone x", "look y"]
    assert home.most == 2


async def test_after_the_last_step_it_sums_up_without_tools() -> None:
    script = [calls(call("look", id=f"c{n}", what=str(n))) for n in range(3)] + [says("half done")]
    home = make_setup(ByPosition(script), settings=AgentSettings(max_iterations=3))
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "half done"
    assert talk.ended is not None
    assert talk.ended.outcome == "exhausted"
    assert talk.messages[-2].text == OUT_OF_STEPS_NOTE
    assert len(home.done) == 3


async def test_a_conversation_without_any_tool_is_answered_and_not_exhausted() -> None:
    home = make_setup([says("hello")], settings=AgentSettings(max_depth=0))
    dependencies = replace(home.dependencies, executor=home.dependencies.executor.with_only(set()))
    talk = await Conversation.begin(dependencies)
    assert await talk.say("hi") == "hello"
    assert talk.ended is not None
    assert talk.ended.outcome == "answered"


async def test_a_model_that_calls_tools_where_there_are_none_still_ends() -> None:
    home = make_setup(
        [calls(call("look", what="1")), calls(call("look", what="2"), text="stuck")],
        settings=AgentSettings(max_iterations=1),
    )
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "stuck"
    assert home.done == ["look 1"]
    check_valid(talk.messages)


async def test_pieces_of_an_answer_are_shown_while_it_comes() -> None:
    home = make_setup([says("one two three")])
    talk = await Conversation.begin(home.dependencies)
    async with home.bus.subscribe() as stream:
        await talk.say("count")
        shown = [stream.receive_nowait() for _ in range(stream.statistics().current_buffer_used)]
    pieces = [item.delta.text for item in shown if isinstance(item, Glimpse)]
    assert "".join(pieces).split() == ["one", "two", "three"]


async def test_an_empty_answer_is_asked_again_once() -> None:
    home = make_setup([says("  "), says("here")])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "here"
    assert [m.text for m in talk.messages[1:]] == ["go", EMPTY_ANSWER_NOTE, "here"]


async def test_two_empty_answers_fail_the_turn_and_the_conversation_lives_on() -> None:
    home = make_setup([says(""), says(""), says("better")])
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(MalformedReply):
        await talk.say("go")
    assert talk.ended is not None
    assert talk.ended.outcome == "failed"
    assert await talk.say("again") == "better"


async def test_call_ids_that_repeat_or_are_missing_are_made_unique() -> None:
    same = ToolCall("call_0", "look", {"what": "a"})
    nameless = ToolCall("", "look", {"what": "b"})
    home = make_setup([calls(same, same, nameless), calls(same), says("ok")])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    check_valid(talk.messages)
    ids = [wanted.id for m in talk.messages for wanted in m.calls]
    assert len(set(ids)) == 4
    assert home.done == ["look a", "look a", "look b", "look a"]


async def test_an_unknown_tool_and_bad_arguments_are_answered_so_that_the_model_can_go_on() -> None:
    home = make_setup([calls(call("nope"), call("look", id="x", wat=1)), says("sorry")])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "sorry"
    first, second = [m.result for m in talk.messages if m.result]
    assert first.status == second.status == "error"
    assert "no tool 'nope'" in first.content
    assert "wat" in second.content


async def test_half_a_call_at_the_longest_length_is_explained() -> None:
    half = ToolCall("c1", "look", {}, '{"what": "a lo')
    home = make_setup([Completion(message=calls(half), finish="length"), says("shorter")])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "shorter"
    assert home.done == []
    assert talk.messages[-2].text == CUT_OFF_NOTE
    check_valid(talk.messages)


async def test_a_withheld_answer_fails_at_once() -> None:
    home = make_setup([Completion(message=says(""), finish="filtered"), says("never asked")])
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(PermanentModelError, match="withheld"):
        await talk.say("go")


async def test_a_failing_model_ends_the_turn_in_the_journal_and_is_raised() -> None:
    home = make_setup([InvalidApiKey("the key is wrong"), says("now")])
    talk = await Conversation.begin(home.dependencies)
    with pytest.raises(InvalidApiKey):
        await talk.say("go")
    assert talk.ended is not None
    assert (talk.ended.outcome, talk.ended.reason) == ("failed", "the key is wrong")
    assert await talk.undo() == "go"
    assert await talk.say("go") == "now"


async def test_usage_adds_up_and_gets_a_price_where_the_provider_gave_none() -> None:
    reply = Completion(message=says("ok"), usage=Usage(100, 10), model="m")
    home = make_setup([reply])
    dependencies = replace(home.dependencies, price=lambda model, usage: 0.5)
    talk = await Conversation.begin(dependencies)
    await talk.say("go")
    assert talk.usage == Usage(100, 10, 0, 0.5)


async def test_reasoning_and_wire_blocks_go_back_to_the_model() -> None:
    thought = Message(
        role="assistant",
        reasoning="hm",
        calls=(call("look", what="a"),),
        wire=({"type": "thinking", "signature": "s"},),
    )
    home = make_setup([thought, says("ok")])
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    assert home.model.seen[1][2] == thought  # type: ignore[attr-defined]
