"""The stream loses nothing, even for a reader that falls behind."""

from collections.abc import Sequence

import anyio
import pytest
from msgspec.structs import replace

from hermes.core.bus import Bus, Glimpse
from hermes.core.events import Event
from hermes.core.events.runs import RunRenamed
from hermes.core.messages import CompletionDelta
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.in_memory import InMemoryJournal

pytestmark = pytest.mark.anyio


def named(number: int, run: str = "r") -> RunRenamed:
    return RunRenamed(run=run, title=str(number))


async def test_a_slow_follower_sees_every_event_once_and_in_order() -> None:
    bus = Bus(InMemoryJournal())
    seen: list[int] = []

    async def follow() -> None:
        async for recorded in bus.follow():
            await anyio.lowlevel.checkpoint()
            seen.append(recorded.seq)
            if recorded.seq == 20:
                return

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            for number in range(20):
                await bus.publish(named(number))
                if number % 5 == 0:
                    await anyio.lowlevel.checkpoint()
    assert seen == list(range(1, 21))


async def test_following_one_run_wakes_for_it_and_sleeps_through_the_others() -> None:
    bus = Bus(InMemoryJournal())
    seen: list[int] = []

    async def follow() -> None:
        async for recorded in bus.follow(run="mine"):
            seen.append(recorded.seq)
            if len(seen) == 2:
                return

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await bus.publish(named(1, "mine"), named(2, "other"))
            await anyio.sleep(0.01)
            await bus.publish(named(3, "other"))
            await anyio.sleep(0.01)
            await bus.publish(named(4, "mine"))
    assert seen == [1, 4]


class SlowJournal(InMemoryJournal):
    """Numbers an event at once but, like a database, answers after a while: odd ones last."""

    async def append(self, *events: Event) -> Sequence[int]:
        numbers = await super().append(*events)
        await anyio.sleep(0.002 if numbers[0] % 2 else 0)
        return numbers


async def test_events_published_at_the_same_time_still_arrive_in_order() -> None:
    bus = Bus(SlowJournal())
    async with bus.subscribe() as stream:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(bus.publish, named(number))
        shown = [stream.receive_nowait() for _ in range(10)]
    assert [item.seq for item in shown if isinstance(item, JournalRecord)] == list(range(1, 11))


async def test_glimpses_are_shown_between_events_and_never_kept() -> None:
    journal = InMemoryJournal()
    bus = Bus(journal)
    async with bus.subscribe() as stream:
        await bus.publish(named(1))
        bus.glimpse("r", CompletionDelta(text="hel"))
        await bus.publish(named(2))
        kinds = [type(stream.receive_nowait()) for _ in range(3)]
    assert kinds == [JournalRecord, Glimpse, JournalRecord]
    assert len(journal.events) == 2


async def test_a_reader_that_stops_reading_never_holds_up_the_writer() -> None:
    bus = Bus(InMemoryJournal(), backlog=2)
    async with bus.subscribe() as stream:
        with anyio.fail_after(120):
            for number in range(10):
                await bus.publish(named(number))
        received = [item async for item in stream]
    assert len(received) == 2


async def test_what_is_cleaned_is_all_that_anybody_gets() -> None:
    heard: list[Event] = []

    def clean(event: Event) -> Event:
        return replace(event, title="clean") if isinstance(event, RunRenamed) else event

    bus = Bus(InMemoryJournal(), clean=clean, on_recorded=heard.append)
    async with bus.subscribe() as stream:
        ((seq, written),) = await bus.record(RunRenamed(run="r", title="secret"))
        shown = await stream.receive()
    kept = [one async for one in bus.journal.read()]
    assert seq == 1
    assert written == heard[0] == RunRenamed(run="r", title="clean", at=written.at)
    assert shown == kept[0] == JournalRecord(1, written)
