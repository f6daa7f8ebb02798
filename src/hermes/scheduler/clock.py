"""Writes what is due to the journal on time, and hands over what is to be run.

It sleeps to the next due time, in slices: a timer does not count the time in which a machine is
suspended, and the clock of a machine can be set.
"""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.jobs import SCHEDULE_RUN, ClockJumped, JobDue, JobMissed, JobStarted
from hermes.core.jobs import Job, JobOccurrence, JobTable
from hermes.scheduler.due import next_start, plan_rows

MAX_SLEEP_S = 15.0
MIN_JUMP_S = 5.0
"""Wall time may pass so much faster or slower than elapsed time before it counts as a jump."""
STORE_RETRY_S = 5.0

RunOccurrence = Callable[[Job, JobOccurrence], Awaitable[None]]
"""Does the work and records its end. It may return without an end when another process works on
it: it is called again later."""
TellMissed = Callable[[list[JobMissed]], Awaitable[None]]


async def _tell_nobody(missed: list[JobMissed]) -> None:
    return None


async def start_occurrence(
    bus: Bus, row: JobOccurrence, *, holder: str, session: str = "", now: datetime | None = None
) -> JobStarted | None:
    """Record that the work begins; None when another process recorded it first.

    A scheduler that lost its lock without noticing does nothing twice.
    """
    attempt = row.started.attempt + 1 if row.started is not None else 1
    wanted = JobStarted(
        run=SCHEDULE_RUN,
        at=now or datetime.now(UTC),
        job=row.job,
        occurrence=row.id,
        session=session,
        attempt=attempt,
        holder=holder,
    )
    await bus.publish(wanted)
    async for recorded in bus.journal.read(after=row.seq, kinds=("job.started",)):
        event = recorded.event
        if not isinstance(event, JobStarted) or event.occurrence != row.id:
            continue
        if event.attempt == attempt:
            return event if event.holder == holder else None
    return None


class ScheduleClock:
    """`now`, `elapsed_s` and `sleep` can be replaced in tests.

    A built-in job leaves only its end in the journal: it can be repeated without harm, so nothing
    has to be known of it after a crash.
    """

    def __init__(
        self,
        bus: Bus,
        table: JobTable,
        run_occurrence: RunOccurrence,
        *,
        tell_missed: TellMissed = _tell_nobody,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.table = table
        self._bus, self._run_occurrence, self._tell_missed = bus, run_occurrence, tell_missed
        self._now, self._elapsed_s, self._sleep = now, elapsed_s, sleep
        self._next: dict[str, datetime] = {}
        self._running: set[str] = set()
        self._seen_seq = 0

    async def run(self) -> None:
        """Run until cancelled; work that was handed over is cancelled with it."""
        async with anyio.create_task_group() as group:
            while True:
                try:
                    await self.step(group)
                except StoreError:  # what is due stays due; the watch reports its journal itself
                    await self._sleep(STORE_RETRY_S)
                    continue
                await self._wait()

    async def step(self, group: TaskGroup) -> None:
        """Write the rows that are due now, and hand over what is open."""
        self._seen_seq = await self._bus.journal.last()
        await self.table.read(self._bus.journal)
        missed: list[JobMissed] = []
        self._refresh()
        while names := [name for name, due in self._next.items() if due <= self._now()]:
            for name in names:
                missed += await self._write_rows(self.table.jobs[name])
            await self.table.read(self._bus.journal)
            self._refresh()
        if missed:
            await self._tell_missed(missed)
        for job in tuple(self.table.jobs.values()):
            self._hand_over(job, group)

    async def _write_rows(self, job: Job) -> list[JobMissed]:
        rows = plan_rows(job, self._now())
        kept = [each for each in rows if not (job.spec.builtin and isinstance(each, JobDue))]
        if kept:
            await self._bus.publish(*kept)
        for each in rows:
            if each not in kept:
                self.table.apply(each)
        if not rows:  # the clock was set back since the time was computed
            self.table.changed.add(job.name)
        return [each for each in kept if isinstance(each, JobMissed)]

    def _refresh(self) -> None:
        for name in self.table.changed:
            job = self.table.jobs.get(name)
            due = next_start(job) if job is not None else None
            if due is not None:
                self._next[name] = due
            else:
                self._next.pop(name, None)
        self.table.changed.clear()

    def _hand_over(self, job: Job, group: TaskGroup) -> None:
        rows = job.open if job.spec.overlap == "parallel" else job.open[:1]
        for row in rows:
            if row.id not in self._running:
                self._running.add(row.id)
                group.start_soon(self._run, job, row)

    async def _run(self, job: Job, row: JobOccurrence) -> None:
        try:
            await self._run_occurrence(job, row)
        except StoreError:  # it is still open, and is handed over again
            return
        finally:
            self._running.discard(row.id)

    async def _wait(self) -> None:
        """Wait until the next due time, until an event is written, or for one slice."""
        due = min(self._next.values(), default=None)
        left = (due - self._now()).total_seconds() if due is not None else MAX_SLEEP_S
        wall, elapsed = self._now(), self._elapsed_s()
        async with anyio.create_task_group() as group:

            async def sleep() -> None:
                await self._sleep(max(0.0, min(left, MAX_SLEEP_S)))
                group.cancel_scope.cancel()

            async def wait_for_event() -> None:
                try:
                    await self._bus.journal.changed(self._seen_seq)
                except StoreError:  # the slice ends anyway
                    return
                group.cancel_scope.cancel()

            group.start_soon(sleep)
            group.start_soon(wait_for_event)
        jumped = (self._now() - wall).total_seconds() - (self._elapsed_s() - elapsed)
        if abs(jumped) >= MIN_JUMP_S:
            event = ClockJumped(run=SCHEDULE_RUN, at=self._now(), seconds=round(jumped, 1))
            if jumped < 0:
                self._repeat_intervals()
            await self._publish_jump(event)

    def _repeat_intervals(self) -> None:
        """Rounds of checks go on when the clock was set back; other jobs are not repeated."""
        now = self._now()
        for name, job in self.table.jobs.items():
            if job.spec.builtin and job.spec.schedule.every_s and job.baseline > now:
                self.table.jobs[name] = replace(job, handled=now, since=None)
                self.table.changed.add(name)

    async def _publish_jump(self, event: ClockJumped) -> None:
        try:
            await self._bus.publish(event)
        except StoreError:  # said by the rows that were missed
            return
