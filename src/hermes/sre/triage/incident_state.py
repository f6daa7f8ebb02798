"""An incident as triage knows it: who belongs to it, what it has hit, what is still to be told."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    IncidentClosed,
    IncidentGraded,
    IncidentOpened,
    IncidentPhase,
    IncidentRecovered,
    JoinedPart,
    Severity,
)
from hermes.sre.incident import QUESTION_LABEL
from hermes.sre.settings import GroupSettings, ServiceWeight
from hermes.sre.triage.alert_series import AlertSeries, alarm_name
from hermes.sre.triage.severity import (
    IncidentImpact,
    alert_impact,
    alert_problem,
    is_early_warning,
    is_graver,
)
from hermes.sre.triage.topology import AlertLocation, alert_location

MAX_TITLES, MAX_REASONS, MAX_FINGERPRINTS = 5, 3, 1_000
"""How many of each one event carries."""
MAX_TITLE_CHARS = 200
MAX_LOCATIONS = 1_000
"""By which an incident can be found; a storm of more hosts says nothing new."""
MAX_PARTS = 10_000
"""Names that are known to be part of an incident; more than that no notification can carry."""
LATE_PHASES: tuple[IncidentPhase, ...] = ("remediate", "verify", "undo", "document", "learn")
"""Phases in which the work is on a problem that is known."""


class JoinedAlerts:
    """What joined since the last time it was told."""

    def __init__(self) -> None:
        self.count = self.up_to = 0
        self.fingerprints: dict[str, None] = {}
        self.titles: dict[str, None] = {}
        self.reasons: dict[str, None] = {}
        self.parts: dict[str, JoinedPart] = {}

    def add(self, voice: AlertSeries, why: str, part: JoinedPart | None) -> None:
        if part is not None:
            self.parts[voice.fingerprint] = part
        self.count += len(voice.waiting)
        self.up_to = max(self.up_to, *voice.waiting)
        self.fingerprints[voice.fingerprint] = None
        if len(self.titles) < MAX_TITLES:
            self.titles[voice.title] = None
        if len(self.reasons) < MAX_REASONS:
            self.reasons[why] = None

    def joined_events(self, incident: str, now: datetime) -> Iterator[AlertsJoined]:
        names = list(self.fingerprints)
        for start in range(0, len(names), MAX_FINGERPRINTS):
            some = names[start : start + MAX_FINGERPRINTS]
            yield AlertsJoined(
                run=incident,
                at=now,
                incident=incident,
                count=0 if start else self.count,
                fingerprints=tuple(some),
                titles=() if start else tuple(self.titles),
                why="; ".join(self.reasons),
                up_to=self.up_to,
                parts=tuple(self.parts[name] for name in some if name in self.parts),
            )


class IncidentState:
    def __init__(self, event: IncidentOpened, weights: Mapping[str, ServiceWeight]) -> None:
        labels = dict(event.facts)
        self.id, self.service, self.fingerprint = event.incident, event.service, event.fingerprint
        self.alarm = alarm_name(labels, event.title)
        self.opened_at = self.last_alert_at = event.at
        self.told_at: datetime | None = None
        self.severity: Severity = event.severity
        self.by_person = False
        self.state: Literal["open", "escalated", "over"] = "open"
        self.outcome, self.component = "", ""
        self.over_at: datetime | None = None
        self.acted = self.leftovers_checked = False
        """Whether something was changed; whether those still firing after its end were heard."""
        self.members: set[str] = set()
        self.forgotten_firing = 0
        """Members that were forgotten while they fired: there were too many."""
        self.acknowledged = False
        self.phase: IncidentPhase | None = None
        self.checks: set[str] = set()
        """Checks that failed before anything was changed: the work is about these, too."""
        self.question = labels.get(QUESTION_LABEL, "")
        self.quiet_since: datetime | None = None
        """When the last of its alerts was resolved; None while one fires."""
        self.named_parts: set[str] = set()
        """Services and host problems that notifications have named."""
        self._weights = weights
        self.impact, self.batch = IncidentImpact(weights), JoinedAlerts()
        self.locations: dict[str, AlertLocation] = {}
        """By each key under which it is found: one place for each is enough."""
        place = alert_location(labels)
        self.location = AlertLocation(event.service or place.service, place.host, place.namespace)
        alert = AlertRaised(run="", fingerprint="", title=event.title, labels=event.facts)
        self.problem = alert_problem(alert, self.alarm)
        self.warns_of_host = not self.location.service and alert_impact(alert).effect == "warning"
        """A warning such as a high load: nothing is hit, so no outage is part of it."""
        self.add_location(self.location)

    @property
    def in_progress(self) -> bool:
        """Somebody, we or people, has it in hand: its alerts open nothing new."""
        return self.state != "over"

    def accepts_new(self, now: datetime, settings: GroupSettings) -> bool:
        """Also what people have in hand: a storm does not end because we gave up on it."""
        return (
            self.in_progress
            and now - self.last_alert_at <= timedelta(seconds=settings.window)
            and now - self.opened_at <= timedelta(seconds=settings.longest)
        )

    @property
    def accepts_own_problem_only(self) -> bool:
        """People have it in hand, or are asked: nothing but its own problem is heard by them."""
        return self.state == "escalated" or self.acknowledged or bool(self.question)

    def absorbs(self, voice: AlertSeries, by_service: bool) -> bool:
        """Whether a related alert may be part of it as it is worked on now.

        `by_service`: it is related by its service or a dependency, not only by its host.
        """
        if self.state == "open" and voice.place.service and voice.place.service == self.service:
            return True  # two commanders must not work on one service
        if self.accepts_own_problem_only:
            return self.same_problem(voice)
        if self.warns_of_host and not voice.warns:
            return False
        return by_service or self.phase not in LATE_PHASES

    def same_problem(self, voice: AlertSeries) -> bool:
        """Two alerts of a host that name no service are two problems: two disks, for instance."""
        if voice.fingerprint == self.fingerprint:
            return True
        same = bool(self.location.service) and voice.place.service == self.location.service
        return same and voice.problem == self.problem

    def is_side_warning(self, voice: AlertSeries) -> bool:
        """A warning about the host, such as its load, that joined a problem of something else."""
        return not voice.place.service and not self.same_problem(voice) and voice.warns

    def was_worked_on(self, voice: AlertSeries) -> bool:
        """Its own check was among those that had failed when the work began."""
        return voice.alert is not None and voice.alert.check in self.checks

    def new_part(self, voice: AlertSeries) -> JoinedPart | None:
        """What this alert adds to what notifications have named; None when it adds nothing."""
        known = self._name(voice) in self.named_parts and not self._stopped_answering(voice)
        if len(self.named_parts) >= MAX_PARTS or known:
            return None
        toll = IncidentImpact(self._weights)
        if voice.alert is not None:
            toll.add(voice.place, alert_impact(voice.alert))
        return JoinedPart(
            fingerprint=voice.fingerprint,
            name=voice.label[:MAX_TITLE_CHARS],
            title=voice.title[:MAX_TITLE_CHARS],
            severity=toll.grade()[0],
        )

    def _name(self, voice: AlertSeries) -> str:
        service = voice.place.service
        if not service:
            return f"\n{voice.fingerprint}"
        apart = self.acknowledged or is_early_warning(voice.alert)
        return f"{service}\n{voice.problem}" if apart else service

    def _stopped_answering(self, voice: AlertSeries) -> bool:
        """Its service was named for wrong answers, and now it gives none."""
        return voice.silent and _silence_of(voice) not in self.named_parts

    def add_location(self, place: AlertLocation) -> None:
        for key in location_keys(place):
            known = key in self.locations
            if (known and not place.service) or (not known and len(self.locations) < MAX_LOCATIONS):
                self.locations[key] = place  # a host is kin to all that it runs

    def add_series(self, voice: AlertSeries) -> None:
        """It is one of ours from now on."""
        self.members.add(voice.fingerprint)
        voice.assign_to(self.id)
        if voice.alert is not None:
            self.impact.add(voice.place, alert_impact(voice.alert))
            self.add_location(voice.place)
            if len(self.named_parts) < MAX_PARTS:
                service = voice.place.service
                self.named_parts.update((self._name(voice), service, f"{service}\n{voice.problem}"))
                self.named_parts.update([_silence_of(voice)] if voice.silent else [])
        if voice.firing:
            self.quiet_since = None

    def take_events(self, now: datetime, every: float) -> list[AlertsJoined | IncidentGraded]:
        """What joined, at most once in `every` seconds; and the grade, where it became graver."""
        early = self.told_at is not None and now - self.told_at < timedelta(seconds=every)
        if not self.batch.count or early:
            return []
        said: list[AlertsJoined | IncidentGraded] = list(self.batch.joined_events(self.id, now))
        self.batch, self.told_at = JoinedAlerts(), now
        return said + self._severity_events(now)

    def _severity_events(self, now: datetime) -> list[IncidentGraded]:
        severity, why = self.impact.grade()
        if self.by_person or not is_graver(severity, self.severity):
            return []
        before, self.severity = self.severity, severity
        return [
            IncidentGraded(
                run=self.id, at=now, incident=self.id, severity=severity, before=before, reason=why
            )
        ]

    def close(self, event: IncidentClosed) -> None:
        self.outcome, self.over_at = event.outcome, event.at
        self.state = "escalated" if event.outcome == "escalated" else "over"
        self.leftovers_checked = bool(
            self.question
        )  # an answer holds until what was asked about is over

    def recover(self, event: IncidentRecovered) -> None:
        self.outcome, self.over_at, self.state = "recovered", event.at, "over"
        self.leftovers_checked = True  # nothing of it fires

    def reopen(self) -> None:
        self.state, self.outcome, self.over_at, self.acted = "open", "", None, False
        self.acknowledged, self.phase, self.quiet_since = False, None, None
        self.checks.clear()


def _silence_of(voice: AlertSeries) -> str:
    return f"{voice.place.service}\nsilent"


def location_keys(place: AlertLocation) -> list[str]:
    pairs = (("service", place.service), ("host", place.host), ("namespace", place.namespace))
    return [f"{name}\n{value}" for name, value in pairs if value]
