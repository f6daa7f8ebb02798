"""What an incident has hit so far, and how grave that is; it only ever grows while it is open."""

from collections.abc import Mapping

from hermes.core.events.incidents import Severity
from hermes.sre.triage.impact import LEVELS, SEVERITIES, Impact, graver, weight_of
from hermes.sre.triage.settings import Weight
from hermes.sre.triage.topology import Place

MANY = 5
"""Services that do not work at the same time: no part of the house, the house."""
KEPT = 1_000
"""Names that are counted; beyond that more say nothing new."""


class Toll:
    def __init__(self, weights: Mapping[str, Weight]) -> None:
        self._weights = weights
        self.down: set[str] = set()
        self.hosts: set[str] = set()
        self._worst: tuple[Severity, str] = ("P3", "")
        self._floor: tuple[Severity, str] = ("P3", "")

    def add(self, place: Place, impact: Impact) -> None:
        if impact.effect in ("data", "down"):
            if place.service and len(self.down) < KEPT:
                self.down.add(place.service)
            if place.host and len(self.hosts) < KEPT:
                self.hosts.add(place.host)
        found = self._of_one(place, impact)
        if not self._worst[1] or graver(found[0], self._worst[0]):
            self._worst = found
        if impact.floor is not None and graver(impact.floor, self._floor[0]):
            self._floor = impact.floor, f"the monitor grades it {impact.hint}"

    def grade(self) -> tuple[Severity, str]:
        severity, why = self._worst
        if len(self.down) >= MANY and severity != "P0":
            severity, why = "P0", f"{len(self.down)} services do not work"
        elif len(self.down) > 1:
            why = f"{why}; {len(self.down)} services are hit: {', '.join(sorted(self.down)[:5])}"
        elif len(self.hosts) > 1:
            why = f"{why}; on {len(self.hosts)} hosts"
        floor, said = self._floor
        if graver(floor, severity):
            return floor, f"{said}; {why}" if why else said
        return severity, why

    def _of_one(self, place: Place, impact: Impact) -> tuple[Severity, str]:
        severity, why = SEVERITIES[impact.effect], impact.why
        weight = weight_of(place.service, self._weights) if place.service else "normal"
        if weight == "critical" and severity != "P3":
            severity, why = _step(severity, -1), f"{why}; {place.service} is critical"
        elif weight == "minor" and impact.effect != "data":
            severity, why = _step(severity, 1), f"{why}; {place.service} is minor"
        return severity, why


def _step(severity: Severity, by: int) -> Severity:
    return LEVELS[min(max(LEVELS.index(severity) + by, 0), len(LEVELS) - 1)]
