"""A model that goes round in circles is told, and then stopped."""

import pytest
from agent_setup import call, calls, check_valid, make_setup, says

from hermes.agent.conversation import Conversation
from hermes.agent.tool_results import RepetitionDetector
from hermes.core.messages import ToolCall, ToolResult

pytestmark = pytest.mark.anyio


def failing(number: int) -> ToolCall:
    return call("fail", id=f"f{number}", what="disk")


async def test_the_third_equal_failure_is_told_and_the_fifth_ends_the_turn() -> None:
    home = make_setup([calls(failing(n)) for n in range(10)])
    talk = await Conversation.begin(home.dependencies)
    answer = await talk.say("go")
    assert answer == "Stopped: the same call of fail failed in the same way 5 times."
    assert talk.ended is not None
    assert (talk.ended.outcome, talk.ended.reason) == ("failed", answer)
    results = [m.result.content for m in talk.messages if m.result]
    assert ["[Hermes: this same call" in text for text in results] == [False] * 2 + [True] * 3
    again = await Conversation.resume(home.dependencies, talk.run)
    assert again.messages == talk.messages
    check_valid(again.messages)


async def test_equal_failures_between_different_successful_steps_are_work() -> None:
    script = []
    for number in range(8):
        script += [calls(failing(number)), calls(call("look", what=str(number)))]
    home = make_setup([*script, says("got it")])
    talk = await Conversation.begin(home.dependencies)
    assert await talk.say("go") == "got it"


async def test_two_calls_taking_turns_in_failing_are_a_loop_all_the_same() -> None:
    script = []
    for number in range(10):
        script += [calls(failing(number)), calls(call("fail", id=f"g{number}", what="net"))]
    home = make_setup(script)
    talk = await Conversation.begin(home.dependencies)
    assert (await talk.say("go")).startswith("Stopped: the same call")


async def test_a_new_turn_starts_with_a_clean_slate() -> None:
    home = make_setup(
        [*(calls(failing(n)) for n in range(4)), says("hm"), calls(failing(9)), says("still")]
    )
    talk = await Conversation.begin(home.dependencies)
    await talk.say("go")
    assert await talk.say("once more") == "still"


def test_many_equal_successes_are_told_from_the_eighth_on_and_never_stopped() -> None:
    repetition = RepetitionDetector()
    told = []
    for number in range(16):
        [result] = repetition.note(
            [(ToolCall(str(number), "poll"), ToolResult(call_id=str(number), content="running"))]
        )
        told.append(result.content != "running")
    assert told == [False] * 7 + [True] * 9
    assert not repetition.reason


def test_equal_calls_in_one_message_are_told_before_they_stop_anything() -> None:
    repetition = RepetitionDetector()
    bad = [
        (ToolCall(str(n), "x"), ToolResult(call_id=str(n), status="error", content="no"))
        for n in range(6)
    ]
    repetition.note(bad)
    assert not repetition.reason
    repetition.note(bad[:1])
    assert repetition.reason


def test_a_command_that_exits_badly_counts_as_failing() -> None:
    repetition = RepetitionDetector()
    texts = []
    for seconds in ("0.1", "0.2", "3.0"):
        bad = ToolResult(call_id="x", content=f"boom\n[exit 1 · {seconds} s]")
        texts.append(repetition.note([(ToolCall("x", "sh"), bad)])[0].content)
    assert "failed in the same way 3 times" in texts[-1]
