"""Run as a process that keeps a schedule, to be killed at any moment, beside others."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import anyio

from hermes.app.run_locks import RunLocked, RunLocks, lock_run, unlock_run
from hermes.core.bus import Bus
from hermes.core.events.jobs import SCHEDULE_RUN, JobEnded
from hermes.core.jobs import Job, JobOccurrence, JobTable
from hermes.memory.store import StoreLocation, open_journal
from hermes.scheduler.clock import ScheduleClock, start_occurrence


async def keep(place: StoreLocation, folder: Path) -> None:
    """Two of these both hold the schedule, as if one had lost its lock without noticing."""
    locks, holder = RunLocks(folder / "locks"), str(os.getpid())
    async with open_journal(place) as journal:
        bus = Bus(journal)

        async def work(job: Job, row: JobOccurrence) -> None:
            lock = f"job-{row.id}"
            try:
                await lock_run(lock, locks, journal)
            except RunLocked:
                return
            try:
                started = await start_occurrence(bus, row, holder=holder)
                if started is None:
                    return
                with (folder / "effects").open("a") as file:
                    file.write(f"{row.id} {started.attempt}\n")
                await anyio.sleep(0.02)
                await bus.publish(
                    JobEnded(
                        run=SCHEDULE_RUN,
                        job=job.name,
                        occurrence=row.id,
                        due=row.due,
                        outcome="ran",
                    )
                )
            finally:
                await unlock_run(lock, locks, journal)

        table = JobTable(since=datetime.now(UTC))
        await ScheduleClock(bus, table, work).run()


def main() -> None:
    place, folder = sys.argv[1], Path(sys.argv[2])
    anyio.run(keep, place if "://" in place else Path(place), folder)


if __name__ == "__main__":
    main()
