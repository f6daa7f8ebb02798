"""The events of an incident, from the first alert to the last line of its report."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent
from hermes.core.messages import Value

Severity = Literal["P0", "P1", "P2", "P3"]
DiagnosisVerdict = Literal["fix", "no-incident", "recovered", "escalate"]
IncidentPhase = Literal[
    "assess", "reflex", "investigate", "remediate", "verify", "undo", "document", "learn"
]


CheckTiming = Literal["before", "after", "trigger"]


class AlertRaised(BaseEvent, tag="alert.raised", kw_only=True, frozen=True):
    """A source reported a problem; `fingerprint` is the same for the same problem."""

    fingerprint: str
    title: str
    text: str = ""
    source: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    resolved: bool = False
    check: str = ""
    """The probe of ours that raised it; it can be repeated."""
    severity: str = ""
    """The monitor's own severity; triage computes ours from the impact."""
    since: datetime | None = None
    """When the problem began, where the source knows: detection time is measured from here."""


class AlertSuppressed(BaseEvent, tag="alert.suppressed", kw_only=True, frozen=True):
    """Received and not acted upon: maintenance, flapping. Published once for each period."""

    fingerprint: str
    title: str
    why: str
    stretch: str = ""
    """What suppresses it: a maintenance window, `flapping`, a closed incident."""
    up_to: int = 0
    """Its alerts up to this number are covered by this event; 0: all before it."""


class IncidentOpened(BaseEvent, tag="incident.opened", kw_only=True, frozen=True):
    incident: str
    title: str
    severity: Severity
    reason: str = ""
    """Why this severity: the measured impact."""
    service: str = ""
    fingerprint: str = ""
    seen_before: int = 0
    alerts: tuple[int, ...] = ()
    """Numbers of the events `alert.raised` that it was opened for."""
    facts: tuple[tuple[str, str], ...] = ()
    """More of the alert: its text and labels, so that the incident can be read on its own."""
    titled_at: datetime | None = None
    """When the alert that gave it its title was raised; None: just before."""
    since: datetime | None = None


class JoinedPart(Value, kw_only=True, frozen=True):
    """A service, or a problem of a host, that was not part of the incident before."""

    fingerprint: str
    name: str
    """The service; for an alert that names no service, its host."""
    title: str = ""
    severity: Severity = "P2"


class AlertsJoined(BaseEvent, tag="incident.joined", kw_only=True, frozen=True):
    """More alerts of the same problem; a storm is counted, not reported one by one."""

    incident: str
    count: int
    fingerprints: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    why: str = ""
    """Why they belong together."""
    up_to: int = 0
    """Alerts of these fingerprints up to this number are counted; 0: all before it."""
    parts: tuple[JoinedPart, ...] = ()
    """What became part of the incident with them; each is reported by name."""


class IncidentGraded(BaseEvent, tag="incident.graded", kw_only=True, frozen=True):
    """The severity changed: by a measurement, or by a person."""

    incident: str
    severity: Severity
    before: Severity
    reason: str = ""
    by: str = ""
    title: str = ""
    """What it is called from now on, where a log opened it before its service failed."""


class IncidentAcknowledged(BaseEvent, tag="incident.acknowledged", kw_only=True, frozen=True):
    incident: str
    by: str


class IncidentHint(BaseEvent, tag="incident.hint", kw_only=True, frozen=True):
    """What a person said about an incident. It is unverified, and it is no order."""

    incident: str
    person: str
    text: str


class IncidentReopened(BaseEvent, tag="incident.reopened", kw_only=True, frozen=True):
    """An incident was opened again, by a person, or by triage because its service fails in a way
    without any work on it."""

    incident: str
    by: str
    reason: str = ""
    titled_at: datetime | None = None
    title: str = ""
    """What the incident is called from now on; empty where its title still fits."""
    text: str = ""
    """What the new alert says."""


class PhaseEntered(BaseEvent, tag="incident.phase", kw_only=True, frozen=True):
    """The phase that the work on an incident has reached. Attempts count from 1; 0 is before the
    first."""

    incident: str
    phase: IncidentPhase
    attempt: int = 0
    detail: str = ""
    resumed: bool = False
    """After a crash: `gap` seconds lie between this and the previous event."""
    gap: float = 0.0


class LayerInvestigated(BaseEvent, tag="incident.layer", kw_only=True, frozen=True):
    """An investigator reported its findings; each claim refers to events of this run."""

    incident: str
    layer: str
    agent: str = ""
    """Its run."""
    status: Literal["working", "done", "failed"] = "done"
    findings: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


