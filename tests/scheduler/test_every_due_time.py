"""Virtual time: whatever is paused, killed or doubled, every due time has exactly one outcome."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.core.bus import Bus
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobAdded,
    JobDue,
    JobEnded,
    JobMissed,
    JobPaused,
    JobResumed,
    JobSchedule,
    JobSkipped,
    JobSpec,
    JobStarted,
)
from hermes.core.jobs import Job, JobOccurrence, JobTable, occurrence_id
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.scheduler.clock import ScheduleClock, start_occurrence
from hermes.scheduler.cron import due_times, next_time
from hermes.scheduler.due import jitter_s, late_limit_s, plan_rows, settle_rows

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Pacific/Apia",
)
CRONS = (
    "0 9 * * *",
    "30 2 * * *",
    "*/30 * * * *",
    "0 */6 * * *",
    "15 1,2,3 * * *",
    "0 9 * * 1-5",
    "0 0 1 * *",
    "0 12 L * *",
    "0 3 * * 0",
)
moments = st.integers(0, 22 * 365 * 86_400).map(
    lambda seconds: datetime(2015, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
lengths = st.sampled_from((1, 40, 700, 3_000, 9_000, 40_000, 90_000, 300_000))


@st.composite
def schedules(draw: st.DrawFn, began: datetime) -> JobSchedule:
    zone = draw(st.sampled_from(ZONES))
    kind = draw(st.sampled_from(("cron", "days", "interval", "once")))
    if kind == "interval":
        every = float(draw(st.sampled_from((60, 2700, 7200, 100_000))))
        return JobSchedule(text="", zone=zone, every_s=every, anchor=began)
    if kind == "once":
        return JobSchedule(text="", zone=zone, at=began + timedelta(seconds=draw(lengths)))
    crons = tuple(draw(st.lists(st.sampled_from(CRONS), min_size=1, max_size=2, unique=True)))
    whole = JobSchedule(text="", zone=zone, crons=crons)
    if kind == "cron":
        return whole
    return JobSchedule(
        text="", zone=zone, crons=crons, every_days=3, anchor=next_time(whole, began)
    )


class Holder:
    """A process that keeps the schedule: it works on a job for a while, until it is killed."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name, self.ends = world, name, dict[str, tuple[datetime, JobOccurrence]]()
        self.clock = ScheduleClock(
            world.bus, JobTable(since=world.now), self.work, now=lambda: world.now
        )

    async def work(self, job: Job, row: JobOccurrence) -> None:
        world = self.world
        if row.id in self.ends or (row.started and row.started.holder in world.holders):
            return  # in a real process its lock says so
        began = await start_occurrence(world.bus, row, holder=self.name, now=world.now)
        if began is not None:
            world.begun[row.id, began.attempt] += 1
            self.ends[row.id] = world.now + timedelta(seconds=world.work_s), row

    async def step(self) -> None:
        for id, (end, row) in tuple(self.ends.items()):
            if end <= self.world.now:
                del self.ends[id]
                await self.world.bus.publish(
                    JobEnded(
                        run=SCHEDULE_RUN,
                        at=self.world.now,
                        job=row.job,
                        occurrence=id,
                        due=row.due,
                        outcome="ran",
                    )
                )
        async with anyio.create_task_group() as group:
            await self.clock.step(group)


class World:
    def __init__(self, spec: JobSpec, now: datetime, work_s: float) -> None:
        self.spec, self.now, self.work_s = spec, now, work_s
        self.journal = InMemoryJournal()
        self.bus = Bus(self.journal)
        self.holders: dict[str, Holder] = {}
        self.begun: Counter[tuple[str, int]] = Counter()
        self.active: list[tuple[datetime, datetime | None]] = [(now, None)]
        """From when to when the job was not paused."""

    async def act(self, what: str, seconds: float) -> None:
        match what:
            case "wait":
                await self.wait(seconds)
            case "start" if len(self.holders) < 2:
                name = f"holder-{len(self.journal.events)}-{len(self.holders)}"
                self.holders[name] = Holder(self, name)
                await self.holders[name].step()
            case "kill" if self.holders:
                self.holders.pop(next(iter(self.holders)))
            case "pause" | "resume":
                await self.toggle()
            case _:
                pass

    async def toggle(self) -> None:
        table = JobTable()
        await table.read(self.journal)
        job = table.jobs[self.spec.name]
        await self.bus.publish(*settle_rows(job, self.now, "paused"))
        begin, end = self.active[-1]
        if end is None:
            self.active[-1] = (begin, self.now)
            await self.bus.publish(JobPaused(run=SCHEDULE_RUN, at=self.now, job=job.name))
        else:
            self.active.append((self.now, None))
            await self.bus.publish(JobResumed(run=SCHEDULE_RUN, at=self.now, job=job.name))

    async def wait(self, seconds: float) -> None:
        """In steps of a holder's slices, but straight over times in which nothing happens."""
        end = self.now + timedelta(seconds=seconds)
        jitter = timedelta(seconds=jitter_s(self.spec))
        while self.now < end:
            due = next_time(self.spec.schedule, self.now - jitter)
            ends = [each for holder in self.holders.values() for each, _ in holder.ends.values()]
            later = [each for each in ends if each > self.now]
            wanted = [end, *later, *([due + jitter] if due is not None else [])]
            self.now = min(each for each in wanted if each > self.now)
            if not self.holders:
                self.now = end
            for holder in tuple(self.holders.values()):
                await holder.step()

    def check(self) -> None:
        rows = Counter[datetime]()
        for event in self.journal.events:
            match event:
                case JobSkipped():
                    rows[event.due] += 1
                case JobMissed():
                    times = self.times(event.first - timedelta(seconds=1), event.last)
                    assert event.count == len(times)
                    rows.update(times)
                case _:
                    pass
        rows.update({each.due for each in self.journal.events if isinstance(each, JobDue)})
        settled = self.now - timedelta(seconds=jitter_s(self.spec))
        expected = [
            due
            for begin, end in self.active
            for due in self.times(begin, min(end or settled, settled))
        ]
        assert {due: 1 for due in expected} == dict(rows)
        assert all(count == 1 for count in self.begun.values()), self.begun
        ended = Counter(e.occurrence for e in self.journal.events if isinstance(e, JobEnded))
        assert all(count == 1 for count in ended.values())

    def times(self, after: datetime, until: datetime) -> list[datetime]:
        return list(takewhile(lambda due: due <= until, due_times(self.spec.schedule, after)))


