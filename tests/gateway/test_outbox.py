"""The outbox against servers that refuse, hang and answer late, against kills and full disks."""

import os
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.header import decode_header, make_header
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from hermes.core.bus import Bus
from hermes.core.errors import DeliveryError, SettingsError, StoreFull
from hermes.core.events import Event
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationKind,
    NotificationQueued,
    NotificationSent,
)
from hermes.core.notifications import NotificationSink, SinkFilter
from hermes.gateway.outbox import Outbox
from hermes.gateway.sinks import (
    LogSink,
    NtfySink,
    TerminalSink,
    WebhookSink,
    open_sinks,
)
from hermes.gateway.transports import SinkTransport
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.plumbing.signatures import sign_timed_body
from hermes.sre.settings import NoticeSettings, SinkSettings
from notice_server import door
from warm_interpreter import warm_interpreter

pytestmark = pytest.mark.anyio
Kind = TypeVar("Kind", NotificationSent, NotificationAttempted)
LIFE = Path(__file__).with_name("outbox_process.py")
QUICK = NoticeSettings(briefing="", pause=0.01, timeout=5, tries=4)


class Kept:
    """A sink that ships with nobody: a list."""

    def __init__(self, name: str = "kept") -> None:
        self.name = name
        self.titles: list[str] = []

    async def send(self, notice: NotificationQueued, repeated: bool) -> None:
        self.titles.append(notice.title + (" (repeated)" if repeated else ""))


def queued(
    number: int,
    *sinks: str,
    incident: str = "i",
    about: NotificationKind = "declared",
    **more: object,
) -> NotificationQueued:
    fields: dict[str, object] = {"title": f"title {number}", "text": "why: so", "severity": "P1"}
    return NotificationQueued(
        run="watch",
        notice=f"n{number}",
        about=about,
        incident=incident,
        sinks=sinks,
        **(fields | more),  # type: ignore[arg-type]
    )


@asynccontextmanager
async def telling(
    journal: InMemoryJournal | SqliteJournal,
    sinks: Sequence[NotificationSink],
    settings: NoticeSettings = QUICK,
) -> AsyncGenerator[Outbox, None]:
    outbox = Outbox(Bus(journal), [SinkTransport(sink) for sink in sinks], settings)
    async with anyio.create_task_group() as group:
        with anyio.fail_after(120):
            await group.start(outbox.run)
            yield outbox
        group.cancel_scope.cancel()


async def tell(
    journal: InMemoryJournal, *sinks: NotificationSink, settings: NoticeSettings = QUICK
) -> None:
    """Until everything is settled."""
    async with telling(journal, sinks, settings) as outbox:
        await outbox.wait_until_delivered()


def of(journal: InMemoryJournal, kind: type[Kind]) -> list[Kind]:
    return [event for event in journal.events if isinstance(event, kind)]


async def test_what_answers_500_and_hangs_is_tried_until_it_takes_it() -> None:
    journal = InMemoryJournal()
    with door(lambda number: {1: 500, 2: 0, 3: 429}.get(number, 204)) as to:
        await journal.append(queued(1, "webhook"))
        patient = NoticeSettings(briefing="", pause=0.01, timeout=5, tries=50)
        await tell(journal, WebhookSink(to.url, timeout=4), settings=patient)
        (sent,) = of(journal, NotificationSent)
        assert sent.tries >= 4 and sent.repeated  # a busy machine may miss more than the second
        first, *others = (said["repeated"] for said in to.said)
        assert not first and len(others) >= 3 and all(others)
        assert to.said[-1]["title"] == "title 1 (repeated)"
        assert {said["id"] for said in to.said} == {"n1"}


async def test_what_refuses_the_connection_is_given_up_and_the_others_are_told() -> None:
    journal, kept = InMemoryJournal(), Kept()
    with door() as gone:
        url = gone.url
    await journal.append(queued(1, "webhook", "kept"), queued(2, "webhook", "kept", incident="j"))
    await tell(journal, WebhookSink(url), kept)
    assert kept.titles[:2] == ["title 1", "title 2"]
    assert kept.titles[2:] == ["📪 webhook cannot be reached"]  # once, not for each
    given_up = [event for event in of(journal, NotificationAttempted) if event.given_up]
    assert len(given_up) == 2
    assert not of(journal, NotificationSent) or all(
        event.sink == "kept" for event in of(journal, NotificationSent)
    )
    assert not any(event.unsure for event in of(journal, NotificationAttempted))


