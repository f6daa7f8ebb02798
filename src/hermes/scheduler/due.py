"""Decides what is due: from a job, its rows and the time to the events that are to be written.

Every due time gets exactly one row: it is run, skipped or missed. Nothing here has an effect.
"""

import hashlib
from datetime import datetime, timedelta
from itertools import islice, takewhile

from msgspec.structs import replace

from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobDue,
    JobMissed,
    JobSkipped,
    JobSpec,
)
from hermes.core.jobs import Job, occurrence_id
from hermes.scheduler.cron import due_times, next_time, period_s

LATE_SHARE = 0.5
"""The share of its period by which a job may be late and still run."""
MAX_LATE_S = 12 * 3600.0
MIN_LATE_S = 30.0
MAX_LATE_ONCE_S = 24 * 3600.0
"""A job that is due once has no next time: it waits longer for Hermes to come back."""
JITTER_SHARE, MAX_JITTER_S = 0.1, 60.0
MAX_TIMES_AT_ONCE = 1000
"""Due times that one call looks at: after a long outage the caller asks again."""
NOT_RUNNING = "Hermes was not running, could not write its journal, or the machine was suspended"

JobRow = JobDue | JobSkipped | JobMissed


def jitter_s(spec: JobSpec) -> float:
    """A delay that is always the same for a job, so that intervals do not all begin together."""
    if not spec.schedule.every_s or spec.builtin:
        return 0.0
    share = int.from_bytes(hashlib.sha256(spec.name.encode()).digest()[:4], "big") / 2**32
    return share * min(MAX_JITTER_S, JITTER_SHARE * spec.schedule.every_s)


def late_limit_s(spec: JobSpec, due: datetime) -> float:
    """Return how late the job of this due time may still begin."""
    if spec.late_s:
        return spec.late_s
    if spec.schedule.at is not None:
        return MAX_LATE_ONCE_S
    return min(MAX_LATE_S, max(MIN_LATE_S, LATE_SHARE * period_s(spec.schedule, due)))


def next_start(job: Job) -> datetime | None:
    """Return when the scheduler has to look at the job again; None when it is paused or has
    ended."""
    if job.paused is not None or job.finished:
        return None
    due = next_time(job.spec.schedule, job.baseline)
    return due + timedelta(seconds=jitter_s(job.spec)) if due is not None else None


def plan_rows(job: Job, now: datetime) -> list[JobRow]:
    """The rows of all times that are due by now; of the latest one it may be a run.

    After very many due times only the oldest are handled: call it again with the rows applied.
    """
    if job.paused is not None or job.finished:
        return []
    until = now - timedelta(seconds=jitter_s(job.spec))
    pending = takewhile(lambda due: due <= until, due_times(job.spec.schedule, job.baseline))
    times = list(islice(pending, MAX_TIMES_AT_ONCE + 1))
    if not times:
        return []
    if len(times) > MAX_TIMES_AT_ONCE:
        return [_missed(job, times[:-1], now)]
    *older, latest = times
    if (until - latest).total_seconds() > late_limit_s(job.spec, latest):
        return [_missed(job, times, now)]
    rows: list[JobRow] = [_missed(job, older, now)] if older else []
    occurrence = occurrence_id(job.name, latest)
    if reason := _overlap(job):
        skipped = JobSkipped(
            run=SCHEDULE_RUN,
            at=now,
            job=job.name,
            occurrence=occurrence,
            due=latest,
            reason=reason,
        )
        return [*rows, skipped]
    due = JobDue(run=SCHEDULE_RUN, at=now, job=job.name, occurrence=occurrence, due=latest)
    return [*rows, due]


def settle_rows(job: Job, until: datetime, reason: str) -> list[JobMissed]:
    """Rows for times that were due by then and have none, before the job is paused or changed."""
    if job.finished:
        return []
    end = min(until, job.paused.at) if job.paused is not None else until
    pending = takewhile(lambda due: due <= end, due_times(job.spec.schedule, job.baseline))
    times = list(pending)
    return [replace(_missed(job, times, until), reason=reason)] if times else []


def _overlap(job: Job) -> str:
    """Return why the job cannot begin beside its own earlier runs; empty when it can."""
    if not job.open or job.spec.overlap == "parallel":
        return ""
    first = f"{job.open[0].due:%Y-%m-%d %H:%M:%S} UTC"
    if job.spec.overlap == "queue":
        return f"one run waits already, for that of {first}" if len(job.open) > 1 else ""
    return f"the run of {first} is not over"


def _missed(job: Job, times: list[datetime], now: datetime) -> JobMissed:
    return JobMissed(
        run=SCHEDULE_RUN,
        at=now,
        job=job.name,
        first=times[0],
        last=times[-1],
        count=len(times),
        reason=NOT_RUNNING,
    )
