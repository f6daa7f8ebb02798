"""Turns of chats: a message is marked with its key, and a turn that was cut off stays open."""

import anyio
import pytest
from agent_setup import call, calls, make_setup, says

from hermes.agent.conversation import Conversation

pytestmark = pytest.mark.anyio


async def test_the_keys_of_chat_messages_are_in_the_journal() -> None:
    home = make_setup([calls(call("look", what="x")), says("done")])
    talk = await Conversation.begin(home.dependencies)
    talk.steer("and that", key="telegram:2")
    await talk.say("look at this", key="telegram:1")
    kept = [event.message.key for event in home.events("message.added")]
    assert [key for key in kept if key] == ["telegram:1", "telegram:2"]


async def test_a_resumable_turn_that_is_cancelled_is_finished_by_the_next_process() -> None:
    home = make_setup([calls(call("hang")), says("done after all")])
    talk = await Conversation.begin(home.dependencies)
    talk.resumable = True
    async with anyio.create_task_group() as group:
        group.start_soon(talk.say, "go")
        await home.waiting.wait()
        group.cancel_scope.cancel()
    assert not home.events("turn.ended")
    again = await Conversation.resume(home.dependencies, talk.run)
    assert await again.finish_open_turn() == "done after all"
    assert home.done == ["hang"]


async def test_a_turn_that_a_person_stops_has_ended_even_if_it_is_resumable() -> None:
    home = make_setup([calls(call("hang")), says("never")])
    talk = await Conversation.begin(home.dependencies)
    talk.resumable = True
    async with anyio.create_task_group() as group:
        group.start_soon(talk.say, "go")
        await home.waiting.wait()
        talk.interrupt()
    assert [event.outcome for event in home.events("turn.ended")] == ["interrupted"]
    assert not talk.open
