"""Summarises all alerts with one fingerprint, and counts earlier incidents of the same kind."""

import re
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.core.events.incidents import AlertRaised, IncidentOpened
from hermes.core.incident import ALERT_TEXT_FACT, NOT_REQUESTED, WITHDRAWN_LABEL
from hermes.core.messages import Value
from hermes.plumbing.units import ordinal
from hermes.sre.settings import FlapSettings
from hermes.sre.triage.severity import alert_impact, alert_problem, is_silent
from hermes.sre.triage.topology import AlertLocation, alert_location

_DIGITS = re.compile(r"\d+")
MAX_TIMES = 100
"""The number of remembered incidents of one kind."""


class EarlierIncidents(Value, kw_only=True, frozen=True):
    times: int = 0
    """The number of earlier incidents within the period."""

    def words(self, days: float) -> str:
        return f"{ordinal(self.times + 1)} time in {days:g} days" if self.times else ""


def alarm_name(labels: Mapping[str, str], title: str, check: str = "") -> str:
    """The name of an alarm on any host: its rule, its probe, or its title without numbers."""
    named = labels.get("alertname") or labels.get("kind") or check
    return named or _DIGITS.sub("#", title.lower())[:100]


def incident_signature(service: str, labels: Mapping[str, str], title: str) -> str:
    """Two services of one name in two namespaces are two services. Without a service the kind of a
    probe names no problem: two logs of a host are two."""
    known = labels if service else {name: labels[name] for name in labels if name != "kind"}
    return f"{service}\n{labels.get('namespace', '')}\n{alarm_name(known, title)}"


def opened_signature(event: IncidentOpened) -> str:
    labels = {name: value for name, value in event.facts if name != ALERT_TEXT_FACT}
    return incident_signature(event.service, labels, event.title)


class RecurrenceHistory:
    def __init__(self, days: float) -> None:
        self._span = timedelta(days=days)
        self._times: dict[str, deque[tuple[datetime, str]]] = {}

    def add(self, event: IncidentOpened) -> None:
        for key in {event.fingerprint, opened_signature(event)} - {""}:
            times = self._times.setdefault(key, deque(maxlen=MAX_TIMES))
            if all(id != event.incident for _, id in times):
                times.append((event.at, event.incident))

    def find_earlier(self, fingerprint: str, signature: str, now: datetime) -> EarlierIncidents:
        found = {
            id
            for key in (fingerprint, signature)
            for at, id in self._times.get(key, ())
            if now - at <= self._span
        }
        return EarlierIncidents(times=len(found))

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
"""Characters of an alert text that are kept until it is answered."""


