"""Types of the API: they encode its answers, decode its requests, and describe both."""

from datetime import datetime
from typing import Any, Literal

import msgspec


class ApiValue(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of the values of the API."""


class IncidentSummary(ApiValue, frozen=True):
    incident: str
    run: str
    title: str
    state: str
    """open, escalated, resolved, closed, recovered or no-incident."""
    phase: str | None
    severity: str
    reason: str
    service: str
    fingerprint: str
    opened_at: str
    closed_at: str | None
    over_at: str | None
    recovered_at: str | None
    recovered_how: str
    unresolved: bool
    outage_began_at: str
    duration_s: float
    question: str
    parts: list[str]
    answered_by: str | None
    outcome: str
    cause_found: bool
    acknowledged_by: str
    alerts: int
    seen_before: int
    mttd: float | None
    """Seconds from the beginning to its detection."""
    mtta: float | None
    """Seconds to its acknowledgement."""
    mttr: float | None
    """Seconds to its repair."""


class IncidentDetail(IncidentSummary, frozen=True):
    text: str
    labels: dict[str, str]
    hints: list[dict[str, Any]]
    """What people have said about it."""
    diagnosis: Any
    changes: list[Any]
    tests: list[Any]
    refused: list[Any]
    would_have_run: list[str]
    checks: list[Any]
    verified: Any
    times_in_14_days: int
    before: list[str]
    cost: Any
    answered_by_name: str
    did_not_match: list[str]
    unchecked: list[Any]
    report: str
    alert_details: list[Any]


class IncidentPage(ApiValue, frozen=True):
    incidents: list[IncidentSummary]


class TimelineRow(ApiValue, frozen=True):
    at: str
    text: str


class IncidentTimeline(ApiValue, frozen=True):
    timeline: list[TimelineRow]


class IncidentNote(ApiValue, frozen=True):
    text: str = ""


class IncidentReport(ApiValue, frozen=True):
    """A problem that a person or a program reports."""

    text: str
    service: str = ""
    severity: Literal["", "P0", "P1", "P2", "P3"] = ""


class ReportedIncident(ApiValue, frozen=True):
    alert: int
    """The number of its event."""
    incident: str | None
    """None while no watch has opened one."""
    watched: bool
    """Whether a watch is running."""


class IncidentUpdate(ApiValue, frozen=True):
    incident: str
    state: str
    by: str
    text: str


class ApprovalDetail(ApiValue, frozen=True):
    id: str
    state: str
    action: str
    purpose: str
    """What it does and why, in words; empty where nothing says it."""
    tool: str
    effects: list[str]
    rule: str
    reason: str
    undo: str
    tested: str
    place: str
    tainted: str
    """Untrusted text that the run had read before."""
    requester: str
    approvers: list[str]
    escalated: list[str]
    count: int
    approved_by: list[str]
    denied_by: str
    asked_at: str
    until: str
    run: str
    subagent: str
    running: bool
    hash: str


class ApprovalPage(ApiValue, frozen=True):
    approvals: list[ApprovalDetail]


class ApprovalAnswer(ApiValue, frozen=True):
    verb: Literal["once", "session", "always", "deny", "go", "stop"]
    hash: str
    """Of the action that was shown: an answer is valid for nothing else."""
    note: str = ""


class ApprovalOutcome(ApiValue, frozen=True):
    approval: str
    approved: bool
    by: str
    outcome: str
    text: str


class ApiRun(ApiValue, frozen=True):
    id: str
    origin: str
    task: str
    model: str
    started_at: datetime


class RunPage(ApiValue, frozen=True):
    runs: list[ApiRun]


class RunTurn(ApiValue, frozen=True):
    turn: int
    by: str
    text: str
    answer: str
    outcome: str
    """Empty while it is being worked on; else answered, interrupted, exhausted or failed."""
    reason: str
    started_at: datetime


class ApiRunDetail(ApiRun, frozen=True):
    by: str
    """The person who began it."""
    turns: list[RunTurn]


class NewRun(ApiValue, frozen=True):
    text: str
    model: str = ""


class RunMessage(ApiValue, frozen=True):
    text: str


class StartedTurn(ApiValue, frozen=True):
    run: str
    turn: int
    model: str
    events: str
    """The path of its events."""


class RunUpdate(ApiValue, frozen=True):
    run: str
    state: Literal["steered", "stopped"]


class StartedJob(ApiValue, frozen=True):
    """The job that a hook has started."""

    job: str
    occurrence: str
    scheduler_running: bool
    """False: it runs as soon as a process keeps the schedule."""


class StatisticsAnswer(ApiValue, frozen=True):
    days: int
    statistics: dict[str, Any]
