"""The state of all jobs, folded from their events: for the scheduler and for people."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.jobs import (
    JobAdded,
    JobChanged,
    JobDue,
    JobEnded,
    JobMissed,
    JobPaused,
    JobRemoved,
    JobResumed,
    JobSkipped,
    JobSpec,
    JobStarted,
)
from hermes.core.messages import AttachedText, Value
from hermes.core.protocols import Journal

JOB_KINDS = (
    "job.added",
    "job.changed",
    "job.paused",
    "job.resumed",
    "job.removed",
    "job.due",
    "job.started",
    "job.ended",
    "job.skipped",
    "job.missed",
)


class JobOccurrence(Value, kw_only=True, frozen=True):
    """A due time of a job, and what has become of it."""

    id: str
    job: str
    due: datetime
    by: str = ""
    attached: tuple[AttachedText, ...] = ()
    """What came with a webhook, until it is over."""
    seq: int = 0
    """The number of the event with which it began."""
    started: JobStarted | None = None
    """The first of its latest attempt: the process that wrote it does the work."""
    outcome: str = ""
    """Empty while it is not over; else that of `JobEnded`, or skipped."""
    ended: JobEnded | JobSkipped | None = None


class Job(Value, kw_only=True, frozen=True):
    spec: JobSpec
    by: str = ""
    added_at: datetime
    """Of a built-in job: when this process began."""
    since: datetime | None = None
    """Times before this were not due: it was added, changed or resumed then."""
    paused: JobPaused | None = None
    handled: datetime | None = None
    """The last due time of its schedule that has a row."""
    open: tuple[JobOccurrence, ...] = ()
    """Due or running."""
    last: JobOccurrence | None = None
    """The last one that is over."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def baseline(self) -> datetime:
        """Due times after this have no row yet."""
        known = [each for each in (self.since, self.handled) if each is not None]
        return max(known) if known else self.added_at

    @property
    def finished(self) -> bool:
        """It was due once, and that time has a row."""
        return self.spec.schedule.at is not None and self.handled is not None


def occurrence_id(job: str, due: datetime) -> str:
    return f"{job}@{due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


class JobTable:
    """All jobs of a journal. `builtin` are jobs that come from the settings, not from events."""

    def __init__(self, builtin: Iterable[JobSpec] = (), since: datetime | None = None) -> None:
        self.jobs: dict[str, Job] = {}
        self.seq = 0
        """The last event that was read."""
        self.changed: set[str] = set()
        """Jobs with a new event since this was last cleared."""
        self._seen: set[str] = set()
        """Occurrences that have a row: a second one changes nothing."""
        began = since or datetime.now(UTC)
        for spec in builtin:
            self.jobs[spec.name] = Job(spec=spec, added_at=began)
            self.changed.add(spec.name)

    async def read(self, journal: Journal) -> None:
        """Apply what was written since the last call, by any process."""
        async for recorded in journal.read(after=self.seq, kinds=JOB_KINDS):
            self.seq = recorded.seq
            self.apply(recorded.event, recorded.seq)

    def apply(self, event: Event | UnknownEvent, seq: int = 0) -> None:
        match event:
            case JobAdded() | JobChanged():
                self._define(event)
            case JobPaused():
                self._update(event.job, lambda job: replace(job, paused=event))
            case JobResumed():
                self._update(event.job, lambda job: replace(job, paused=None, since=event.at))
            case JobRemoved():
                if self.jobs.pop(event.job, None) is not None:
                    self.changed.add(event.job)
            case JobMissed():
                self._update(event.job, lambda job: _with_handled(job, event.last))
            case JobDue() | JobSkipped() | JobStarted() | JobEnded():
                self._note_occurrence(event, seq)
            case _:
                pass

    def _define(self, event: JobAdded | JobChanged) -> None:
        name, before = event.spec.name, self.jobs.get(event.spec.name)
        if isinstance(event, JobChanged):
            self._update(name, lambda job: replace(job, spec=event.spec, since=event.at))
        elif before is None or before.finished:
            self._put(Job(spec=event.spec, by=event.by, added_at=event.at, since=event.at))

    def _note_occurrence(
        self, event: JobDue | JobSkipped | JobStarted | JobEnded, seq: int
    ) -> None:
        if isinstance(event, JobDue):
            if event.occurrence in self._seen:
                return
            self._seen.add(event.occurrence)
        self._update(event.job, lambda job: _with_row(job, event, seq))

    def _update(self, name: str, change: Callable[[Job], Job]) -> None:
        if name in self.jobs:
            self._put(change(self.jobs[name]))

    def _put(self, job: Job) -> None:
        self.jobs[job.name] = job
        self.changed.add(job.name)


def _with_handled(job: Job, due: datetime) -> Job:
    return replace(job, handled=max(due, job.handled or due))


def _with_row(job: Job, event: JobDue | JobSkipped | JobStarted | JobEnded, seq: int) -> Job:
    if isinstance(event, JobStarted):
        return replace(job, open=tuple(_with_started(row, event) for row in job.open))
    known = next((each for each in job.open if each.id == event.occurrence), None)
    by = event.by if isinstance(event, JobDue) else (known.by if known else "")
    row = known or JobOccurrence(id=event.occurrence, job=job.name, due=event.due, by=by, seq=seq)
    others = tuple(each for each in job.open if each.id != event.occurrence)
    if isinstance(event, JobDue):
        job = replace(job, open=(*others, replace(row, attached=event.attached)))
    elif job.last is None or job.last.id != event.occurrence:
        outcome = event.outcome if isinstance(event, JobEnded) else "skipped"
        job = replace(
            job, open=others, last=replace(row, outcome=outcome, ended=event, attached=())
        )
    return job if by else _with_handled(job, event.due)


def _with_started(row: JobOccurrence, event: JobStarted) -> JobOccurrence:
    """The first event of an attempt counts: its writer does the work."""
    known = row.started.attempt if row.started is not None else 0
    later = row.id == event.occurrence and event.attempt > known
    return replace(row, started=event) if later else row
