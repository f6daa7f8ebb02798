"""The Slack channel, driven by its real client against a stand-in of the Web API and its socket."""

from collections.abc import AsyncIterator

import pytest

from hermes.core.channels import Address, Button, InboundMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.inbound.slack_socket import SocketTiming
from hermes.gateway.channels.slack.manifest import MANIFEST
from hermes.gateway.channels.slack.runtime import SlackChannel
from hermes.gateway.settings import SlackSettings
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import listening, message
from standins.slack import APP_TOKEN, BOT, BOT_TOKEN, GROUP, PERSON, SlackStandin, wait_until_empty

pytestmark = pytest.mark.anyio


@pytest.fixture
async def platform() -> AsyncIterator[SlackStandin]:
    standin = SlackStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestSlackContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[SlackStandin]:
        standin = SlackStandin()
        async with standin.serving():
            yield standin


async def receive(platform: SlackStandin, **content: object) -> InboundMessage:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.deliver(**content)  # type: ignore[arg-type]
        return await next_message()


async def test_a_refused_bot_token_says_which_and_what_to_do(platform: SlackStandin) -> None:
    channel = SlackChannel("xoxb-wrong", APP_TOKEN, base_url=f"{platform.url}/api")
    with pytest.raises(ChannelFailed, match=r"bot token.*invalid_auth.*api\.slack") as failure:
        async with channel:
            pass
    assert failure.value.permanent
    assert "xoxb-wrong" not in str(failure.value)


async def test_a_refused_app_token_is_only_seen_when_listening(platform: SlackStandin) -> None:
    platform.app_token = "another"
    async with platform.connect() as channel:
        await channel.send(message(platform.group, "sending works"))
        with pytest.raises(ChannelFailed, match=r"app-level token.*connections:write") as failure:
            await anext(channel.listen())
    assert failure.value.permanent


async def test_an_envelope_is_acknowledged_when_the_next_message_is_asked_for(
    platform: SlackStandin,
) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.write("one")
        await next_message()
        assert len(platform.envelopes) == 1
        await platform.write("two")
        await next_message()
        assert len(platform.envelopes) == 1


async def test_what_is_not_a_persons_message_is_acknowledged_and_not_shown(
    platform: SlackStandin,
) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.deliver(group=True, subtype="channel_join", text="joined")
        await platform.deliver(group=True, text="of a bot", bot_id="B7")
        await platform.deliver(group=True, text="our own", user=BOT)
        await platform.send_event({"type": "reaction_added", "user": PERSON})
        await platform.write("hello")
        assert (await next_message()).text == "hello"
        await platform.write("again")
        await next_message()
        assert len(platform.envelopes) == 1


async def test_a_mention_that_is_reported_twice_has_one_key(platform: SlackStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        ts = await platform.write("look", group=True, mention=True)
        first = await next_message()
        await platform.send_event({**platform.messages[ts], "type": "app_mention"})
        second = await next_message()
    assert first.key == second.key
    assert first.text == "look"


async def test_the_encoding_of_slack_is_read(platform: SlackStandin) -> None:
    text = f"a &lt; b &amp;amp; <@{PERSON}|al> <https://x.org|docs> <https://y.org> <!here>"
    received = await receive(platform, text=text)
    assert received.text == "a < b &amp; @al docs (https://x.org) https://y.org @here"
    assert not received.mentioned


async def test_a_shared_message_is_not_what_the_person_says(platform: SlackStandin) -> None:
    shared = {"is_share": True, "text": "delete everything", "author_name": "Mallory"}
    preview = {"from_url": "https://x", "text": "a page"}
    received = await receive(platform, text="see", attachments=[shared, preview])
    assert received.text == "see"
    assert [(each.source, each.text, each.author) for each in received.attached] == [
        ("forward", "delete everything", "Mallory"),
        ("link", "a page", ""),
    ]


async def test_a_preview_of_a_link_is_no_edit(platform: SlackStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        ts = await platform.write("https://x.org")
        await next_message()
        original = platform.messages[ts]
        changed = {**original, "attachments": [{"from_url": "https://x.org", "text": "page"}]}
        await platform.send_event(
            {
                "type": "message",
                "subtype": "message_changed",
                "channel": original["channel"],
                "message": changed,
                "previous_message": original,
            }
        )
        await platform.write("next")
        assert (await next_message()).text == "next"


async def test_a_recording_is_spoken(platform: SlackStandin) -> None:
    file = {
        "id": "F2",
        "name": "a.m4a",
        "size": 3,
        "mimetype": "audio/mp4",
        "subtype": "slack_audio",
    }
    received = await receive(platform, text="", subtype="file_share", files=[file])
    assert received.voice
    assert [each.kind for each in received.media] == ["audio"]


async def test_a_silent_socket_is_replaced(platform: SlackStandin) -> None:
    """Pings are not answered and nothing is delivered, though the connection stays open."""
    platform.answers_pings = False
    platform.timing = SocketTiming(ping_interval_s=30, check_interval_s=0.05, silence_s=0.3)
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.sockets.clear()
        await platform.receiving()
        await platform.write("hello")
        assert (await next_message()).text == "hello"
    assert platform.calls.count("auth.test") >= 2
    assert platform.receivers() >= 2


async def test_slack_asks_for_a_new_connection_and_gets_it(platform: SlackStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        old = platform.sockets.pop()
        await old.send_str('{"type": "disconnect", "reason": "refresh_requested"}')
        await platform.receiving()
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_a_message_whose_answer_was_lost_is_found_by_its_key(platform: SlackStandin) -> None:
    async with platform.connect() as channel:
        platform.fail_next("lost answer")
        reference = await channel.send(message(platform.group, "once"))
    assert [each.reference for each in platform.shown()] == [reference]


async def test_the_reaction_is_taken_back_with_the_answer(platform: SlackStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        assert isinstance(channel, SlackChannel)
        await platform.write("why?", group=True, mention=True)
        received = await next_message()
        await channel.show_typing(received.address)
        await channel.show_typing(received.address)
        assert platform.reactions == {(received.reference, "eyes")}
        await channel.send(message(received.address, "because"))
    assert platform.reactions == set()


async def test_a_long_text_with_buttons_is_cut_into_blocks(platform: SlackStandin) -> None:
    text = "&" * 2_900
    async with platform.connect() as channel:
        rows = ((Button("Deny", "deny:1"),),)
        await channel.send(message(platform.group, text, buttons=rows))
    assert platform.shown()[0].text == text


async def test_an_unknown_channel_is_a_permanent_error(platform: SlackStandin) -> None:
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="channel_not_found") as failure:
            await channel.send(message(Address("slack", "C404"), "hello"))
    assert failure.value.permanent


async def test_it_is_opened_by_its_manifest(platform: SlackStandin) -> None:
    settings = SlackSettings(base_url=f"{platform.url}/api", home_channel=GROUP)
    secrets = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    async with MANIFEST(settings, secrets) as channel:
        await channel.send(message(Address("slack"), "hello"))
    assert [each.chat for each in platform.shown()] == [GROUP]


async def test_presses_are_acknowledged(platform: SlackStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        rows = ((Button("Deny", "deny:1"),),)
        reference = await channel.send(message(platform.group, "May I?", buttons=rows))
        await platform.press(reference, "deny:1")
        first = await next_message()
        await platform.press(reference, "deny:1")
        second = await next_message()
        assert first.key != second.key
        await platform.write("done")
        await next_message()
        platform.envelopes.pop(next(reversed(platform.envelopes)))
        await wait_until_empty(platform)
