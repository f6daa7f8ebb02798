"""A gateway that ends at any point continues: each message gets one turn and one answer."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_setup import chat_settings, open_gateway, runs, said, said_in_group, says

from hermes.app.chats.progress import TurnDisplay
from hermes.core.bus import Bus
from hermes.core.channels import Address
from hermes.core.events import Event
from hermes.core.events.chats import message_key
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.store import open_journal
from hermes.testing.chats import MemoryChannel

pytestmark = pytest.mark.anyio

REPLIES = [runs("echo done >> world"), says("first answer"), says("second answer")]
WRITTEN_TOGETHER = {
    ("run.started", "message.added"),
    ("turn.started", "message.added"),
    ("message.added", "model.answered"),
    ("model.answered", "turn.ended"),
    ("notice.queued", "chat.handled"),
}
"""Kinds of neighbours in one append: no crash comes between them."""


async def record_conversation(tmp_path: Path, messages: list[Any]) -> list[Event]:
    loaded = chat_settings(tmp_path, REPLIES, policy__set="sandboxed")
    async with open_gateway(loaded) as gateway:
        gateway.channel.receive(messages[0])
        await gateway.channel.wait_for("first answer")
        gateway.channel.receive(messages[1])
        await gateway.channel.wait_for("second answer")
        return [recorded.event async for recorded in gateway.application.journal.read()]


async def test_after_a_crash_at_any_point_each_message_has_one_turn_and_one_answer(
    tmp_path: Path,
) -> None:
    messages = [said("first"), said("second")]
    (tmp_path / "whole").mkdir()
    events = await record_conversation(tmp_path / "whole", messages)
    cuts = [
        cut
        for cut in range(1, len(events))
        if (events[cut - 1].kind, events[cut].kind) not in WRITTEN_TOGETHER
    ]
    assert len(cuts) > 12
    for cut in cuts:
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        await check_cut(folder, events[:cut], messages)


async def check_cut(folder: Path, before: list[Event], messages: list[Any]) -> None:
    said_before = sum(
        event.kind == "message.added" and event.message.role == "assistant"  # type: ignore[attr-defined]
        for event in before
    )
    loaded = chat_settings(folder, REPLIES[said_before:], policy__set="sandboxed")
    loaded.home.mkdir(exist_ok=True)
    async with open_journal(loaded.store) as journal:
        await journal.append(*before)
    channel = MemoryChannel()
    async with open_gateway(loaded, channel) as gateway:
        for message in messages:  # the platform was not told that they were received
            channel.receive(message)
        keys = {message_key(message) for message in messages}

        async def handled() -> set[str]:
            return {key for e in await gateway.events("chat.handled") for key in e.keys}

        for _ in range(400):
            if await handled() >= keys:
                break
            await gateway.application.journal.changed(await gateway.application.journal.last())
        turns = [e.message.key for e in await gateway.events("message.added") if e.message.key]
        replies = [e.notice for e in await gateway.events("notice.queued") if e.about == "reply"]
        outcomes = await gateway.events("chat.handled")
        started = await gateway.events("tool.started")
    where = f"after {before[-1].kind}, event {len(before)}"
    assert sorted(turns) == sorted(keys), where
    assert len(replies) == len(set(replies)) == len(outcomes), where
    assert sorted(key for each in outcomes for key in each.keys) == sorted(keys), where
    assert len(started) <= 1, where


async def test_a_session_that_was_ended_stays_ended_after_a_restart(tmp_path: Path) -> None:
    async with open_gateway(chat_settings(tmp_path, [says("one")])) as gateway:
        gateway.channel.receive(said("hello"))
        await gateway.channel.wait_for("one")
        gateway.channel.receive(said("/new"))
        await gateway.channel.wait_for("A new session begins")
    async with open_gateway(chat_settings(tmp_path, [says("two")])) as gateway:
        gateway.channel.receive(said("hello again"))
        await gateway.channel.wait_for("two")
        assert len(await gateway.events("run.started")) == 2


class ForgetfulChannel(MemoryChannel):
    """Its platform does not repeat what was sent while nobody listened."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed = anyio.Event()
        self.last: dict[Address, str] = {}

    def resume(self, last: Mapping[Address, str]) -> None:
        self.last = dict(last)
        self.resumed.set()


