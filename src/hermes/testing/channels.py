"""What every chat channel promises, whichever platform it speaks to."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.channels import (
    Address,
    AnswersPresses,
    Button,
    Channel,
    EditsMessages,
    FetchesMedia,
    OpensThreads,
    ShowsTyping,
    TextSpan,
)
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.testing.chat_platform import (
    ChatPlatform,
    SendingPlatform,
    assert_hidden,
    listening,
    message,
    next_message_but,
    restarted,
)
from hermes.testing.environments import ContractSuite

HOSTILE_TEXT = 'a < b && c > d; "*x*" _y_ ~z~ [l](http://x) <@U1> <!channel> @everyone &amp; \\n'


class SendingChannelContract(ContractSuite):
    """What every channel promises that sends. Needs the fixture `platform`."""

    @pytest.fixture
    async def channel(self, platform: SendingPlatform) -> AsyncIterator[Channel]:
        async with platform.connect() as channel:
            yield channel
        assert platform.problems == []

    async def test_entering_connects_for_sending_only(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        await channel.send(message(platform.group, "ready"))
        assert platform.receivers() == 0

    async def test_a_sent_text_is_shown_as_words(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        reference = await channel.send(message(platform.group, "The disk is full."))
        [shown] = platform.shown()
        assert (shown.reference, shown.text) == (reference, "The disk is full.")
        assert shown.chat == platform.group.chat

    async def test_markup_of_the_platform_in_a_text_has_no_effect(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        await channel.send(message(platform.group, HOSTILE_TEXT))
        code = (TextSpan(0, len(HOSTILE_TEXT), "pre"),)
        await channel.send(replace(message(platform.group, HOSTILE_TEXT), key="2", spans=code))
        for shown in platform.shown():
            assert shown.text == HOSTILE_TEXT
            assert not shown.notifies

    async def test_styles_are_shown_where_the_platform_has_them(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        """The offsets of an emoji differ from platform to platform."""
        spans = (TextSpan(3, 7, "bold"), TextSpan(11, 15, "link", "https://example.org/a?b=c"))
        await channel.send(replace(message(platform.group, "🚨: shop is slow 🐌"), spans=spans))
        [shown] = platform.shown()
        assert shown.text == "🚨: shop is slow 🐌"
        assert shown.styled in ({}, {"bold": "shop", "link": "slow"})

    async def test_files_are_sent_with_their_names(
        self, platform: SendingPlatform, channel: Channel, tmp_path: Path
    ) -> None:
        path = tmp_path / "report.txt"
        path.write_bytes(b"all is well")
        await channel.send(message(platform.group, "The report", files=(str(path),)))
        files = [file for shown in platform.shown() for file in shown.files]
        assert files == [("report.txt", b"all is well")]

    async def test_a_file_that_is_gone_is_a_permanent_error(
        self, platform: SendingPlatform, channel: Channel, tmp_path: Path
    ) -> None:
        lost = message(platform.group, "", files=(str(tmp_path / "none.txt"),))
        with pytest.raises(DeliveryError, match=r"none\.txt") as failure:
            await channel.send(lost)
        assert failure.value.permanent

    async def test_a_rate_limit_says_how_long_to_wait(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        platform.fail_next("rate limit")
        with pytest.raises(DeliveryError) as failure:
            await channel.send(message(platform.group, "too fast"))
        assert failure.value.retry_after_s >= 1
        assert not failure.value.permanent
        assert platform.shown() == []

    async def test_an_error_of_the_server_is_temporary(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        platform.fail_next("server error")
        with pytest.raises(DeliveryError) as failure:
            await channel.send(message(platform.group, "one"))
        assert not failure.value.permanent
        await channel.send(message(platform.group, "one"))
        assert [each.text for each in platform.shown()] == ["one"]

    async def test_a_lost_answer_doubles_nothing_silently(
        self, platform: SendingPlatform, channel: Channel
    ) -> None:
        """The message may have arrived, and that is said; or its key prevents the second one."""
        platform.fail_next("lost answer")
        try:
            await channel.send(message(platform.group, "one"))
        except DeliveryError as error:
            failed = error
        else:
            assert [each.text for each in platform.shown()] == ["one"]
            return
        assert not failed.permanent
        await channel.send(message(platform.group, "one"))
        assert failed.may_have_arrived or len(platform.shown()) == 1

    async def test_a_refused_token_is_permanent_and_never_shown(
        self, platform: SendingPlatform, channel: Channel, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        platform.fail_next("refused token")
        with pytest.raises(DeliveryError) as failure:
            await channel.send(message(platform.group, "one"))
        assert failure.value.permanent
        assert_hidden(platform, f"{failure.value!r} {failure.value}")
        assert_hidden(platform, caplog.text)


class ChatChannelContract(SendingChannelContract):
    """Needs the fixture `platform`. What a channel cannot do is not tested."""

    async def test_a_text_arrives_with_its_person_and_place(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        async with listening(platform, channel) as next_message:
            reference = await platform.write("the disk is full")
            received = await next_message()
        assert received.text == "the disk is full"
        assert (received.sender, received.reference) == (platform.person, reference)
        assert received.direct
        assert received.address.channel == channel.name
        assert not (received.edited or received.voice or received.pressed or received.attached)

    async def test_messages_arrive_in_their_order(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        async with listening(platform, channel) as next_message:
            for number in range(5):
                await platform.write(f"number {number}")
            texts = [(await next_message()).text for _ in range(5)]
        assert texts == [f"number {number}" for number in range(5)]

    async def test_what_was_not_acknowledged_is_delivered_again_with_its_key(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        async with listening(platform, channel) as next_message:
            await platform.write("first")
            first = await next_message()
            await platform.write("second")
            unacknowledged = await next_message()
        async with restarted(platform, first) as next_message:
            again = await next_message_but(first.key, next_message)
        assert (again.text, again.key) == ("second", unacknowledged.key)
        assert first.key != unacknowledged.key

    async def test_a_message_that_is_delivered_twice_has_one_key(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        async with listening(platform, channel) as next_message:
            await platform.write("once")
            first = await next_message()
            await platform.repeat_last()
            await platform.write("after")
            second = await next_message()
        # The client of a platform may drop the repetition.
        assert second.key == first.key or second.text == "after"

    async def test_in_a_group_it_is_said_whether_we_are_meant(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        ours = await channel.send(message(platform.group, "a question"))
        async with listening(platform, channel) as next_message:
            await platform.write("not for the bot", group=True)
            await platform.write("look at this", group=True, mention=True)
            await platform.quote(ours, "the answer")
            other, meant, answer = [await next_message() for _ in range(3)]
        assert not other.mentioned and not other.direct
        assert meant.mentioned and not meant.direct
        assert meant.text == "look at this"
        assert meant.address.chat == platform.group.chat
        assert answer.mentioned and answer.quoted == ours
        assert answer.text == "the answer"

    async def test_a_quote_is_apart_from_what_the_person_typed(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        ours = await channel.send(message(platform.group, "a long question"))
        async with listening(platform, channel) as next_message:
            await platform.quote(ours, "yes")
            answer = await next_message()
        assert answer.text == "yes"
        assert all(each.source in ("quote", "thread") for each in answer.attached)

    async def test_an_edited_message_says_so(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        async with listening(platform, channel) as next_message:
            reference = await platform.write("restart nginx")
            first = await next_message()
            await platform.rewrite(reference, "restart nothing")
            second = await next_message()
        assert second.edited and not first.edited
        assert second.text == "restart nothing"
        assert second.reference == first.reference
        assert second.key != first.key

    async def test_an_answer_names_the_message_that_it_answers(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        first = await channel.send(message(platform.group, "one"))
        await channel.send(message(platform.group, "two", reply_to=first))
        assert first in (platform.shown()[1].reply_to, platform.shown()[1].thread)

    async def test_an_answer_to_a_deleted_message_is_sent(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        first = await channel.send(message(platform.group, "one"))
        platform.remove(first)
        await channel.send(message(platform.group, "two", reply_to=first))
        assert [each.text for each in platform.shown()] == ["two"]

    async def test_a_received_file_is_fetched_up_to_a_limit(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        if not isinstance(channel, FetchesMedia):
            return
        async with listening(platform, channel) as next_message:
            await platform.upload("log.txt", b"x" * 5_000)
            [media] = (await next_message()).media
        assert media.kind == "file"
        assert media.name in ("log.txt", "")
        assert await channel.fetch(media, 5_000) == b"x" * 5_000
        with pytest.raises(DeliveryError):
            await channel.fetch(media, 4_999)

    async def test_a_message_is_edited_and_deleted(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        if not isinstance(channel, EditsMessages):
            return
        rows = ((Button("Ack", "ack:1"),),) if isinstance(channel, AnswersPresses) else ()
        reference = await channel.send(message(platform.group, "working", buttons=rows))
        await channel.edit(reference, message(platform.group, "done"))
        [shown] = platform.shown()
        assert (shown.reference, shown.text, shown.buttons) == (reference, "done", [])
        await channel.edit(reference, message(platform.group, "done"))  # unchanged is fine
        await channel.delete(platform.group, reference)
        assert platform.shown() == []
        await channel.delete(platform.group, reference)  # gone is what was wanted

    async def test_editing_a_deleted_message_fails_for_good(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        if not isinstance(channel, EditsMessages):
            return
        reference = await channel.send(message(platform.group, "working"))
        platform.remove(reference)
        with pytest.raises(DeliveryError) as failure:
            await channel.edit(reference, message(platform.group, "done"))
        assert failure.value.permanent

    async def test_typing_is_shown(self, platform: ChatPlatform, channel: Channel) -> None:
        if not isinstance(channel, ShowsTyping):
            return
        assert channel.typing_interval_s > 0
        async with listening(platform, channel) as next_message:
            await platform.write("look at this", group=True, mention=True)
            received = await next_message()
            await channel.show_typing(received.address)
        assert platform.typing == [platform.group.chat]

    async def test_a_thread_holds_what_is_sent_to_it(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        if not isinstance(channel, OpensThreads):
            return
        first = await channel.send(message(platform.group, "P1 shop"))
        thread = await channel.open_thread(platform.group, "P1 shop: slow", first)
        assert Address.parse(str(thread)) == thread
        await channel.send(message(thread, "progress"))
        shown = platform.shown()[-1]
        assert (shown.text, shown.chat) == ("progress", platform.group.chat)
        assert shown.thread == thread.thread != ""

    async def test_a_press_carries_its_data_and_is_answered_in_private(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        if not isinstance(channel, AnswersPresses):
            return
        rows = ((Button("Once", "once:4f2a1c"), Button("Deny", "deny:4f2a1c")),)
        reference = await channel.send(message(platform.group, "May I?", buttons=rows))
        assert platform.shown()[0].buttons == [[("Once", "once:4f2a1c"), ("Deny", "deny:4f2a1c")]]
        async with listening(platform, channel) as next_message:
            await platform.press(reference, "deny:4f2a1c")
            pressed = await next_message()
            assert (pressed.pressed, pressed.text) == ("deny:4f2a1c", "")
            assert (pressed.sender, pressed.reference) == (platform.person, reference)
            assert pressed.address.chat == platform.group.chat
            await channel.answer_press(pressed.press, "You may not answer this.")
        assert platform.private_answers == ["You may not answer this."]

    async def test_no_secret_is_logged(
        self, platform: ChatPlatform, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        async with platform.connect() as channel, listening(platform, channel) as next_message:
            await platform.write("one")
            await next_message()
            platform.fail_next("server error")
            with pytest.raises(DeliveryError):
                await channel.send(message(platform.group, "two"))
        assert_hidden(platform, caplog.text)

    async def test_a_lost_connection_loses_no_message(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        """The channel reconnects, or it fails and the next one receives the message. What was
        not acknowledged may come again, with its key."""
        async with listening(platform, channel) as next_message:
            await platform.write("before")
            first = await next_message()
            await platform.drop_connection()
            await platform.write("after")
            try:
                found = await next_message_but(first.key, next_message)
            except ChannelFailed as error:
                assert not error.permanent
                found = None
        if found is None:
            async with restarted(platform, first) as next_message:
                found = await next_message_but(first.key, next_message)
        assert found.text == "after"