@pytest.mark.parametrize("status", [400, 404, 302])
async def test_a_plain_no_is_not_asked_again_and_holds_up_nothing_behind_it(status: int) -> None:
    journal = InMemoryJournal()
    with door(lambda number: status if number == 1 else 200) as to:
        await journal.append(queued(1, "webhook"), queued(2, "webhook"))
        await tell(journal, WebhookSink(to.url))
        assert [said["id"] for said in to.said] == ["n1", "n2"]


async def test_a_sink_that_hangs_holds_up_nobody_else() -> None:
    journal, kept = InMemoryJournal(), Kept()
    with door(lambda number: 0) as stuck:
        events = [queued(number, "webhook", "kept") for number in range(20)]
        await journal.append(*events)
        async with telling(journal, [WebhookSink(stuck.url, timeout=600), kept]):
            await until(lambda: len(kept.titles) == 20)
            assert not of(journal, NotificationSent) or {
                e.sink for e in of(journal, NotificationSent)
            } == {"kept"}
            assert len({said["id"] for said in stuck.said}) <= 1


async def test_the_order_of_an_incident_is_kept_and_another_incident_does_not_wait_for_it() -> None:
    journal = InMemoryJournal()
    with door(lambda number: 503 if number == 1 else 200) as to:
        await journal.append(
            queued(1, "webhook", incident="a"),
            queued(2, "webhook", incident="a"),
            queued(3, "webhook", incident="b"),
        )
        settings = NoticeSettings(briefing="", pause=2.0, timeout=60)
        await tell(journal, WebhookSink(to.url), settings=settings)
        assert [said["id"] for said in to.said] == ["n1", "n3", "n1", "n2"]


async def test_updates_that_piled_up_before_a_dead_sink_are_told_as_the_last_one() -> None:
    journal, kept = InMemoryJournal(), Kept()
    await journal.append(queued(1, "kept"), *(queued(n, "kept", about="update") for n in (2, 3, 4)))
    await journal.append(queued(5, "kept", about="update", incident="other"))
    await tell(journal, kept)
    assert kept.titles == ["title 1", "title 4", "title 5"]


async def test_what_is_too_old_is_not_told_any_more() -> None:
    journal, kept = InMemoryJournal(), Kept()
    await journal.append(queued(1, "kept", at=datetime.now(UTC) - timedelta(hours=7)))
    await journal.append(queued(2, "kept"))
    await tell(journal, kept)
    assert kept.titles == ["title 2"]


async def test_two_watches_of_one_journal_tell_everything_once() -> None:
    journal = InMemoryJournal()
    with door() as to:
        first, second = WebhookSink(to.url), WebhookSink(to.url)
        async with telling(journal, [first]) as one, telling(journal, [second]) as two:
            await journal.append(*(queued(n, "webhook", incident=str(n)) for n in range(30)))
            await one.wait_until_delivered()
            await two.wait_until_delivered()
        assert sorted(said["id"] for said in to.said) == sorted(f"n{n}" for n in range(30))
        assert not any(said["repeated"] for said in to.said)


async def test_a_sink_with_a_bug_is_a_sink_that_failed() -> None:
    class Broken(Kept):
        async def send(self, notice: NotificationQueued, repeated: bool) -> None:
            raise ZeroDivisionError("oops")

    journal, kept = InMemoryJournal(), Kept()
    await journal.append(queued(1, "broken", "kept"))
    await tell(journal, Broken("broken"), kept)
    assert "title 1" in kept.titles


async def test_a_journal_that_is_full_for_a_while_sends_nothing_twice() -> None:
    class Full(InMemoryJournal):
        refusals = 0

        async def append(self, *events: Event) -> Sequence[int]:
            if self.refusals and isinstance(events[0], NotificationSent):
                self.refusals -= 1
                raise StoreFull("no space")
            return await super().append(*events)

    journal, kept = Full(), Kept()
    await journal.append(queued(1, "kept"))
    journal.refusals = 3
    await tell(journal, kept)
    assert kept.titles == ["title 1"]
    assert len(of(journal, NotificationSent)) == 1


