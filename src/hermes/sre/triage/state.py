"""What triage knows, folded from the journal: the same after a crash as before it.

Nothing here decides. Every event may be taken twice: once when triage itself made it, once when it
comes back from the journal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    AlertSuppressed,
    ChangeBegan,
    IncidentAcknowledged,
    IncidentChecked,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentGraded,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    PhaseEntered,
)
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded
from hermes.core.protocols import JournalRecord
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.alert_series import AlertSeries, RecurrenceHistory
from hermes.sre.triage.incident_state import IncidentState
from hermes.sre.triage.maintenance import MaintenanceCalendar
from hermes.sre.triage.topology import ServiceTopology, alert_dependencies

WATCH_RUN = "watch"
FLAPPING_STRETCH, PASSED_STRETCH = "flapping", "passed"
"""Stretches that are no window and no incident; `passed` ends as soon as it is told."""
MAX_SERVICES = 10_000


class TriageState:
    def __init__(self, settings: TriageSettings, depends_on: Mapping[str, Iterable[str]]) -> None:
        self.settings = settings
        self.topology = ServiceTopology(settings.group, depends_on)
        self.calendar = MaintenanceCalendar()
        self.recurrences = RecurrenceHistory(settings.days)
        self.series: dict[str, AlertSeries] = {}
        self.incidents: dict[str, IncidentState] = {}
        self.waiting: dict[str, None] = {}
        """Fingerprints with alerts that nobody has answered."""
        self.muted: dict[str, None] = {}
        self.released: dict[str, tuple[datetime, str]] = {}
        """Fingerprints that fire on after they left an incident: when they are due, and which."""
        self.resolving_sources: set[str] = {"probe", "prometheus"}
        """Sources that say when it is over: of others, silence proves nothing."""
        self._services: dict[str, None] = {}
        self._newest = 0
        self._handlers: dict[type, Callable[[JournalRecord, Any], None]] = {
            AlertRaised: self._raised,
            AlertSuppressed: self._suppressed,
            IncidentOpened: self._opened,
            AlertsJoined: self._joined,
            IncidentGraded: self._graded,
            IncidentClosed: self._closed,
            IncidentRecovered: self._recovered,
            IncidentReopened: self._reopened,
            IncidentAcknowledged: self._acknowledged,
            PhaseEntered: self._entered,
            IncidentChecked: self._checked,
            IncidentDiagnosed: self._diagnosed,
            ChangeBegan: self._changed,
            MaintenanceAdded: lambda _, event: self.calendar.apply(event),
            MaintenanceEnded: lambda _, event: self.calendar.apply(event),
        }

    def apply(self, recorded: JournalRecord) -> None:
        """One event more, in the order of the journal."""
        take = self._handlers.get(type(recorded.event))
        if take is not None:
            take(recorded, recorded.event)

    def get_series(self, fingerprint: str, at: datetime) -> AlertSeries:
        found = self.series.get(fingerprint)
        if found is None:
            found = AlertSeries(fingerprint, at, self.settings.flapping.times)
            self.series[fingerprint] = found
        return found

    def incident_of(self, voice: AlertSeries) -> IncidentState | None:
        return self.incidents.get(voice.incident)

    def members(self, affair: IncidentState) -> Iterator[AlertSeries]:
        for fingerprint in affair.members:
            voice = self.series.get(fingerprint)
            if voice is not None and voice.incident == affair.id:
                yield voice

    def quiet_until(self, affair: IncidentState) -> datetime:
        """How long after its end its own alerts are an echo and nothing new."""
        judged = affair.outcome in ("no-incident", "closed")
        seconds = self.settings.hush if judged else self.settings.settle
        return (affair.over_at or affair.opened_at) + timedelta(seconds=seconds)

    def is_still_muted(self, voice: AlertSeries, now: datetime) -> bool:
        """Whether what keeps it quiet still does."""
        if voice.stretch == FLAPPING_STRETCH:
            return voice.flapping and not voice.steady(now, self.settings.flapping)
        if (affair := self.incidents.get(voice.stretch)) is not None:
            unbroken = affair.over_at is not None and voice.raised_at <= affair.over_at
            hushed = affair.over_at is not None and voice.left_over
            span = timedelta(seconds=self.settings.hush)
            until = affair.over_at + span if hushed and affair.over_at else self.quiet_until(affair)
            return not affair.in_progress and unbroken and now < until
        window = self.calendar.find(voice.stretch)
        return window is not None and window.open_at(now)

    def open_incident(self, event: IncidentOpened) -> IncidentState:
        """By whoever; a known one is given back as it is."""
        known = self.incidents.get(event.incident)
        if known is not None:
            return known
        affair = self.incidents[event.incident] = IncidentState(event, self.settings.services)
        self.recurrences.add(event)
        voice = self.get_series(event.fingerprint or event.incident, event.at)
        before = self.incident_of(voice)
        if before is not None and before.over_at is not None and voice.firing:
            voice.left_over = voice.raised_at <= before.over_at
        if voice.alert is None:
            voice.firing = True
        self.add_to_incident(affair, voice)
        for number in event.alerts:
            self.mark_answered(voice, number)
        return affair

    def add_to_incident(self, affair: IncidentState, voice: AlertSeries) -> None:
        before = self.incident_of(voice)
        if before is not None and before is not affair:
            before.members.discard(voice.fingerprint)
        affair.add_series(voice)
        self.muted.pop(voice.fingerprint, None)
        self.released.pop(voice.fingerprint, None)

    def mark_answered(self, voice: AlertSeries, up_to: int) -> None:
        voice.mark_answered(up_to)
        if not voice.waiting:
            self.waiting.pop(voice.fingerprint, None)

    def mute(self, voice: AlertSeries, stretch: str) -> None:
        voice.stretch = "" if stretch == PASSED_STRETCH else stretch
        if voice.stretch:
            self.muted[voice.fingerprint] = None

    def _raised(self, recorded: JournalRecord, alert: AlertRaised) -> None:
        if recorded.seq <= self._newest or alert.run != WATCH_RUN:  # drills have runs of their own
            return
        self._newest = recorded.seq
        voice = self.get_series(alert.fingerprint, alert.at)
        voice.apply(recorded.seq, alert, self.settings.flapping)
        self.topology.learn(voice.place.service, alert_dependencies(dict(alert.labels)))
        if len(self._services) < MAX_SERVICES and voice.place.service:
            self._services[voice.place.service] = None
        if alert.resolved:
            self._resolved(voice, alert)
        elif not (voice.stretch and self.is_still_muted(voice, alert.at)):
            voice.add_unanswered(recorded.seq, alert.at)
            self.waiting[alert.fingerprint] = None

    def _resolved(self, voice: AlertSeries, alert: AlertRaised) -> None:
        self.resolving_sources.add(alert.source)
        if voice.stretch in self.incidents:
            voice.stretch = ""
        self.released.pop(voice.fingerprint, None)
        affair = self.incident_of(voice)
        if affair is None or not affair.in_progress:
            return
        if not any(each.firing for each in self.members(affair)):
            affair.quiet_since = alert.at
        if affair.state == "escalated" and not affair.same_problem(voice):
            self._remove_from_incident(
                affair, voice
            )  # if it fails again, that is an incident of its own

    def _remove_from_incident(self, affair: IncidentState, voice: AlertSeries) -> None:
        affair.members.discard(voice.fingerprint)
        voice.incident = ""

    def _suppressed(self, recorded: JournalRecord, event: AlertSuppressed) -> None:
        voice = self.series.get(event.fingerprint)
        if voice is None:
            return
        self.mark_answered(voice, event.up_to or recorded.seq)
        affair = self.incident_of(voice)
        if event.stretch == FLAPPING_STRETCH or affair is None or not affair.in_progress:
            self.mute(voice, event.stretch)

    def _opened(self, recorded: JournalRecord, event: IncidentOpened) -> None:
        if event.run == event.incident:  # else it is a drill
            self.open_incident(event)

    def _joined(self, recorded: JournalRecord, event: AlertsJoined) -> None:
        affair = self.incidents.get(event.incident)
        if affair is None:
            return
        affair.last_alert_at = max(affair.last_alert_at, event.at)
        for fingerprint in event.fingerprints:
            voice = self.get_series(fingerprint, event.at)
            if voice.alert is None and not voice.incident:
                voice.firing = True  # its words are older than what was read
            if affair.state != "open" and not affair.same_problem(voice):
                self._joined_late(affair, voice, event.at)
            elif voice.incident != affair.id:
                self.add_to_incident(affair, voice)
            self.mark_answered(voice, event.up_to or recorded.seq)

    def _joined_late(self, affair: IncidentState, voice: AlertSeries, at: datetime) -> None:
        """It joined while the incident ended, so nobody worked on it."""
        if voice.firing and not voice.incident:
            self.released.setdefault(voice.fingerprint, (at, affair.id))

    def _graded(self, recorded: JournalRecord, event: IncidentGraded) -> None:
        if affair := self.incidents.get(event.incident):
            affair.severity = event.severity
            affair.by_person = affair.by_person or bool(event.by)

    def _closed(self, recorded: JournalRecord, event: IncidentClosed) -> None:
        affair = self.incidents.get(event.incident)
        if affair is None or event.by == "oracle":
            return
        affair.close(event)
        self._release(affair, event)
        if affair.in_progress and not any(each.firing for each in self.members(affair)):
            turned = [each.turned_at for each in self.members(affair)]
            affair.quiet_since = max(turned, default=affair.quiet_since)
        if event.outcome == "resolved" and affair.service:
            words = affair.component.replace("/", " ").replace(":", " ").split()
            self.topology.learn(affair.service, [each for each in words if each in self._services])

    def _release(self, affair: IncidentState, event: IncidentClosed) -> None:
        """Members that nobody worked on leave it; those that fire are incidents of their own."""
        later = {"closed": self.settings.settle, "escalated": 0.0, "no-incident": 0.0}
        due = event.at + timedelta(seconds=later.get(event.outcome, self.settings.release))
        for voice in list(self.members(affair)):
            if affair.same_problem(voice):
                continue
            own = bool(affair.service) and voice.place.service == affair.service
            kept = event.outcome != "no-incident" and (own or affair.was_worked_on(voice))
            if kept and voice.firing:
                continue
            self._remove_from_incident(affair, voice)
            if voice.firing:
                self.released[voice.fingerprint] = (due, affair.id)

    def _recovered(self, recorded: JournalRecord, event: IncidentRecovered) -> None:
        affair = self.incidents.get(event.incident)
        if affair is None:
            return
        affair.recover(event)
        for voice in list(self.members(affair)):
            if voice.firing:  # it is not what has recovered
                self._remove_from_incident(affair, voice)
                self.released[voice.fingerprint] = (event.at, affair.id)

    def _acknowledged(self, recorded: JournalRecord, event: IncidentAcknowledged) -> None:
        if affair := self.incidents.get(event.incident):
            affair.acknowledged = True

    def _entered(self, recorded: JournalRecord, event: PhaseEntered) -> None:
        if affair := self.incidents.get(event.incident):
            affair.phase = event.phase

    def _checked(self, recorded: JournalRecord, event: IncidentChecked) -> None:
        affair = self.incidents.get(event.incident)
        if affair is not None and event.when == "before" and not event.ok:
            affair.checks.add(event.check)

    def _reopened(self, recorded: JournalRecord, event: IncidentReopened) -> None:
        affair = self.incidents.get(event.incident)
        fingerprint = self.recurrences.fingerprint_of(event.incident)
        if affair is None and fingerprint and event.run == event.incident:
            affair = self.open_incident(_reopened_incident(event, fingerprint))
        if affair is not None:
            affair.reopen()

    def _diagnosed(self, recorded: JournalRecord, event: IncidentDiagnosed) -> None:
        if affair := self.incidents.get(event.incident):
            affair.component = event.component[:200]

    def _changed(self, recorded: JournalRecord, event: ChangeBegan) -> None:
        if affair := self.incidents.get(event.incident):
            affair.acted = True


def _reopened_incident(event: IncidentReopened, fingerprint: str) -> IncidentOpened:
    """What is left of an incident that was over for long."""
    id = event.incident
    return IncidentOpened(
        run=id, at=event.at, incident=id, title=id, severity="P2", fingerprint=fingerprint
    )


EVICTION_INTERVAL = timedelta(seconds=60)
EVICTION_TARGET_SHARE = 0.9
"""So much of the limit is kept when it is reached: else each alert more would cost a search."""


class TriageEviction:
    def __init__(self, ledger: TriageState) -> None:
        self._state = ledger
        self._last: datetime | None = None
        self._max_series = ledger.settings.most

    def evict_old(self, now: datetime) -> None:
        if self._last is not None and timedelta() <= now - self._last < EVICTION_INTERVAL:
            return
        self._last = now
        self._evict_incidents(now)
        keep = timedelta(seconds=self._state.settings.keep)
        for voice in list(self._state.series.values()):
            if now - voice.last > keep and not self._in_use(voice):
                self._drop(voice)
        self._state.recurrences.forget(now)
        self._state.calendar.forget(now)

    def evict_when_full(self) -> None:
        """The oldest go first. Who waits, or fires and is kept quiet, would be lost: they stay."""
        voices, most = self._state.series, self._state.settings.most
        if len(voices) <= self._max_series:
            return
        free = [e for e in voices.values() if not e.waiting and not (e.stretch and e.firing)]
        free.sort(key=lambda each: (self._in_use(each), each.last))
        for voice in free[: len(voices) - int(most * EVICTION_TARGET_SHARE)]:
            self._drop(voice)
        self._max_series = max(most, int(len(voices) / EVICTION_TARGET_SHARE))

    def _in_use(self, voice: AlertSeries) -> bool:
        affair = self._state.incident_of(voice)
        held = affair is not None and affair.in_progress
        return held or bool(voice.waiting) or bool(voice.stretch)

    def _drop(self, voice: AlertSeries) -> None:
        affair = self._state.incident_of(voice)
        if affair is not None:
            affair.members.discard(voice.fingerprint)
            affair.forgotten_firing += voice.firing
        self._state.muted.pop(voice.fingerprint, None)
        self._state.released.pop(voice.fingerprint, None)
        del self._state.series[voice.fingerprint]

    def _evict_incidents(self, now: datetime) -> None:
        settings = self._state.settings
        span = timedelta(seconds=max(settings.settle, settings.hush, settings.reopen) + 60)
        for id, affair in list(self._state.incidents.items()):
            if (
                not affair.in_progress
                and affair.over_at is not None
                and now - affair.over_at > span
            ):
                del self._state.incidents[id]
                for fingerprint in affair.members:
                    voice = self._state.series.get(fingerprint)
                    if voice is not None and voice.incident == id:
                        voice.incident = ""
