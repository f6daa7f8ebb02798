"""Jobs of the scheduler, as the API reads and answers them."""

from datetime import datetime
from typing import Any

import msgspec

from hermes.core.events.jobs import JobLimits, JobSpec, OverlapRule
from hermes.web.answer_types import ApiValue


class NewJob(ApiValue, frozen=True):
    """Either `task` or `command` is given."""

    schedule: str
    """Words, cron with five fields, or a date: `every weekday at 9`."""
    task: str = ""
    """Instructions for the agent; a last sentence `Send results to Telegram.` sets `deliver`."""
    command: str = ""
    """A command that is run under the policy, without a model."""
    name: str = ""
    """Without it: the first words of the task."""
    zone: str = ""
    deliver: str = ""
    model: str = ""
    toolsets: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    directory: str = ""
    limits: JobLimits = JobLimits()
    overlap: OverlapRule = "skip"
    late_s: float = 0.0
    pre_step: str = ""
    context_from: tuple[str, ...] = ()
    silent_when_nothing: bool = False
    heartbeat_url: str = ""


class JobChange(ApiValue, frozen=True):
    """Only what is given is changed. Of a built-in job, only `paused` can be."""

    schedule: str | msgspec.UnsetType = msgspec.UNSET
    zone: str | msgspec.UnsetType = msgspec.UNSET
    """Read together with `schedule`."""
    task: str | msgspec.UnsetType = msgspec.UNSET
    command: str | msgspec.UnsetType = msgspec.UNSET
    deliver: str | msgspec.UnsetType = msgspec.UNSET
    model: str | msgspec.UnsetType = msgspec.UNSET
    toolsets: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    skills: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    directory: str | msgspec.UnsetType = msgspec.UNSET
    limits: JobLimits | msgspec.UnsetType = msgspec.UNSET
    overlap: OverlapRule | msgspec.UnsetType = msgspec.UNSET
    late_s: float | msgspec.UnsetType = msgspec.UNSET
    pre_step: str | msgspec.UnsetType = msgspec.UNSET
    context_from: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    silent_when_nothing: bool | msgspec.UnsetType = msgspec.UNSET
    heartbeat_url: str | msgspec.UnsetType = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    reason: str = ""
    """Why it is paused."""


class JobDetail(ApiValue, frozen=True):
    job: str
    builtin: bool
    spec: JobSpec
    author: str
    meaning: str
    """Of the schedule, in words."""
    zone: str
    next: list[datetime]
    paused: bool
    running: list[str]
    """Occurrences that are due or running."""
    last: Any
    """The last occurrence that is over; null without one."""


class JobPage(ApiValue, frozen=True):
    jobs: list[JobDetail]
    scheduler_running: bool
    """Whether a process runs what is due."""


class ScheduleText(ApiValue, frozen=True):
    text: str
    zone: str = ""


class ScheduleMeaning(ApiValue, frozen=True):
    meaning: str
    zone: str
    times: list[datetime]
    """The next times."""
    assumptions: list[str]
    """What the words left open."""


class RemovedJob(ApiValue, frozen=True):
    job: str
    removed: bool = True


class RequestedRun(ApiValue, frozen=True):
    job: str
    occurrence: str
    due: datetime
    scheduler_running: bool
    """False: it runs as soon as a process keeps the schedule."""


class JobHistoryEntry(ApiValue, frozen=True):
    job: str
    due: datetime
    occurrence: str
    outcome: str
    """due, running, ran, nothing, failed, timed-out, unknown, skipped or missed."""
    count: int
    late_s: float
    seconds: float
    reason: str
    text: str
    session: str
    by: str
    notice: str
    delivery: str
    """Empty: nothing was to be delivered; else queued, delivered, or the last error."""


class JobHistoryPage(ApiValue, frozen=True):
    history: list[JobHistoryEntry]
