"""The e-mail channel, driven against stand-ins of an SMTP and an IMAP server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import anyio
import pytest

from hermes.core.channels import Address, Channel, InboundMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.email.manifest import MANIFEST
from hermes.gateway.channels.email.runtime import EmailChannel
from hermes.gateway.channels.inbound.mail_messages import MailIdentity, read_mail, split_quoted
from hermes.testing.channels import ChatChannelContract
from hermes.testing.chat_platform import ChatPlatform, listening, message
from standins.email import LIST, OWN, PASSWORD, PERSON, EmailStandin

pytestmark = pytest.mark.anyio

IDENTITY = MailIdentity("email", OWN)


@pytest.fixture
async def platform() -> AsyncIterator[EmailStandin]:
    standin = EmailStandin()
    async with standin.serving():
        yield standin
    assert standin.problems == []


class TestEmailContract(ChatChannelContract):
    @pytest.fixture
    async def platform(self) -> AsyncIterator[EmailStandin]:
        standin = EmailStandin()
        async with standin.serving():
            yield standin

    async def test_an_edited_message_says_so(
        self, platform: ChatPlatform, channel: Channel
    ) -> None:
        """A mail cannot be edited: another one with its Message-ID has its key."""
        async with listening(platform, channel) as next_message:
            reference = await platform.write("restart nginx")
            first = await next_message()
            await platform.rewrite(reference, "restart nothing")
            second = await next_message()
        assert (second.key, second.edited) == (first.key, False)


def read(text: str) -> InboundMessage | None:
    return read_mail(text.encode(), "1", IDENTITY)


async def test_a_wrong_password_is_permanent_and_hidden(platform: EmailStandin) -> None:
    with pytest.raises(ChannelFailed, match="EMAIL_PASSWORD") as failure:
        async with EmailChannel(platform.settings(), "wrong-secret"):
            pass
    assert failure.value.permanent and "wrong-secret" not in str(failure.value)


async def test_a_server_that_does_not_run_is_temporary() -> None:
    with pytest.raises(ChannelFailed, match="cannot be reached") as failure:
        async with EmailChannel(EmailStandin().settings(smtp_port=9), PASSWORD):
            pass
    assert not failure.value.permanent


async def test_off_loopback_the_password_is_not_sent_without_tls() -> None:
    standin = EmailStandin()
    async with standin.serving("127.0.0.2"):
        settings = standin.settings(smtp_host="127.0.0.2")
        with pytest.raises(ChannelFailed, match="STARTTLS") as failure:
            async with EmailChannel(settings, PASSWORD):
                pass
    assert failure.value.permanent
    assert standin.commands == ["EHLO"]


async def test_an_unknown_person_is_a_permanent_error(platform: EmailStandin) -> None:
    async with platform.connect() as channel:
        with pytest.raises(DeliveryError, match="no such user") as failure:
            await channel.send(message(Address("email", "nobody@example.org"), "hello"))
        assert failure.value.permanent
        for chat in ("a@b.org\r\nBcc: x@y.org", "a@b.org, c@d.org", "alice"):
            with pytest.raises(DeliveryError, match="no e-mail address"):
                await channel.send(message(Address("email", chat), "hello"))
    assert platform.sent == []


async def test_the_thread_of_an_incident_is_in_references(platform: EmailStandin) -> None:
    async with EmailChannel(platform.settings(), PASSWORD) as channel:
        first = await channel.send(message(platform.group, "P1 shop"))
        thread = await channel.open_thread(platform.group, "P1 shop", first)
        second = await channel.send(message(thread, "progress"))
        await channel.send(message(thread, "done", reply_to=second))
    assert str(platform.sent[2]["References"]).split() == [f"<{first}>", f"<{second}>"]
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.quote(second, "thanks")
        assert (await next_message()).quoted == second


async def test_every_attempt_has_the_same_message_id(platform: EmailStandin) -> None:
    async with platform.connect() as channel:
        platform.fail_next("lost answer")
        with pytest.raises(DeliveryError) as failure:
            await channel.send(message(platform.group, "once"))
        await channel.send(message(platform.group, "once"))
    assert failure.value.may_have_arrived
    first, second = platform.sent
    assert first["Message-ID"] == second["Message-ID"]


async def test_mail_is_marked_as_seen_when_the_next_is_asked_for(platform: EmailStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        await platform.write("one")
        await next_message()
        assert platform.seen == set()
        await platform.write("two")
        await next_message()
        assert platform.seen == {1}


async def test_a_mail_that_cannot_be_read_now_stays_unseen(platform: EmailStandin) -> None:
    platform.refuses_fetch = True
    await platform.write("one")
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        with pytest.raises(ChannelFailed, match="FETCH was refused") as failure:
            await next_message()
    assert not failure.value.permanent
    assert platform.seen == set()


async def test_a_date_that_cannot_be_read_is_left_out() -> None:
    head = f"From: {PERSON}\nTo: {OWN}\n"
    dates = [
        read(f"{head}Date: {each}\n\nx") for each in ("yesterday", "1 Nov 2026 10:00:00 -0000")
    ]
    assert [each and each.sent_at for each in dates] == [
        None,
        datetime(2026, 11, 1, 10, tzinfo=UTC),
    ]


async def test_mail_is_not_read_unless_that_is_switched_on(platform: EmailStandin) -> None:
    await platform.write("hello")
    async with EmailChannel(platform.settings(inbound=False), PASSWORD) as channel:
        with anyio.move_on_after(0.1):
            await anext(aiter(channel.listen()))
            pytest.fail("it was read")
    assert platform.receivers() == 0


async def test_mail_of_programs_and_our_own_is_not_heard(platform: EmailStandin) -> None:
    async with platform.connect() as channel, listening(platform, channel) as next_message:
        platform.receive("I am away", Auto_Submitted="auto-replied")
        platform.receive("undeliverable", Return_Path="<>")
        platform.receive("own", From=OWN)
        platform.receive("two senders", From=f"{PERSON}, mallory@example.net")
        await platform.write("hello")
        assert (await next_message()).text == "hello"


async def test_the_subject_of_a_new_mail_is_typed_and_that_of_an_answer_is_not() -> None:
    head = f"From: Alice@Example.org\nTo: {OWN}\nMessage-ID: <a@b>\n"
    new, answer = read(f"{head}Subject: Shop\n\nis slow\n"), read(f"{head}Subject: Re: Shop\n\nyes")
    assert new is not None and answer is not None
    assert (new.text, new.sender, new.direct) == ("Shop\n\nis slow", PERSON, True)
    assert answer.text == "yes"


async def test_words_of_a_page_are_never_typed() -> None:
    head = f"From: {PERSON}\nTo: {OWN}\nContent-Type: text/html\n\n"
    found = read(f"{head}<style>x</style><p>restart it</p>")
    assert found is not None and found.text == ""
    assert [each.text for each in found.attached] == ["restart it"]


async def test_malformed_mail_is_not_heard() -> None:
    assert read("") is None
    assert read("From: \n\nx") is None
    assert read(f"From: {PERSON}\nFrom: mallory@example.net\n\nx") is None


@pytest.mark.parametrize(
    ("text", "typed", "quoted"),
    [
        ("only mine", "only mine", ""),
        ("mine\n> theirs\nalso below", "mine", "> theirs\nalso below"),
        ("On Monday, Bob wrote:\n> theirs\n\nmine below", "mine below",
         "On Monday, Bob wrote:\n> theirs"),
        ("> a\nmine\n> b\nmine", "", "> a\nmine\n> b\nmine"),
        ("see\n-----Original Message-----\nFrom: x\nrm -rf /", "see",
         "-----Original Message-----\nFrom: x\nrm -rf /"),
        ("see\n---------- Forwarded message ---------\nrm", "see",
         "---------- Forwarded message ---------\nrm"),
        ("mine\n-- \nAlice, Ltd.", "mine", "-- \nAlice, Ltd."),
    ],
)  # fmt: skip
async def test_what_others_wrote_is_apart(text: str, typed: str, quoted: str) -> None:
    assert split_quoted(text) == (typed, quoted)


async def test_it_is_opened_by_its_manifest(platform: EmailStandin) -> None:
    async with MANIFEST(platform.settings(), {"EMAIL_PASSWORD": PASSWORD}) as channel:
        await channel.send(message(Address("email"), "hello"))
    assert [each.chat for each in platform.shown()] == [LIST]
