"""The state of an incident, folded from its events.

The watch, notifications, reports and the commands all read incidents through this module, so that
they agree on status, severity, phase, alerts and durations.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import (
    AlertsJoined,
    ChangeBegan,
    ChangesUndone,
    IncidentAcknowledged,
    IncidentAssessed,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentHint,
    IncidentOpened,
    IncidentPhase,
    IncidentRecovered,
    IncidentReopened,
    IncidentVerified,
    PhaseEntered,
    PrecedingFix,
    ReportWritten,
    Severity,
)
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.messages import Value
from hermes.core.protocols import Journal, JournalRecord

WATCH_RUN = "watch"
"""The run of events that belong to no incident."""
ALERT_TEXT_FACT = "text"
"""The name of the alert text among the facts of `incident.opened`."""
QUESTION_LABEL = "question"
"""The label of an alert that is a question to people; nothing is changed for it."""
NOT_REQUESTED = "nobody requested"
"""Begins what a probe says of a page whose failure ended only because there were no requests."""
WITHDRAWN_LABEL = "withdrawn"
"""The label of an alert that ended because its probe was removed: no recovery."""


class AlertFacts(Value, kw_only=True, frozen=True):
    """The contents of an alert, for playbooks and checks."""

    title: str = ""
    text: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    """Parameters set by hand; they have priority."""

    @property
    def combined_text(self) -> str:
        labels = "\n".join(f"{key}={value}" for key, value in self.labels.items())
        return "\n".join(part for part in (self.title, self.text, labels) if part)


class IncidentDetails(Value, kw_only=True, frozen=True):
    incident: str
    run: str
    title: str
    first_title: str = ""
    """The title that it was opened with, where it is called otherwise now; else empty."""
    titled_at: datetime | None = None
    """When the alert was raised that gave it its present title; None: when it was opened."""
    text: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    severity: Severity = "P2"
    service: str = ""
    fingerprint: str = ""
    seen_before: int = 0
    opened_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    since: datetime | None = None

    @property
    def facts(self) -> AlertFacts:
        return AlertFacts(title=self.title, text=self.text, labels=self.labels)


def incident_details(opened: IncidentOpened) -> IncidentDetails:
    facts = dict(opened.facts)
    return IncidentDetails(
        incident=opened.incident,
        run=opened.run,
        title=opened.title,
        text=facts.pop(ALERT_TEXT_FACT, ""),
        labels=facts,
        severity=opened.severity,
        service=opened.service,
        fingerprint=opened.fingerprint,
        seen_before=opened.seen_before,
        opened_at=opened.at,
        since=opened.since,
        titled_at=opened.titled_at,
    )


IncidentStatus = Literal["open", "resolved", "escalated", "no-incident", "recovered", "closed"]
ENDED_OUTCOMES = ("resolved", "recovered", "closed")
"""Outcomes after which the problem is over."""
QUIET_STATUS = ("open", "recovered")
"""The status of an incident that ends without a repair, before and after it is closed."""


class IncidentChange(Value, kw_only=True, frozen=True):
    call_id: str
    command: str
    undo: str = ""
    attempt: int = 0
    by: str = ""
    undone: Literal["", "yes", "failed"] = ""
    at: datetime | None = None


class Incident(Value, kw_only=True, frozen=True):
    details: IncidentDetails
    seq: int = 0
    """The number of the event that opened it."""
    status: IncidentStatus = "open"
    phase: IncidentPhase | None = None
    attempt: int = 0
    severity: Severity = "P2"
    reason: str = ""
    """Why this severity."""
    alerts: int = 1
    fingerprints: tuple[str, ...] = ()
    """Of all alerts that ever belonged to it, in order of arrival."""
    parts: tuple[str, ...] = ()
    """Services and hosts whose alerts joined it after it was opened."""
    began_at: datetime | None = None
    """When the work on it began."""
    reopened_at: datetime | None = None
    """When it was last reopened."""
    acknowledged_by: str = ""
    """The last person who acknowledged it."""
    acknowledged_at: datetime | None = None
    """When it was acknowledged for the first time."""
    acknowledged: bool = False
    """Since it was opened, or opened again."""
    hints: tuple[IncidentHint, ...] = ()
    """What people said about it, in order; not verified."""
    changed: bool = False
    """Something was changed since it was opened, or opened again."""
    graded_by_person: bool = False
    """A person has set the severity: it is not computed any more."""
    diagnosis: IncidentDiagnosed | None = None
    changes: tuple[IncidentChange, ...] = ()
    tests: tuple[FixTested, ...] = ()
    """How fixes did on copies of the host."""
    played: tuple[str, ...] = ()
    """Playbooks that have started to change something."""
    verified: IncidentVerified | None = None
    """The last verification by independent checks."""
    kept_attempt: int = 0
    """The last attempt whose changes helped, according to the checks."""
    failing: frozenset[str] | None = None
    checked_at: datetime | None = None
    """When the checks that `failing` names were last run."""
    """Checks that failed before anything was changed; None before the first check."""
    failed_before: frozenset[str] = frozenset()
    """Checks that failed in the work on it before it was opened again: an older problem."""
    changes_before: int = 0
    """The number of its changes when it was opened again."""
    weak: frozenset[str] = frozenset()
    """Those of them that pass after any restart or edit, whatever the cause: no evidence."""
    declined: frozenset[str] = frozenset()
    """Playbooks that did not find their signature, or could not check it."""
    assessed: IncidentAssessed | None = None
    """The first assessment of the host."""
    playing: str = ""
    """The playbook that has started to change something and not ended."""
    report: str = ""
    report_path: str = ""
    closed: IncidentClosed | None = None
    recovered: IncidentRecovered | None = None
    """Set when an escalated problem, or the reason of a question, has ended."""
    last_at: datetime | None = None
    """The time of its last event."""
    gaps: tuple[tuple[datetime, float], ...] = ()
    """Interruptions of the work: the time they began, and their seconds."""

    @property
    def unverified_changes(self) -> tuple[IncidentChange, ...]:
        """Changes in force that no check has verified."""
        return tuple(
            change
            for change in self.changes
            if change.attempt > self.kept_attempt and change.undone != "yes"
        )

    @property
    def recent_changes(self) -> tuple[IncidentChange, ...]:
        """Changes since it was opened, or opened again."""
        return self.changes[self.changes_before :]

    @property
    def unresolved(self) -> bool:
        """Hermes works on it, or it was escalated and is not over."""
        return self.status in ("open", "escalated")

    @property
    def question(self) -> str:
        """What people are asked, such as `is this intended?`; empty for other incidents."""
        return self.details.labels.get(QUESTION_LABEL, "")

    @property
    def outage_began_at(self) -> datetime:
        """By the source of the alert where it knows, else when the incident was opened."""
        since, opened = self.details.since, self.details.opened_at
        return since if since is not None and since <= opened else opened

    @property
    def resolved_by_checks(self) -> bool:
        """Checks passed after the fix, and it was not escalated afterwards."""
        verified, found = self.verified, self.diagnosis
        if verified is None or not verified.ok or self.status == "escalated":
            return False
        escalated = found is not None and found.verdict == "escalate"
        return not (escalated and found is not None and found.at >= verified.at)

    @property
    def fine_since(self) -> datetime | None:
        """Since when its checks pass, where the work on it found that it is over."""
        found = self.diagnosis
        return found.fine_since if found is not None and self.status in QUIET_STATUS else None

    @property
    def after_fix(self) -> PrecedingFix | None:
        """The change for another incident after which it recovered."""
        if self.recovered is not None:
            return self.recovered.after_fix
        return self.diagnosis.after_fix if self.diagnosis and self.fine_since else None

    @property
    def over_at(self) -> datetime | None:
        """When the problem ended, by its checks, its alerts, or when it was closed."""
        if self.recovered is not None:
            return self.recovered.recovered_at
        if self.status == "escalated":
            return None
        if self.fine_since is not None:
            return self.fine_since
        if self.verified is not None and self.resolved_by_checks:
            return self.verified.fine_since or self.verified.at
        closed = self.closed
        return closed.at if closed is not None and closed.outcome in ENDED_OUTCOMES else None

    @property
    def ended_at(self) -> datetime | None:
        """None while the problem continues: an escalation does not end it."""
        if self.closed is None or self.status == "escalated":
            return self.over_at
        return self.over_at or self.closed.at

    def duration_s(self, now: datetime) -> float:
        """Seconds from the beginning of the outage to its end, or until now."""
        return max(0.0, ((self.ended_at or now) - self.outage_began_at).total_seconds())


def fold_incidents(records: Iterable[JournalRecord]) -> dict[str, Incident]:
    """All incidents by id, in the order in which they were opened."""
    found: dict[str, Incident] = {}
    for recorded in records:
        apply_incident_event(found, recorded)
    return found


def apply_incident_event(found: dict[str, Incident], recorded: JournalRecord) -> None:
    event = recorded.event
    if isinstance(event, IncidentOpened):
        if event.incident not in found:
            found[event.incident] = opened_incident(event, recorded.seq)
        return
    key = getattr(event, "incident", "") or _incident_of_run(found, event.run.partition("/")[0])
    known = found.get(key)
    if known is not None:
        found[key] = replace(incident_after(known, event), last_at=event.at)


def opened_incident(event: IncidentOpened, seq: int = 0) -> Incident:
    return Incident(
        details=incident_details(event),
        seq=seq,
        severity=event.severity,
        reason=event.reason,
        last_at=event.at,
        alerts=max(1, len(event.alerts)),
        fingerprints=(event.fingerprint,) if event.fingerprint else (),
    )


def _incident_of_run(found: dict[str, Incident], run: str) -> str:
    """Return the incident of a run. Only in a drill its id differs from that of the run."""
    if run in found:
        return run
    return next((key for key, each in found.items() if each.details.run == run), "")


def incident_after(incident: Incident, event: object) -> Incident:
    """The state after one of its events."""
    match event:
        case PhaseEntered():
            gaps = incident.gaps
            if event.resumed and incident.last_at is not None:
                gaps = (*gaps, (incident.last_at, event.gap))
            begun = incident.began_at or event.at
            return replace(
                incident, phase=event.phase, attempt=event.attempt, gaps=gaps, began_at=begun
            )
        case ChangeBegan() | ChangesUndone() | PlaybookStarted() | PlaybookEnded():
            return _after_work_event(incident, event)
        case FixTested():
            return replace(incident, tests=(*incident.tests, event))
        case IncidentAssessed():
            return replace(incident, assessed=event)
        case IncidentDiagnosed():
            return replace(incident, diagnosis=event)
        case IncidentVerified() if event.by != "oracle":
            kept = event.attempt if event.ok or event.kept else incident.kept_attempt
            return replace(incident, verified=event, kept_attempt=kept)
        case IncidentChecked() if event.when == "before" and not event.unknown:
            return _with_failed_check(incident, event)
        case ReportWritten():
            return replace(incident, report=event.text, report_path=event.path)
        case _:
            return _after_status_event(incident, event)


def _with_failed_check(incident: Incident, event: IncidentChecked) -> Incident:
    failing = incident.failing or frozenset()
    if event.ok:
        return replace(incident, failing=failing)
    weak = incident.weak if event.proves else incident.weak | {event.check}
    failing = failing | {event.check}
    return replace(incident, failing=failing, weak=weak, checked_at=event.at)


def _after_work_event(
    incident: Incident, event: ChangeBegan | ChangesUndone | PlaybookStarted | PlaybookEnded
) -> Incident:
    match event:
        case ChangeBegan():
            change = IncidentChange(
                call_id=event.call_id,
                command=event.command,
                undo=event.undo,
                attempt=event.attempt,
                by=event.by,
                at=event.at,
            )
            return replace(incident, changes=(*incident.changes, change), changed=True)
        case ChangesUndone():
            return replace(incident, changes=_with_undone_changes(incident.changes, event))
        case PlaybookStarted() if not event.dry:
            played = (*incident.played, event.skill)
            return replace(incident, played=played, playing=event.skill)
        case PlaybookEnded() if event.skill == incident.playing:  # others only checked the host
            return replace(incident, playing="")
        case PlaybookEnded() if event.outcome == "declined" and not event.dry:
            return replace(incident, declined=incident.declined | {event.skill})
        case _:
            return incident


def _after_status_event(incident: Incident, event: object) -> Incident:
    """Events about its alerts, its severity and its end."""
    match event:
        case AlertsJoined():
            return _with_joined_alerts(incident, event)
        case IncidentGraded():
            reason, by = event.reason or incident.reason, incident.graded_by_person or event.by
            graded = replace(incident, severity=event.severity, reason=reason)
            if event.title:
                opened_as = incident.details.first_title or incident.details.title
                called = replace(incident.details, title=event.title, titled_at=event.at)
                graded = replace(graded, details=replace(called, first_title=opened_as))
            return replace(graded, graded_by_person=bool(by))
        case IncidentAcknowledged():
            first = incident.acknowledged_at or event.at
            known = replace(incident, acknowledged_by=event.by, acknowledged_at=first)
            return replace(known, acknowledged=True)
        case IncidentHint():
            return replace(incident, hints=(*incident.hints, event))
        case IncidentClosed() if event.by != "oracle":
            return replace(incident, status=event.outcome, closed=event)
        case IncidentRecovered() if incident.unresolved:
            return replace(incident, status="recovered", recovered=event)
        case IncidentReopened():
            # Forget the earlier results, or the work would end at once.
            again = replace(incident, status="open", closed=None, phase=None, failing=None)
            again = replace(again, verified=None, recovered=None, diagnosis=None, weak=frozenset())
            again = replace(again, assessed=None, declined=frozenset())
            again = replace(again, acknowledged=False, changed=False, reopened_at=event.at)
            again = replace(again, changes_before=len(incident.changes))
            again = replace(again, failed_before=incident.failing or incident.failed_before)
            again = replace(again, details=_details_after(incident.details, event))
            return replace(again, report="", report_path="")
        case _:
            return incident


def _details_after(details: IncidentDetails, event: IncidentReopened) -> IncidentDetails:
    if not event.title or event.title == details.title:
        return details
    first = details.first_title or details.title
    new = replace(details, title=event.title, titled_at=event.titled_at or event.at)
    return replace(new, text=event.text, first_title=first)


def _with_joined_alerts(incident: Incident, event: AlertsJoined) -> Incident:
    known = dict.fromkeys(incident.fingerprints)
    others = (part.name for part in event.parts if part.name != incident.details.service)
    parts = dict.fromkeys((*incident.parts, *others))
    return replace(
        incident,
        alerts=incident.alerts + event.count,
        fingerprints=tuple(known | dict.fromkeys(event.fingerprints)),
        parts=tuple(parts),
    )


def _with_undone_changes(
    changes: Sequence[IncidentChange], event: ChangesUndone
) -> tuple[IncidentChange, ...]:
    undone: dict[str, Literal["yes", "failed"]] = dict.fromkeys(event.calls, "yes")
    undone |= dict.fromkeys(event.failed, "failed")
    return tuple(
        replace(change, undone=undone.get(change.call_id, change.undone)) for change in changes
    )


async def read_incident(journal: Journal, run: str) -> Incident | None:
    found = fold_incidents([recorded async for recorded in journal.read(run=run)])
    return next(iter(found.values()), None)


async def read_hints(journal: Journal, run: str) -> tuple[IncidentHint, ...]:
    """Return what people have said about the incident of this run so far, in order."""
    records = [each async for each in journal.read(run=run, kinds=("incident.hint",))]
    return tuple(each.event for each in records if isinstance(each.event, IncidentHint))


INCIDENT_KINDS = (
    "incident.opened",
    "incident.joined",
    "incident.graded",
    "incident.acknowledged",
    "incident.hint",
    "incident.reopened",
    "incident.phase",
    "incident.assessed",
    "incident.diagnosed",
    "incident.verified",
    "incident.closed",
    "incident.recovered",
    "change.began",
    "changes.undone",
    "fix.tested",
    "incident.checked",
    "playbook.ended",
    "playbook.started",
    "report.written",
)