@pytest.mark.torture
async def test_fifty_kills_between_sending_and_writing_it_down(tmp_path: Path) -> None:
    """Each life repeats what the one before it died of, marked, and dies of the next."""
    path, kills = tmp_path / "journal.db", 50
    async with SqliteJournal.open(path) as journal:
        await journal.append(
            *(queued(number, "webhook", incident=str(number)) for number in range(kills + 1))
        )
    seen: dict[str, int] = {}

    def first_time_hangs(number: int) -> int:
        id = to.said[number - 1]["id"]
        seen[id] = seen.get(id, 0) + 1
        return 0 if seen[id] == 1 and len(seen) <= kills else 200

    with door(first_time_hangs) as to, warm_interpreter(LIFE) as python:
        for kill in range(kills):
            child = python.start(str(path), to.url)
            await until(lambda wanted=kill + 1: len(seen) >= wanted)  # type: ignore[misc]
            os.kill(child.pid, signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
        last = python.start(str(path), to.url)
        assert await anyio.to_thread.run_sync(last.wait) == 0
    async with SqliteJournal.open(path) as journal:
        kinds = ("notice.sent",)
        sent = [e.event async for e in journal.read(kinds=kinds)]
    assert (
        len(sent)
        == len({event.notice for event in sent if isinstance(event, NotificationSent)})
        == 51
    )
    assert sum(getattr(event, "repeated", False) for event in sent) == kills
    titles = [said["title"] for said in to.said]
    assert sum(title.endswith("(repeated)") for title in titles) == kills
    assert len(titles) == 2 * kills + 1


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if holds():
            return
        await anyio.sleep(0.005)
    raise AssertionError("it never came to that")


async def test_a_webhook_is_signed_and_ntfy_gets_title_priority_and_tags() -> None:
    notice = queued(1, title="🚨 P1 INCIDENT DECLARED: x\r\nEvil: 1")
    with door() as to:
        await WebhookSink(to.url, secret="s3").send(notice, False)
        await NtfySink(to.url, token="tk").send(notice, True)
    first, second = to.headers
    mark = sign_timed_body("s3", first["X-Hermes-Timestamp"], to.bodies[0])
    assert first["X-Hermes-Signature"] == mark
    assert first["Idempotency-Key"] == "n1"
    title = str(make_header(decode_header(second["Title"])))
    assert title == "🚨 P1 INCIDENT DECLARED: x Evil: 1 (repeated)"
    assert (second["Priority"], second["Tags"]) == ("4", "rotating_light")
    assert second["Authorization"] == "Bearer tk"
    assert to.bodies[1] == b"why: so"


async def test_the_log_is_rotated_and_has_whole_lines(tmp_path: Path) -> None:
    log = LogSink(tmp_path / "n" / "notices.log", max_bytes=2_000)
    for number in range(60):
        await log.send(queued(number), False)
    files = listed(tmp_path / "n")
    assert [file.name for file in files] == [
        "notices.log", "notices.log.1", "notices.log.2", "notices.log.3",
    ]  # fmt: skip
    assert all(file.stat().st_size <= 2_000 for file in files)
    assert all(line.endswith("}") for file in files for line in file.read_text().splitlines())


def listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_fails_the_log_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notices.log").symlink_to("/dev/full")
    journal, kept = InMemoryJournal(), Kept()
    await journal.append(queued(1, "log", "kept"))
    await tell(journal, LogSink(tmp_path / "notices.log"), kept)
    assert kept.titles == ["title 1", "📪 log cannot be reached"]


async def test_the_terminal_gets_words_and_no_sequences() -> None:
    shown: list[str] = []
    notice = queued(1, title="a\x1b[2Jb")
    await TerminalSink(shown.append).send(notice, True)
    assert shown[0].splitlines()[0].endswith("ab (repeated)")
    assert "\x1b" not in shown[0]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as gone, pytest.raises(DeliveryError) as error:
        try:
            await TerminalSink(gone.write).send(notice, False)
        finally:
            os.dup2(os.open(os.devnull, os.O_WRONLY), write)
    assert error.value.permanent


def test_sinks_that_could_never_work_are_refused_at_the_start(tmp_path: Path) -> None:
    def opened(*sinks: SinkSettings) -> Sequence[tuple[NotificationSink, SinkFilter]]:
        secrets: dict[str, str] = {}
        return open_sinks(NoticeSettings(sinks=sinks), home=tmp_path, secret=secrets.get)

    assert [sink.name for sink, _ in opened(SinkSettings(kind="ntfy", url="http://x/y"))] == [
        "log",
        "ntfy",
    ]
    hook = SinkSettings(kind="webhook", url="http://x")
    for wrong in (
        (hook, hook),
        (SinkSettings(kind="webhook", url="ftp://x"),),
        (SinkSettings(kind="webhook", url="http://x", secret_variable="NONE_SUCH"),),
        (SinkSettings(kind="log"),),
    ):
        with pytest.raises(SettingsError, match=r"sre\.notices\.sinks"):
            opened(*wrong)
