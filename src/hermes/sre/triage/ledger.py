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
from hermes.core.events.watching import MaintenanceAdded, MaintenanceEnded
from hermes.core.protocols import Recorded
from hermes.sre.triage.affair import Affair
from hermes.sre.triage.calendar import Calendar
from hermes.sre.triage.recurrence import Past
from hermes.sre.triage.settings import TriageSettings
from hermes.sre.triage.topology import Topology, needs_of
from hermes.sre.triage.voice import Voice

WATCH = "watch"
FLAPPING, PASSED = "flapping", "passed"
"""Stretches that are no window and no incident; `passed` ends as soon as it is told."""
SERVICES = 10_000


class Ledger:
    def __init__(self, settings: TriageSettings, depends_on: Mapping[str, Iterable[str]]) -> None:
        self.settings = settings
        self.topology = Topology(settings.group, depends_on)
        self.calendar = Calendar()
        self.past = Past(settings.days)
        self.voices: dict[str, Voice] = {}
        self.affairs: dict[str, Affair] = {}
        self.waiting: dict[str, None] = {}
        """Fingerprints with alerts that nobody has answered."""
        self.muted: dict[str, None] = {}
        self.released: dict[str, tuple[datetime, str]] = {}
        """Fingerprints that fire on after they left an incident: when they are due, and which."""
        self.tell_ends: set[str] = {"probe", "prometheus"}
        """Sources that say when it is over: of others, silence proves nothing."""
        self._services: dict[str, None] = {}
        self._newest = 0
        self._takes: dict[type, Callable[[Recorded, Any], None]] = {
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
            MaintenanceAdded: lambda _, event: self.calendar.take(event),
            MaintenanceEnded: lambda _, event: self.calendar.take(event),
        }

    def take(self, recorded: Recorded) -> None:
        """One event more, in the order of the journal."""
        take = self._takes.get(type(recorded.event))
        if take is not None:
            take(recorded, recorded.event)

    def voice(self, fingerprint: str, at: datetime) -> Voice:
        found = self.voices.get(fingerprint)
        if found is None:
            found = Voice(fingerprint, at, self.settings.flapping.times)
            self.voices[fingerprint] = found
        return found

    def affair_of(self, voice: Voice) -> Affair | None:
        return self.affairs.get(voice.incident)

    def members(self, affair: Affair) -> Iterator[Voice]:
        for fingerprint in affair.members:
            voice = self.voices.get(fingerprint)
            if voice is not None and voice.incident == affair.id:
                yield voice

    def quiet_until(self, affair: Affair) -> datetime:
        """How long after its end its own alerts are an echo and nothing new."""
        judged = affair.outcome in ("no-incident", "closed")
        seconds = self.settings.hush if judged else self.settings.settle
        return (affair.over_at or affair.opened_at) + timedelta(seconds=seconds)

    def lasts(self, voice: Voice, now: datetime) -> bool:
        """Whether what keeps it quiet still does."""
        if voice.stretch == FLAPPING:
            return voice.flapping and not voice.steady(now, self.settings.flapping)
        if (affair := self.affairs.get(voice.stretch)) is not None:
            unbroken = affair.over_at is not None and voice.raised_at <= affair.over_at
            hushed = affair.over_at is not None and voice.left_over
            span = timedelta(seconds=self.settings.hush)
            until = affair.over_at + span if hushed and affair.over_at else self.quiet_until(affair)
            return not affair.holds and unbroken and now < until
        window = self.calendar.find(voice.stretch)
        return window is not None and window.open_at(now)

    def open(self, event: IncidentOpened) -> Affair:
        """By whoever; a known one is given back as it is."""
        known = self.affairs.get(event.incident)
        if known is not None:
            return known
        affair = self.affairs[event.incident] = Affair(event, self.settings.services)
        self.past.take(event)
        voice = self.voice(event.fingerprint or event.incident, event.at)
        before = self.affair_of(voice)
        if before is not None and before.over_at is not None and voice.firing:
            voice.left_over = voice.raised_at <= before.over_at
        if voice.alert is None:
            voice.firing = True
        self.admit(affair, voice)
        for number in event.alerts:
            self.answered(voice, number)
        return affair

    def admit(self, affair: Affair, voice: Voice) -> None:
        before = self.affair_of(voice)
        if before is not None and before is not affair:
            before.members.discard(voice.fingerprint)
        affair.admit(voice)
        self.muted.pop(voice.fingerprint, None)
        self.released.pop(voice.fingerprint, None)

    def answered(self, voice: Voice, up_to: int) -> None:
        voice.answered(up_to)
        if not voice.waiting:
            self.waiting.pop(voice.fingerprint, None)

    def mute(self, voice: Voice, stretch: str) -> None:
        voice.stretch = "" if stretch == PASSED else stretch
        if voice.stretch:
            self.muted[voice.fingerprint] = None

    def _raised(self, recorded: Recorded, alert: AlertRaised) -> None:
        if recorded.seq <= self._newest or alert.run != WATCH:  # drills have runs of their own
            return
        self._newest = recorded.seq
        voice = self.voice(alert.fingerprint, alert.at)
        voice.take(recorded.seq, alert, self.settings.flapping)
        self.topology.learn(voice.place.service, needs_of(dict(alert.labels)))
        if len(self._services) < SERVICES and voice.place.service:
            self._services[voice.place.service] = None
        if alert.resolved:
            self._resolved(voice, alert)
        elif not (voice.stretch and self.lasts(voice, alert.at)):
            voice.wait(recorded.seq, alert.at)
            self.waiting[alert.fingerprint] = None

    def _resolved(self, voice: Voice, alert: AlertRaised) -> None:
        self.tell_ends.add(alert.source)
        if voice.stretch in self.affairs:
            voice.stretch = ""
        self.released.pop(voice.fingerprint, None)
        affair = self.affair_of(voice)
        if affair is None or not affair.holds:
            return
        if not any(each.firing for each in self.members(affair)):
            affair.calm_at = alert.at
        if affair.state == "escalated" and not affair.same_problem(voice):
            self._leave(affair, voice)  # if it fails again, that is an incident of its own

    def _leave(self, affair: Affair, voice: Voice) -> None:
        affair.members.discard(voice.fingerprint)
        voice.incident = ""

    def _suppressed(self, recorded: Recorded, event: AlertSuppressed) -> None:
        voice = self.voices.get(event.fingerprint)
        if voice is None:
            return
        self.answered(voice, event.up_to or recorded.seq)
        affair = self.affair_of(voice)
        if event.stretch == FLAPPING or affair is None or not affair.holds:
            self.mute(voice, event.stretch)

    def _opened(self, recorded: Recorded, event: IncidentOpened) -> None:
        if event.run == event.incident:  # else it is a drill
            self.open(event)

    def _joined(self, recorded: Recorded, event: AlertsJoined) -> None:
        affair = self.affairs.get(event.incident)
        if affair is None:
            return
        affair.last = max(affair.last, event.at)
        for fingerprint in event.fingerprints:
            voice = self.voice(fingerprint, event.at)
            if voice.alert is None and not voice.incident:
                voice.firing = True  # its words are older than what was read
            if affair.state != "open" and not affair.same_problem(voice):
                self._came_late(affair, voice, event.at)
            elif voice.incident != affair.id:
                self.admit(affair, voice)
            self.answered(voice, event.up_to or recorded.seq)

    def _came_late(self, affair: Affair, voice: Voice, at: datetime) -> None:
        """It joined while the incident ended, so nobody worked on it."""
        if voice.firing and not voice.incident:
            self.released.setdefault(voice.fingerprint, (at, affair.id))

    def _graded(self, recorded: Recorded, event: IncidentGraded) -> None:
        if affair := self.affairs.get(event.incident):
            affair.severity = event.severity
            affair.by_person = affair.by_person or bool(event.by)

    def _closed(self, recorded: Recorded, event: IncidentClosed) -> None:
        affair = self.affairs.get(event.incident)
        if affair is None or event.by == "oracle":
            return
        affair.end(event)
        self._release(affair, event)
        if affair.holds and not any(each.firing for each in self.members(affair)):
            turned = [each.turned_at for each in self.members(affair)]
            affair.calm_at = max(turned, default=affair.calm_at)
        if event.outcome == "resolved" and affair.service:
            words = affair.component.replace("/", " ").replace(":", " ").split()
            self.topology.learn(affair.service, [each for each in words if each in self._services])

    def _release(self, affair: Affair, event: IncidentClosed) -> None:
        """Members that nobody worked on leave it; those that fire are incidents of their own."""
        later = {"closed": self.settings.settle, "escalated": 0.0, "no-incident": 0.0}
        due = event.at + timedelta(seconds=later.get(event.outcome, self.settings.release))
        for voice in list(self.members(affair)):
            if affair.same_problem(voice):
                continue
            own = bool(affair.service) and voice.place.service == affair.service
            kept = event.outcome != "no-incident" and (own or affair.worked_on(voice))
            if kept and voice.firing:
                continue
            self._leave(affair, voice)
            if voice.firing:
                self.released[voice.fingerprint] = (due, affair.id)

    def _recovered(self, recorded: Recorded, event: IncidentRecovered) -> None:
        affair = self.affairs.get(event.incident)
        if affair is None:
            return
        affair.recover(event)
        for voice in list(self.members(affair)):
            if voice.firing:  # it is not what has recovered
                self._leave(affair, voice)
                self.released[voice.fingerprint] = (event.at, affair.id)

    def _acknowledged(self, recorded: Recorded, event: IncidentAcknowledged) -> None:
        if affair := self.affairs.get(event.incident):
            affair.acknowledged = True

    def _entered(self, recorded: Recorded, event: PhaseEntered) -> None:
        if affair := self.affairs.get(event.incident):
            affair.phase = event.phase

    def _checked(self, recorded: Recorded, event: IncidentChecked) -> None:
        affair = self.affairs.get(event.incident)
        if affair is not None and event.when == "before" and not event.ok:
            affair.checks.add(event.check)

    def _reopened(self, recorded: Recorded, event: IncidentReopened) -> None:
        affair = self.affairs.get(event.incident)
        fingerprint = self.past.fingerprint_of(event.incident)
        if affair is None and fingerprint and event.run == event.incident:
            affair = self.open(_once_more(event, fingerprint))
        if affair is not None:
            affair.open_again()

    def _diagnosed(self, recorded: Recorded, event: IncidentDiagnosed) -> None:
        if affair := self.affairs.get(event.incident):
            affair.component = event.component[:200]

    def _changed(self, recorded: Recorded, event: ChangeBegan) -> None:
        if affair := self.affairs.get(event.incident):
            affair.acted = True


def _once_more(event: IncidentReopened, fingerprint: str) -> IncidentOpened:
    """What is left of an incident that was over for long."""
    id = event.incident
    return IncidentOpened(
        run=id, at=event.at, incident=id, title=id, severity="P2", fingerprint=fingerprint
    )
