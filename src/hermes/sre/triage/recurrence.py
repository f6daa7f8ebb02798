"""Whether a trouble has been here before: counted by what it is, not by when it was."""

import re
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta

from hermes.core.events.incidents import IncidentOpened
from hermes.core.messages import Value
from hermes.sre.case import TEXT
from hermes.sre.report.times import ordinal

_NUMBERS = re.compile(r"\d+")
KEPT = 100
"""Times that are remembered of one trouble."""


class Before(Value, kw_only=True, frozen=True):
    times: int = 0
    """How often it was here within the days, this time left out."""
    last: str = ""
    """The incident before."""

    def words(self, days: float) -> str:
        return f"{ordinal(self.times + 1)} time in {days:g} days" if self.times else ""


def alarm_of(labels: Mapping[str, str], title: str, check: str = "") -> str:
    """Which alarm rings, wherever it rings: a rule, a probe, or words without their numbers."""
    named = labels.get("alertname") or labels.get("kind") or check
    return named or _NUMBERS.sub("#", title.lower())[:100]


def signature_of(service: str, labels: Mapping[str, str], title: str) -> str:
    return f"{service}\n{alarm_of(labels, title)}"


class Past:
    def __init__(self, days: float) -> None:
        self._span = timedelta(days=days)
        self._met: dict[str, deque[tuple[datetime, str]]] = {}

    def take(self, event: IncidentOpened) -> None:
        labels = {name: value for name, value in event.facts if name != TEXT}
        for key in {event.fingerprint, signature_of(event.service, labels, event.title)} - {""}:
            times = self._met.setdefault(key, deque(maxlen=KEPT))
            if all(id != event.incident for _, id in times):
                times.append((event.at, event.incident))

    def before(self, fingerprint: str, signature: str, now: datetime) -> Before:
        met = {
            id: at
            for key in (fingerprint, signature)
            for at, id in self._met.get(key, ())
            if now - at <= self._span
        }
        last = max(met, key=lambda id: met[id], default="")
        return Before(times=len(met), last=last)

    def fingerprint_of(self, incident: str) -> str:
        for key, times in self._met.items():
            if "\n" not in key and any(id == incident for _, id in times):
                return key
        return ""

    def forget(self, now: datetime) -> None:
        old = [key for key, times in self._met.items() if now - times[-1][0] > self._span]
        for key in old:
            del self._met[key]