async def test_a_channel_that_repeats_nothing_learns_what_was_received_last(tmp_path: Path) -> None:
    messages = [said("first"), said("second")]
    loaded = chat_settings(tmp_path, [says("one"), says("two")])
    async with open_gateway(loaded, channel := ForgetfulChannel()):
        for message, answer in zip(messages, ("one", "two"), strict=True):
            channel.receive(message)
            await channel.wait_for(answer)
    assert channel.last == {}
    async with open_gateway(loaded, later := ForgetfulChannel()):
        await later.resumed.wait()
    assert later.last == {messages[-1].address: messages[-1].reference}


async def test_a_direct_chat_is_private_and_a_group_is_not(tmp_path: Path) -> None:
    loaded = chat_settings(tmp_path, [says("one"), says("two")])
    async with open_gateway(loaded) as gateway:
        gateway.channel.receive(said("first"))
        await gateway.channel.wait_for("one")
        gateway.channel.receive(said_in_group("second", mentioned=True))
        await gateway.channel.wait_for("two")
        started = await gateway.events("run.started")
    assert [bool(event.audience) for event in started] == [True, False]


PEOPLE = 'people:\n  alice: {telegram: "1"}\n'
ASKS = {"id": "c1", "name": "clarify", "arguments": {"question": "Which one?", "choices": ["a"]}}


@pytest.mark.parametrize(
    "call",
    [runs("$UNKNOWN true; echo ran >> world"), {"role": "assistant", "calls": [ASKS]}],
    ids=["approval", "question"],
)
async def test_a_gateway_ends_at_once_while_a_person_is_asked_and_asks_again_later(
    tmp_path: Path, call: dict[str, object]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(PEOPLE)
    loaded = chat_settings(tmp_path, [call], policy__wait="true")
    async with open_gateway(loaded) as gateway:
        gateway.service.shutdown_grace_s = math.inf  # waiting for the turn would never end
        gateway.channel.receive(said("do it"))
        await gateway.channel.until(lambda: has_buttons(gateway.channel))
        with anyio.fail_after(60):
            await gateway.service.finish()
    later = chat_settings(tmp_path, [says("that is it")], policy__wait="true")
    async with open_gateway(later) as gateway:
        await gateway.channel.until(lambda: has_buttons(gateway.channel))
        (question,) = [each for each in gateway.channel.shown.values() if each.buttons]
        data = question.buttons[0][0].data
        gateway.channel.receive(said("", pressed=data, press="p"))
        await gateway.channel.wait_for("that is it")
        assert len(await gateway.events("turn.started")) == 1


def has_buttons(channel: MemoryChannel) -> bool:
    return any(message.buttons for message in channel.shown.values())


async def test_working_turns_have_one_time_to_end_not_two_in_a_row(tmp_path: Path) -> None:
    loaded = chat_settings(tmp_path, [runs("sleep 600")], policy__set="sandboxed")
    async with open_gateway(loaded) as gateway:
        gateway.channel.receive(said("wait"))
        journal = gateway.application.journal
        while not await gateway.events("tool.started"):
            await journal.changed(await journal.last())
        gateway.service.shutdown_grace_s = 0.01
        await gateway.service.finish()
        gateway.service.shutdown_grace_s = math.inf
        with anyio.fail_after(60):  # the end of `open_gateway` finishes it once more
            await gateway.service.finish()
        assert not await gateway.events("turn.ended")


async def test_a_turn_that_is_resumed_before_the_channel_is_connected_shows_typing() -> None:
    connected: dict[str, MemoryChannel] = {}
    channel = MemoryChannel()
    display = TurnDisplay(
        lambda: connected.get("telegram"),
        Address("telegram", "1"),
        Bus(InMemoryJournal()),
        "run-1",
        mode="off",
        interval_s=1.0,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(display.run)
        await anyio.wait_all_tasks_blocked()
        connected["telegram"] = channel
        await channel.until(lambda: bool(channel.typing))
        group.cancel_scope.cancel()
    assert channel.typing == [Address("telegram", "1")]
