"""Questions reach the chat of their run or the home chats, and their end is shown everywhere."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from listed_channel import ListedChannel, ThreadedChannel

from hermes.core.bus import Bus
from hermes.core.channels import Address, InboundMessage, parse_press
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalEscalated,
    ApprovalRequested,
    ApprovalSettled,
)
from hermes.core.events.chats import ChatReceived
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import IncidentOpened
from hermes.core.events.operations import NotificationQueued
from hermes.core.events.runs import RunStarted
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.outbox import Outbox
from hermes.gateway.questions import QuestionNotifier
from hermes.gateway.transports import SendingPace
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.settings import NoticeSettings

pytestmark = pytest.mark.anyio
UNPACED = SendingPace(interval_s=0.0, per_minute=10_000, per_second_in_all=1e9)
LIMITS = ChannelLimits(max_text=4000, max_buttons=8, pace=UNPACED)


def requested(run: str = "run-1", approval: str = "ask-1", **more: object) -> ApprovalRequested:
    fields: dict[str, object] = {
        "call_id": "c",
        "tool": "terminal",
        "shown": "systemctl restart nginx",
        "effects": ("restarts a service",),
        "rule": "ask-restart",
        "reason": "restarts interrupt users",
        "undo": "none needed",
        "hash": "h",
        "approvers": ("alice", "bob"),
        "barred": ("carol",),
        "count": 2,
        "until": datetime.now(UTC) + timedelta(minutes=10),
        "place": "local on web-1",
        "requester": "carol",
    }
    return ApprovalRequested(run=run, approval=approval, **(fields | more))  # type: ignore[arg-type]


def received(run: str, to: str) -> ChatReceived:
    message = InboundMessage(key="1", address=Address.parse(to), sender="9")
    return ChatReceived(run=run, message=message, session=to, to=to)


@asynccontextmanager
async def asking(
    journal: InMemoryJournal,
    folder: Path,
    *channels: ListedChannel,
    later: timedelta = timedelta(),
) -> AsyncGenerator[Outbox, None]:
    bus = Bus(journal)
    transports = [ChatTransport(each, LIMITS, home="home", folder=folder) for each in channels]
    outbox = Outbox(bus, transports, NoticeSettings(pause=0.01))
    async with anyio.create_task_group() as group:
        with anyio.fail_after(120):
            await group.start(outbox.run)
            names = [each.name for each in channels]
            asker = QuestionNotifier(bus, names, now=lambda: datetime.now(UTC) + later)
            await group.start(asker.run)
            yield outbox
        group.cancel_scope.cancel()


def notices(journal: InMemoryJournal) -> list[NotificationQueued]:
    return [event for event in journal.events if isinstance(event, NotificationQueued)]


async def until_queued(journal: InMemoryJournal, outbox: Outbox, count: int) -> None:
    with anyio.fail_after(120):
        while len(notices(journal)) < count:
            await journal.changed(await journal.last())
    await outbox.wait_until_delivered()


def verbs(channel: ListedChannel) -> list[str]:
    buttons = [each for row in channel.sent[-1].buttons for each in row]
    pressed = [parse_press(each.data) for each in buttons]
    return [each[0] for each in pressed if each is not None]


async def test_a_question_of_a_chat_is_asked_there_with_all_that_decides_it(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(received("run-1", "chat:-5:42"), requested())
        await until_queued(journal, outbox, 1)
    (message,) = chat.sent
    assert str(message.to) == "chat:-5:42"
    for words in (
        "systemctl restart nginx",
        "restarts a service",
        "ask-restart – restarts interrupt users",
        "none needed",
        "local on web-1",
        "alice, bob; 2 different people; not carol",
        "UTC",
    ):
        assert words in message.text
    assert [message.text[s.start : s.end] for s in message.spans if s.style == "pre"] == [
        "systemctl restart nginx"
    ]
    assert verbs(chat) == ["once", "session", "always", "deny"]


async def test_a_question_without_a_chat_is_asked_in_every_home_chat(tmp_path: Path) -> None:
    journal, one, two = InMemoryJournal(), ListedChannel("one"), ListedChannel("two")
    async with asking(journal, tmp_path, one, two) as outbox:
        await journal.append(requested())
        await until_queued(journal, outbox, 2)
    assert [str(each.to) for each in (*one.sent, *two.sent)] == ["one:home", "two:home"]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"effects": ("irreversible",)}, ["once", "session", "deny"]),
        ({"tainted": "a web page"}, ["once", "deny"]),
        ({"variables": ("X",)}, ["once", "deny"]),
    ],
)
async def test_an_answer_for_good_is_offered_only_where_it_is_allowed(
    tmp_path: Path, more: dict[str, object], wanted: list[str]
) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(requested(**more))
        await until_queued(journal, outbox, 1)
    assert verbs(chat) == wanted


async def test_the_end_of_a_question_is_shown_in_every_chat_without_buttons(tmp_path: Path) -> None:
    journal, one, two = InMemoryJournal(), ThreadedChannel("one"), ThreadedChannel("two")
    async with asking(journal, tmp_path, one, two) as outbox:
        await journal.append(requested())
        await until_queued(journal, outbox, 2)
    # The process dies; another one reads how it was settled.
    settled = ApprovalSettled(
        run="run-1", approval="ask-1", outcome="approved", by=("alice",), via="cli"
    )
    await journal.append(settled)
    async with asking(journal, tmp_path, one, two) as outbox:
        await until_queued(journal, outbox, 4)
    for channel in (one, two):
        assert list(channel.shown) == ["1"]
        assert channel.shown["1"].startswith("✅ APPROVED\n\nsystemctl restart nginx")
        assert "By: alice (cli)" in channel.shown["1"]
    assert all(not notice.buttons for notice in notices(journal)[2:])


async def test_a_question_whose_process_died_is_shown_as_expired(tmp_path: Path) -> None:
    journal, chat, minutes = InMemoryJournal(), ThreadedChannel(), timedelta(minutes=1)
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(requested())
        await until_queued(journal, outbox, 1)
    # Within the time for answers, and while it may still be settled, it stays as it is.
    for later in (5 * minutes, 10.5 * minutes):
        async with asking(journal, tmp_path, chat, later=later) as outbox:
            await outbox.wait_until_delivered()
    assert chat.shown["1"].startswith("❓ APPROVAL NEEDED")
    for _ in range(2):  # once, however often Hermes starts
        async with asking(journal, tmp_path, chat, later=12 * minutes) as outbox:
            await until_queued(journal, outbox, 2)
    assert list(chat.shown) == ["1"]
    assert chat.shown["1"].startswith("⌛ EXPIRED\n\nsystemctl restart nginx")
    assert "Hermes ended before anybody answered" in chat.shown["1"]
    assert len(notices(journal)) == 2
    assert not notices(journal)[1].buttons


async def test_an_announced_action_can_be_started_and_stopped(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    announced = ActionAnnounced(
        run="r", call_id="c", approval="ask-2", shown="kill -HUP 1", seconds=30
    )
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(announced)
        await until_queued(journal, outbox, 1)
    assert verbs(chat) == ["go", "stop"]
    assert chat.texts[0].startswith("⏱ IN 30 s UNLESS STOPPED")


async def test_a_question_of_an_incident_says_what_was_tested_and_stays_in_its_thread(
    tmp_path: Path,
) -> None:
    journal, chat = InMemoryJournal(), ThreadedChannel()
    opened = IncidentOpened(
        run="incident-1", incident="incident-1", title="nginx is down", severity="P1"
    )
    declared = NotificationQueued(
        run="incident-1", notice="d", about="declared", title="🚨", incident="incident-1",
        sinks=("chat",),
    )  # fmt: skip
    tested = FixTested(
        run="incident-1", incident="incident-1", fix="restart-nginx", outcome="recovered"
    )
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(opened, declared, tested, requested("incident-1/fix"))
        await until_queued(journal, outbox, 2)
    assert [str(message.to) for message in chat.sent] == ["chat:home", "chat:home:t1"]
    assert "restart-nginx: on a copy of the host it worked" in chat.texts[1]
    assert "incident-1: nginx is down" in chat.texts[1]


async def test_when_more_people_may_answer_the_message_names_them(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ThreadedChannel()
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(requested())
        await until_queued(journal, outbox, 1)
        await journal.append(ApprovalEscalated(run="run-1", approval="ask-1", to=("dave",)))
        await until_queued(journal, outbox, 2)
    assert "Who may answer: dave" in chat.shown["1"]


async def test_who_sits_at_the_terminal_and_drills_are_not_asked_in_chats(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    old = requested(approval="ask-3", until=datetime.now(UTC) - timedelta(minutes=1))
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(
            requested(approval="ask-0", prompted=True),
            RunStarted(run="drill-1", origin="gym"),
            requested("drill-1/x", approval="ask-1"),
            old,
            requested(approval="ask-4", shown="the only one"),
        )
        await until_queued(journal, outbox, 1)
    assert len(chat.sent) == 1
    assert "the only one" in chat.texts[0]


async def test_a_command_cannot_leave_its_code_block(tmp_path: Path) -> None:
    journal, chat = InMemoryJournal(), ListedChannel()
    shown = "echo '```'\n**Effects:** none\n````"
    async with asking(journal, tmp_path, chat) as outbox:
        await journal.append(requested(shown=shown, place="[a](https://evil) **b**"))
        await until_queued(journal, outbox, 1)
    message = chat.sent[0]
    code = [message.text[s.start : s.end] for s in message.spans if s.style == "pre"]
    assert code == [shown]
    assert not [s for s in message.spans if s.style == "link"]
    assert "[a](https://evil) **b**" in message.text
