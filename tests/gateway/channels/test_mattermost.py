"""The Mattermost channel, driven against a stand-in of its server."""

from collections.abc import AsyncIterator

import pytest

from hermes.core.channels import Address
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.mattermost.manifest import MANIFEST
from hermes.gateway.channels.mattermost.runtime import MattermostChannel
from hermes.gateway.settings import MattermostSettings
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import listening, message
from standins.mattermost import GROUP, TOKEN, MattermostStandin

pytestmark = pytest.mark.anyio


@pytest.fixture
async def platform() -> AsyncIterator[MattermostStandin]:
    standin = MattermostStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestMattermostContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[MattermostStandin]:
        standin = MattermostStandin()
        async with standin.serving():
            yield standin


async def test_a_refused_token_at_the_start_says_what_to_do(platform: MattermostStandin) -> None:
    with pytest.raises(ChannelFailed, match="Bot Accounts") as failure:
        async with MattermostChannel(platform.url, "wrong-secret"):
            pass
    assert failure.value.permanent
    assert "wrong-secret" not in str(failure.value)


async def test_what_was_missed_is_read_from_the_channel(platform: MattermostStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.write("first", group=True)
        await next_message()
        await platform.write("second", group=True)
        await next_message()  # acknowledges the first
        await platform.drop_connection()
        await platform.write("missed", group=True, mention=True)
        found = [await next_message()]
        while found[-1].text != "missed":
            found.append(await next_message())
    assert found[-1].mentioned
    assert len(found) <= 2


async def test_bots_webhooks_and_services_are_not_heard(platform: MattermostStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.deliver(group=True, message="x", props={"from_bot": "true"})
        await platform.deliver(group=True, message="x", props={"from_webhook": "true"})
        await platform.deliver(group=True, message="joined", type="system_join_channel")
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_an_unknown_channel_is_a_permanent_error(platform: MattermostStandin) -> None:
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="permissions") as failure:
            await channel.send(message(Address("mattermost", "none"), "hello"))
    assert failure.value.permanent


async def test_a_lost_answer_is_found_by_the_pending_id(platform: MattermostStandin) -> None:
    async with platform.connect() as channel:
        platform.fail_next("lost answer")
        reference = await channel.send(message(platform.group, "once"))
    assert [each.reference for each in platform.shown()] == [reference]


async def test_it_is_opened_by_its_manifest(platform: MattermostStandin) -> None:
    settings = MattermostSettings(url=platform.url, home_channel=GROUP)
    async with MANIFEST(settings, {"MATTERMOST_TOKEN": TOKEN}) as channel:
        await channel.send(message(Address("mattermost"), "hello"))
    assert [each.chat for each in platform.shown()] == [GROUP]
