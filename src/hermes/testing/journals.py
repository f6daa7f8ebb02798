"""What every journal promises, whichever way it keeps the events."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import anyio

from hermes.core.bus import Bus
from hermes.core.events import Event
from hermes.core.events.base import BaseEvent
from hermes.core.events.runs import (
    MessageAdded,
    ModelSwitched,
    RunDeleted,
    RunRenamed,
    RunStarted,
    TurnStarted,
)
from hermes.core.messages import Message
from hermes.core.protocols import Journal
from hermes.memory.journal.runs import RunSummary
from hermes.testing.environments import ContractSuite

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class ListingJournal(Journal, Protocol):
    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]: ...


class JournalContract(ContractSuite):
    """Needs the fixture `journal`: an empty journal."""

    async def test_numbers_start_at_one_and_grow_by_one(self, journal: ListingJournal) -> None:
        assert await journal.last() == 0
        assert list(await journal.append(named(1))) == [1]
        assert list(await journal.append(named(2), named(3))) == [2, 3]
        assert await journal.last() == 3

    async def test_appending_nothing_changes_nothing(self, journal: ListingJournal) -> None:
        assert list(await journal.append()) == []
        assert await journal.last() == 0

    async def test_what_was_appended_is_read_back_equal_and_in_order(
        self, journal: ListingJournal
    ) -> None:
        events: list[Event] = [
            RunStarted(run="r", origin="cli", task="räksmörgås 🦐", tools=("a", "b")),
            said('quotes " and \\ and \n and \x00 and \u2028'),
            named(""),
        ]
        await journal.append(*events)
        assert [recorded.event async for recorded in journal.read()] == events

    async def test_events_appended_side_by_side_are_numbered_in_the_order_of_the_calls(
        self,
        journal: ListingJournal,
    ) -> None:
        numbers: dict[int, Sequence[int]] = {}

        async def append(number: int) -> None:
            numbers[number] = await journal.append(named(number), named(number))

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(append, number)
        assert [list(numbers[number]) for number in range(50)] == [
            [2 * number + 1, 2 * number + 2] for number in range(50)
        ]

    async def test_reading_can_be_narrowed_by_number_run_kind_and_time(
        self,
        journal: ListingJournal,
    ) -> None:
        later = NOON + timedelta(hours=1)
        await journal.append(
            said("one", "a"),
            TurnStarted(run="a", at=later, turn=1),
            said("three", "b", at=later),
            RunRenamed(run="b", at=NOON, title="four"),
            said("five", "a", at=later),
        )
        assert await seqs(journal, after=3) == [4, 5]
        assert await seqs(journal, run="a") == [1, 2, 5]
        assert await seqs(journal, kinds=["message.added"]) == [1, 3, 5]
        assert await seqs(journal, kinds=["run.renamed", "turn.started", "run.renamed"]) == [2, 4]
        assert await seqs(journal, since=later) == [2, 3, 5]
        assert await seqs(journal, since=later + timedelta(seconds=1)) == []
        assert await seqs(journal, run="a", kinds=["message.added"], since=later, after=1) == [5]
        assert await seqs(journal, kinds=["message.added", "run.renamed"], since=later) == [3, 5]
        assert await seqs(journal, run="none") == []
        assert await seqs(journal, kinds=["no.such"]) == []

    async def test_a_long_journal_is_read_whole_whatever_is_asked_for(
        self, journal: ListingJournal
    ) -> None:
        await journal.append(*(said("x", f"r{n % 3}") for n in range(700)), *map(named, range(600)))
        everything = list(range(1, 1301))
        assert await seqs(journal) == everything
        assert await seqs(journal, kinds=["run.renamed", "message.added"]) == everything
        assert await seqs(journal, kinds=["run.renamed"]) == everything[700:]
        assert await seqs(journal, run="r1") == everything[1:700:3]
        assert await seqs(journal, since=NOON, after=10) == everything[10:]

    async def test_large_texts_come_back_whole(self, journal: ListingJournal) -> None:
        await journal.append(*(said(f"{n}" * 700_000) for n in range(5)))
        texts = [
            r.event.message.text async for r in journal.read() if isinstance(r.event, MessageAdded)
        ]
        assert [(text[0], len(text)) for text in texts] == [(f"{n}", 700_000) for n in range(5)]

    async def test_waiting_for_a_change_ends_at_once_when_it_has_already_happened(
        self,
        journal: ListingJournal,
    ) -> None:
        await journal.append(named(1), named(2))
        with anyio.fail_after(5):
            await journal.changed(0)
            await journal.changed(1)

    async def test_waiting_for_a_change_lasts_until_there_is_one(
        self, journal: ListingJournal
    ) -> None:
        await journal.append(named(1))
        with anyio.move_on_after(0.05) as too_early:
            await journal.changed(1)
        assert too_early.cancelled_caught
        woken = 0

        async def wait() -> None:
            nonlocal woken
            await journal.changed(1)
            woken += 1

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                await journal.append(named(2))
        assert woken == 3

    async def test_a_follower_on_the_bus_sees_every_event_once(
        self, journal: ListingJournal
    ) -> None:
        bus = Bus(journal)
        seen: list[int] = []

        async def follow() -> None:
            async for recorded in bus.follow():
                seen.append(recorded.seq)
                if recorded.seq == 60:
                    return

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                for number in range(20):
                    await bus.publish(named(number), named(number), named(number))
        assert seen == list(range(1, 61))

    async def test_a_reader_may_stop_in_the_middle(self, journal: ListingJournal) -> None:
        await journal.append(*map(named, range(1000)))
        async for recorded in journal.read():
            if recorded.seq == 3:
                break
        assert list(await journal.append(named("more"))) == [1001]

    async def test_half_characters_cost_one_character_and_not_the_run(
        self, journal: ListingJournal
    ) -> None:
        await journal.append(said("cut \ud83d off"))
        (event,) = [recorded.event async for recorded in journal.read()]
        assert isinstance(event, MessageAdded)
        assert event.message.text.startswith("cut ")
        assert event.message.text.endswith(" off")

    async def test_runs_are_listed_newest_first_with_what_a_list_shows(
        self, journal: ListingJournal
    ) -> None:
        later = NOON + timedelta(minutes=5)
        await journal.append(
            RunStarted(run="a", origin="cli", task="fix it", model="m1", at=NOON),
            said("hello", "a"),
            RunStarted(run="a/1", origin="subagent", parent="a", at=NOON),
            RunStarted(run="b", origin="cron", at=NOON),
            MessageAdded(run="b", message=Message(role="system", text="You are b.")),
            said("what is b?" * 50, "b"),
            named("first", "a"),
            RunRenamed(run="a", title="second", at=NOON),
            ModelSwitched(run="a", model="m2", at=NOON),
            said("bye", "a", at=later),
            TurnStarted(run="not started", turn=1),
        )
        b, a = await journal.runs()
        assert (b.id, b.origin, b.messages, b.title, b.model) == ("b", "cron", 2, "", "")
        assert b.task == "what is b?" * 20
        assert a == RunSummary(
            id="a",
            origin="cli",
            task="fix it",
            title="second",
            model="m2",
            started_at=NOON,
            last_at=later,
            messages=2,
        )
        assert [run.id for run in await journal.runs(parent="a")] == ["a/1"]
        assert [run.id for run in await journal.runs(parent=None)] == ["b", "a/1", "a"]
        assert [run.id for run in await journal.runs(limit=1)] == ["b"]

    async def test_deleted_runs_are_listed_only_on_request_and_never_use_up_the_limit(
        self,
        journal: ListingJournal,
    ) -> None:
        for run in "abc":
            await journal.append(RunStarted(run=run, origin="cli"))
        await journal.append(RunDeleted(run="c"))
        assert [run.id for run in await journal.runs(limit=2)] == ["b", "a"]
        assert [(run.id, run.deleted) for run in await journal.runs(limit=2, deleted=True)] == [
            ("c", True),
            ("b", False),
        ]

    async def test_a_run_that_was_started_twice_is_listed_once(
        self, journal: ListingJournal
    ) -> None:
        await journal.append(
            RunStarted(run="a", origin="cli", task="first", at=NOON),
            RunStarted(run="b", origin="cli", at=NOON),
            RunStarted(run="a", origin="cli", task="again", at=NOON),
        )
        assert [(run.id, run.task) for run in await journal.runs()] == [("b", ""), ("a", "first")]

    async def test_a_run_that_only_a_later_version_can_read_is_not_listed(
        self, journal: ListingJournal
    ) -> None:
        await journal.append(
            LaterRunStarted(run="a", origin="telepathy", at=NOON),
            RunStarted(run="b", origin="cli", at=NOON),
        )
        assert [run.id for run in await journal.runs()] == ["b"]


class LaterRunStarted(BaseEvent, tag="run.started", kw_only=True, frozen=True):
    """The start of a run as a later version might write it."""

    origin: str


def named(title: str | int, run: str = "r") -> RunRenamed:
    return RunRenamed(run=run, title=str(title))


def said(text: str, run: str = "r", at: datetime = NOON) -> MessageAdded:
    return MessageAdded(run=run, at=at, message=Message(role="user", text=text))


async def seqs(journal: Journal, **how: object) -> list[int]:
    return [recorded.seq async for recorded in journal.read(**how)]  # type: ignore[arg-type]
