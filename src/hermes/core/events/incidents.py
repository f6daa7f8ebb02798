"""An incident from the first alert to the last line of its report."""

from typing import Literal

from hermes.core.events.happening import Happening

Severity = Literal["P0", "P1", "P2", "P3"]
Verdict = Literal["fix", "no-incident", "recovered", "escalate"]


class AlertRaised(Happening, tag="alert.raised", kw_only=True, frozen=True):
    """Something or somebody noticed; `fingerprint` is the same for the same trouble."""

    fingerprint: str
    title: str
    text: str = ""
    source: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    resolved: bool = False


class IncidentOpened(Happening, tag="incident.opened", kw_only=True, frozen=True):
    incident: str
    title: str
    severity: Severity
    reason: str = ""
    """Why this severity: the impact that was measured."""
    service: str = ""
    fingerprint: str = ""
    seen_before: int = 0


class IncidentDiagnosed(Happening, tag="incident.diagnosed", kw_only=True, frozen=True):
    """What is broken, how, and by which value; `evidence` are numbers of events of this run."""

    incident: str
    verdict: Verdict = "fix"
    component: str = ""
    mechanism: str = ""
    value: str = ""
    evidence: tuple[int, ...] = ()
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    confidence: float = 0.0


class ChangeMade(Happening, tag="change.made", kw_only=True, frozen=True):
    """One changing command, with the way back."""

    incident: str
    call_id: str
    command: str
    undo: str = ""


class ChangesUndone(Happening, tag="changes.undone", kw_only=True, frozen=True):
    incident: str
    calls: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    reason: str = ""


class IncidentVerified(Happening, tag="incident.verified", kw_only=True, frozen=True):
    """Said by checks that the fixer has no hand in, after the trigger was set off again."""

    incident: str
    ok: bool
    checks: tuple[str, ...] = ()
    seconds: float = 0.0


class ReportWritten(Happening, tag="report.written", kw_only=True, frozen=True):
    incident: str
    text: str
    path: str = ""


class IncidentClosed(Happening, tag="incident.closed", kw_only=True, frozen=True):
    incident: str
    outcome: Literal["resolved", "escalated", "no-incident", "recovered", "closed"]
    answered_by: Literal["playbook", "model", "person", "nobody"] = "nobody"
    by: str = ""


IncidentEvent = (
    AlertRaised
    | IncidentOpened
    | IncidentDiagnosed
    | ChangeMade
    | ChangesUndone
    | IncidentVerified
    | ReportWritten
    | IncidentClosed
)
