"""Finds the incident that an alert belongs to, by its location, its alarm and its time."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

from hermes.sre.triage.alert_series import AlertSeries
from hermes.sre.triage.incident_state import IncidentState, location_keys
from hermes.sre.triage.severity import (
    SEVERITY_BY_EFFECT,
    SEVERITY_LEVELS,
    alert_impact,
    failure_gravity,
)
from hermes.sre.triage.state import TriageState


class AlertCorrelation:
    """An index of incidents by location and alarm, rebuilt when incidents are added or removed."""

    def __init__(self, state: TriageState) -> None:
        self._state = state
        self._by_key: dict[str, dict[str, None]] = {}
        self._by_alarm: dict[str, dict[str, None]] = {}
        self._indexed: dict[str, int] = {}

    def index_incident(self, incident: IncidentState) -> None:
        known = self._indexed.get(incident.id, 0)
        if known and known == len(incident.locations):
            return
        self._indexed[incident.id] = len(incident.locations)
        if not known:
            self._by_alarm.setdefault(incident.alarm, {})[incident.id] = None
        # Only the new ones: in a storm nearly every alert adds a location.
        for key in islice(incident.locations, known, None):
            self._by_key.setdefault(key, {})[incident.id] = None

    def find_incident(self, series: AlertSeries, now: datetime) -> tuple[IncidentState, str] | None:
        """The incident to join, and why."""
        self._refresh()
        if known := self._same_service(series):
            return known
        for key in self._keys(series):
            for incident in self._accepting(self._by_key.get(key, ()), now):
                why = self._state.topology.related(series.location, incident.locations[key])
                close = key.startswith("service\n") or self._state.settings.group.by_host
                if why and incident.accepts(series, close):
                    return incident, f"{why}, within {self._state.settings.group.window:g} s"
        return self._same_alarm(series, now)

    def roots_first(self, waiting: Iterable[AlertSeries]) -> list[AlertSeries]:
        """Hosts first, then services with the fewest dependencies, by severity, by what users of a
        service notice, and by number.

        Warnings about a host come last: they are not the cause of failures there.
        """
        waiting = list(waiting)
        names = {each.location.service for each in waiting}
        needs = {name: len(self._state.topology.dependencies_of(name) & names) for name in names}

        def rank(series: AlertSeries) -> tuple[int, int, int, int, int]:
            gravity = failure_gravity(series.alert) if series.alert is not None else 0
            effect = alert_impact(series.alert).effect if series.alert is not None else "warning"
            grave = SEVERITY_LEVELS.index(SEVERITY_BY_EFFECT[effect])
            service = series.location.service
            order = 1 if service else 2 if series.is_warning else 0
            return order, needs[service], grave, -gravity, series.number

        return sorted(waiting, key=rank)

    def _keys(self, series: AlertSeries) -> Iterable[str]:
        service, topology = series.location.service, self._state.topology
        yield from location_keys(series.location)
        if service:
            for name in sorted(topology.dependencies_of(service) | topology.dependents_of(service)):
                yield f"service\n{name}"

    def _same_service(self, series: AlertSeries) -> tuple[IncidentState, str] | None:
        """Return the incident about its service, however long ago the last alert joined: one that
        is worked on, for two commanders must not work on one service, or one about the same
        problem that was escalated, while that still fails. And why."""
        service = series.location.service
        for id in self._by_key.get(f"service\n{service}", ()) if service else ():
            incident = self._state.incidents.get(id)
            if incident is None or incident.service != service or not incident.in_progress:
                continue
            if incident.is_worked_on and series.location == incident.location:
                return incident, f"the same service, {service}, which is worked on"
            if incident.recorded.status == "escalated" and incident.same_problem(series):
                fails = (each.firing for each in self._state.members(incident))
                if any(fails):
                    return incident, "the same problem, which was escalated"
        return None

    def _same_alarm(self, series: AlertSeries, now: datetime) -> tuple[IncidentState, str] | None:
        """Return an incident with the same alarm, and why: one alarm on many hosts is one incident;
        of many services only in a storm."""
        span = timedelta(seconds=self._state.settings.group.window)
        same_alarm = list(self._accepting(self._by_alarm.get(series.alarm, ()), now))
        for incident in same_alarm:
            if (
                not series.location.service
                and not incident.service
                and incident.accepts(series, False)
            ):
                return (
                    incident,
                    f"the same alarm, {series.alarm}, within {span.total_seconds():g} s",
                )
        recent = [each for each in same_alarm if now - each.opened_at <= span]
        accepting = [each for each in recent if not each.accepts_own_problem_only]
        if accepting and len(recent) >= self._state.settings.group.storm:
            return accepting[0], f"a storm: {len(recent)} incidents of {series.alarm} are open"
        return None

    def _accepting(self, ids: Iterable[str], now: datetime) -> Iterable[IncidentState]:
        for id in ids:
            incident = self._state.incidents.get(id)
            if incident is not None and incident.accepts_new(now, self._state.settings.group):
                yield incident

    def _refresh(self) -> None:
        incidents = self._state.incidents
        if self._indexed.keys() != incidents.keys():
            self._by_key, self._by_alarm, self._indexed = {}, {}, {}
            for incident in incidents.values():
                self.index_incident(incident)
