"""Whether a trouble has been here before: counted by what it is, not by when it was."""

import re
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.core.events.incidents import AlertRaised, IncidentOpened
from hermes.core.messages import Value
from hermes.sre.incident import ALERT_TEXT_FACT, WITHDRAWN_LABEL
from hermes.sre.reports.times import ordinal
from hermes.sre.settings import FlapSettings
from hermes.sre.triage.severity import alert_impact, alert_problem, is_silent
from hermes.sre.triage.topology import AlertLocation, alert_location

_DIGITS = re.compile(r"\d+")
MAX_TIMES = 100
"""Times that are remembered of one trouble."""


class EarlierIncidents(Value, kw_only=True, frozen=True):
    times: int = 0
    """How often it was here within the days, this time left out."""
    last: str = ""
    """The incident before."""

    def words(self, days: float) -> str:
        return f"{ordinal(self.times + 1)} time in {days:g} days" if self.times else ""


def alarm_name(labels: Mapping[str, str], title: str, check: str = "") -> str:
    """Which alarm rings, wherever it rings: a rule, a probe, or words without their numbers."""
    named = labels.get("alertname") or labels.get("kind") or check
    return named or _DIGITS.sub("#", title.lower())[:100]


def incident_signature(service: str, labels: Mapping[str, str], title: str) -> str:
    return f"{service}\n{alarm_name(labels, title)}"


class RecurrenceHistory:
    def __init__(self, days: float) -> None:
        self._span = timedelta(days=days)
        self._times: dict[str, deque[tuple[datetime, str]]] = {}

    def add(self, event: IncidentOpened) -> None:
        labels = {name: value for name, value in event.facts if name != ALERT_TEXT_FACT}
        for key in {event.fingerprint, incident_signature(event.service, labels, event.title)} - {
            ""
        }:
            times = self._times.setdefault(key, deque(maxlen=MAX_TIMES))
            if all(id != event.incident for _, id in times):
                times.append((event.at, event.incident))

    def find_earlier(self, fingerprint: str, signature: str, now: datetime) -> EarlierIncidents:
        met = {
            id: at
            for key in (fingerprint, signature)
            for at, id in self._times.get(key, ())
            if now - at <= self._span
        }
        last = max(met, key=lambda id: met[id], default="")
        return EarlierIncidents(times=len(met), last=last)

    def fingerprint_of(self, incident: str) -> str:
        for key, times in self._times.items():
            if "\n" not in key and any(id == incident for _, id in times):
                return key
        return ""

    def forget(self, now: datetime) -> None:
        old = [key for key, times in self._times.items() if now - times[-1][0] > self._span]
        for key in old:
            del self._times[key]


MAX_TEXT_CHARS = 1_000
"""Of the text that is remembered while nobody has taken it up."""


class AlertSeries:
    """A summary, however often it is heard: storms of repeats cost nothing."""

    __slots__ = (
        "alarm",
        "alert",
        "fingerprint",
        "firing",
        "flap_told",
        "flapping",
        "incident",
        "last",
        "left_over",
        "number",
        "place",
        "raised_at",
        "since",
        "stretch",
        "turned_at",
        "turns",
        "waiting",
        "withdrawn",
    )

    def __init__(self, fingerprint: str, at: datetime, times: int) -> None:
        self.fingerprint = fingerprint
        self.alert: AlertRaised | None = None
        self.number = 0
        self.place, self.alarm = AlertLocation(), ""
        self.firing = self.flapping = self.flap_told = self.left_over = False
        self.withdrawn = False
        self.incident = self.stretch = ""
        self.last = self.since = self.raised_at = self.turned_at = at
        self.turns: deque[datetime] = deque(maxlen=max(2, times))
        self.waiting: list[int] = []

    def apply(self, number: int, alert: AlertRaised, flap: FlapSettings) -> None:
        self.last = max(self.last, alert.at)
        self.end_flapping(alert.at, flap)
        if alert.resolved:
            if self.firing:
                self.turned_at = alert.at
            self.firing = self.left_over = False
            self.withdrawn = bool(dict(alert.labels).get(WITHDRAWN_LABEL))
            return
        if not self.firing or self.alert is None:
            self._note_firing(alert.at, flap)
        self.firing, self.number, self.withdrawn = True, number, False
        self.alert = replace(alert, text=alert.text[:MAX_TEXT_CHARS])
        labels = dict(alert.labels)
        self.place, self.alarm = (
            alert_location(labels),
            alarm_name(labels, alert.title, alert.check),
        )

    def add_unanswered(self, number: int, at: datetime) -> None:
        """Nobody has answered this one yet."""
        if not self.waiting:
            self.since = at
        self.waiting.append(number)

    def mark_answered(self, up_to: int) -> None:
        if self.waiting:
            self.waiting = [number for number in self.waiting if number > up_to]

    def assign_to(self, incident: str) -> None:
        """It belongs to an incident, which has its words."""
        self.incident, self.stretch = incident, ""
        self.flap_told = self.flapping
        if self.alert is not None and self.alert.text:
            self.alert = replace(self.alert, text="")

    def end_flapping(self, now: datetime, flap: FlapSettings) -> bool:
        """Whether flapping has just ended: nothing has changed for long enough."""
        if not self.flapping or now - self.turned_at < timedelta(seconds=flap.calm):
            return False
        self.flapping = self.flap_told = False
        self.turns.clear()
        return True

    def steady(self, now: datetime, flap: FlapSettings) -> bool:
        """It has fired without a break for so long that it is an outage, however it flapped."""
        return self.firing and now - self.turned_at >= timedelta(seconds=flap.steady)

    @property
    def problem(self) -> str:
        return alert_problem(self.alert, self.alarm) if self.alert is not None else self.alarm

    @property
    def warns(self) -> bool:
        """It says that nothing is hit yet."""
        return self.alert is not None and alert_impact(self.alert).effect == "warning"

    @property
    def silent(self) -> bool:
        """Its service gives no answer at all."""
        return self.alert is not None and bool(self.place.service) and is_silent(self.alert)

    @property
    def label(self) -> str:
        """What fails, for people: the service, or which problem of a host (`cpu on web-1`)."""
        place, labels = self.place, dict(self.alert.labels) if self.alert is not None else {}
        problem = self.check or labels.get("alertname") or labels.get("kind")
        if place.service or not problem or place == AlertLocation():
            return place.name
        return f"{problem} on {place.name}"

    @property
    def check(self) -> str:
        """The probe of ours that raised it."""
        return self.alert.check if self.alert is not None else ""

    @property
    def source(self) -> str:
        return self.alert.source if self.alert is not None else ""

    @property
    def title(self) -> str:
        return self.alert.title if self.alert is not None else self.fingerprint

    def flapping_text(self) -> str:
        """In words, for whoever reads the incident."""
        minutes = max(1, round((self.turns[-1] - self.turns[0]).total_seconds() / 60))
        return f"it flaps: raised {len(self.turns)} times in {minutes} min"

    def _note_firing(self, at: datetime, flap: FlapSettings) -> None:
        self.raised_at = self.turned_at = at
        self.turns.append(at)
        often = len(self.turns) == self.turns.maxlen
        if often and at - self.turns[0] <= timedelta(seconds=flap.window):
            self.flapping = True
