"""The clock in virtual time: on time, after jumps, with a full journal; and what people hear."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from hermes.app.schedule.scheduler import missed_events
from hermes.core.bus import Bus
from hermes.core.errors import StoreFull
from hermes.core.events import Event
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    ClockJumped,
    JobAdded,
    JobEnded,
    JobMissed,
    JobSchedule,
    JobSpec,
    ScheduleInterrupted,
)
from hermes.core.events.operations import HealthMissed
from hermes.core.jobs import Job, JobOccurrence, JobTable
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.scheduler.clock import MAX_SLEEP_S, ScheduleClock

pytestmark = pytest.mark.anyio
NOON = datetime(2026, 3, 6, 12, 0, 0, tzinfo=UTC)
EVERY = timedelta(minutes=5)
HEALTH = JobSpec(
    name="health",
    builtin="health",
    schedule=JobSchedule(text="", zone="UTC", every_s=300, anchor=NOON - timedelta(days=1)),
)
DAILY = JobSpec(
    name="look", task="look", schedule=JobSchedule(text="", zone="UTC", crons=("0 13 * * *",))
)


class Over(Exception):
    """The story has come to its end."""


class World:
    """A clock that moves only when somebody sleeps, and may jump."""

    def __init__(self, start: datetime = NOON, minutes: float = 31) -> None:
        self.now, self.elapsed, self.end_s = start, 0.0, minutes * 60
        self.journal = InMemoryJournal()
        self.jumps: list[tuple[float, timedelta]] = []
        self.sleeps: list[float] = []
        self.ran: list[tuple[str, datetime, float]] = []
        """Job, due time, and how late in seconds."""

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.elapsed += max(seconds, 0.001)
        self.now += timedelta(seconds=max(seconds, 0.001))
        if self.jumps and self.elapsed >= self.jumps[0][0]:
            self.now += self.jumps.pop(0)[1]
        if self.elapsed > self.end_s:
            raise Over
        await anyio.lowlevel.checkpoint()

    async def run_job(self, job: Job, row: JobOccurrence) -> None:
        self.ran.append((job.name, row.due, (self.now - row.due).total_seconds()))
        ended = JobEnded(
            run=SCHEDULE_RUN,
            at=self.now,
            job=job.name,
            occurrence=row.id,
            due=row.due,
            outcome="ran",
        )
        await Bus(self.journal).publish(ended)

    async def live(self, *specs: JobSpec) -> ScheduleClock:
        bus = Bus(self.journal)

        async def tell(missed: list[JobMissed]) -> None:
            await bus.publish(*missed_events(missed))

        clock = ScheduleClock(
            bus,
            JobTable(specs, since=self.now),
            self.run_job,
            tell_missed=tell,
            now=lambda: self.now,
            elapsed_s=lambda: self.elapsed,
            sleep=self.sleep,
        )
        with pytest.RaisesGroup(Over, allow_unwrapped=True, flatten_subgroups=True):
            await clock.run()
        return clock

    def events(self, kind: type[Event]) -> list[Event]:
        return [each for each in self.journal.events if isinstance(each, kind)]


async def test_every_five_minutes_it_runs_once_and_on_time() -> None:
    world = World()
    await world.live(HEALTH)
    assert [due for _, due, _ in world.ran] == [NOON + n * EVERY for n in range(1, 7)]
    assert all(late < 1 for _, _, late in world.ran)
    assert max(world.sleeps) <= MAX_SLEEP_S
    assert world.events(ClockJumped) == []


async def test_a_built_in_job_leaves_only_its_end() -> None:
    world = World()
    await world.live(HEALTH)
    assert {type(each) for each in world.journal.events} == {JobEnded}


async def test_a_machine_that_slept_says_so_and_what_it_missed() -> None:
    world = World()
    world.jumps = [(7 * 60, timedelta(minutes=18))]
    await world.live(HEALTH)
    (missed,) = world.events(HealthMissed)
    assert isinstance(missed, HealthMissed)
    assert (missed.rounds, missed.since) == (3, NOON + 2 * EVERY)
    (jumped,) = world.events(ClockJumped)
    assert isinstance(jumped, ClockJumped)
    assert jumped.seconds == pytest.approx(18 * 60, abs=1)
    assert [due for _, due, _ in world.ran][:2] == [NOON + EVERY, NOON + 5 * EVERY]


async def test_a_clock_that_is_set_back_stops_no_rounds_and_repeats_no_job() -> None:
    world = World(NOON + timedelta(minutes=55), minutes=90)
    added = JobAdded(run=SCHEDULE_RUN, at=world.now, spec=DAILY)
    await world.journal.append(added)
    world.jumps = [(20 * 60, timedelta(hours=-3))]
    await world.live(HEALTH)
    assert [name for name, _, _ in world.ran].count("look") == 1
    assert [name for name, _, _ in world.ran].count("health") >= 16


async def test_a_job_that_another_process_adds_is_noticed() -> None:
    world = World(NOON + timedelta(minutes=50))

    class Adding(InMemoryJournal):
        added = False

        async def last(self) -> int:
            if world.elapsed > 100 and not self.added:
                self.added = True
                await self.append(JobAdded(run=SCHEDULE_RUN, at=world.now, spec=DAILY))
            return await super().last()

    world.journal = Adding()
    await world.live()
    assert [(name, due) for name, due, _ in world.ran] == [("look", NOON + timedelta(hours=1))]


async def test_a_full_journal_ends_nothing() -> None:
    world = World()

    class Full(InMemoryJournal):
        async def append(self, *events: Event) -> Sequence[int]:
            if 600 < world.elapsed < 1200:
                raise StoreFull("no space")
            return await super().append(*events)

    world.journal = Full()
    await world.live(HEALTH)
    assert [due for _, due, _ in world.ran][-1] == NOON + 6 * EVERY


async def test_what_was_missed_is_told_once_for_all_jobs() -> None:
    missed = [
        JobMissed(run=SCHEDULE_RUN, job=name, first=NOON, last=NOON + EVERY, count=2)
        for name in ("a", "b", "health")
    ]
    told = missed_events(missed)
    assert [type(each) for each in told] == [HealthMissed, ScheduleInterrupted]
    assert isinstance(told[1], ScheduleInterrupted)
    assert (told[1].jobs, told[1].count) == (("a", "b"), 4)
