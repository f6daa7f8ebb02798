"""Computes the times to detect, acknowledge and repair an incident, and its recurrences."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from hermes.core.events.incidents import IncidentOpened
from hermes.core.incident import Incident
from hermes.core.messages import Value

RECURRENCE_PERIOD = timedelta(days=14)


class IncidentTimes(Value, kw_only=True, frozen=True):
    """Seconds; None where it is not known or has not happened."""

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
        repair=_seconds_between(opened, repaired_at(incident)),
    )


def repaired_at(incident: Incident) -> datetime | None:
    """When checks verified a fix, or when an escalated problem ended.

    None for a false alarm, for a problem that ended without a repair, and where only a person
    closed the incident.
    """
    if incident.recovered is not None:
        return None if incident.question else incident.recovered.recovered_at
    fixed = incident.resolved_by_checks and incident.status in ("open", "resolved", "closed")
    return incident.verified.at if fixed and incident.verified is not None else None


def find_recurrence(incident: Incident, opened: Sequence[IncidentOpened]) -> IncidentRecurrence:
    """`opened`: events of other incidents; those with the same fingerprint are counted."""
    details = incident.details
    earliest = details.opened_at - RECURRENCE_PERIOD
    before = [
        event.incident
        for event in opened
        if details.fingerprint
        and event.fingerprint == details.fingerprint
        and event.incident != details.incident
        and earliest <= event.at <= details.opened_at
    ]
    return IncidentRecurrence(times=1 + len(before), before=tuple(before))


def ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _seconds_between(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None:
        return None
    return max(0.0, (end - begin).total_seconds())