class AlertSeries:
    """All alerts with one fingerprint, in constant space however often they repeat."""

    __slots__ = (
        "alarm",
        "alert",
        "fine_for",
        "fingerprint",
        "fired_since_earlier_incident",
        "firing",
        "firings",
        "flapping",
        "flapping_reported",
        "incident",
        "last",
        "location",
        "muted_by",
        "number",
        "raised_at",
        "silent_at",
        "since",
        "turned_at",
        "unused",
        "waiting",
        "withdrawn",
    )

    def __init__(self, fingerprint: str, at: datetime, times: int) -> None:
        self.fingerprint = fingerprint
        self.alert: AlertRaised | None = None
        self.number = 0
        self.location, self.alarm = AlertLocation(), ""
        self.firing = self.flapping = self.flapping_reported = self.fired_since_earlier_incident = (
            False
        )
        self.withdrawn = False
        self.unused = False
        """It ended only because there were no requests for what had failed."""
        self.fine_for: timedelta | None = None
        """How long it was fine before it fired; None: it had never fired."""
        self.silent_at: datetime | None = None
        """Since when its service gives no answer; None while it answers."""
        self.incident = self.muted_by = ""
        self.last = self.since = self.raised_at = self.turned_at = at
        self.firings: deque[datetime] = deque(maxlen=max(2, times))
        self.waiting: list[int] = []

    def apply(self, number: int, alert: AlertRaised, flap: FlapSettings) -> None:
        self.last = max(self.last, alert.at)
        self.end_flapping(alert.at, flap)
        silent_at = self.silent_at
        self.silent_at = None
        if alert.resolved:
            if self.firing:
                self.turned_at = alert.at
            self.firing = self.fired_since_earlier_incident = False
            self.withdrawn = bool(dict(alert.labels).get(WITHDRAWN_LABEL))
            self.unused = NOT_REQUESTED in alert.text
            return
        if not self.firing or self.alert is None:
            self._note_firing(alert.at, flap)
        self.firing, self.number, self.withdrawn = True, number, False
        self.alert = replace(alert, text=alert.text[:MAX_TEXT_CHARS])
        labels = dict(alert.labels)
        self.location, self.alarm = (
            alert_location(labels),
            alarm_name(labels, alert.title, alert.check),
        )
        if self.is_unresponsive:
            self.silent_at = silent_at or alert.at

    def add_unanswered(self, number: int, at: datetime) -> None:
        if not self.waiting:
            self.since = at
        self.waiting.append(number)

    def mark_answered(self, up_to: int) -> None:
        if self.waiting:
            self.waiting = [number for number in self.waiting if number > up_to]

    def assign_to(self, incident: str) -> None:
        """Make it part of an incident; the text is kept there."""
        self.incident, self.muted_by = incident, ""
        self.flapping_reported = self.flapping
        if self.alert is not None and self.alert.text:
            self.alert = replace(self.alert, text="")

    def end_flapping(self, now: datetime, flap: FlapSettings) -> bool:
        """End flapping if nothing has changed for long enough; returns whether it just ended."""
        if not self.flapping or now - self.turned_at < timedelta(seconds=flap.calm):
            return False
        self.flapping = self.flapping_reported = False
        self.firings.clear()
        return True

    def steady(self, now: datetime, flap: FlapSettings) -> bool:
        """Return whether it has fired without a break for so long that it is an outage."""
        return self.firing and now - self.turned_at >= timedelta(seconds=flap.steady)

    @property
    def problem(self) -> str:
        return alert_problem(self.alert, self.alarm) if self.alert is not None else self.alarm

    @property
    def is_warning(self) -> bool:
        """It is a warning without an impact yet."""
        return self.alert is not None and alert_impact(self.alert).effect == "warning"

    @property
    def is_outage(self) -> bool:
        """Its service does not work."""
        down = self.alert is not None and alert_impact(self.alert).effect in ("data", "down")
        return bool(self.location.service) and down

    @property
    def is_unresponsive(self) -> bool:
        """Its service gives no answer at all."""
        return self.alert is not None and bool(self.location.service) and is_silent(self.alert)

    @property
    def label(self) -> str:
        """What fails, for people: the service, or which problem of a host (`cpu on web-1`)."""
        location, labels = self.location, dict(self.alert.labels) if self.alert is not None else {}
        problem = self.check or labels.get("alertname") or labels.get("kind")
        if location.service or not problem or location == AlertLocation():
            return location.name
        return f"{problem} on {location.name}"

    @property
    def check(self) -> str:
        """The probe that raised it."""
        return self.alert.check if self.alert is not None else ""

    @property
    def source(self) -> str:
        return self.alert.source if self.alert is not None else ""

    @property
    def title(self) -> str:
        return self.alert.title if self.alert is not None else self.fingerprint

    def flapping_text(self) -> str:
        minutes = max(1, round((self.firings[-1] - self.firings[0]).total_seconds() / 60))
        return f"it flaps: raised {len(self.firings)} times in {minutes} min"

    def _note_firing(self, at: datetime, flap: FlapSettings) -> None:
        self.fine_for = at - self.turned_at if self.alert is not None else None
        self.raised_at = self.turned_at = at
        self.firings.append(at)
        often = len(self.firings) == self.firings.maxlen
        if often and at - self.firings[0] <= timedelta(seconds=flap.window):
            self.flapping = True
