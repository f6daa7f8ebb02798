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
    IncidentRecovered,
    JoinedPart,
    Phase,
    Severity,
)
from hermes.sre.case import QUESTION
from hermes.sre.triage.impact import ahead, graver, impact_of, problem_of
from hermes.sre.triage.recurrence import alarm_of
from hermes.sre.triage.settings import GroupSettings, Weight
from hermes.sre.triage.toll import Toll
from hermes.sre.triage.topology import Place, place_of
from hermes.sre.triage.voice import Voice

TITLES, REASONS, NAMES = 5, 3, 1_000
"""How many of each one event carries."""
TITLE = 200
PLACES = 1_000
"""By which an incident can be found; a storm of more hosts says nothing new."""
PARTS = 10_000
"""Names that are known to be part of an incident; more than that no notification can carry."""
SETTLED: tuple[Phase, ...] = ("remediate", "verify", "undo", "document", "learn")
"""Phases in which the work is on a problem that is known."""


class Batch:
    """What joined since the last time it was told."""

    def __init__(self) -> None:
        self.count = self.up_to = 0
        self.fingerprints: dict[str, None] = {}
        self.titles: dict[str, None] = {}
        self.reasons: dict[str, None] = {}
        self.parts: dict[str, JoinedPart] = {}

    def add(self, voice: Voice, why: str, part: JoinedPart | None) -> None:
        if part is not None:
            self.parts[voice.fingerprint] = part
        self.count += len(voice.waiting)
        self.up_to = max(self.up_to, *voice.waiting)
        self.fingerprints[voice.fingerprint] = None
        if len(self.titles) < TITLES:
            self.titles[voice.title] = None
        if len(self.reasons) < REASONS:
            self.reasons[why] = None

    def told(self, incident: str, now: datetime) -> Iterator[AlertsJoined]:
        names = list(self.fingerprints)
        for start in range(0, len(names), NAMES):
            some = names[start : start + NAMES]
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


