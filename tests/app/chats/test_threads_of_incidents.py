"""What people say in the thread of an incident is kept for it, and answered."""

from pathlib import Path

import pytest
from chat_setup import (
    ALICE,
    BOB,
    GROUP,
    MALLORY,
    ChatGateway,
    chat_settings,
    open_gateway,
    runs,
    said,
    said_in_group,
    says,
)

from hermes.core.channels import Address, press_data
from hermes.core.events.incidents import IncidentAcknowledged, IncidentClosed, IncidentOpened
from hermes.core.events.operations import NotificationQueued
from hermes.sre.policies import READ_ONLY_RULE
from hermes.testing.chats import MemoryChannel

pytestmark = pytest.mark.anyio

INCIDENT = "incident-1"


class ThreadChannel(MemoryChannel):
    """Opens the thread 7, whatever it is for."""

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        return Address(to.channel, to.chat, "7")


async def declare(gateway: ChatGateway) -> None:
    """The incident is declared in the group, in a thread of its own."""
    opened = IncidentOpened(run=INCIDENT, incident=INCIDENT, title="web is down", severity="P1")
    notice = NotificationQueued(
        run=INCIDENT, notice="n1", about="declared", title="web is down", incident=INCIDENT,
        to=f"telegram:{GROUP}",
    )  # fmt: skip
    await gateway.application.bus.publish(opened, notice)
    await gateway.outbox.wait_until_delivered()


async def test_a_message_in_the_thread_is_a_hint_and_gets_its_turn(tmp_path: Path) -> None:
    loaded = chat_settings(tmp_path, [says("I look."), says("Yes, it is."), says("hello")])
    async with open_gateway(loaded, ThreadChannel()) as gateway:
        await declare(gateway)
        secret = "ghp_" + "aB3dE6gH9k" * 4
        gateway.channel.receive(said_in_group(f"the disk is new, token {secret}"))
        await gateway.channel.wait_for("I look.")
        gateway.channel.receive(said_in_group("is it full?", BOB))
        await gateway.channel.wait_for("Yes, it is.")
        gateway.channel.receive(said("something else"))
        await gateway.channel.wait_for("hello")
        hints = await gateway.events("incident.hint")
        received = await gateway.events("chat.received")
        turns = await gateway.events("turn.started")
    assert [(each.run, each.incident, each.person) for each in hints] == [
        (INCIDENT, INCIDENT, f"telegram:{ALICE}"),
        (INCIDENT, INCIDENT, f"telegram:{BOB}"),
    ]
    assert hints[0].text.startswith("the disk is new") and secret not in hints[0].text
    assert hints[1].text == "is it full?"
    assert [each.incident for each in received] == [INCIDENT, INCIDENT, ""]
    assert received[0].run == received[1].run, "one session for the thread"
    assert [each.run for each in turns] == [each.run for each in received]


async def test_commands_other_threads_and_strangers_give_no_hints(tmp_path: Path) -> None:
    loaded = chat_settings(tmp_path, [says("one"), says("two")])
    async with open_gateway(loaded, ThreadChannel()) as gateway:
        await declare(gateway)
        gateway.channel.receive(said_in_group("/status"))
        gateway.channel.receive(said_in_group("drop all tables", MALLORY))
        gateway.channel.receive(said_in_group("elsewhere", thread="8"))
        gateway.channel.receive(said_in_group("elsewhere, to you", thread="8", mentioned=True))
        await gateway.channel.wait_for("one")
        assert not await gateway.events("incident.hint")
        assert len(await gateway.events("chat.received")) == 2


async def test_the_thread_is_known_after_a_restart(tmp_path: Path) -> None:
    async with open_gateway(chat_settings(tmp_path, []), ThreadChannel()) as gateway:
        await declare(gateway)
    loaded = chat_settings(tmp_path, [says("I look.")])
    async with open_gateway(loaded, ThreadChannel()) as gateway:
        gateway.channel.receive(said_in_group("the disk is new"))
        await gateway.channel.wait_for("I look.")
        (hint,) = await gateway.events("incident.hint")
    assert (hint.incident, hint.text) == (INCIDENT, "the disk is new")


