"""Decides when a problem is over that nobody repaired: by its alerts, and by everything else that
fires about the services that it names."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from hermes.core.events.incidents import IncidentRecovered
from hermes.sre.triage.alert_series import AlertSeries
from hermes.sre.triage.incident_state import LOG_KINDS, IncidentState
from hermes.sre.triage.state import TriageState
from hermes.sre.triage.topology import AlertLocation

MAX_NAMED_SOURCES = 5
"""Alerts that a recovery names."""
LOG_ONLY_TEXT = ", by its log alone: whether it was used meanwhile is not known"


class RecoveryRules:
    def __init__(self, state: TriageState) -> None:
        self._state, self._settings = state, state.settings

    def find(self, now: datetime) -> Iterator[IncidentRecovered]:
        """Return a recovery for each incident whose problem ended without a change and did not
        return for a while."""
        for incident in self._state.incidents.values():
            worked_on = incident.recorded.status == "open" and not incident.question
            if not incident.in_progress or incident.forgotten_firing:
                continue
            if worked_on and incident.recorded.changed:
                continue
            event = self._recovery(incident, now, worked_on=worked_on)
            if event is None:
                continue
            if not worked_on:  # otherwise the work has to end first
                incident.apply(event)
            yield event

    def _recovery(
        self, incident: IncidentState, now: datetime, *, worked_on: bool
    ) -> IncidentRecovered | None:
        first = self._state.series.get(incident.fingerprint)
        if worked_on and first is not None and first.firing:
            return None  # quick exit: in a storm an incident has thousands of members
        members, apart = list(self._state.members(incident)), list[AlertSeries]()
        calm_at = incident.quiet_since
        if worked_on:
            apart = [each for each in members if each.firing and incident.is_side_warning(each)]
            names = {each.fingerprint for each in apart}
            members = [each for each in members if each.fingerprint not in names]
            calm_at = max((each.turned_at for each in members), default=None)
        span = timedelta(seconds=self._settings.recovery)
        if calm_at is None or now - calm_at < span or not self._are_over(members, now):
            return None
        outages = [each for each in self._outages(incident) if _names(incident, each)]
        if any(each.location.service == incident.service for each in outages):
            return None  # one symptom of it has ended, because the service has ended
        watched = [each for each in members if not each.withdrawn]
        return IncidentRecovered(
            run=incident.id,
            at=now,
            incident=incident.id,
            recovered_at=calm_at,
            how=f"{_resolved_by_text(watched)}; no failure for {span.total_seconds():g} s"
            f"{(basis := _log_only_text(watched))}",
            observed=basis != LOG_ONLY_TEXT,
            still_failing=tuple(dict.fromkeys(each.label for each in (*apart, *outages))),
        )

    def _are_over(self, members: Sequence[AlertSeries], now: datetime) -> bool:
        for series in members:
            series.end_flapping(now, self._settings.flapping)
            if series.firing or series.flapping:
                return False
        watched = [each for each in members if not each.withdrawn]
        return all(_proven(each, watched) for each in members if each.withdrawn)

    def _outages(self, incident: IncidentState) -> Iterator[AlertSeries]:
        """Alerts that a service there does not work, in whatever incident they are by now. One that
        nobody resolves says nothing about the present."""
        sources = self._state.resolving_sources
        for series in self._state.series.values():
            outage = series.firing and series.is_outage and series.source in sources
            if outage and _may_be_one_place(series.location, incident.location):
                yield series


def _may_be_one_place(one: AlertLocation, other: AlertLocation) -> bool:
    pairs = ((one.host, other.host), (one.namespace, other.namespace))
    return all(not (each and of_other) or each == of_other for each, of_other in pairs)


def _names(incident: IncidentState, outage: AlertSeries) -> bool:
    """Return whether people who read about the incident read the name of the service that does
    not work."""
    known, found = incident.recorded, incident.recorded.diagnosis
    service = outage.location.service
    if service in (incident.service, *known.parts):
        return True
    words = [known.details.title, *([found.component, found.mechanism] if found else [])]
    return re.search(rf"(?<![\w-]){re.escape(service)}(?![\w-])", "\n".join(words)) is not None


def _proven(withdrawn: AlertSeries, watched: Sequence[AlertSeries]) -> bool:
    """Return whether others that are still watched say that the same problem of its service is
    over."""
    service, problem = withdrawn.location.service, withdrawn.problem
    same = (
        each for each in watched if each.location.service == service and each.problem == problem
    )
    return bool(service) and any(same)


def _log_only_text(members: Sequence[AlertSeries]) -> str:
    """What a recovery leaves open that only logs show; requests that were answered prove it."""
    kinds = [dict(each.alert.labels).get("kind", "") for each in members if each.alert is not None]
    if not kinds or not all(kind in LOG_KINDS for kind in kinds):
        return ""
    if "answers" in kinds and not any(each.unused for each in members):
        return ", by the answers in its log"
    return LOG_ONLY_TEXT


def _resolved_by_text(members: Sequence[AlertSeries]) -> str:
    """Return what resolved it, such as `resolved by probe port-80, alertmanager Down`."""
    named = [
        f"{each.source or 'its source'} {each.check or each.alarm}"
        for each in members[:MAX_NAMED_SOURCES]
    ]
    more = (
        f" and {len(members) - MAX_NAMED_SOURCES} more" if len(members) > MAX_NAMED_SOURCES else ""
    )
    return f"resolved by {', '.join(named)}{more}" if named else "its alerts were resolved"
