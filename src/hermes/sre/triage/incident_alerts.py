"""Reads the alerts of one incident from the journal, with their state and times."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import WITHDRAWN_LABEL, Incident
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.sre.triage.topology import alert_location

MAX_RAISED_BEFORE = timedelta(days=1)
"""How long before an incident its alerts may have been raised, for instance in maintenance."""
IncidentAlertState = Literal["firing", "resolved", "not watched any more"]


class IncidentAlert(Value, kw_only=True, frozen=True):
    """One fingerprint while it was part of the incident."""

    fingerprint: str
    title: str
    service: str = ""
    host: str = ""
    source: str = ""
    check: str = ""
    state: IncidentAlertState = "firing"
    since: datetime | None = None
    """When it began, by its source, else when it was raised."""
    raised_at: datetime
    resolved_at: datetime | None = None
    times: int = 1
    """How often it was raised."""


async def read_incident_alerts(journal: Journal, incident: Incident) -> list[IncidentAlert]:
    """In the order in which they joined, without alerts that were raised after its end."""
    found: dict[str, IncidentAlert] = {}
    async for event in _read_raised(journal, incident):
        known = found.get(event.fingerprint)
        if event.resolved:
            if known is not None and known.state == "firing":
                found[event.fingerprint] = _after_resolution(known, event)
        elif incident.ended_at is None or event.at <= incident.ended_at:
            found[event.fingerprint] = _after_firing(known, event, incident.details.opened_at)
    return [found[each] for each in incident.fingerprints if each in found]


async def _read_raised(journal: Journal, incident: Incident) -> AsyncIterator[AlertRaised]:
    wanted, since = set(incident.fingerprints), incident.details.opened_at - MAX_RAISED_BEFORE
    async for recorded in journal.read(kinds=("alert.raised",), since=since):
        event = recorded.event
        if isinstance(event, AlertRaised) and event.fingerprint in wanted:
            yield event


def _after_firing(
    known: IncidentAlert | None, event: AlertRaised, opened_at: datetime
) -> IncidentAlert:
    over = known is not None and known.resolved_at is not None and known.resolved_at < opened_at
    if known is None or over:
        location = alert_location(dict(event.labels))
        return IncidentAlert(
            fingerprint=event.fingerprint,
            title=event.title,
            service=location.service,
            host=location.host,
            source=event.source,
            check=event.check,
            since=event.since or event.at,
            raised_at=event.at,
        )
    return replace(known, state="firing", resolved_at=None, times=known.times + 1)


def _after_resolution(known: IncidentAlert, event: AlertRaised) -> IncidentAlert:
    withdrawn = bool(dict(event.labels).get(WITHDRAWN_LABEL))
    state: IncidentAlertState = "not watched any more" if withdrawn else "resolved"
    return replace(known, state=state, resolved_at=event.at)
