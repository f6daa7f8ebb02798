"""The state of triage, built from the journal: the same after a crash as before it.

It makes no decisions. An event may be applied twice: when triage creates it, and when it comes back
from the journal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    AlertSuppressed,
    ChangeBegan,
    ChangesUndone,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    IncidentVerified,
    PhaseEntered,
)
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded
from hermes.core.incident import WATCH_RUN
from hermes.core.protocols import JournalRecord
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.alert_series import AlertSeries, RecurrenceHistory
from hermes.sre.triage.incident_state import IncidentState
from hermes.sre.triage.maintenance import MaintenanceCalendar
from hermes.sre.triage.topology import ServiceTopology, alert_dependencies

FLAPPING_STRETCH, PASSED_STRETCH = "flapping", "passed"
"""Values of `stretch` that are neither a maintenance window nor an incident; `passed` mutes
nothing."""
UPDATE_EVENTS = (
    IncidentGraded,
    IncidentAcknowledged,
    PhaseEntered,
    IncidentChecked,
    IncidentDiagnosed,
    ChangeBegan,
    ChangesUndone,
    IncidentVerified,
)
"""Events that change only the state of one incident."""
MAX_SERVICES = 10_000
EVICTION_INTERVAL = timedelta(seconds=60)
EVICTION_TARGET_SHARE = 0.9
"""The share of the limit that is kept when it is reached, so that eviction is rare."""


class TriageState:
    def __init__(self, settings: TriageSettings, depends_on: Mapping[str, Iterable[str]]) -> None:
        self.settings = settings
        self.topology = ServiceTopology(settings.group, depends_on)
        self.calendar = MaintenanceCalendar()
        self.recurrences = RecurrenceHistory(settings.days)
        self.series: dict[str, AlertSeries] = {}
        self.incidents: dict[str, IncidentState] = {}
        self.waiting: dict[str, None] = {}
        """Fingerprints with alerts that have no answer."""
        self.muted: dict[str, None] = {}
        self.flapping: dict[str, None] = {}
        self.released: dict[str, tuple[datetime, str]] = {}
        """Fingerprints that fire after they left an incident: when they are due, and its id."""
        self.resolving_sources: set[str] = {"probe", "prometheus"}
        """Sources that resolve their alerts: silence of others is no evidence."""
        self._services: dict[str, None] = {}
        self._newest = 0
        self._handlers: dict[type, Callable[[JournalRecord, Any], None]] = {
            AlertRaised: self._raised,
            AlertSuppressed: self._suppressed,
            IncidentOpened: self._opened,
            AlertsJoined: self._joined,
            IncidentClosed: self._closed,
            IncidentRecovered: self._recovered,
            IncidentReopened: self._reopened,
            **dict.fromkeys(UPDATE_EVENTS, self._updated),
            MaintenanceAdded: lambda _, event: self.calendar.apply(event),
            MaintenanceEnded: lambda _, event: self.calendar.apply(event),
        }

    def apply(self, recorded: JournalRecord) -> None:
        """Apply one event, in the order of the journal."""
        take = self._handlers.get(type(recorded.event))
        if take is not None:
            take(recorded, recorded.event)

    def get_series(self, fingerprint: str, at: datetime) -> AlertSeries:
        found = self.series.get(fingerprint)
        if found is None:
            found = AlertSeries(fingerprint, at, self.settings.flapping.times)
            self.series[fingerprint] = found
        return found

    def incident_of(self, series: AlertSeries) -> IncidentState | None:
        return self.incidents.get(series.incident)

    def members(self, incident: IncidentState) -> Iterator[AlertSeries]:
        for fingerprint in incident.members:
            series = self.series.get(fingerprint)
            if series is not None and series.incident == incident.id:
                yield series

    def quiet_until(self, incident: IncidentState) -> datetime:
        """Return until when, after the end of an incident, its own alerts are not new."""
        judged = incident.recorded.status in ("no-incident", "closed")
        seconds = self.settings.hush if judged else self.settings.settle
        return (incident.over_at or incident.opened_at) + timedelta(seconds=seconds)

    def echo_until(
        self, series: AlertSeries, incident: IncidentState, over_at: datetime
    ) -> datetime:
        """Return until when this alert of an ended incident is not new."""
        if series.fired_since_earlier_incident:
            return over_at + timedelta(seconds=self.settings.hush)
        return self.quiet_until(incident)

    def is_still_muted(self, series: AlertSeries, now: datetime) -> bool:
        """Return whether the reason for which it is muted still holds."""
        if series.muted_by == FLAPPING_STRETCH:
            return series.flapping and not series.steady(now, self.settings.flapping)
        if (incident := self.incidents.get(series.muted_by)) is not None:
            over_at = incident.over_at
            if incident.in_progress or over_at is None or series.raised_at > over_at:
                return False
            return now < self.echo_until(series, incident, over_at)
        window = self.calendar.find(series.muted_by)
        return window is not None and window.open_at(now)

    def open_incident(self, event: IncidentOpened) -> IncidentState:
        """Add an incident; a known one is returned unchanged."""
        known = self.incidents.get(event.incident)
        if known is not None:
            return known
        incident = self.incidents[event.incident] = IncidentState(event, self.settings.services)
        self.recurrences.add(event)
        series = self.get_series(event.fingerprint or event.incident, event.at)
        before = self.incident_of(series)
        if before is not None and before.over_at is not None and series.firing:
            series.fired_since_earlier_incident = series.raised_at <= before.over_at
        if series.alert is None:
            series.firing = True
        self.add_to_incident(incident, series)
        for number in event.alerts:
            self.mark_answered(series, number)
        return incident

    def add_to_incident(self, incident: IncidentState, series: AlertSeries) -> None:
        before = self.incident_of(series)
        if before is not None and before is not incident:
            before.members.discard(series.fingerprint)
        incident.add_series(series)
        self.muted.pop(series.fingerprint, None)
        self.released.pop(series.fingerprint, None)

    def mark_answered(self, series: AlertSeries, up_to: int) -> None:
        series.mark_answered(up_to)
        if not series.waiting:
            self.waiting.pop(series.fingerprint, None)

    def mute(self, series: AlertSeries, muted_by: str) -> None:
        series.muted_by = "" if muted_by == PASSED_STRETCH else muted_by
        if series.muted_by:
            self.muted[series.fingerprint] = None

    def _raised(self, recorded: JournalRecord, alert: AlertRaised) -> None:
        if recorded.seq <= self._newest or alert.run != WATCH_RUN:  # drills have runs of their own
            return
        self._newest = recorded.seq
        series = self.get_series(alert.fingerprint, alert.at)
        series.apply(recorded.seq, alert, self.settings.flapping)
        if series.flapping:
            self.flapping[alert.fingerprint] = None
        self.topology.learn(series.location.service, alert_dependencies(dict(alert.labels)))
        if len(self._services) < MAX_SERVICES and series.location.service:
            self._services[series.location.service] = None
        if alert.resolved:
            self._resolved(series, alert)
        elif not (series.muted_by and self.is_still_muted(series, alert.at)):
            series.add_unanswered(recorded.seq, alert.at)
            self.waiting[alert.fingerprint] = None

    def _resolved(self, series: AlertSeries, alert: AlertRaised) -> None:
        self.resolving_sources.add(alert.source)
        if series.muted_by in self.incidents:
            series.muted_by = ""
        self.released.pop(series.fingerprint, None)
        incident = self.incident_of(series)
        if incident is None or not incident.in_progress:
            return
        if not any(each.firing for each in self.members(incident)):
            incident.quiet_since = alert.at
        if incident.recorded.status == "escalated" and not incident.same_problem(series):
            # If it fires again, that is a new incident.
            self._remove_from_incident(incident, series)

    def leave_incident(self, incident: IncidentState, series: AlertSeries, at: datetime) -> None:
        """Take out an alert of another service that has a new problem."""
        self._remove_from_incident(incident, series)
        if not any(each.firing for each in self.members(incident)):
            incident.quiet_since = incident.quiet_since or at

    def _remove_from_incident(self, incident: IncidentState, series: AlertSeries) -> None:
        incident.members.discard(series.fingerprint)
        series.incident = ""

    def _suppressed(self, recorded: JournalRecord, event: AlertSuppressed) -> None:
        series = self.series.get(event.fingerprint)
        if series is None:
            return
        self.mark_answered(series, event.up_to or recorded.seq)
        incident = self.incident_of(series)
        if event.stretch == FLAPPING_STRETCH or incident is None or not incident.in_progress:
            self.mute(series, event.stretch)

    def _opened(self, recorded: JournalRecord, event: IncidentOpened) -> None:
        if event.run == event.incident:  # else it is a drill
            self.open_incident(event)

    def _joined(self, recorded: JournalRecord, event: AlertsJoined) -> None:
        incident = self.incidents.get(event.incident)
        if incident is None:
            return
        incident.last_alert_at = max(incident.last_alert_at, event.at)
        for fingerprint in event.fingerprints:
            series = self.get_series(fingerprint, event.at)
            if series.alert is None and not series.incident:
                series.firing = True  # its alert is older than the events that were read
            if incident.recorded.status != "open" and not incident.same_problem(series):
                self._joined_late(incident, series, event.at)
            elif series.incident != incident.id:
                self.add_to_incident(incident, series)
            else:
                series.assign_to(incident.id)
            self.mark_answered(series, event.up_to or recorded.seq)

    def _joined_late(self, incident: IncidentState, series: AlertSeries, at: datetime) -> None:
        """Release an alert that joined while the incident ended, without any work on it."""
        if series.firing and not series.incident:
            self.released.setdefault(series.fingerprint, (at, incident.id))

    def _closed(self, recorded: JournalRecord, event: IncidentClosed) -> None:
        incident = self.incidents.get(event.incident)
        if incident is None or event.by == "oracle":
            return
        incident.apply(event)
        self._release(incident, event)
        if incident.in_progress and not any(each.firing for each in self.members(incident)):
            turned = [each.turned_at for each in self.members(incident)]
            incident.quiet_since = max(turned, default=incident.quiet_since)
        if event.outcome == "resolved" and incident.service:
            found = incident.recorded.diagnosis
            component = found.component[:200] if found is not None else ""
            words = component.replace("/", " ").replace(":", " ").split()
            self.topology.learn(
                incident.service, [each for each in words if each in self._services]
            )

    def _release(self, incident: IncidentState, event: IncidentClosed) -> None:
        """Remove alerts that were not worked on; those that fire become incidents of their own."""
        later = {"closed": self.settings.settle, "escalated": 0.0, "no-incident": 0.0}
        due = event.at + timedelta(seconds=later.get(event.outcome, self.settings.release))
        for series in list(self.members(incident)):
            if incident.same_problem(series):
                continue
            own = bool(incident.service) and series.location.service == incident.service
            kept = event.outcome != "no-incident" and (own or incident.was_worked_on(series))
            if kept and series.firing:
                continue
            self._remove_from_incident(incident, series)
            if series.firing:
                self.released[series.fingerprint] = (due, incident.id)

    def _recovered(self, recorded: JournalRecord, event: IncidentRecovered) -> None:
        incident = self.incidents.get(event.incident)
        if incident is None:
            return
        incident.apply(event)
        for series in list(self.members(incident)):
            if series.firing:  # it is not what has recovered
                self._remove_from_incident(incident, series)
                self.released[series.fingerprint] = (event.at, incident.id)

    def _updated(self, recorded: JournalRecord, event: Any) -> None:
        if incident := self.incidents.get(event.incident):
            incident.apply(event)

    def _reopened(self, recorded: JournalRecord, event: IncidentReopened) -> None:
        incident = self.incidents.get(event.incident)
        fingerprint = self.recurrences.fingerprint_of(event.incident)
        if incident is None and fingerprint and event.run == event.incident:
            incident = self.open_incident(_reopened_incident(event, fingerprint))
        if incident is not None:
            incident.apply(event)


def _reopened_incident(event: IncidentReopened, fingerprint: str) -> IncidentOpened:
    """A substitute for the event of an incident that was evicted."""
    id = event.incident
    return IncidentOpened(
        run=id, at=event.at, incident=id, title=id, severity="P2", fingerprint=fingerprint
    )


class TriageEviction:
    def __init__(self, state: TriageState) -> None:
        self._state = state
        self._last: datetime | None = None
        self._max_series = state.settings.most

    def evict_old(self, now: datetime) -> None:
        if self._last is not None and timedelta() <= now - self._last < EVICTION_INTERVAL:
            return
        self._last = now
        self._evict_incidents(now)
        keep = timedelta(seconds=self._state.settings.keep)
        for series in list(self._state.series.values()):
            if now - series.last > keep and not self._in_use(series):
                self._drop(series)
        self._state.recurrences.forget(now)
        self._state.calendar.forget(now)

    def evict_when_full(self) -> None:
        """Drop the oldest series first; never one that waits for an answer or is muted while it
        fires."""
        known, most = self._state.series, self._state.settings.most
        if len(known) <= self._max_series:
            return
        free = [e for e in known.values() if not e.waiting and not (e.muted_by and e.firing)]
        free.sort(key=lambda each: (self._in_use(each), each.last))
        for series in free[: len(known) - int(most * EVICTION_TARGET_SHARE)]:
            self._drop(series)
        self._max_series = max(most, int(len(known) / EVICTION_TARGET_SHARE))

    def _in_use(self, series: AlertSeries) -> bool:
        incident = self._state.incident_of(series)
        held = incident is not None and incident.in_progress
        return held or bool(series.waiting) or bool(series.muted_by)

    def _drop(self, series: AlertSeries) -> None:
        incident = self._state.incident_of(series)
        if incident is not None:
            incident.members.discard(series.fingerprint)
            incident.forgotten_firing += series.firing
        self._state.muted.pop(series.fingerprint, None)
        self._state.flapping.pop(series.fingerprint, None)
        self._state.released.pop(series.fingerprint, None)
        del self._state.series[series.fingerprint]

    def _evict_incidents(self, now: datetime) -> None:
        settings = self._state.settings
        span = timedelta(seconds=max(settings.settle, settings.hush, settings.reopen) + 60)
        for id, incident in list(self._state.incidents.items()):
            if (
                not incident.in_progress
                and incident.over_at is not None
                and now - incident.over_at > span
            ):
                del self._state.incidents[id]
                for fingerprint in incident.members:
                    series = self._state.series.get(fingerprint)
                    if series is not None and series.incident == id:
                        series.incident = ""
