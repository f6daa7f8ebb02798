"""Statements about an incident, so that all views agree: times, cause, resolver, outcome, checks.

A statement is made only where the journal shows it.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from hermes.core.events.incidents import (
    IncidentChecked,
    IncidentDiagnosed,
    IncidentOpened,
    LayerInvestigated,
)
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import fold_finished_calls
from hermes.plumbing.units import format_duration
from hermes.sre.cause import EXPERIMENT
from hermes.sre.preceding_fix import preceding_fix_text
from hermes.sre.reports.actions import ANSWER_TOOLS, events_of_type
from hermes.sre.triage.alert_series import incident_signature, opened_signature

RECURRENCE_PERIOD = timedelta(days=14)


class IncidentTimes(Value, kw_only=True, frozen=True):
    """Seconds; None where it is not known or has not happened. The duration of an incident that
    was repaired is the time to detect plus the time to repair."""

    detect: float | None = None
    """From the beginning of the problem, by its source, to the incident."""
    acknowledge: float | None = None
    """From the incident to the first work on it, or its acknowledgement."""
    repair: float | None = None
    """From the incident to checks that passed, or to an observed recovery."""


class IncidentRecurrence(Value, kw_only=True, frozen=True):
    """Incidents of the same kind within these days, this one included."""

    times: int = 1
    days: int = RECURRENCE_PERIOD.days
    before: tuple[str, ...] = ()
    """Ids of the earlier incidents, the latest last."""


def incident_times(incident: Incident) -> IncidentTimes:
    opened = incident.details.opened_at
    begun = [at for at in (incident.began_at, incident.acknowledged_at) if at is not None]
    return IncidentTimes(
        detect=_seconds_between(incident.details.since, opened),
        acknowledge=_seconds_between(opened, min(begun, default=None)),
        repair=repair_seconds(incident),
    )


def duration_text(incident: Incident, now: datetime) -> str:
    """Return the duration with its parts: from the beginning of the outage to the incident (MTTD),
    and from there to its end (MTTR)."""
    lasted, times = format_duration(incident.duration_s(now)), incident_times(incident)
    if incident.ended_at is None:
        return f"{lasted} so far"
    if times.repair is None:
        return lasted
    return f"{lasted} (MTTD {format_duration(times.detect)}, MTTR {format_duration(times.repair)})"


def repair_seconds(incident: Incident) -> float | None:
    """The time to repair alone, for statistics over many incidents."""
    return _seconds_between(incident.details.opened_at, repaired_at(incident))


def repaired_at(incident: Incident) -> datetime | None:
    """When a problem was over, by the checks after a fix, or by its alerts or its checks where it
    recovered without one.

    None for a false alarm, and where only a person closed the incident.
    """
    if (recovered := incident.recovered) is not None:
        known = recovered.observed and not incident.question
        return recovered.recovered_at if known else None
    if incident.fine_since is not None:
        return incident.fine_since
    fixed = incident.resolved_by_checks and incident.status in ("open", "resolved", "closed")
    return incident.over_at if fixed else None


def find_recurrence(incident: Incident, opened: Sequence[IncidentOpened]) -> IncidentRecurrence:
    """`opened`: events of other incidents; those of the same problem count, as in triage."""
    details = incident.details
    earliest = details.opened_at - RECURRENCE_PERIOD
    title = details.first_title or details.title
    own = incident_signature(details.service, details.labels, title)
    before = [
        event.incident
        for event in opened
        if details.fingerprint
        and (event.fingerprint == details.fingerprint or opened_signature(event) == own)
        and event.incident != details.incident
        and earliest <= event.at <= details.opened_at
    ]
    return IncidentRecurrence(times=1 + len(before), before=tuple(before))


def _seconds_between(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None:
        return None
    return max(0.0, (end - begin).total_seconds())


CauseStatus = Literal["found", "supposed", "unknown"]
ResolverKind = Literal["playbook", "experiment", "model", "person", "nobody"]
ROOT_CAUSE_LABEL, COPIES_CAUSE_LABEL, SUPPOSED_CAUSE_LABEL, UNKNOWN_CAUSE_LABEL = (
    "root cause",
    "cause, proved on copies",
    "cause, not proved",
    "cause",
)
UNCONFIRMED_CAUSE_LABEL = "on copies the cause; putting it back did not end it here"
NOT_KNOWN_TEXT, NOT_PROVED_TEXT = "not known", "not proved"
SYMPTOM_CONFIDENCE = 0.2
"""The confidence of a diagnosis that only lists symptoms, without a search for the cause."""
QUIET_OUTCOMES = {"no-incident": "no incident", "recovered": "recovered"}
"""Outcomes of incidents in which nothing had to be repaired."""
NOT_OBSERVED_TEXT = "not seen any more; whether it works is not known"
NOT_VERIFIED_TEXT = "not resolved by checks; closed by a person"


class IncidentResolver(Value, kw_only=True, frozen=True):
    """Who resolved it. `name` is empty where it is not known."""

    by: ResolverKind = "nobody"
    name: str = ""

    def __str__(self) -> str:
        names = {
            "nobody": "nobody",
            "person": "a person",
            "model": "a model",
            "experiment": "an experiment on a copy",
        }
        if not self.name:
            return names.get(self.by, f"a {self.by}")
        return self.name if self.by == "person" else f"{self.by} {self.name}"


class UncheckedPlaybooks(Value, kw_only=True, frozen=True):
    """Playbooks whose signature could not be checked completely, for one reason."""

    why: str
    skills: tuple[str, ...]


def cause_status(incident: Incident) -> CauseStatus:
    """Found: a diagnosis with evidence that a verified fix confirms, or a false alarm with
    evidence. Every other diagnosis is supposed."""
    found, verified = incident.diagnosis, incident.verified
    if found is None or not found.mechanism or lists_symptoms(found):
        return "unknown"
    if not found.evidence:
        return "supposed"
    if found.verdict == "no-incident" and incident.status in ("open", "no-incident"):
        return "found"
    fixed = found.verdict == "fix" and incident.resolved_by_checks
    return "found" if fixed and verified is not None and found.at <= verified.at else "supposed"


def lists_symptoms(found: IncidentDiagnosed) -> bool:
    """No cause was searched for: it says what was seen, which may belong to something else."""
    return found.verdict == "escalate" and 0 < found.confidence <= SYMPTOM_CONFIDENCE


def cause_line(incident: Incident) -> tuple[str, str]:
    """Its label and its text, for a view with one line for it."""
    state, found = cause_status(incident), incident.diagnosis
    fix = f"; {preceding_fix_text(incident.after_fix)}" if incident.after_fix else ""
    if state == "unknown" or found is None:
        return UNKNOWN_CAUSE_LABEL, (NOT_PROVED_TEXT + fix if fix else NOT_KNOWN_TEXT)
    parts = [part for part in (found.component, found.mechanism, found.value) if part]
    supposed = COPIES_CAUSE_LABEL if found.on_copies else SUPPOSED_CAUSE_LABEL
    if found.on_copies and any(each.by == EXPERIMENT and each.undone for each in incident.changes):
        supposed = UNCONFIRMED_CAUSE_LABEL
    return (ROOT_CAUSE_LABEL if state == "found" else supposed), " · ".join(parts) + fix


def resolver_of(incident: Incident) -> IncidentResolver:
    """A playbook, an experiment or a model only where checks passed after its change, or where a
    model concluded that nothing had to be repaired. `nobody` for escalated and open incidents."""
    closed = incident.closed
    if closed is not None and closed.answered_by == "person":
        return IncidentResolver(by="person", name=closed.by)
    kept = [change for change in incident.changes if change.undone != "yes"]
    if incident.resolved_by_checks and kept:
        by = kept[-1].by
        if by == EXPERIMENT:
            return IncidentResolver(by="experiment")
        model = by.startswith(incident.details.run)
        return IncidentResolver(by="model") if model else IncidentResolver(by="playbook", name=by)
    if closed is not None and closed.outcome in QUIET_OUTCOMES and closed.answered_by == "model":
        return IncidentResolver(by="model")
    return IncidentResolver()


def outcome_text(incident: Incident) -> str:
    """The outcome in a report; `resolved` only when checks verified it."""
    if incident.resolved_by_checks and incident.status in ("open", "resolved", "closed"):
        return "resolved"
    if incident.status == "open":
        return _open_outcome_text(incident)
    if incident.recovered is not None and not incident.recovered.observed:
        return NOT_OBSERVED_TEXT
    if incident.recovered is not None and incident.closed is not None:
        return "recovered after it was escalated"
    if incident.status in ("resolved", "closed"):
        return NOT_VERIFIED_TEXT
    return QUIET_OUTCOMES.get(incident.status, "escalated")


def _open_outcome_text(incident: Incident) -> str:
    verdict = incident.diagnosis.verdict if incident.diagnosis is not None else ""
    if verdict in QUIET_OUTCOMES and not incident.unverified_changes:
        return QUIET_OUTCOMES[verdict]
    if verdict == "escalate":
        return "escalated"
    if incident.phase in ("document", "learn"):
        return "not resolved; people have to take over"
    return "not resolved yet"


def playbooks_not_matched(records: Sequence[JournalRecord]) -> tuple[str, ...]:
    """Playbooks that checked their signature on the host and did not find it."""
    return tuple(skill for skill, end in _scan_ends(records).items() if found_nothing(end))


def playbooks_unchecked(records: Sequence[JournalRecord]) -> tuple[UncheckedPlaybooks, ...]:
    """Grouped by reason, the most frequent first."""
    by_reason: dict[str, list[str]] = {}
    for skill, end in _scan_ends(records).items():
        if not found_nothing(end):
            by_reason.setdefault(end.unchecked or end.detail or end.outcome, []).append(skill)
    groups = [UncheckedPlaybooks(why=why, skills=tuple(names)) for why, names in by_reason.items()]
    return tuple(sorted(groups, key=lambda each: -len(each.skills)))


def _scan_ends(records: Sequence[JournalRecord]) -> dict[str, PlaybookEnded]:
    """The last end of each playbook that did not change anything."""
    acted = {event.skill for event in events_of_type(records, PlaybookStarted) if not event.dry}
    ends = ("declined", "refused", "failed")
    return {
        event.skill: event
        for event in events_of_type(records, PlaybookEnded)
        if event.outcome in ends and not event.dry and event.skill not in acted
    }


def found_nothing(end: PlaybookEnded) -> bool:
    """Its signature was checked completely and not found."""
    return end.outcome == "declined" and not end.unchecked and bool(end.step)


_NAMES_EVENT = re.compile(r"\(event \d+\)$")


class ExcludedCauses(Value, kw_only=True, frozen=True):
    """Causes that investigators and experiments excluded: with evidence, and without."""

    shown: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


def find_excluded_causes(
    incident: Incident, layers: Sequence[LayerInvestigated], records: Sequence[JournalRecord]
) -> ExcludedCauses:
    numbers_by_run, shown, claimed = _result_numbers_by_run(records), dict[str, str](), list[str]()
    for layer in layers:
        numbers = layer.evidence or numbers_by_run.get(layer.agent, ())
        where = f"investigator of {layer.layer}, events {', '.join(map(str, numbers[:8]))}"
        for text in layer.ruled_out:
            if not layer.agent and _NAMES_EVENT.search(text):  # our own words, not a model's
                shown[text] = text
            elif numbers:
                shown[text] = f"{text} ({where})"
            else:
                claimed.append(text)
    claimed += list(incident.diagnosis.ruled_out) if incident.diagnosis is not None else []
    return ExcludedCauses(
        shown=tuple(shown.values()),
        claimed=tuple(dict.fromkeys(text for text in claimed if text not in shown)),
    )


def _result_numbers_by_run(records: Sequence[JournalRecord]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for call, _ in fold_finished_calls(records):
        if call.name not in ANSWER_TOOLS:
            found[call.run] = (*found.get(call.run, ()), call.finished_seq)
    return found


def checks_failed_before(checks: Sequence[IncidentChecked]) -> tuple[str, ...]:
    before = [each for each in checks if each.when == "before" and not each.unknown]
    return tuple(dict.fromkeys(each.check for each in before if not each.ok))


def checks_not_run(checks: Sequence[IncidentChecked]) -> list[str]:
    """Checks that could not be run, with the reason."""
    found = {each.check: each.detail for each in checks if each.unknown}
    return [f"check {name}: {why or 'no reason is recorded'}" for name, why in found.items()]
