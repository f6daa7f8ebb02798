"""The Matrix channel, driven against a stand-in of a homeserver."""

from collections.abc import AsyncIterator

import pytest

from hermes.core.channels import Address
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.matrix.manifest import MANIFEST
from hermes.gateway.channels.matrix.runtime import MatrixChannel
from hermes.gateway.settings import MatrixSettings
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import listening, message
from standins.matrix import BOT, GROUP, SECRET, TOKEN, MatrixStandin

pytestmark = pytest.mark.anyio


@pytest.fixture
async def platform() -> AsyncIterator[MatrixStandin]:
    standin = MatrixStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestMatrixContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[MatrixStandin]:
        standin = MatrixStandin()
        async with standin.serving():
            yield standin


async def test_a_refused_token_at_the_start_says_what_to_do(platform: MatrixStandin) -> None:
    with pytest.raises(ChannelFailed, match="access token") as failure:
        async with MatrixChannel(platform.url, "wrong-secret"):
            pass
    assert failure.value.permanent
    assert "wrong-secret" not in str(failure.value)


async def test_nothing_is_sent_to_an_encrypted_room(platform: MatrixStandin) -> None:
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="is encrypted") as failure:
            await channel.send(message(Address("matrix", SECRET.replace(":", "|")), "hello"))
    assert failure.value.permanent
    assert platform.shown() == []


async def test_all_that_was_missed_is_read(platform: MatrixStandin) -> None:
    last = platform.deliver(group=True, body="recorded")
    for number in range(5):
        platform.deliver(group=True, body=f"missed {number}")
    async with platform.connect() as channel:
        assert isinstance(channel, MatrixChannel)
        channel.resume({platform.group: last})
        messages = channel.listen()
        texts = [(await anext(messages)).text for _ in range(5)]
        await messages.aclose()  # type: ignore[attr-defined]
    assert texts == [f"missed {number}" for number in range(5)]


async def test_an_invitation_is_accepted(platform: MatrixStandin) -> None:
    platform.invited = ["!new:example.org"]
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.write("hello")
        await next_message()
        assert platform.joined == ["!new:example.org"]


async def test_notices_and_our_own_messages_are_not_heard(platform: MatrixStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.deliver(group=True, body="of a program", msgtype="m.notice")
        platform.deliver(group=True, body="our own", by=BOT)
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_a_thread_is_part_of_the_address(platform: MatrixStandin) -> None:
    relation = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$last"},
    }
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.deliver(group=True, body="why?", **{"m.relates_to": relation})
        received = await next_message()
    assert received.address == Address("matrix", GROUP.replace(":", "|"), "$root")
    assert received.quoted == ""
    assert Address.parse(str(received.address)) == received.address


async def test_it_is_opened_by_its_manifest(platform: MatrixStandin) -> None:
    settings = MatrixSettings(homeserver=platform.url, home_channel=GROUP)
    async with MANIFEST(settings, {"MATRIX_ACCESS_TOKEN": TOKEN}) as channel:
        await channel.send(message(Address("matrix"), "hello"))
    assert [each.chat for each in platform.shown()] == [platform.group.chat]