async def test_the_conversation_knows_the_incident_and_only_reads_while_it_is_worked_on(
    tmp_path: Path,
) -> None:
    replies = [runs("touch made"), says("It is refused."), runs("touch made", "c2"), says("Done.")]
    loaded = chat_settings(tmp_path, replies)
    async with open_gateway(loaded, ThreadChannel()) as gateway:
        await declare(gateway)
        gateway.channel.receive(said_in_group("what have you found?"))
        await gateway.channel.wait_for("It is refused.")
        escalated = IncidentClosed(run=INCIDENT, incident=INCIDENT, outcome="escalated")
        await gateway.application.bus.publish(escalated)
        gateway.channel.receive(said_in_group("then do it", BOB))
        await gateway.channel.wait_for("Done.")
        said_by_people = [
            each.message
            for each in await gateway.events("message.added")
            if each.message.role == "user"
        ]
        rules = [each.rule for each in await gateway.events("tool.decided")]
    assert rules[0] == READ_ONLY_RULE != rules[1]
    (state,), (later,) = (each.attached for each in said_by_people)
    assert "title: web is down" in state.text and "severity: P1" in state.text
    assert "hint" not in state.text, "what a person says is not attached to it as words of others"
    assert "state: escalated" in later.text


async def test_without_threads_an_answer_to_a_message_of_the_incident_is_a_hint(
    tmp_path: Path,
) -> None:
    replies = [says("I look."), says("Yes."), says("hello"), says("elsewhere")]
    async with open_gateway(chat_settings(tmp_path, replies)) as gateway:
        await declare(gateway)
        (first,) = gateway.channel.shown
        answer = {"thread": "", "mentioned": True}
        gateway.channel.receive(said_in_group("I swapped the disk", quoted=first, **answer))
        await gateway.channel.wait_for("I look.")
        gateway.channel.receive(said_in_group("is it full?", BOB, quoted=first, **answer))
        await gateway.channel.wait_for("Yes.")
        gateway.channel.receive(said_in_group("something else", quoted="m99", **answer))
        await gateway.channel.wait_for("hello")
        gateway.channel.receive(said("in another chat", quoted=first))
        await gateway.channel.wait_for("elsewhere")
        hints = await gateway.events("incident.hint")
        asked = [
            each.message
            for each in await gateway.events("message.added")
            if each.message.role == "user"
        ]
    assert [(each.incident, each.text) for each in hints] == [
        (INCIDENT, "I swapped the disk"),
        (INCIDENT, "is it full?"),
    ]
    states = [any("title: web is down" in text.text for text in each.attached) for each in asked]
    assert states == [True, True, False, False]


async def test_status_is_for_the_person_and_the_report_for_the_thread(tmp_path: Path) -> None:
    async with open_gateway(chat_settings(tmp_path, []), ThreadChannel()) as gateway:
        await declare(gateway)
        acknowledged = IncidentAcknowledged(run=INCIDENT, incident=INCIDENT, by="bob")
        await gateway.application.bus.publish(acknowledged)
        gateway.channel.receive(said_in_group("", pressed=press_data("status", INCIDENT)))
        await gateway.channel.wait_for("P1, open, ")
        gateway.channel.receive(said_in_group("", pressed=press_data("report", INCIDENT)))
        await gateway.channel.wait_for("The report follows")
        await gateway.outbox.wait_until_delivered()
        texts = [message.text for message in gateway.channel.sent]
        (status,) = (each for each in texts if each.startswith("P1, open, "))
        assert "acknowledged by bob" in status and "web is down" in status
        assert any("web is down" in each and "Outcome" in each for each in texts)
