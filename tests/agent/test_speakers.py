"""Every run, turn and tool call carries the person for whom it happens."""

from dataclasses import replace

import pytest
from agent_setup import AgentSetup, call, calls, make_setup, says

from hermes.agent.conversation import Conversation
from hermes.core.events.runs import RunStarted, TurnStarted
from hermes.core.events.tools import ToolRequested
from hermes.core.messages import ToolCall

pytestmark = pytest.mark.anyio


def speakers(home: AgentSetup) -> list[tuple[str, str]]:
    return [
        (event.kind, event.by)
        for event in home.journal.events
        if isinstance(event, RunStarted | TurnStarted)
    ]


def actors(home: AgentSetup) -> list[str]:
    return [event.actor for event in home.journal.events if isinstance(event, ToolRequested)]


async def test_a_run_and_its_turns_belong_to_the_person_of_the_process() -> None:
    home = make_setup([calls(call("look", what="a")), says("seen")])
    talk = await Conversation.begin(replace(home.dependencies, by="alice"))
    await talk.say("go")
    assert speakers(home) == [("run.started", "alice"), ("turn.started", "alice")]
    assert actors(home) == ["alice"]


async def test_each_turn_of_a_shared_session_belongs_to_who_asked_it() -> None:
    home = make_setup(
        [calls(call("look", id="1", what="a")), says("a"), calls(call("look", id="2")), says("b")]
    )
    talk = await Conversation.begin(home.dependencies, by="alice")
    await talk.say("first", by="alice")
    await talk.say("second", by="telegram:7")
    assert actors(home) == ["alice", "telegram:7"]


async def test_a_turn_of_nobody_in_particular_is_that_of_who_began_the_run() -> None:
    home = make_setup([says("a"), calls(call("look", id="2", what="b")), says("b")])
    talk = await Conversation.begin(home.dependencies, by="alice")
    await talk.say("first", by="bob")
    await talk.say("second")
    assert actors(home) == ["alice"]


async def test_a_turn_that_goes_on_after_a_crash_is_still_that_of_who_asked() -> None:
    home = make_setup([calls(call("look", what="a")), says("seen")])
    talk = await Conversation.begin(home.dependencies, by="alice")
    await talk.say("go", by="bob")
    cut = next(i for i, e in enumerate(home.journal.events) if isinstance(e, ToolRequested))
    later = make_setup([says("seen")])
    await later.journal.append(*home.journal.events[:cut])
    again = await Conversation.resume(replace(later.dependencies, by="carol"), talk.run)
    await again.finish_open_turn()
    assert actors(later) == ["bob"]


async def test_a_subagent_works_for_the_person_who_asked_its_parent() -> None:
    tasks = {"tasks": [{"goal": "look at a"}]}
    home = make_setup(
        [
            calls(ToolCall("d1", "delegate", tasks)),
            calls(call("look", what="a")),
            says("seen"),
            says("done"),
        ]
    )
    talk = await Conversation.begin(replace(home.dependencies, by="carol"))
    await talk.say("go", by="bob")
    assert speakers(home)[-2:] == [("run.started", "bob"), ("turn.started", "bob")]
    assert actors(home) == ["bob", "bob"]


async def test_a_run_has_the_audience_of_its_chat() -> None:
    home = make_setup([says("hello")])
    await Conversation.begin(replace(home.dependencies, audience="telegram:1"), by="alice")
    [begun] = [event for event in home.journal.events if isinstance(event, RunStarted)]
    assert begun.audience == "telegram:1"
