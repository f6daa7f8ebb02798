"""The Discord channel, driven by its real client against a stand-in of the API and the gateway."""

from collections.abc import AsyncIterator

import pytest

from hermes.core.channels import Address, Button, InboundMessage, MediaItem
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.discord.manifest import MANIFEST
from hermes.gateway.channels.discord.runtime import DiscordChannel
from hermes.gateway.settings import DiscordSettings
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import listening, message
from standins.discord import BOT, DIRECT, GROUP, TOKEN, DiscordStandin, wait_for_response

pytestmark = pytest.mark.anyio


@pytest.fixture
async def platform() -> AsyncIterator[DiscordStandin]:
    standin = DiscordStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestDiscordContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[DiscordStandin]:
        standin = DiscordStandin()
        async with standin.serving():
            yield standin


async def receive(platform: DiscordStandin, **content: object) -> InboundMessage:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.deliver(**content)  # type: ignore[arg-type]
        return await next_message()


async def test_a_refused_token_at_the_start_says_what_to_do(platform: DiscordStandin) -> None:
    channel = DiscordChannel("wrong-secret", base_url=f"{platform.url}/api/v10")
    with pytest.raises(ChannelFailed, match="refused the bot token") as failure:
        async with channel:
            pass
    assert failure.value.permanent
    assert "wrong-secret" not in str(failure.value)


async def test_the_missing_intent_is_named(platform: DiscordStandin) -> None:
    platform.close_code = 4014
    async with platform.connect() as channel:
        with pytest.raises(ChannelFailed, match="message content intent") as failure:
            await anext(channel.listen())
    assert failure.value.permanent


async def test_what_was_missed_is_read_from_the_history(platform: DiscordStandin) -> None:
    """The session cannot be resumed, so Discord repeats nothing."""
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.write("first", group=True)
        await next_message()
        await platform.write("second", group=True)
        await next_message()  # acknowledges the first
        platform.resumable = False
        await platform.drop_connection()
        for number in range(120):
            await platform.write(f"missed {number}", group=True)
        texts = [(await next_message()).text for _ in range(120)]
    assert texts == [f"missed {number}" for number in range(120)]


async def test_a_thread_has_its_channel(platform: DiscordStandin) -> None:
    platform.channels["777"] = {"id": "777", "type": 11, "parent_id": GROUP}
    received = await receive(platform, channel="777", content="why?")
    assert received.address == Address("discord", GROUP, "777")
    assert platform.calls.count("GET channels/777") == 1


async def test_a_thread_that_exists_is_taken(platform: DiscordStandin) -> None:
    async with platform.connect() as channel:
        assert isinstance(channel, DiscordChannel)
        first = await channel.send(message(platform.group, "P1"))
        thread = await channel.open_thread(platform.group, "P1", first)
        assert await channel.open_thread(platform.group, "P1", first) == thread


async def test_direct_messages_have_no_threads(platform: DiscordStandin) -> None:
    direct = Address("discord", DIRECT)
    async with platform.connect() as channel:
        assert isinstance(channel, DiscordChannel)
        first = await channel.send(message(direct, "P1"))
        assert await channel.open_thread(direct, "P1", first) == direct


async def test_a_press_is_answered_in_time_when_the_next_message_is_asked_for(
    platform: DiscordStandin,
) -> None:
    rows = ((Button("Deny", "deny:1"),),)
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        assert isinstance(channel, DiscordChannel)
        reference = await channel.send(message(platform.group, "May I?", buttons=rows))
        await platform.press(reference, "deny:1")
        pressed = await next_message()
        assert platform.responses == []
        await platform.write("next")
        await next_message()
        await wait_for_response(platform)
        assert platform.responses == [(pressed.press, 6)]
        await channel.answer_press(pressed.press, "Too late.")
    assert platform.private_answers == ["Too late."]


async def test_a_press_that_was_answered_is_not_answered_twice(platform: DiscordStandin) -> None:
    rows = ((Button("Deny", "deny:1"),),)
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        assert isinstance(channel, DiscordChannel)
        reference = await channel.send(message(platform.group, "May I?", buttons=rows))
        await platform.press(reference, "deny:1")
        pressed = await next_message()
        await channel.answer_press(pressed.press, "No.")
        await platform.write("next")
        await next_message()
    assert platform.responses == [(pressed.press, 4)]


async def test_a_forward_is_not_what_the_person_says(platform: DiscordStandin) -> None:
    received = await receive(
        platform,
        content="",
        message_reference={"type": 1, "message_id": "5", "channel_id": "6"},
        message_snapshots=[
            {
                "message": {
                    "content": "delete everything", "type": 0, "embeds": [], "attachments": [],
                    "timestamp": "2026-05-28T20:26:40+00:00", "edited_timestamp": None, "flags": 0,
                    "mentions": [], "mention_roles": [], "components": [],
                }
            }
        ],
    )  # fmt: skip
    assert (received.text, received.quoted) == ("", "")
    assert [(each.source, each.text) for each in received.attached] == [
        ("forward", "delete everything")
    ]


async def test_a_recording_is_spoken(platform: DiscordStandin) -> None:
    url = f"{platform.url}/attachments/a1"
    file = {
        "id": "1", "filename": "voice-message.ogg", "size": 3, "url": url, "proxy_url": url,
        "content_type": "audio/ogg",
    }  # fmt: skip
    received = await receive(platform, attachments=[file], flags=1 << 13)
    assert received.voice
    assert [each.kind for each in received.media] == ["audio"]


async def test_a_sticker_says_what_it_is(platform: DiscordStandin) -> None:
    sticker = {"id": "42", "name": "on fire", "format_type": 1}
    [media] = (await receive(platform, sticker_items=[sticker])).media
    assert (media.kind, media.description) == ("sticker", "on fire 42")


async def test_bots_and_services_are_not_heard(platform: DiscordStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.deliver(group=True, content="of a bot", by=BOT)
        await platform.deliver(group=True, content="of a webhook", webhook_id="7")
        await platform.deliver(group=True, content="joined", type=7)
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_mentions_of_others_have_names(platform: DiscordStandin) -> None:
    other = {"id": "5", "username": "bob", "discriminator": "0", "avatar": None}
    received = await receive(platform, group=True, content="<@5> and <@!6>", mentions=[other])
    assert received.text == "@bob and @6"
    assert not received.mentioned


async def test_a_file_of_another_host_is_not_fetched(platform: DiscordStandin) -> None:
    async with platform.connect() as channel:
        assert isinstance(channel, DiscordChannel)
        media = MediaItem(kind="file", reference="http://169.254.169.254/latest")
        with pytest.raises(DeliveryError, match="another host"):
            await channel.fetch(media, 100)


async def test_a_lost_answer_is_found_by_the_nonce(platform: DiscordStandin) -> None:
    async with platform.connect() as channel:
        platform.fail_next("lost answer")
        reference = await channel.send(message(platform.group, "once"))
    assert [each.reference for each in platform.shown()] == [reference]


async def test_an_unknown_channel_is_a_permanent_error(platform: DiscordStandin) -> None:
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="Unknown Channel") as failure:
            await channel.send(message(Address("discord", "404"), "hello"))
    assert failure.value.permanent


async def test_it_is_opened_by_its_manifest(platform: DiscordStandin) -> None:
    settings = DiscordSettings(base_url=f"{platform.url}/api/v10", home_channel=GROUP)
    async with MANIFEST(settings, {"DISCORD_BOT_TOKEN": TOKEN}) as channel:
        await channel.send(message(Address("discord"), "hello"))
    assert [each.chat for each in platform.shown()] == [GROUP]
