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
MAX_ERROR_CHARS = 200
_STATUS = re.compile(r"\bstatus (\d{3})\b")
_PLACES = re.compile(r"\w+://\S+|(?<!\w)/\S+|\b[\w.-]+:\d+\b")
_VALUES = re.compile(r"\[[^\]]*\]|'[^']*'|\"[^\"]*\"|\([^)]*\)|\S*\d\S*")
_NO_WORDS = re.compile(r"[\W_]+")
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


def alert_error(alert: AlertRaised) -> str:
    """What fails, without what differs each time, so that two failures can be compared. Empty when
    the alert does not say it: it may be any error."""
    text = alert_error_text(alert)
    codes = " ".join(_STATUS.findall(text))
    words = _VALUES.sub(" ", _PLACES.sub(" ", text.lower()))
    return f"{_NO_WORDS.sub(' ', words).strip()} {codes}".strip()[:MAX_ERROR_CHARS]


def alert_error_text(alert: AlertRaised) -> str:
    """Only probes of Hermes name it in their text: what others write there differs each time."""
    if alert.source != "probe":
        return alert.title[:MAX_ERROR_CHARS]
    measured, _, found = alert.text.partition("\n")[0].partition("; ")
    if dict(alert.labels).get("kind") == "log":
        return found[:MAX_ERROR_CHARS]  # the rest is how many lines there are
    return (alert.title if not found else f"{measured}; {found}")[:MAX_ERROR_CHARS]


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
MAX_ERRORS = 10
"""Different errors of one alert that an incident names."""
LASTING_WORDS = "it lasts:"
RHYTHM_MARGIN_S = 15.0
"""Seconds by which a failure exceeds the longest one of a flap before it is an outage."""


class Firing:
    """One time that an alert was raised."""

    __slots__ = ("at", "error", "lasted")

    def __init__(self, at: datetime, error: str) -> None:
        self.at, self.error = at, error
        self.lasted = timedelta()
        """Zero while it has not ended."""


class AlertSeries:
    """All alerts with one fingerprint, in constant space however often they repeat."""

    __slots__ = (
        "alarm",
        "alert",
        "error",
        "errors",
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
        "news",
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
        self.firings: deque[Firing] = deque(maxlen=max(2, times))
        self.error = self.news = ""
        """What fails in it, and why this is new to the incident that it is part of."""
        self.errors: set[str] = set()
        """What failed in it as its incident has reported it."""
        self.waiting: list[int] = []

    def apply(self, number: int, alert: AlertRaised, flap: FlapSettings) -> None:
        self.last = max(self.last, alert.at)
        self.end_flapping(alert.at, flap)
        silent_at = self.silent_at
        self.silent_at = None
        if alert.resolved:
            if self.firing:
                self._note_end(alert.at, flap)
            self.firing = self.fired_since_earlier_incident = False
            self.news = ""
            self.withdrawn = bool(dict(alert.labels).get(WITHDRAWN_LABEL))
            self.unused = NOT_REQUESTED in alert.text
            return
        if not self.firing or self.alert is None:
            self._note_firing(alert, flap)
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
        if self.incident != incident:
            self.errors.clear()
        self.incident, self.muted_by = incident, ""
        self.mark_reported()
        self.flapping_reported = self.flapping
        if self.alert is not None and self.alert.text:
            self.alert = replace(self.alert, text="")

    def mark_reported(self) -> None:
        """Note that its incident has reported what fails in it now."""
        self.news = ""
        if len(self.errors) < MAX_ERRORS:
            self.errors.add(self.error)

    def end_flapping(self, now: datetime, flap: FlapSettings) -> bool:
        """End flapping if nothing has changed for long enough, or it fails without a break for
        longer than it flapped; returns whether it just ended."""
        if not self.flapping:
            return False
        if self.steady(now, flap):
            lasts = (now - self.turned_at).total_seconds()
            longest = max(each.lasted for each in self.firings).total_seconds()
            self.news = f"{LASTING_WORDS} {lasts:.0f} s, while it flapped for up to {longest:.0f} s"
        elif now - self.turned_at < timedelta(seconds=flap.calm):
            return False
        self._forget_flapping()
        return True

    def steady(self, now: datetime, flap: FlapSettings) -> bool:
        """Return whether it has fired without a break for so long that it is an outage: longer than
        it flapped."""
        rhythm = max((each.lasted for each in self.firings), default=timedelta())
        most = timedelta(seconds=flap.steady)
        longest = min(most, rhythm + timedelta(seconds=RHYTHM_MARGIN_S)) if rhythm else most
        return self.firing and now - self.turned_at >= longest

    def _forget_flapping(self) -> None:
        self.flapping = self.flapping_reported = False
        self.firings.clear()

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
        minutes = max(1, round((self.firings[-1].at - self.firings[0].at).total_seconds() / 60))
        return f"it flaps: raised {len(self.firings)} times in {minutes} min"

    def _note_firing(self, alert: AlertRaised, flap: FlapSettings) -> None:
        at, self.error = alert.at, alert_error(alert)
        self.fine_for = at - self.turned_at if self.alert is not None else None
        self.raised_at = self.turned_at = at
        # An error that is not known may be any of those before.
        known = self.errors | {each.error for each in self.firings}
        if self.error and "" not in known and self.error not in known:
            self._forget_flapping()
            if len(self.errors) < MAX_ERRORS and self.incident:
                self.news = f"another error: {alert_error_text(alert)}"
        self.firings.append(Firing(at, self.error))
        same = [each for each in self.firings if each.error in ("", self.error)]
        often = len(same) == self.firings.maxlen
        if often and at - same[0].at <= timedelta(seconds=flap.window):
            self.flapping = True

    def _note_end(self, at: datetime, flap: FlapSettings) -> None:
        lasted = at - self.turned_at
        self.turned_at = at
        if self.firings and self.firings[-1].at == self.raised_at:
            self.firings[-1].lasted = lasted
            if lasted >= timedelta(seconds=flap.steady):
                self.firings.pop()  # that was an outage
