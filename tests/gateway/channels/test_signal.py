"""The Signal channel, driven against a stand-in of the daemon of signal-cli."""

from collections.abc import AsyncIterator

import pytest

from hermes.core.channels import Address, InboundMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.signal.manifest import MANIFEST
from hermes.gateway.channels.signal.runtime import SignalChannel
from hermes.gateway.settings import SignalSettings
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import listening, message
from standins.signal import ACCOUNT, GROUP, OWN_UUID, PERSON, SignalStandin

pytestmark = pytest.mark.anyio


@pytest.fixture
async def platform() -> AsyncIterator[SignalStandin]:
    standin = SignalStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestSignalContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[SignalStandin]:
        standin = SignalStandin()
        async with standin.serving():
            yield standin


async def receive(platform: SignalStandin, **content: object) -> InboundMessage:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.deliver(**content)  # type: ignore[arg-type]
        return await next_message()


async def test_an_account_that_is_not_there_is_named(platform: SignalStandin) -> None:
    with pytest.raises(ChannelFailed, match=r"no account \+999") as failure:
        async with SignalChannel(platform.url, "+999"):
            pass
    assert failure.value.permanent


async def test_a_daemon_that_does_not_run_is_temporary() -> None:
    with pytest.raises(ChannelFailed, match="cannot be reached") as failure:
        async with SignalChannel("http://127.0.0.1:9", ACCOUNT):
            pass
    assert not failure.value.permanent


async def test_a_daemon_with_one_account_need_not_list_it(platform: SignalStandin) -> None:
    platform.single_account = True
    async with platform.connect() as channel:
        await channel.send(message(platform.group, "hello"))
    assert [each.chat for each in platform.shown()] == [GROUP]


async def test_receipts_and_other_accounts_are_not_heard(platform: SignalStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.add_event({"receiptMessage": {"isRead": True}})
        platform.add_event({"syncMessage": {"sentMessage": {"message": "own"}}})
        platform.add_event({"dataMessage": {"timestamp": 1, "message": "x"}}, account="+1")
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_a_mention_of_somebody_else_has_a_name(platform: SignalStandin) -> None:
    mention = {"start": 3, "length": 1, "uuid": PERSON, "name": "Bob"}
    received = await receive(platform, group=True, message="🚨 \ufffc look", mentions=[mention])
    assert received.text == "🚨 @Bob look"
    assert not received.mentioned


async def test_a_recording_is_spoken(platform: SignalStandin) -> None:
    file = {"id": "a2", "filename": None, "contentType": "audio/aac", "size": 9}
    received = await receive(platform, attachments=[file])
    assert received.voice


async def test_a_message_of_somebody_else_is_quoted_with_its_author(
    platform: SignalStandin,
) -> None:
    quote = {"id": 77, "authorUuid": PERSON, "text": "earlier"}
    received = await receive(platform, group=True, message="this", quote=quote)
    assert received.quoted == f"77.{PERSON}"
    assert not received.mentioned
    assert [(each.source, each.text) for each in received.attached] == [("quote", "earlier")]


async def test_a_captcha_needs_a_person(platform: SignalStandin) -> None:
    result = {"type": "RATE_LIMIT_FAILURE", "token": "challenge", "retryAfterSeconds": 86_400}
    data = {"response": {"timestamp": 1, "results": [result]}}
    platform.refusal = {"code": -5, "message": "rate limit", "data": data}
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="captcha") as failure:
            await channel.send(message(platform.group, "hello"))
    assert failure.value.permanent


async def test_it_is_opened_by_its_manifest(platform: SignalStandin) -> None:
    settings = SignalSettings(url=platform.url, account=ACCOUNT, home_channel=OWN_UUID)
    async with MANIFEST(settings, {}) as channel:
        await channel.send(message(Address("signal"), "hello"))
    assert [each.chat for each in platform.shown()] == [OWN_UUID]