class IncidentChecked(BaseEvent, tag="incident.checked", kw_only=True, frozen=True):
    """The result of one check. `before` is the baseline: taken before any change."""

    incident: str
    check: str
    ok: bool
    detail: str = ""
    when: CheckTiming = "after"
    attempt: int = 0
    unknown: bool = False
    """The check could not be run, so `ok` is false although nothing failed."""
    proves: bool = True
    """False where it would pass after a restart or an edit, whatever the cause."""


class IncidentAssessed(BaseEvent, tag="incident.assessed", kw_only=True, frozen=True):
    """The first checks of the whole host have ended, before any change."""

    incident: str
    verdict: Literal["no-incident", "recovered", "wrong", "unknown"]
    reasons: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The checks that show it."""
    component: str = ""
    mechanism: str = ""
    value: str = ""


class EscalationLine(Value, kw_only=True, frozen=True):
    """A fact, command or need that people receive when an incident is escalated."""

    about: str
    """What it is about: obstacle (what keeps a service from running), process, error, log (older
    lines), file, configuration, port, disk, consumer, database, metric, cluster, change, test,
    earlier, related, command, need or unchecked."""
    text: str
    evidence: tuple[int, ...] = ()
    """Numbers of the events that show it."""


class PrecedingFix(Value, kw_only=True, frozen=True):
    """A change for another incident that was made shortly before this one ended. That it is the
    reason is not proved."""

    incident: str
    service: str = ""
    changed_at: datetime
    ended_at: datetime
    """When the problem ended that followed it."""
    verified: bool = False
    """Whether checks had passed after it by then; else it is only a change."""


class IncidentDiagnosed(BaseEvent, tag="incident.diagnosed", kw_only=True, frozen=True):
    """A diagnosis: what is broken, how, and by which value. `evidence` holds numbers of events of
    this run."""

    incident: str
    verdict: DiagnosisVerdict = "fix"
    component: str = ""
    mechanism: str = ""
    value: str = ""
    evidence: tuple[int, ...] = ()
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    confidence: float = 0.0
    on_copies: bool = False
    """Whether experiments on copies have proved it."""
    not_put_back: str = ""
    """Why a cause that was proved on copies stays in force."""
    escalation: tuple[EscalationLine, ...] = ()
    """For the people who take over, in the order of `about`; only in an escalation."""
    fine_since: datetime | None = None
    """Since when its checks pass, where it is over although nothing was changed for it."""
    after_fix: PrecedingFix | None = None


class ChangeBegan(BaseEvent, tag="change.began", kw_only=True, frozen=True):
    """Written before the change runs, with the way to undo it: nothing is unknown after a crash."""

    incident: str
    call_id: str
    command: str
    undo: str = ""
    attempt: int = 0
    by: str = ""
    """The playbook or the agent's run."""


class ChangesUndone(BaseEvent, tag="changes.undone", kw_only=True, frozen=True):
    incident: str
    calls: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    reason: str = ""


class IncidentVerified(BaseEvent, tag="incident.verified", kw_only=True, frozen=True):
    """The result of checks that are independent of the fix, after the trigger was repeated."""

    incident: str
    ok: bool
    checks: tuple[str, ...] = ()
    seconds: float = 0.0
    attempt: int = 0
    trigger: str = ""
    """The trigger that was repeated; empty when there was none."""
    kept: bool = False
    """Only a part is well, but nothing is worse: the changes stay."""
    by: str = ""
    """Empty: the commander's own checks. `oracle`: the judge of a drill."""
    fine_since: datetime | None = None
    """When the last of its alerts was resolved, before the checks confirmed that."""


class ReportWritten(BaseEvent, tag="report.written", kw_only=True, frozen=True):
    incident: str
    text: str
    path: str = ""
    """Below the home folder; empty where no file was written."""
    trouble: str = ""
    """Why no file could be written: the text is kept here in any case."""


class IncidentClosed(BaseEvent, tag="incident.closed", kw_only=True, frozen=True):
    incident: str
    outcome: Literal["resolved", "escalated", "no-incident", "recovered", "closed"]
    answered_by: Literal["playbook", "model", "person", "nobody"] = "nobody"
    by: str = ""
    reason: str = ""


class IncidentRecovered(BaseEvent, tag="incident.recovered", kw_only=True, frozen=True):
    """The problem of an incident has ended without a change for this incident, for whatever
    reason."""

    incident: str
    recovered_at: datetime
    """When the last of its alerts was resolved; the event itself follows after the settle time."""
    how: str = ""
    """How we know: which sources resolved which alerts. It names no actor: none is known."""
    observed: bool = True
    """False where nothing showed the problem any more, and nothing showed that it is over: a log in
    which nobody writes."""
    still_failing: tuple[str, ...] = ()
    """Warnings about the host that had joined and continue, and services that it names and that do
    not work; each is reported as its own incident."""
    after_fix: PrecedingFix | None = None
