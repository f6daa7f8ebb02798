"""Health on its rhythm, in virtual time: nothing here waits."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed, StoreFull
from hermes.core.events import Event
from hermes.core.events.operations import HealthChecked, HealthMissed
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.health import (
    NOT_RECORDED_REASON,
    HealthCheckResult,
    HealthSchedule,
    run_health_round,
)
from hermes.sre.settings import HealthSettings

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 3, 6, 12, 0, 0, tzinfo=UTC)
EVERY = timedelta(minutes=5)


class Over(Exception):
    """The story has come to its end."""


class World:
    """A clock that moves only when somebody sleeps, and what happens at which time of it."""

    def __init__(self, start: datetime = NOON) -> None:
        self.now, self.end = start, start + timedelta(minutes=31)
        self.journal = InMemoryJournal()
        self.took = timedelta()
        self.jumps: list[tuple[datetime, timedelta]] = []
        self.found: Callable[[], Sequence[HealthCheckResult]] = lambda: [
            HealthCheckResult(name="web", ok=True)
        ]

    async def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.jumps and self.now >= self.jumps[0][0]:
            self.now += self.jumps.pop(0)[1]
        if self.now > self.end:
            raise Over
        await anyio.lowlevel.checkpoint()

    async def rounds(self) -> Sequence[HealthCheckResult]:
        self.now += self.took
        return self.found()

    async def live(self) -> None:
        health = HealthSchedule(
            Bus(self.journal), self.rounds, HealthSettings(), now=lambda: self.now, sleep=self.sleep
        )
        with pytest.raises(Over):
            await health.run()

    @property
    def checked(self) -> list[HealthChecked]:
        return [event for event in self.journal.events if isinstance(event, HealthChecked)]

    @property
    def missed(self) -> list[HealthMissed]:
        return [event for event in self.journal.events if isinstance(event, HealthMissed)]


async def test_every_five_minutes_everything_is_asked_once() -> None:
    world = World()
    world.took = timedelta(seconds=20)
    await world.live()
    assert [event.due for event in world.checked] == [NOON + n * EVERY for n in range(7)]
    assert world.missed == []


async def test_what_could_not_be_asked_is_not_fine() -> None:
    world = World()
    world.found = lambda: [
        HealthCheckResult(name="web", ok=True),
        HealthCheckResult(name="db", ok=False),
        HealthCheckResult(name="disk", ok=None),
    ]
    await world.live()
    first = world.checked[0]
    assert (first.ok, first.checks) == (False, 3)
    assert (first.failing, first.unknown) == (("db",), ("disk",))


async def test_a_machine_that_slept_says_how_many_rounds_it_missed() -> None:
    world = World()
    world.jumps = [(NOON + timedelta(minutes=7), timedelta(minutes=18))]
    await world.live()
    missed = world.missed
    assert [(event.rounds, event.since) for event in missed] == [(3, NOON + 2 * EVERY)]
    assert "suspended" in missed[0].why
    assert [event.due for event in world.checked] == [NOON + n * EVERY for n in (0, 1, 5, 6)]


async def test_a_watch_that_was_killed_is_noticed_by_the_next_one() -> None:
    first = World()
    await first.live()
    second = World(first.checked[-1].at + timedelta(minutes=23))
    second.journal = first.journal
    await second.live()
    assert [event.rounds for event in second.missed] == [4]
    assert second.missed[0].why == NOT_RECORDED_REASON


async def test_a_short_restart_misses_nothing() -> None:
    first = World()
    await first.live()
    second = World(first.now + timedelta(seconds=30))
    second.journal = first.journal
    await second.live()
    assert second.missed == []


async def test_a_clock_that_is_set_back_does_not_stop_the_rounds() -> None:
    world = World()
    world.jumps = [(NOON + timedelta(minutes=11), timedelta(hours=-3))]
    world.end = NOON - timedelta(hours=3) + timedelta(minutes=31)

    async def sleep(seconds: float) -> None:
        before = world.jumps
        world.now += timedelta(seconds=seconds)
        if before and world.now >= before[0][0]:
            world.now += before.pop(0)[1]
        if not before and world.now > world.end:
            raise Over

    health = HealthSchedule(
        Bus(world.journal), world.rounds, HealthSettings(), now=lambda: world.now, sleep=sleep
    )
    with pytest.raises(Over):
        await health.run()
    assert len(world.checked) >= 6
    assert world.missed == []


async def test_a_round_that_takes_too_long_is_told_and_the_rhythm_goes_on() -> None:
    world = World()
    world.took = timedelta(minutes=8)
    await world.live()
    assert world.missed
    assert all("took too long" in event.why for event in world.missed)
    assert len(world.checked) == 4


async def test_a_place_that_takes_no_commands_is_unknown() -> None:
    async def broken() -> Sequence[HealthCheckResult]:
        raise EnvironmentFailed("the container is gone")

    checked, looked = await run_health_round(broken, 1.0)
    assert (checked.ok, checked.checks) == (False, 0)
    assert looked[0].detail == "the container is gone"


async def test_a_round_that_hangs_ends() -> None:
    async def hangs() -> Sequence[HealthCheckResult]:
        await anyio.sleep_forever()
        return ()

    checked, looked = await run_health_round(hangs, 0.01)
    assert not checked.ok
    assert "did not end within" in looked[0].detail


async def test_a_full_journal_does_not_stop_the_rounds() -> None:
    class Full(InMemoryJournal):
        async def append(self, *events: Event) -> Sequence[int]:
            raise StoreFull("no space")

    world, asked = World(), list[datetime]()

    def found() -> Sequence[HealthCheckResult]:
        asked.append(world.now)
        return ()

    world.journal, world.found = Full(), found
    await world.live()
    assert len(asked) == 7