class Affair:
    def __init__(self, event: IncidentOpened, weights: Mapping[str, Weight]) -> None:
        labels = dict(event.facts)
        self.id, self.service, self.fingerprint = event.incident, event.service, event.fingerprint
        self.alarm = alarm_of(labels, event.title)
        self.opened_at = self.last = event.at
        self.told_at: datetime | None = None
        self.severity: Severity = event.severity
        self.by_person = False
        self.state: Literal["open", "escalated", "over"] = "open"
        self.outcome, self.component = "", ""
        self.over_at: datetime | None = None
        self.acted = self.reckoned = False
        """Whether something was changed; whether those still firing after its end were heard."""
        self.members: set[str] = set()
        self.lost = 0
        """Members that were forgotten while they fired: there were too many."""
        self.acknowledged = False
        self.phase: Phase | None = None
        self.checks: set[str] = set()
        """Checks that failed before anything was changed: the work is about these, too."""
        self.question = labels.get(QUESTION, "")
        self.calm_at: datetime | None = None
        """When the last of its alerts was resolved; None while one fires."""
        self.named: set[str] = set()
        """Services and host problems that notifications have named."""
        self._weights = weights
        self.toll, self.batch = Toll(weights), Batch()
        self.places: dict[str, Place] = {}
        """By each key under which it is found: one place for each is enough."""
        place = place_of(labels)
        self.place = Place(event.service or place.service, place.host, place.namespace)
        alert = AlertRaised(run="", fingerprint="", title=event.title, labels=event.facts)
        self.problem = problem_of(alert, self.alarm)
        self.widen(self.place)

    @property
    def holds(self) -> bool:
        """Somebody, we or people, has it in hand: its alerts open nothing new."""
        return self.state != "over"

    def takes_new(self, now: datetime, settings: GroupSettings) -> bool:
        """Also what people have in hand: a storm does not end because we gave up on it."""
        return (
            self.holds
            and now - self.last <= timedelta(seconds=settings.window)
            and now - self.opened_at <= timedelta(seconds=settings.longest)
        )

    @property
    def narrow(self) -> bool:
        """People have it in hand, or are asked: nothing but its own problem is heard by them."""
        return self.state == "escalated" or self.acknowledged or bool(self.question)

    def absorbs(self, voice: Voice, by_service: bool) -> bool:
        """Whether a related alert may be part of it as it is worked on now.

        `by_service`: it is related by its service or a dependency, not only by its host.
        """
        if self.state == "open" and voice.place.service and voice.place.service == self.service:
            return True  # two commanders must not work on one service
        if self.narrow:
            return self.same_problem(voice)
        return by_service or self.phase not in SETTLED

    def same_problem(self, voice: Voice) -> bool:
        """Two alerts of a host that name no service are two problems: two disks, for instance."""
        if voice.fingerprint == self.fingerprint:
            return True
        same = bool(self.place.service) and voice.place.service == self.place.service
        return same and voice.problem == self.problem

    def beside(self, voice: Voice) -> bool:
        """A warning about the host, such as its load, that joined a problem of something else."""
        if voice.place.service or self.same_problem(voice) or voice.alert is None:
            return False
        return impact_of(voice.alert).effect == "warning"

    def worked_on(self, voice: Voice) -> bool:
        """Its own check was among those that had failed when the work began."""
        return voice.alert is not None and voice.alert.check in self.checks

    def part_of(self, voice: Voice) -> JoinedPart | None:
        """What this alert adds to what notifications have named; None when it adds nothing."""
        if len(self.named) >= PARTS or self._name(voice) in self.named:
            return None
        toll = Toll(self._weights)
        if voice.alert is not None:
            toll.add(voice.place, impact_of(voice.alert))
        return JoinedPart(
            fingerprint=voice.fingerprint,
            name=voice.label[:TITLE],
            title=voice.title[:TITLE],
            severity=toll.grade()[0],
        )

    def _name(self, voice: Voice) -> str:
        service = voice.place.service
        if not service:
            return f"\n{voice.fingerprint}"
        apart = self.acknowledged or ahead(voice.alert)
        return f"{service}\n{voice.problem}" if apart else service

    def widen(self, place: Place) -> None:
        for key in keys_of(place):
            known = key in self.places
            if (known and not place.service) or (not known and len(self.places) < PLACES):
                self.places[key] = place  # a host is kin to all that it runs

    def admit(self, voice: Voice) -> None:
        """It is one of ours from now on."""
        self.members.add(voice.fingerprint)
        voice.settle_in(self.id)
        if voice.alert is not None:
            self.toll.add(voice.place, impact_of(voice.alert))
            self.widen(voice.place)
            if len(self.named) < PARTS:
                service = voice.place.service
                self.named.update((self._name(voice), service, f"{service}\n{voice.problem}"))
        if voice.firing:
            self.calm_at = None

    def tell(self, now: datetime, every: float) -> list[AlertsJoined | IncidentGraded]:
        """What joined, at most once in `every` seconds; and the grade, where it became graver."""
        early = self.told_at is not None and now - self.told_at < timedelta(seconds=every)
        if not self.batch.count or early:
            return []
        said: list[AlertsJoined | IncidentGraded] = list(self.batch.told(self.id, now))
        self.batch, self.told_at = Batch(), now
        return said + self._graded(now)

    def _graded(self, now: datetime) -> list[IncidentGraded]:
        severity, why = self.toll.grade()
        if self.by_person or not graver(severity, self.severity):
            return []
        before, self.severity = self.severity, severity
        return [
            IncidentGraded(
                run=self.id, at=now, incident=self.id, severity=severity, before=before, reason=why
            )
        ]

    def end(self, event: IncidentClosed) -> None:
        self.outcome, self.over_at = event.outcome, event.at
        self.state = "escalated" if event.outcome == "escalated" else "over"
        self.reckoned = bool(self.question)  # an answer holds until what was asked about is over

    def recover(self, event: IncidentRecovered) -> None:
        self.outcome, self.over_at, self.state = "recovered", event.at, "over"
        self.reckoned = True  # nothing of it fires

    def open_again(self) -> None:
        self.state, self.outcome, self.over_at, self.acted = "open", "", None, False
        self.acknowledged, self.phase, self.calm_at = False, None, None
        self.checks.clear()


def keys_of(place: Place) -> list[str]:
    pairs = (("service", place.service), ("host", place.host), ("namespace", place.namespace))
    return [f"{name}\n{value}" for name, value in pairs if value]
