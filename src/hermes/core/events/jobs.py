"""Jobs of the scheduler: what they are, and what became of each of their due times."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent
from hermes.core.messages import AttachedText, Value

SCHEDULE_RUN = "schedule"
"""The run that all events of jobs belong to, and whose lock the scheduler holds. The work of a job
is a run of its own."""
OverlapRule = Literal["skip", "queue", "parallel"]
JobOutcome = Literal["ran", "nothing", "failed", "timed-out", "unknown"]
"""`nothing`: it ran and had nothing to report. `unknown`: Hermes ended while it ran."""


class JobSchedule(Value, kw_only=True, frozen=True):
    """The due times of a job: by cron expressions, at a fixed interval, or once."""

    text: str
    """As a person wrote it."""
    zone: str
    """Name of the time zone, resolved when the job was added."""
    crons: tuple[str, ...] = ()
    """Due when any of them is; five fields each."""
    every_days: int = 1
    """With `crons` and `anchor`: only on each of so many days, counted from the anchor."""
    every_s: float = 0.0
    """Elapsed seconds between two due times, counted from the anchor."""
    anchor: datetime | None = None
    at: datetime | None = None
    """Due once, then."""


class JobLimits(Value, kw_only=True, frozen=True):
    """The limits of one run of a job; 0 stands for the limit of the settings."""

    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0


class JobSpec(Value, kw_only=True, frozen=True):
    """A job as a person asked for it. Exactly one of task, command and built-in is given."""

    name: str
    schedule: JobSchedule
    task: str = ""
    """Instructions for the agent; the words of the author."""
    command: str = ""
    """A command that is run under the policy, without a model."""
    builtin: str = ""
    """Work of Hermes itself: health, audit, briefing, review."""
    deliver: str = ""
    """Where the result goes, such as `telegram:-100:42`; empty: it is only kept."""
    model: str = ""
    toolsets: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    """Skills that the agent has to read first."""
    directory: str = ""
    limits: JobLimits = JobLimits()
    overlap: OverlapRule = "skip"
    """What happens at a due time while the run before is not over."""
    late_s: float = 0.0
    """How late it may still begin; 0: half of its period, at most 12 hours."""
    pre_step: str = ""
    """A command that runs first; its output is given to the agent as untrusted text."""
    context_from: tuple[str, ...] = ()
    """Jobs whose last results are given to the agent as untrusted text."""
    silent_when_nothing: bool = False
    """A result that says that there is nothing to report is not delivered."""
    heartbeat_url: str = ""
    """Requested after each run that succeeded, so that a monitor notices when none does."""


class JobAdded(BaseEvent, tag="job.added", kw_only=True, frozen=True):
    spec: JobSpec
    by: str = ""


class JobChanged(BaseEvent, tag="job.changed", kw_only=True, frozen=True):
    spec: JobSpec
    by: str = ""


class JobPaused(BaseEvent, tag="job.paused", kw_only=True, frozen=True):
    job: str
    by: str = ""
    reason: str = ""


class JobResumed(BaseEvent, tag="job.resumed", kw_only=True, frozen=True):
    """Times that passed during the pause were not due."""

    job: str
    by: str = ""


class JobRemoved(BaseEvent, tag="job.removed", kw_only=True, frozen=True):
    job: str
    by: str = ""


class JobDue(BaseEvent, tag="job.due", kw_only=True, frozen=True):
    """A job became due. The first event with this occurrence counts."""

    job: str
    occurrence: str
    """`job@due time in UTC`."""
    due: datetime
    by: str = ""
    """A person who asked for it now, or `hook:NAME`; empty: its schedule."""
    attached: tuple[AttachedText, ...] = ()
    """What came with a webhook: untrusted text for the agent."""


class JobStarted(BaseEvent, tag="job.started", kw_only=True, frozen=True):
    """A process began the work. Only the writer of the first such event of an occurrence and
    attempt may do it."""

    job: str
    occurrence: str
    session: str = ""
    """The run in the journal that does the work; empty for built-in jobs."""
    attempt: int = 1
    """Above 1: taken up after Hermes ended in the middle of it."""
    holder: str = ""


class JobEnded(BaseEvent, tag="job.ended", kw_only=True, frozen=True):
    """The result. Its delivery is a separate state: that of the notification.

    Of built-in jobs, which can be repeated without harm, this is the only event.
    """

    job: str
    occurrence: str
    due: datetime
    outcome: JobOutcome
    text: str = ""
    """The answer, or what there is of it."""
    reason: str = ""
    seconds: float = 0.0
    notice: str = ""
    """The notification with the result; empty: nothing was to be delivered."""


class JobSkipped(BaseEvent, tag="job.skipped", kw_only=True, frozen=True):
    """Due, and not run on purpose."""

    job: str
    occurrence: str
    due: datetime
    reason: str = ""


class JobMissed(BaseEvent, tag="job.missed", kw_only=True, frozen=True):
    """Every due time from `first` to `last` passed without a run, and is not made up."""

    job: str
    first: datetime
    last: datetime
    count: int
    reason: str = ""


class ScheduleInterrupted(BaseEvent, tag="schedule.interrupted", kw_only=True, frozen=True):
    """Due times of jobs passed without a run; one notification reports all of them."""

    jobs: tuple[str, ...]
    count: int
    since: datetime
    reason: str = ""


class ClockJumped(BaseEvent, tag="clock.jumped", kw_only=True, frozen=True):
    """The clock was set, or the machine was suspended: wall time passed faster or slower."""

    seconds: float
    """Below 0: the clock was set back."""
