"""One fingerprint: what it said last, whether it fires, how often it changed its mind."""

from collections import deque
from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.core.events.incidents import AlertRaised
from hermes.sre.case import WITHDRAWN
from hermes.sre.triage.impact import problem_of
from hermes.sre.triage.recurrence import alarm_of
from hermes.sre.triage.settings import FlapSettings
from hermes.sre.triage.topology import Place, place_of

TEXT = 1_000
"""Of the text that is remembered while nobody has taken it up."""


class Voice:
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
        self.place, self.alarm = Place(), ""
        self.firing = self.flapping = self.flap_told = self.left_over = False
        self.withdrawn = False
        self.incident = self.stretch = ""
        self.last = self.since = self.raised_at = self.turned_at = at
        self.turns: deque[datetime] = deque(maxlen=max(2, times))
        self.waiting: list[int] = []

    def take(self, number: int, alert: AlertRaised, flap: FlapSettings) -> None:
        self.last = max(self.last, alert.at)
        self.calm_by(alert.at, flap)
        if alert.resolved:
            if self.firing:
                self.turned_at = alert.at
            self.firing = self.left_over = False
            self.withdrawn = bool(dict(alert.labels).get(WITHDRAWN))
            return
        if not self.firing or self.alert is None:
            self._turn(alert.at, flap)
        self.firing, self.number, self.withdrawn = True, number, False
        self.alert = replace(alert, text=alert.text[:TEXT])
        labels = dict(alert.labels)
        self.place, self.alarm = place_of(labels), alarm_of(labels, alert.title, alert.check)

    def wait(self, number: int, at: datetime) -> None:
        """Nobody has answered this one yet."""
        if not self.waiting:
            self.since = at
        self.waiting.append(number)

    def answered(self, up_to: int) -> None:
        if self.waiting:
            self.waiting = [number for number in self.waiting if number > up_to]

    def settle_in(self, incident: str) -> None:
        """It belongs to an incident, which has its words."""
        self.incident, self.stretch = incident, ""
        self.flap_told = self.flapping
        if self.alert is not None and self.alert.text:
            self.alert = replace(self.alert, text="")

    def calm_by(self, now: datetime, flap: FlapSettings) -> bool:
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
        return problem_of(self.alert, self.alarm) if self.alert is not None else self.alarm

    @property
    def label(self) -> str:
        """What fails, for people: the service, or which problem of a host (`cpu on web-1`)."""
        place, labels = self.place, dict(self.alert.labels) if self.alert is not None else {}
        problem = self.check or labels.get("alertname") or labels.get("kind")
        if place.service or not problem or place == Place():
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

    def flaps(self) -> str:
        """In words, for whoever reads the incident."""
        minutes = max(1, round((self.turns[-1] - self.turns[0]).total_seconds() / 60))
        return f"it flaps: raised {len(self.turns)} times in {minutes} min"

    def _turn(self, at: datetime, flap: FlapSettings) -> None:
        self.raised_at = self.turned_at = at
        self.turns.append(at)
        often = len(self.turns) == self.turns.maxlen
        if often and at - self.turns[0] <= timedelta(seconds=flap.window):
            self.flapping = True
