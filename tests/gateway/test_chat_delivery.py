"""Delivery through chats: threads, edits, replies, long texts, rate limits, two processes."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from listed_channel import ListedChannel, ThreadedChannel

from hermes.core.bus import Bus
from hermes.core.channels import Address, Button, OutgoingMessage, press_data
from hermes.core.errors import DeliveryError
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationKind,
    NotificationQueued,
    NotificationSent,
)
from hermes.gateway.chat_transport import NOT_WHOLE_TEXT, ChatTransport
from hermes.gateway.delivery_state import read_deliveries, untried_destinations
from hermes.gateway.manifest import ChannelLimits, SendingPace
from hermes.gateway.outbox import Outbox
from hermes.gateway.transports import LanePace
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.settings import NoticeSettings

pytestmark = pytest.mark.anyio
QUICK = NoticeSettings(briefing="", pause=0.01, timeout=5, tries=4)
UNPACED = SendingPace(interval_s=0.0, per_minute=10_000, per_second_in_all=1e9)
LIMITS = ChannelLimits(max_text=200, max_buttons=8, pace=UNPACED)


def queued(
    number: int, *, about: NotificationKind = "reply", to: str = "chat:1", **more: object
) -> NotificationQueued:
    fields: dict[str, object] = {"title": "", "text": f"text {number}"}
    return NotificationQueued(
        run="r",
        notice=f"n{number}",
        about=about,
        to=to,
        **(fields | more),  # type: ignore[arg-type]
    )


@asynccontextmanager
async def serving(
    journal: InMemoryJournal,
    channels: Sequence[ListedChannel],
    folder: Path,
    limits: ChannelLimits = LIMITS,
) -> AsyncGenerator[Outbox, None]:
    transports = [ChatTransport(each, limits, home="home", folder=folder) for each in channels]
    outbox = Outbox(Bus(journal), transports, QUICK)
    async with anyio.create_task_group() as group:
        with anyio.fail_after(120):
            await group.start(outbox.run)
            yield outbox
        group.cancel_scope.cancel()


async def deliver(
    journal: InMemoryJournal,
    *channels: ListedChannel,
    folder: Path,
    limits: ChannelLimits = LIMITS,
) -> None:
    async with serving(journal, channels, folder, limits) as outbox:
        await outbox.wait_until_delivered()


def sent_of(journal: InMemoryJournal) -> list[NotificationSent]:
    return [event for event in journal.events if isinstance(event, NotificationSent)]


async def test_a_message_goes_to_its_address_or_to_the_home_chat(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    await journal.append(queued(1, to="chat:-5:42"), queued(2, to="chat"))
    await deliver(journal, chat, folder=tmp_path)
    assert {str(message.to) for message in chat.sent} == {"chat:-5:42", "chat:home"}
    assert {event.reference for event in sent_of(journal)} == {"1", "2"}


async def test_one_address_is_served_in_order_and_another_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    refusals = 2

    def fails(message: OutgoingMessage) -> DeliveryError | None:
        nonlocal refusals
        if message.text == "text 1" and refusals:
            refusals -= 1
            return DeliveryError("503")
        return None

    chat.fails = fails
    await journal.append(queued(1), queued(2), queued(3, to="chat:2"))
    await deliver(journal, chat, folder=tmp_path)
    assert chat.texts == ["text 3", "text 1", "text 2"]


async def test_the_pause_that_a_platform_asks_for_is_obeyed_by_every_process(
    tmp_path: Path,
) -> None:
    journal, first, second = InMemoryJournal(), ListedChannel(), ListedChannel()
    asked: list[float] = []

    def fails(message: OutgoingMessage) -> DeliveryError | None:
        asked.append(anyio.current_time())
        return DeliveryError("429", retry_after_s=0.4) if len(asked) == 1 else None

    first.fails = second.fails = fails
    await journal.append(queued(1))
    async with serving(journal, [first], tmp_path) as one, serving(journal, [second], tmp_path):
        await one.wait_until_delivered()
    assert len(asked) == 2
    assert asked[1] - asked[0] >= 0.35
    tried = [event for event in journal.events if isinstance(event, NotificationAttempted)]
    assert max(event.wait for event in tried) == 0.4


async def test_an_incident_has_a_thread_and_its_progress_is_one_message(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ThreadedChannel()
    incident = {"incident": "i", "to": "", "sinks": ("chat",)}
    await journal.append(queued(1, about="declared", title="🚨 P1: disk", **incident))
    await deliver(journal, chat, folder=tmp_path)
    for number in (2, 3, 4):
        event = queued(number, about="update", title=f"⏳ {number} min", edits="n2", **incident)
        await journal.append(event)
        await deliver(journal, chat, folder=tmp_path)  # each by a process of its own
    await journal.append(queued(5, about="resolved", title="✅ RESOLVED", **incident))
    await deliver(journal, chat, folder=tmp_path)
    assert chat.threads == ["🚨 P1: disk"]
    assert [str(message.to) for message in chat.sent] == [
        "chat:home",
        "chat:home:t1",
        "chat:home:t1",
    ]
    assert chat.edits == 2
    assert chat.shown["2"].startswith("⏳ 4 min")


async def test_without_threads_the_messages_of_an_incident_answer_the_first(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ThreadedChannel()
    chat.refuses_threads = True
    incident = {"incident": "i", "to": "", "sinks": ("chat",)}
    await journal.append(
        queued(1, about="declared", **incident), queued(2, about="resolved", **incident)
    )
    await deliver(journal, chat, folder=tmp_path)
    assert [message.reply_to for message in chat.sent] == ["", "1"]


async def test_the_incident_of_a_message_is_known_in_its_own_chat_and_after_a_restart(
    tmp_path: Path,
) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    incident = {"about": "declared", "incident": "i"}
    await journal.append(queued(1, to="", sinks=("chat",), **incident))
    await journal.append(queued(2, to="chat:7", **incident))
    await deliver(journal, chat, folder=tmp_path)
    async with serving(journal, [chat], tmp_path) as outbox:

        def found(where: str, reference: str) -> str:
            return outbox.incident_of_message(Address.parse(where), reference, "home")

        assert [found("chat:home", "1"), found("chat:7", "2")] == ["i", "i"]
        assert [found("chat:7", "1"), found("chat:home", "2"), found("other:home", "1")] == [""] * 3


async def test_an_edit_whose_message_is_gone_is_a_new_message_that_later_edits_replace(
    tmp_path: Path,
) -> None:
    journal, chat = InMemoryJournal(), ThreadedChannel()
    await journal.append(queued(1))
    await deliver(journal, chat, folder=tmp_path)
    chat.shown.clear()
    await journal.append(queued(2, edits="n1"))
    await deliver(journal, chat, folder=tmp_path)
    await journal.append(queued(3, edits="n1"))
    await deliver(journal, chat, folder=tmp_path)
    assert chat.shown == {"2": "text 3"}


async def test_a_channel_that_cannot_edit_gets_a_new_message(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    await journal.append(queued(1), queued(2, edits="n1"))
    await deliver(journal, chat, folder=tmp_path)
    assert chat.texts == ["text 1", "text 2"]


async def test_edits_that_piled_up_are_made_as_the_last_one(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ThreadedChannel()
    await journal.append(queued(1), *(queued(number, edits="n1") for number in (2, 3, 4)))
    await deliver(journal, chat, folder=tmp_path)
    assert (chat.shown, chat.edits) == ({"1": "text 4"}, 1)


async def test_a_long_text_comes_in_pieces_that_are_not_repeated_after_a_failure(
    tmp_path: Path,
) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    failed = False

    def fails(message: OutgoingMessage) -> DeliveryError | None:
        nonlocal failed
        if len(chat.sent) == 2 and not failed:
            failed = True
            return DeliveryError("502")
        return None

    chat.fails = fails
    words = [f"word{number:03}" for number in range(80)]
    await journal.append(queued(1, text=" ".join(words), buttons=((Button("b", "ack:i"),),)))
    await deliver(journal, chat, folder=tmp_path)
    assert " ".join(chat.texts).split() == words
    assert len({message.key for message in chat.sent}) == len(chat.sent) == 4
    assert [bool(message.buttons) for message in chat.sent] == [False, False, False, True]


async def test_a_very_long_text_is_a_file_with_a_preview(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    text = "\n\n".join(f"paragraph {number} of many" for number in range(200))
    await journal.append(queued(1, text=text))
    await deliver(journal, chat, folder=tmp_path)
    (message,) = chat.sent
    assert message.text.startswith("paragraph 0")
    assert len(message.files) == 1
    assert "paragraph 199" in chat.files[0]
    assert not [each async for each in anyio.Path(tmp_path).iterdir()]


async def test_words_whose_format_is_refused_are_sent_plain(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    chat.fails = lambda message: (
        DeliveryError("can't parse entities", permanent=True) if message.spans else None
    )
    await journal.append(queued(1, text="**bold** words"))
    await deliver(journal, chat, folder=tmp_path)
    assert chat.texts == ["bold words"]


async def test_what_cannot_be_delivered_is_reported_on_the_other_channel(tmp_path: Path) -> None:
    journal, dead, alive = InMemoryJournal(), ListedChannel("dead"), ListedChannel("alive")
    dead.fails = lambda message: DeliveryError("chat not found", permanent=True)
    await journal.append(queued(1, to="dead:9", title="the answer"))
    await deliver(journal, dead, alive, folder=tmp_path)
    (report,) = alive.texts
    assert report.startswith("📪 dead:9 cannot be reached")
    assert "the answer" in report
    assert "chat not found" in report


async def test_without_a_home_chat_the_error_names_the_setting(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    await journal.append(queued(1, to="chat"))
    transport = ChatTransport(chat, LIMITS, folder=tmp_path)
    outbox = Outbox(Bus(journal), [transport], QUICK)
    async with anyio.create_task_group() as group:
        await group.start(outbox.run)
        await outbox.wait_until_delivered()
        group.cancel_scope.cancel()
    errors = [e.error for e in journal.events if isinstance(e, NotificationAttempted) if e.error]
    assert errors == ["chat has no home chat: set channels.chat.home_channel"]


@pytest.mark.parametrize(("length", "verbs"), [(20, ["once", "deny"]), (500, ["deny"])])
async def test_a_command_that_does_not_fit_whole_has_no_yes(
    tmp_path: Path, length: int, verbs: list[str]
) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    buttons = ((Button("Once", press_data("once", "a")), Button("Deny", press_data("deny", "a"))),)
    text = f"`{'x' * length}`"
    await journal.append(queued(1, about="question", approval="a", text=text, buttons=buttons))
    await deliver(journal, chat, folder=tmp_path)
    shown = [each.data.partition(":")[0] for row in chat.sent[-1].buttons for each in row]
    assert shown == verbs
    assert (NOT_WHOLE_TEXT in chat.sent[-1].text.replace("\n", " ")) == (length == 500)


async def test_a_channel_with_too_few_buttons_has_none(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    await journal.append(queued(1, buttons=((Button("b", "ack:i"),),)))
    limits = ChannelLimits(max_buttons=0, pace=UNPACED)
    await deliver(journal, chat, folder=tmp_path, limits=limits)
    assert chat.sent[0].buttons == ()


async def test_what_no_process_serves_is_found(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    await journal.append(queued(1, to="nobody:1"), queued(2, to="nobody:1"), queued(3))
    await deliver(journal, chat, folder=tmp_path)
    last = journal.events[-1].at
    state = await read_deliveries(journal, last)
    (found,) = untried_destinations(state, last)
    assert (found.destination, found.count) == ("nobody:1", 2)


async def test_a_channel_that_is_opened_later_delivers_what_waited(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    async with serving(journal, [], tmp_path) as outbox:
        await journal.append(queued(1))
        await outbox.wait_until_delivered()
        assert not chat.sent
        async with outbox.serving(ChatTransport(chat, LIMITS, folder=tmp_path)):
            await outbox.wait_until_delivered()
    assert chat.texts == ["text 1"]


def test_the_pace_holds_for_a_chat_for_a_minute_and_for_all() -> None:
    pace = LanePace(SendingPace(interval_s=1.0, per_minute=3, per_second_in_all=10.0))
    assert pace.delay("a", 0.0) == 0.0
    pace.note_sent("a", 0.0)
    assert pace.delay("a", 0.0) == 1.0
    assert pace.delay("b", 0.0) == pytest.approx(0.1)
    pace.note_sent("a", 1.0)
    pace.note_sent("a", 2.0)
    assert pace.delay("a", 3.0) == 57.0
    assert pace.delay("a", 60.0) == 0.0


async def test_a_file_that_is_too_large_or_gone_is_named_instead_of_sent(tmp_path: Path) -> None:
    small, large = tmp_path / "small.txt", tmp_path / "large.bin"
    small.write_text("few")
    large.write_bytes(b"x" * 2_000)
    journal, chat = InMemoryJournal(), ListedChannel()
    files = (str(small), str(large), str(tmp_path / "gone.txt"))
    await journal.append(queued(1, text="Here they are.", files=files))
    limits = ChannelLimits(max_text=2_000, max_file_bytes=1_000, pace=UNPACED)
    await deliver(journal, chat, folder=tmp_path / "outbox", limits=limits)
    (sent,) = chat.sent
    assert sent.files == (str(small),)
    assert sent.text.startswith("Here they are.")
    assert f"not sent: {large}: it has 2 KiB, chat takes 1 KiB" in sent.text
    assert "gone.txt: No such file" in sent.text
