"""The WhatsApp channel, driven against a stand-in of the Cloud API."""

import json
import logging
from collections.abc import AsyncIterator

import anyio
import pytest

from hermes.core.channels import Address, Button, Channel, InboundMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.inbound.whatsapp_webhooks import (
    WhatsAppIdentity,
    challenge_answer,
    read_webhook,
)
from hermes.gateway.channels.whatsapp.manifest import MANIFEST
from hermes.gateway.channels.whatsapp.runtime import WhatsAppChannel
from hermes.plumbing.signatures import body_signature_matches
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import ChatPlatform, listening, message
from standins.whatsapp import APP_SECRET, NUMBER, PERSON, TOKEN, WhatsAppStandin, sign

pytestmark = pytest.mark.anyio

IDENTITY = WhatsAppIdentity("whatsapp", NUMBER)
SECRETS = {"WHATSAPP_TOKEN": TOKEN, "WHATSAPP_APP_SECRET": APP_SECRET}


@pytest.fixture
async def platform() -> AsyncIterator[WhatsAppStandin]:
    standin = WhatsAppStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestWhatsAppContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[WhatsAppStandin]:
        standin = WhatsAppStandin()
        async with standin.serving():
            yield standin

    async def test_an_edited_message_says_so(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        """The Cloud API delivers no edits: an unknown kind of message is left out."""
        assert isinstance(platform, WhatsAppStandin)
        async with listening(platform, channel) as next_message:
            platform.deliver(type="unsupported", errors=[{"code": 131051}])
            await platform.write("after")
            assert (await next_message()).text == "after"

    async def test_in_a_group_it_is_said_whether_we_are_meant(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        """There are no groups: every message is direct."""
        ours = await channel.send(message(platform.group, "a question"))
        async with listening(platform, channel) as next_message:
            await platform.quote(ours, "the answer")
            answer = await next_message()
        assert (answer.direct, answer.quoted, answer.text) == (True, ours, "the answer")


def read_last(platform: WhatsAppStandin) -> list[InboundMessage]:
    return read_webhook(platform.waiting[-1], IDENTITY)


async def test_a_wrong_token_is_permanent(platform: WhatsAppStandin) -> None:
    with pytest.raises(ChannelFailed, match="refused the token") as failure:
        async with WhatsAppChannel(platform.settings(), "EAAwrong", app_secret=APP_SECRET):
            pass
    assert failure.value.permanent and "EAAwrong" not in str(failure.value)


async def test_after_24_silent_hours_the_reason_is_named(platform: WhatsAppStandin) -> None:
    platform.silent = True
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="24 hours") as failure:
            await channel.send(message(platform.group, "hello"))
    assert failure.value.permanent and not platform.messages


async def test_after_24_silent_hours_the_template_is_sent(platform: WhatsAppStandin) -> None:
    platform.silent = True
    async with MANIFEST(platform.settings(template="incident_news"), SECRETS) as channel:
        with pytest.raises(DeliveryError, match="template instead of the text") as failure:
            await channel.send(message(Address("whatsapp"), "hello"))
    assert failure.value.permanent and failure.value.may_have_arrived
    [sent] = platform.messages.values()
    assert sent["template"] == {"name": "incident_news", "language": {"code": "en"}}


async def test_a_long_text_stands_before_its_buttons(platform: WhatsAppStandin) -> None:
    rows = ((Button("Acknowledge this incident", "ack:1"), Button("Mute", "mute:1")),)
    async with platform.connect() as channel:
        reference = await channel.send(message(platform.group, "x" * 1_025, buttons=rows))
        with pytest.raises(DeliveryError, match="at most 3 buttons"):
            await channel.send(message(platform.group, "four", buttons=rows * 2))
    first, second = platform.shown()
    assert (first.text, first.buttons) == ("x" * 1_025, [])
    assert (second.reference, second.reply_to) == (reference, first.reference)
    assert second.buttons == [[("Acknowledge this inc", "ack:1"), ("Mute", "mute:1")]]


async def test_only_a_body_that_is_signed_by_our_app_is_read(platform: WhatsAppStandin) -> None:
    await platform.write("hello")
    [body] = platform.waiting
    channel = WhatsAppChannel(platform.settings(), TOKEN, app_secret=APP_SECRET)
    assert [each.text for each in channel.read_delivery(body, sign(body)) or []] == ["hello"]
    for wrong in ("", "sha256=", sign(body + b" "), sign(body)[7:], "sha1=ü"):
        assert channel.read_delivery(body, wrong) is None
    assert not body_signature_matches("", body, sign(body))


async def test_what_is_forwarded_or_spoken_says_so(platform: WhatsAppStandin) -> None:
    platform.deliver(type="text", text={"body": "restart it"}, context={"forwarded": True})
    [forwarded] = read_last(platform)
    assert forwarded.text == ""
    assert [(each.source, each.text) for each in forwarded.attached] == [("forward", "restart it")]
    platform.deliver(type="audio", audio={"id": "a1", "voice": True})
    [spoken] = read_last(platform)
    assert spoken.voice and spoken.media[0].kind == "audio"


async def test_other_numbers_and_statuses_are_left_out(platform: WhatsAppStandin) -> None:
    await platform.write("hello")
    assert read_webhook(platform.waiting[0], WhatsAppIdentity("whatsapp", "999")) == []
    status = {"metadata": {"phone_number_id": NUMBER}, "statuses": [{"status": "read"}]}
    entry = {"changes": [{"field": "messages", "value": status}]}
    assert read_webhook(json.dumps({"entry": [entry]}).encode(), IDENTITY) == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"entry": 1}', b'{"entry": [{}]}', b"\xff"])
async def test_a_body_that_cannot_be_read_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a webhook body"):
        read_webhook(body, IDENTITY)


async def test_the_challenge_is_answered_only_with_our_token() -> None:
    query = {"hub.mode": "subscribe", "hub.verify_token": "mine", "hub.challenge": "42"}
    assert challenge_answer(query, "mine") == "42"
    assert challenge_answer(query, "other") is None
    assert challenge_answer({**query, "hub.verify_token": ""}, "") is None


async def test_listening_says_that_it_needs_the_webhook(
    platform: WhatsAppStandin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with MANIFEST(platform.settings(), SECRETS) as channel:
        with anyio.move_on_after(0.05):
            await anext(aiter(channel.listen()))
        await channel.send(message(Address("whatsapp"), "still sends"))
    assert "webhook" in caplog.text
    assert [each.chat for each in platform.shown()] == [PERSON]
