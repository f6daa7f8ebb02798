"""What the events of one incident show, computed from them alone: nothing here renders, and
nothing is taken from the code that does."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    ChangeBegan,
    ChangesUndone,
    EscalationLine,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    IncidentVerified,
    LayerInvestigated,
    PhaseEntered,
)
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.events.tools import ToolFinished

QUIET = ("no-incident", "recovered")


@dataclass
class Facts:
    run: str
    status: str = "open"
    severity: str = ""
    opened_at: datetime | None = None
    since: datetime | None = None
    alerts: int = 0
    services: set[str] = field(default_factory=set)
    people: set[str] = field(default_factory=set)
    begun_at: datetime | None = None
    phase: str | None = None
    diagnosis: IncidentDiagnosed | None = None
    verified: IncidentVerified | None = None
    passed: int = 0
    failed: int = 0
    """Verifications, of all its lives."""
    closed: IncidentClosed | None = None
    recovered: IncidentRecovered | None = None
    changes: dict[str, str] = field(default_factory=dict)
    """In force: by call, whose they are."""
    models: list[str] = field(default_factory=list)
    looked: dict[str, PlaybookEnded] = field(default_factory=dict)
    acted: set[str] = field(default_factory=set)
    layers: dict[str, LayerInvestigated] = field(default_factory=dict)
    looks: set[str] = field(default_factory=set)
    """Runs in which a command ended."""

    # Statements

    @property
    def held(self) -> bool:
        """Checks passed, and it was not handed over to people after that."""
        if self.verified is None or not self.verified.ok or self.status == "escalated":
            return False
        said = self.diagnosis
        return not (said and said.verdict == "escalate" and said.at >= self.verified.at)

    @property
    def root_cause(self) -> bool:
        said = self.diagnosis
        if said is None or not said.evidence or not said.mechanism:
            return False
        if said.verdict == "no-incident":
            return self.status in ("open", "no-incident")
        return said.verdict == "fix" and self.held

    @property
    def escalation(self) -> tuple[EscalationLine, ...]:
        return self.diagnosis.escalation if self.diagnosis is not None else ()

    @property
    def ongoing(self) -> bool:
        return self.ended_at is None

    @property
    def began_at(self) -> datetime:
        assert self.opened_at is not None
        return min(self.opened_at, self.since or self.opened_at)

    @property
    def ended_at(self) -> datetime | None:
        if self.recovered is not None:
            return self.recovered.recovered_at
        if self.status == "escalated":
            return None
        if self.held and self.verified is not None:
            return self.verified.at
        return self.closed.at if self.closed is not None else None

    def duration(self, now: datetime) -> float:
        return max(0.0, ((self.ended_at or now) - self.began_at).total_seconds())

    @property
    def repair(self) -> float | None:
        assert self.opened_at is not None
        at = None
        if self.recovered is not None:
            at = self.recovered.recovered_at if self.recovered.observed else None
        elif self.held and self.verified and self.status in ("open", "resolved", "closed"):
            at = self.verified.at
        return None if at is None else max(0.0, (at - self.opened_at).total_seconds())

    @property
    def answered_by(self) -> tuple[str, str]:
        """Who, and by which name; only where checks bear it out, or a person said so."""
        if self.closed is not None and self.closed.answered_by == "person":
            return "person", self.closed.by
        if self.held and self.changes:
            by = list(self.changes.values())[-1]
            return ("model", "") if by.startswith(self.run) else ("playbook", by)
        if self.closed and self.closed.outcome in QUIET and self.closed.answered_by == "model":
            return "model", ""
        return "nobody", ""

    @property
    def not_matched(self) -> set[str]:
        return {name for name, end in self.looked.items() if _complete(end)} - self.acted

    @property
    def unchecked(self) -> set[str]:
        return {name for name, end in self.looked.items() if not _complete(end)} - self.acted

    @property
    def excluded(self) -> set[str]:
        """What an investigator excluded that looked at something."""
        return {
            text
            for layer in self.layers.values()
            for text in layer.ruled_out
            if layer.evidence or layer.agent in self.looks
        }


def _complete(end: PlaybookEnded) -> bool:
    return end.outcome == "declined" and bool(end.step) and not end.unchecked


def facts_of(run: str, events: Sequence[Event]) -> Facts:
    found = Facts(run)
    for event in events:
        if event.run != "watch" and event.run.partition("/")[0] != run:
            continue
        _note_alert(found, event)
        _note_work(found, event)
        _note_looks(found, event)
        _note_end(found, event)
    return found


def _note_alert(found: Facts, event: Event) -> None:
    match event:
        case AlertRaised():
            found.services.add(dict(event.labels)["service"])
        case IncidentOpened():
            found.opened_at, found.since, found.severity = event.at, event.since, event.severity
            found.alerts = len(event.alerts)
        case AlertsJoined():
            found.alerts += event.count
        case IncidentGraded():
            found.severity = event.severity
        case IncidentAcknowledged():
            found.people.add(event.by)
            found.begun_at = found.begun_at or event.at
        case _:
            pass


def _note_work(found: Facts, event: Event) -> None:
    match event:
        case PhaseEntered():
            found.begun_at = found.begun_at or event.at
            found.phase = event.phase
        case IncidentDiagnosed():
            found.diagnosis = event
        case IncidentVerified():
            found.verified = event
            found.passed, found.failed = found.passed + event.ok, found.failed + (not event.ok)
        case ChangeBegan():
            found.changes[event.call_id] = event.by
        case ChangesUndone():
            for call in event.calls:
                found.changes.pop(call, None)
        case _:
            pass


def _note_looks(found: Facts, event: Event) -> None:
    match event:
        case ModelAnswered():
            found.models.append(event.model)
        case PlaybookStarted():
            found.acted.add(event.skill)
        case PlaybookEnded() if event.outcome in ("declined", "refused"):
            found.looked[event.skill] = event
        case LayerInvestigated() if event.status != "working":
            found.layers[f"{event.agent} {event.at}"] = event
        case ToolFinished():
            found.looks.add(event.run)
        case _:
            pass


def _note_end(found: Facts, event: Event) -> None:
    match event:
        case IncidentClosed():
            found.status, found.closed = event.outcome, event
            found.people |= {event.by} - {""}
        case IncidentRecovered():
            found.status, found.recovered = "recovered", event
        case IncidentReopened():
            found.status, found.closed, found.recovered, found.phase = "open", None, None, None
            found.diagnosis = found.verified = None
            found.people.add(event.by)
        case _:
            pass


_SPAN = re.compile(r"(\d+(?:\.\d+)?) (d|h|min|s)\b")
_SECONDS = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0}


def same_span(text: str, seconds: float) -> bool:
    """Whether a duration for people, such as `2 h 4 min`, is this one to the unit it ends with."""
    parts = _SPAN.findall(text)
    said = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    slack = _SECONDS[parts[-1][1]] if parts else 0.0
    return bool(parts) and abs(said - seconds) <= slack
