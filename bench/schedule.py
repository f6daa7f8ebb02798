"""What 1,000 idle jobs cost, and how late a job begins.

`python bench/schedule.py [--jobs 1000] [--seconds 60]` fills a journal with jobs that are due far
in the future and one that is due every second, runs the clock of the scheduler in this process, and
prints the share of one core, the lateness of the job, and the time of one next due time.
"""

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from hermes.core.bus import Bus
from hermes.core.events.jobs import SCHEDULE_RUN, JobAdded, JobEnded, JobSchedule, JobSpec
from hermes.core.jobs import Job, JobOccurrence, JobTable
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.scheduler.clock import ScheduleClock
from hermes.scheduler.cron import next_time
from hermes.scheduler.due import jitter_s

CRONS = ("0 9 1 1 *", "30 4 2 1 *", "15 3 3 1 *", "0 0 4 1 1")


async def measure(jobs: int, seconds: float, lateness_every_s: float) -> None:
    late: list[float] = []
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteJournal.open(Path(folder, "journal.db")) as journal:
            bus = Bus(journal)
            specs = [
                JobSpec(
                    name=f"job-{number}",
                    task="x",
                    schedule=JobSchedule(
                        text="", zone="Europe/Berlin", crons=(CRONS[number % len(CRONS)],)
                    ),
                )
                for number in range(jobs)
            ]
            await bus.publish(*(JobAdded(run=SCHEDULE_RUN, spec=each) for each in specs))
            if lateness_every_s:
                every = JobSchedule(text="", zone="UTC", every_s=lateness_every_s, anchor=now)
                spec = JobSpec(name="tick", task="x", schedule=every)
                await bus.publish(JobAdded(run=SCHEDULE_RUN, spec=spec))

            async def run(job: Job, row: JobOccurrence) -> None:
                wanted = row.due + timedelta(seconds=jitter_s(job.spec))
                late.append((datetime.now(UTC) - wanted).total_seconds())
                await bus.publish(
                    JobEnded(
                        run=SCHEDULE_RUN,
                        job=job.name,
                        occurrence=row.id,
                        due=row.due,
                        outcome="ran",
                    )
                )

            clock = ScheduleClock(bus, JobTable(), run)
            began, cpu = time.perf_counter(), 0.0
            with anyio.move_on_after(seconds + 2):
                async with anyio.create_task_group() as group:
                    group.start_soon(clock.run)
                    await anyio.sleep(2)  # without the start
                    began, cpu = time.perf_counter(), time.process_time()
            used = time.process_time() - cpu
            share = 100 * used / (time.perf_counter() - began)
    name = "with a job every second" if lateness_every_s else "idle"
    sys.stdout.write(f"{jobs} jobs, {name}: {share:.3f} % of a core\n")
    if late:
        late.sort()
        sys.stdout.write(
            f"  lateness of {len(late)} runs: median {late[len(late) // 2]:.3f} s, "
            f"longest {late[-1]:.3f} s\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    schedule = JobSchedule(text="", zone="Europe/Berlin", crons=("0 9 * * 1-5",))
    began = time.process_time()
    for _ in range(2000):
        next_time(schedule, datetime.now(UTC))
    each = (time.process_time() - began) / 2000
    sys.stdout.write(f"one next due time: {each * 1e6:.0f} µs\n")
    anyio.run(measure, chosen.jobs, chosen.seconds, 0.0)
    anyio.run(measure, chosen.jobs, chosen.seconds / 2, 1.0)


if __name__ == "__main__":
    main()
