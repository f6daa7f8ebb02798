"""Keeps the schedule in a process: takes the lock, runs the clock, tells what was missed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import anyio

from hermes.app.run_locks import RunLocked, RunLockError, RunLocks, lock_run
from hermes.app.schedule.runs import BuiltInJob, JobRunner
from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobDue,
    JobMissed,
    JobSpec,
    ScheduleInterrupted,
)
from hermes.core.events.operations import HealthMissed
from hermes.core.incident import WATCH_RUN
from hermes.core.jobs import JobTable, occurrence_id
from hermes.scheduler.clock import ScheduleClock
from hermes.settings.load import LoadedSettings

STANDBY_S = 15.0
"""Seconds between two tries to take the schedule over from another process."""
START = "start"
"""In place of a person: the first round of checks does not wait for its time."""


async def keep_schedule(
    loaded: LoadedSettings,
    bus: Bus,
    run_locks: RunLocks,
    *,
    specs: Sequence[JobSpec],
    built_in: Mapping[str, BuiltInJob],
    at_start: Sequence[str] = (),
) -> None:
    """Run until cancelled. While another process keeps the schedule, this one stands by.

    `specs` are the built-in jobs, `at_start` those that also run at once.
    """
    while True:
        if await _take_lock(bus, run_locks):
            break
        await anyio.sleep(STANDBY_S)
    table = JobTable(specs)
    with suppress(StoreError):  # the clock reads it again, and built-in jobs need no journal
        await table.read(bus.journal)
    now = datetime.now(UTC)
    for name in at_start:
        if name in table.jobs and table.jobs[name].paused is None:
            id = f"{occurrence_id(name, now)}-at-{START}"
            table.apply(JobDue(run=SCHEDULE_RUN, job=name, occurrence=id, due=now, by=START))
    runner = JobRunner(loaded, bus, run_locks, table, built_in)

    async def tell_missed(missed: list[JobMissed]) -> None:
        await bus.publish(*missed_events(missed))

    await ScheduleClock(bus, table, runner.run, tell_missed=tell_missed).run()


def missed_events(missed: Sequence[JobMissed]) -> list[Event]:
    """Return one event about the missed rounds of checks, and one about all other missed jobs."""
    rounds = [each for each in missed if each.job == "health"]
    others = [each for each in missed if each.job != "health"]
    found: list[Event] = []
    if rounds:
        count, since = sum(each.count for each in rounds), min(each.first for each in rounds)
        why = rounds[0].reason
        found.append(HealthMissed(run=WATCH_RUN, rounds=count, since=since, why=why))
    if others:
        found.append(
            ScheduleInterrupted(
                run=SCHEDULE_RUN,
                jobs=tuple(dict.fromkeys(each.job for each in others)),
                count=sum(each.count for each in others),
                since=min(each.first for each in others),
                reason=others[0].reason,
            )
        )
    return found


async def _take_lock(bus: Bus, run_locks: RunLocks) -> bool:
    try:
        await lock_run(SCHEDULE_RUN, run_locks, bus.journal)
    except RunLocked:
        return False
    except RunLockError:  # the folder of locks cannot be written: the first start of a run counts
        return True
    return True
