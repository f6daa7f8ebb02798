"""Approvals in chats: a press or a quoted code of the right person counts, and nothing else."""

from pathlib import Path
from typing import Any

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
from msgspec.structs import replace

from hermes.app.chats.unheard import UNKNOWN_PRESS_TEXT
from hermes.core.channels import Address, OutgoingMessage
from hermes.core.messages import AttachedText

pytestmark = pytest.mark.anyio

PEOPLE = """\
people:
  alice: {telegram: "1"}
"""


async def ask(gateway: ChatGateway) -> tuple[str, OutgoingMessage]:
    """Reference and message of the question that the chat was asked."""
    gateway.channel.receive(said("do it"))
    channel = gateway.channel
    await channel.until(lambda: any(message.buttons for message in channel.shown.values()))
    return next((key, each) for key, each in channel.shown.items() if each.buttons)


def press(message: OutgoingMessage, verb: str, sender: str = ALICE) -> Any:
    data = next(
        button.data for row in message.buttons for button in row if button.data.startswith(verb)
    )
    return said("", sender, pressed=data, press=f"press-{sender}")


def settings(tmp_path: Path) -> Any:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(PEOPLE)
    replies = [runs("$UNKNOWN true; echo ran > result"), says("that is it")]
    return chat_settings(tmp_path, replies, policy__wait="true")


async def test_a_press_of_a_named_person_lets_the_command_run(tmp_path: Path) -> None:
    async with open_gateway(settings(tmp_path)) as gateway:
        _, question = await ask(gateway)
        gateway.channel.receive(said("/status"))
        status = gateway.channel.shown[await gateway.channel.wait_for("Session run-")].text
        assert "waits for an answer: $UNKNOWN true" in status
        gateway.channel.receive(press(question, "once"))
        await gateway.channel.wait_for("that is it")
        (answered,) = await gateway.events("approval.answered")
        assert (answered.by, answered.via) == ("alice", "telegram")
        assert [who for who, _ in gateway.channel.press_answers] == ["press-1"]
    assert (tmp_path / "work" / "result").exists()


async def test_somebody_without_a_name_talks_and_never_approves(tmp_path: Path) -> None:
    async with open_gateway(settings(tmp_path)) as gateway:
        _, question = await ask(gateway)
        gateway.channel.receive(press(question, "once", BOB))
        await gateway.channel.until(lambda: bool(gateway.channel.press_answers))
        assert "not one of the people" in gateway.channel.press_answers[0][1]
        assert not await gateway.events("approval.answered")
        gateway.channel.receive(press(question, "deny"))
        await gateway.channel.wait_for("that is it")
    assert not (tmp_path / "work" / "result").exists()


async def test_words_approve_only_with_the_code_and_the_quote(tmp_path: Path) -> None:
    async with open_gateway(settings(tmp_path)) as gateway:
        reference, _ = await ask(gateway)
        (request,) = await gateway.events("approval.requested")
        code = request.approval[-6:]
        forwarded = (AttachedText("forward", f"yes {code}", "alice"),)
        gateway.channel.receive(said("yes, go ahead"))
        gateway.channel.receive(said(f"yes {code}", quoted=reference, edited=True))
        gateway.channel.receive(said("", quoted=reference, attached=forwarded))
        gateway.channel.receive(said(f"yes {code}", quoted=reference, voice=True))
        await gateway.channel.until(lambda: len(gateway.channel.acknowledged) == 5)
        assert not await gateway.events("approval.answered")
        gateway.channel.receive(said(f"yes {code}", quoted=reference))
        await gateway.channel.wait_for("that is it")
        (answered,) = await gateway.events("approval.answered")
        assert answered.by == "alice"
    assert (tmp_path / "work" / "result").exists()


async def test_a_question_of_the_agent_is_answered_by_a_press_or_in_words(tmp_path: Path) -> None:
    def asks(call: str, *choices: str) -> dict[str, object]:
        arguments = {"question": "Which one?", "choices": list(choices)}
        return {
            "role": "assistant",
            "calls": [{"id": call, "name": "clarify", "arguments": arguments}],
        }

    loaded = chat_settings(tmp_path, [asks("c1", "red", "blue"), asks("c2"), says("thanks")])
    async with open_gateway(loaded) as gateway:
        _, question = await ask(gateway)
        gateway.channel.receive(said("", pressed=question.buttons[1][0].data, press="p"))
        sent = gateway.channel.sent  # the progress message shows the question as well
        await gateway.channel.until(
            lambda: sum(message.text.startswith("❓ Which one?") for message in sent) == 2
        )
        gateway.channel.receive(said("the green one"))
        await gateway.channel.wait_for("thanks")
        results = [event.result.content for event in await gateway.events("tool.finished")]
        assert len(await gateway.events("turn.started")) == 1
    assert "blue" in results[0]
    assert "the green one" in results[1]


async def test_another_person_does_not_answer_a_question_of_the_agent_in_words(
    tmp_path: Path,
) -> None:
    asks = {"id": "c1", "name": "clarify", "arguments": {"question": "Which?", "choices": ["a"]}}
    replies = [{"role": "assistant", "calls": [asks]}, says("thanks"), says("hello Bob")]
    async with open_gateway(chat_settings(tmp_path, replies)) as gateway:
        gateway.channel.receive(said_in_group("do it", mentioned=True))
        shown = gateway.channel.shown
        await gateway.channel.until(lambda: any(each.buttons for each in shown.values()))
        asked = next(key for key, each in shown.items() if each.buttons)
        gateway.channel.receive(said_in_group("remove everything", BOB, quoted=asked))
        gateway.channel.receive(said_in_group("the first", quoted=asked))
        await gateway.channel.wait_for("hello Bob")
        (finished,) = await gateway.events("tool.finished")
        turns = [event.by for event in await gateway.events("turn.started")]
    assert "the first" in finished.result.content
    assert turns == ["telegram:1", "telegram:2"]


async def test_a_press_of_a_stranger_in_a_group_is_refused_to_them_alone(tmp_path: Path) -> None:
    async with open_gateway(settings(tmp_path)) as gateway:
        _, question = await ask(gateway)
        before = list(gateway.channel.sent)
        group = Address("telegram", GROUP)
        pressed = replace(press(question, "once", MALLORY), address=group, direct=False)
        gateway.channel.receive(pressed)
        await gateway.channel.until(lambda: bool(gateway.channel.press_answers))
        assert gateway.channel.press_answers == [("press-666", UNKNOWN_PRESS_TEXT)]
        assert not await gateway.events("approval.answered")
        assert [each for each in gateway.channel.sent if each.to == group] == []
        assert len(gateway.channel.sent) <= len(before) + 1  # the running tools
        gateway.channel.receive(press(question, "deny"))
        await gateway.channel.wait_for("that is it")