actions = st.lists(
    st.tuples(
        st.sampled_from(("wait", "wait", "wait", "start", "start", "kill", "pause")), lengths
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(st.data(), moments, actions, st.sampled_from((0.0, 30.0, 5_000.0)))
def test_every_due_time_has_one_outcome_over_zones_pauses_kills_and_two_holders(
    data: st.DataObject, began: datetime, acts: Sequence[tuple[str, float]], work_s: float
) -> None:
    schedule = data.draw(schedules(began))
    overlap = data.draw(st.sampled_from(("skip", "queue", "parallel")))
    spec = JobSpec(name="work", schedule=schedule, task="do it", overlap=overlap)

    async def live() -> None:
        world = World(spec, began, work_s)
        await world.bus.publish(JobAdded(run=SCHEDULE_RUN, at=began, spec=spec))
        for what, seconds in acts:
            await world.act(what, seconds)
        if world.active[-1][1] is not None:
            await world.toggle()
        await world.act("start", 0)
        await world.wait(60)
        world.check()

    asyncio.run(live())


@given(st.data(), moments)
def test_due_times_grow_and_a_later_start_finds_the_same_ones(
    data: st.DataObject, began: datetime
) -> None:
    schedule = data.draw(schedules(began))
    times = [each for each, _ in zip(due_times(schedule, began), range(12), strict=False)]
    assert times == sorted(set(times))
    assert all(each > began for each in times)
    for before, after in pairwise(times):
        assert next_time(schedule, before) == after
        assert next_time(schedule, before + (after - before) / 2) == after


def plan(schedule: JobSchedule, added: datetime, now: datetime, **options: object) -> list[object]:
    spec = JobSpec(name="work", schedule=schedule, task="do it", **options)  # type: ignore[arg-type]
    return list(plan_rows(Job(spec=spec, added_at=added, since=added), now))


ADDED = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAILY = JobSchedule(text="", zone="UTC", crons=("0 9 * * *",))


def test_the_latest_of_several_missed_times_is_made_up_within_half_a_period() -> None:
    rows = plan(DAILY, ADDED, datetime(2026, 11, 19, 15, tzinfo=UTC))
    assert [type(each) for each in rows] == [JobMissed, JobDue]
    assert isinstance(rows[0], JobMissed) and rows[0].count == 2
    assert isinstance(rows[1], JobDue) and rows[1].occurrence == "work@2026-11-19T09:00:00Z"


def test_a_time_that_is_too_long_ago_is_missed() -> None:
    rows = plan(DAILY, ADDED, datetime(2026, 11, 17, 22, tzinfo=UTC))
    assert [type(each) for each in rows] == [JobMissed]
    assert plan(DAILY, ADDED, datetime(2026, 11, 17, 14, tzinfo=UTC), late_s=4 * 3600.0) != rows
    rows = plan(DAILY, ADDED, datetime(2026, 11, 17, 14, tzinfo=UTC), late_s=4 * 3600.0)
    assert [type(each) for each in rows] == [JobMissed]


def test_a_job_that_is_due_once_is_made_up_for_a_day() -> None:
    once = JobSchedule(text="", zone="UTC", at=datetime(2026, 11, 17, 9, tzinfo=UTC))
    assert isinstance(plan(once, ADDED, datetime(2026, 11, 18, 8, tzinfo=UTC))[0], JobDue)
    assert isinstance(plan(once, ADDED, datetime(2026, 11, 18, 10, tzinfo=UTC))[0], JobMissed)
    spec = JobSpec(name="work", schedule=once, task="do it")
    assert late_limit_s(spec, ADDED) == 24 * 3600.0


def test_after_a_month_without_hermes_every_minute_is_counted() -> None:
    spec = JobSpec(
        name="work", schedule=JobSchedule(text="", zone="UTC", every_s=60, anchor=ADDED), task="x"
    )
    table, count = JobTable(), 0
    table.apply(JobAdded(run=SCHEDULE_RUN, at=ADDED, spec=spec))
    while rows := plan_rows(table.jobs["work"], ADDED + timedelta(days=30, seconds=10)):
        for row in rows:
            table.apply(row)
            count += row.count if isinstance(row, JobMissed) else 1
    assert count == 30 * 24 * 60


def test_only_the_first_of_two_starts_may_work() -> None:
    async def race() -> None:
        bus = Bus(InMemoryJournal())
        id = occurrence_id("work", ADDED)
        row = JobOccurrence(id=id, job="work", due=ADDED)
        first = await start_occurrence(bus, row, holder="a")
        second = await start_occurrence(bus, row, holder="b")
        assert isinstance(first, JobStarted)
        assert second is None

    asyncio.run(race())
