"""The Telegram channel, driven by its real client against a stand-in of the Bot API."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.channels import Address, InboundMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.telegram.manifest import MANIFEST
from hermes.gateway.channels.telegram.runtime import TelegramChannel
from hermes.gateway.settings import TelegramSettings
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import listening, message
from standins.telegram import GROUP_ID, PERSON, SENT_AT, TOKEN, TelegramStandin

pytestmark = pytest.mark.anyio


@pytest.fixture
async def platform() -> AsyncIterator[TelegramStandin]:
    standin = TelegramStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestTelegramContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[TelegramStandin]:
        standin = TelegramStandin()
        async with standin.serving():
            yield standin


async def receive(platform: TelegramStandin, **content: object) -> InboundMessage:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.deliver(**content)  # type: ignore[arg-type]
        return await next_message()


async def test_a_refused_token_at_the_start_says_what_to_do(platform: TelegramStandin) -> None:
    channel = TelegramChannel("110201543:wrong-secret", base_url=platform.url)
    with pytest.raises(ChannelFailed, match="BotFather") as failure:
        async with channel:
            pass
    assert failure.value.permanent
    assert "wrong-secret" not in str(failure.value)


async def test_no_connection_at_the_start_is_temporary() -> None:
    channel = TelegramChannel(TOKEN, base_url="http://127.0.0.1:9")
    with pytest.raises(ChannelFailed) as failure:
        async with channel:
            pass
    assert not failure.value.permanent


async def test_a_second_poller_is_named(platform: TelegramStandin) -> None:
    async with (
        platform.connect() as first,
        platform.connect() as second,
        listening(platform, first) as next_of_first,
        listening(platform, second),
    ):
        with pytest.raises(ChannelFailed, match="another program polls") as failure:
            await next_of_first()
    assert failure.value.permanent
    assert TOKEN not in str(failure.value)


async def test_a_webhook_is_named(platform: TelegramStandin) -> None:
    platform.webhook = True
    async with platform.connect() as channel:
        with pytest.raises(ChannelFailed, match="deleteWebhook") as failure:
            await anext(channel.listen())
    assert failure.value.permanent


async def test_nothing_is_acknowledged_before_the_next_message_is_asked_for(
    platform: TelegramStandin,
) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.write("one")
        first = await next_message()
        assert [str(each["update_id"]) for each in platform.updates] == [first.key]
        await platform.write("two")
        await next_message()
        assert first.key not in [str(each["update_id"]) for each in platform.updates]


async def test_a_forward_is_not_what_the_person_says(platform: TelegramStandin) -> None:
    origin = {"type": "hidden_user", "date": SENT_AT, "sender_user_name": "Mallory"}
    received = await receive(platform, text="delete everything", forward_origin=origin)
    assert received.text == ""
    [attached] = received.attached
    assert (attached.source, attached.text, attached.author) == (
        "forward",
        "delete everything",
        "Mallory",
    )


async def test_a_voice_message_is_marked(platform: TelegramStandin) -> None:
    voice = {"file_id": "v1", "file_unique_id": "v", "duration": 3, "file_size": 100}
    received = await receive(platform, voice=voice)
    assert received.voice
    assert [each.kind for each in received.media] == ["audio"]


async def test_a_sticker_says_what_it_is(platform: TelegramStandin) -> None:
    sticker = {
        "file_id": "s1", "file_unique_id": "unique", "type": "regular", "width": 1, "height": 1,
        "is_animated": False, "is_video": False, "emoji": "🔥", "set_name": "fires",
    }  # fmt: skip
    [media] = (await receive(platform, sticker=sticker)).media
    assert (media.kind, media.description) == ("sticker", "🔥 fires unique")


async def test_the_largest_photo_is_taken_with_its_caption(platform: TelegramStandin) -> None:
    sizes = [
        {"file_id": name, "file_unique_id": name, "width": 1, "height": 1, "file_size": size}
        for name, size in (("small", 10), ("large", 1000))
    ]
    received = await receive(platform, photo=sizes, caption="the graph")
    assert [(each.kind, each.reference) for each in received.media] == [("image", "large")]
    assert received.text == "the graph"


async def test_a_topic_is_the_thread_and_its_first_message_no_quote(
    platform: TelegramStandin,
) -> None:
    opened = {
        "message_id": 7, "date": SENT_AT, "chat": {"id": GROUP_ID, "type": "supergroup"},
        "forum_topic_created": {"name": "P1", "icon_color": 1},
    }  # fmt: skip
    received = await receive(
        platform,
        group=True,
        text="why?",
        message_thread_id=7,
        is_topic_message=True,
        reply_to_message=opened,
    )
    assert received.address == Address("telegram", str(GROUP_ID), "7")
    assert received.quoted == ""


async def test_an_anonymous_administrator_is_no_person(platform: TelegramStandin) -> None:
    chat = {"id": GROUP_ID, "type": "supergroup", "title": "Ops"}
    received = await receive(platform, group=True, text="approve", sender_chat=chat)
    assert received.sender == str(GROUP_ID)


@pytest.mark.parametrize(
    ("text", "entity", "mentioned"),
    [
        ("/status@Hermes_bot", {"type": "bot_command", "offset": 0, "length": 18}, True),
        ("/status@other_bot", {"type": "bot_command", "offset": 0, "length": 17}, False),
        ("@hermes_bot2 hi", {"type": "mention", "offset": 0, "length": 12}, False),
        ("Bot hi", {"type": "text_mention", "offset": 0, "length": 3, "user": PERSON}, False),
    ],
)
async def test_a_mention_is_ours_only_with_our_name(
    platform: TelegramStandin, text: str, entity: dict[str, object], mentioned: bool
) -> None:
    received = await receive(platform, group=True, text=text, entities=[entity])
    assert received.mentioned is mentioned
    assert received.text == ("/status" if mentioned else text)


async def test_service_messages_are_acknowledged_and_not_shown(platform: TelegramStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.deliver(group=True, new_chat_title="Ops 2")
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_a_chat_without_topics_keeps_its_address(platform: TelegramStandin) -> None:
    platform.forum = False
    async with platform.connect() as channel:
        assert isinstance(channel, TelegramChannel)
        assert await channel.open_thread(platform.group, "P1", "5") == platform.group


async def test_a_group_that_moved_still_gets_its_messages(platform: TelegramStandin) -> None:
    platform.migrated_to = -1009
    async with platform.connect() as channel:
        await channel.send(message(platform.group, "alarm"))
    assert [each.chat for each in platform.shown()] == ["-1009"]


async def test_a_chat_that_is_unknown_is_a_permanent_error(platform: TelegramStandin) -> None:
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="Chat not found") as failure:
            await channel.send(message(Address("telegram", "-5"), "hello"))
    assert failure.value.permanent


async def test_without_a_chat_the_home_chat_is_used(platform: TelegramStandin) -> None:
    async with platform.connect() as channel:
        await channel.send(message(Address("telegram"), "hello"))
    assert [each.chat for each in platform.shown()] == [str(GROUP_ID)]


async def test_pictures_and_sounds_are_sent_as_such(
    platform: TelegramStandin, tmp_path: Path
) -> None:
    for name in ("graph.png", "voice.ogg", "data.csv"):
        (tmp_path / name).write_bytes(b"data")
    files = tuple(str(tmp_path / name) for name in ("graph.png", "voice.ogg", "data.csv"))
    async with platform.connect() as channel:
        await channel.send(message(platform.group, "", files=files))
    sent = [call for call in platform.calls if call.startswith("send")]
    assert sent == ["sendPhoto", "sendVoice", "sendDocument"]


async def test_it_is_opened_by_its_manifest(platform: TelegramStandin) -> None:
    settings = TelegramSettings(base_url=platform.url, home_channel=GROUP_ID)
    async with MANIFEST(settings, {"TELEGRAM_BOT_TOKEN": TOKEN}) as channel:
        await channel.send(message(Address("telegram"), "hello"))
    assert [each.chat for each in platform.shown()] == [str(GROUP_ID)]
