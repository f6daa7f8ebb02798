"""Computes the severity of alerts and incidents from their impact, with the reason.

    P0  total outage, or data at risk      P1  a service does not work for its users
    P2  a service works, but degraded      P3  a warning: no impact yet

The severity that the monitor gives is the minimum.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

from hermes.core.events.incidents import AlertRaised, Severity
from hermes.core.incident import QUESTION_LABEL
from hermes.core.messages import Value
from hermes.sre.settings import ServiceWeight
from hermes.sre.triage.topology import AlertLocation, alert_location

ImpactEffect = Literal["data", "down", "worse", "warning"]
EFFECT_BY_KIND: dict[str, ImpactEffect] = {
    **dict.fromkeys(("port", "http", "unit", "postgres", "mysql", "redis", "sqlite"), "down"),
    **dict.fromkeys(
        ("answers", "locks", "log", "disk", "inodes", "memory", "processes", "cron"), "worse"
    ),
    **dict.fromkeys(("cpu", "load", "zombies", "tls", "certificate", "command"), "warning"),
    **dict.fromkeys(("config", "forecast", "learned"), "warning"),
}
SEVERITY_BY_EFFECT: dict[ImpactEffect, Severity] = {
    "data": "P0",
    "down": "P1",
    "worse": "P2",
    "warning": "P3",
}
SEVERITY_BY_HINT: dict[str, Severity] = {
    **{name.lower(): name for name in ("P0", "P1", "P2", "P3")},
    **dict.fromkeys(("emergency", "disaster", "blocker"), "P0"),
    **dict.fromkeys(("critical", "crit", "page", "fatal", "alert", "high"), "P1"),
    **dict.fromkeys(("error", "major", "average", "ticket", "medium"), "P2"),
    **dict.fromkeys(("warning", "warn", "minor", "info", "low", "none", "notice"), "P3"),
}
SEVERITY_LEVELS: tuple[Severity, ...] = ("P0", "P1", "P2", "P3")
FAILURE_SHARE_LABELS = ("failing_share", "error_ratio", "error_rate", "failing")
REPLICAS_LABEL = "replicas_available"
"""Such as `1 of 3`: replicas of a workload in a cluster."""
DATA_RISK_LABELS = ("data_at_risk", "data_loss")
SEPARATE_PROBLEM_KINDS = ("disk", "inodes", "tls", "certificate")
"""Kinds that are always a separate problem: a full disk is not a service that is down."""
EARLY_WARNING_KINDS = ("config", "forecast", "tls", "certificate")
"""Kinds that warn before an outage: always reported, whatever else the service has."""
ANSWERED_KINDS = ("port", "http", "postgres", "mysql", "redis", "tls", "command")
"""Kinds of probes that send a request to a service."""
DISK_FULL_PERCENT = 98.0
"""Percent of a disk in use at which nothing can be written any more."""
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)")
_REPLICAS = re.compile(r"(\d+) of (\d+)")
_FAILURE_WORDS = re.compile(r"\b(?:fail\w*|errors?|5xx|50[0-4])\b", re.I)
_LATENCY_WORDS = re.compile(r"took|slow|unusual|usual|latency", re.I)
_WRONG_TEXT_WORDS = re.compile(r"the body lacks: ")
_SILENT = re.compile(
    r"nothing answers|no (?:answer|response)|not running|refused|timed out",
    re.I,
)
_WRONG_NAME_WORDS = re.compile(r"\bis not for\b", re.I)
_EXPIRED_WORDS = re.compile(r"\b(?:has expired|expired|is over)\b", re.I)
_EFFECT_WORDS: tuple[tuple[re.Pattern[str], ImpactEffect], ...] = (
    (re.compile(r"data ?loss|corrupt|split.?brain|\blost (?:rows|writes|data)", re.I), "data"),
    (
        re.compile(
            r"down\b|outage|unreachable|not answer|no answer|refused|absent|crash|dead\b|"
            r"unavailable|not running|does not (?:work|run|start)",
            re.I,
        ),
        "down",
    ),
    (re.compile(r"slow|latency|error|fail|degraded|full\b|timeout|timed out|retr", re.I), "worse"),
)


GRAVITY_BY_MEASURE = {
    **dict.fromkeys(("status", "type"), 3),
    **dict.fromkeys(("shape", "content", "size"), 2),
    "latency": 1,
}
"""By what a learned check measures; see `failure_gravity`."""
REPORT_SOURCES = ("person", "mcp")
"""What opened an incident in words, instead of a monitor."""


class AlertImpact(Value, frozen=True):
    """The impact that one alert reports."""

    effect: ImpactEffect
    why: str
    floor: Severity | None = None
    grading: str = ""
    """Who says how severe it is at least, in words."""
    known: bool = True
    """Whether it is known what users notice of it."""


def alert_impact(alert: AlertRaised) -> AlertImpact:
    labels = dict(alert.labels)
    hint = alert.severity or labels.get("severity", "")
    effect, why = _alert_effect(alert, labels)
    who = "it was reported as" if alert.source in REPORT_SOURCES else "the monitor grades it"
    floor = SEVERITY_BY_HINT.get(hint.lower())
    known = labels.get("kind") != "log"
    return AlertImpact(effect, why, floor, f"{who} {hint[:40]}", known)


def alert_problem(alert: AlertRaised, alarm: str) -> str:
    """The problem within its service; all alerts that it is down are one problem."""
    labels = dict(alert.labels)
    if is_silent(alert):
        return "down"
    if labels.get("kind") in SEPARATE_PROBLEM_KINDS:
        return alarm
    return "down" if _alert_effect(alert, labels)[0] in ("data", "down") else alarm


def alert_question(alert: AlertRaised) -> str:
    """Return what a probe of Hermes asks people; labels of other monitors do not count."""
    return dict(alert.labels).get(QUESTION_LABEL, "") if alert.source == "probe" else ""


def is_silent(alert: AlertRaised) -> bool:
    """Return whether a service gives a probe no answer at all, which is worse than a wrong
    answer."""
    answered = dict(alert.labels).get("kind") in ANSWERED_KINDS
    return answered and says_no_answer(alert.title)


def failure_gravity(alert: AlertRaised) -> int:
    """How grave it is for the users of one service: no answer, a wrong answer, a wrong text, a slow
    answer, anything else. The gravest failure names an incident."""
    labels = dict(alert.labels)
    kind = labels.get("kind", "")
    if is_silent(alert):
        return 5
    if kind == "learned":
        return GRAVITY_BY_MEASURE.get(alert.check.rpartition("-")[2], 0)
    if kind == "http" and _LATENCY_WORDS.search(alert.title):
        return 1
    if kind == "http" and _WRONG_TEXT_WORDS.search(alert.title):
        return 2
    if kind in ("http", "answers"):
        return 3
    return 4 if _alert_effect(alert, labels)[0] in ("data", "down") else 0


def says_no_answer(text: str) -> bool:
    return _SILENT.search(text) is not None


def is_early_warning(alert: AlertRaised | None) -> bool:
    """Return whether a probe warns before an outage; a service without an answer is an outage."""
    if alert is None or is_silent(alert):
        return False
    return dict(alert.labels).get("kind") in EARLY_WARNING_KINDS


def is_data_at_risk(alert: AlertRaised) -> bool:
    """Said by a label, not by words: these may come from anywhere."""
    labels = dict(alert.labels)
    labelled = any(
        labels.get(name, "").lower() in ("true", "yes", "1") for name in DATA_RISK_LABELS
    )
    return labelled or labels.get("impact", "").lower() == "data"


def _alert_effect(alert: AlertRaised, labels: Mapping[str, str]) -> tuple[ImpactEffect, str]:
    name = alert_location(labels).name
    if is_data_at_risk(alert):
        return "data", f"data of {name} is at risk, by its label"
    if question := alert_question(alert):
        return "warning", question
    share = _failure_share(labels, alert.title)
    if share is not None:
        why = f"{share:.0%} of what is asked of {name} fails"
        return ("down" if share >= 0.5 else "worse" if share >= 0.01 else "warning"), why
    if replicas := _REPLICAS.fullmatch(labels.get(REPLICAS_LABEL, "")):
        available, wanted = int(replicas[1]), int(replicas[2])
        why = f"{replicas[0]} replicas of {name} are available"
        return ("down" if wanted and not available else "worse" if available < wanted else
                "warning"), why  # fmt: skip
    kind = labels.get("kind", "")
    if kind in EFFECT_BY_KIND:
        return _effect_by_kind(kind, name, alert)
    return _effect_by_words(alert, labels, name)


def _effect_by_kind(kind: str, name: str, alert: AlertRaised) -> tuple[ImpactEffect, str]:
    effect, why = EFFECT_BY_KIND[kind], f"the {kind} probe of {name} fails"
    percent = _PERCENT.search(alert.title)
    if kind in ("disk", "inodes") and percent and float(percent[1]) >= DISK_FULL_PERCENT:
        return "down", f"{percent[1]} percent in use ({kind}): nothing can be written"
    if kind in ("tls", "certificate") and _EXPIRED_WORDS.search(alert.title):
        return "down", f"the certificate of {name} is no longer valid"
    if kind == "tls" and _WRONG_NAME_WORDS.search(alert.title):
        return "down", f"the certificate of {name} is for another name: it is not accepted"
    if effect == "down" and _LATENCY_WORDS.search(alert.title):
        return "worse", f"{name} answers, but not as usual ({kind} probe)"
    if kind == "learned" and failure_gravity(alert):
        why = f"{name} does not answer as it did while it was healthy"
    elif kind == "answers":
        why = f"users of {name} get errors, by its log"
    elif kind == "log":
        why = f"{name} logs errors; whether its users notice is not known"
    if effect == "down":
        why = f"{name} does not answer as it should ({kind} probe)"
    return effect, why


def _effect_by_words(
    alert: AlertRaised, labels: Mapping[str, str], name: str
) -> tuple[ImpactEffect, str]:
    text = f"{labels.get('alertname', '')} {alert.title}"
    percent = _PERCENT.search(text)
    if percent and _FAILURE_WORDS.search(text):
        share = min(1.0, float(percent[1]) / 100)
        effect: ImpactEffect = "down" if share >= 0.5 else "worse"
        return effect, f"{share:.0%} fails at {name}, by the words of the alert"
    for pattern, found in _EFFECT_WORDS:
        if match := pattern.search(text):
            return found, f"the alert about {name} says {match[0].lower()!r}"
    return "warning", f"no impact on {name} is known"


def _failure_share(labels: Mapping[str, str], title: str) -> float | None:
    for name in FAILURE_SHARE_LABELS:
        try:
            value = float(labels.get(name, "").rstrip("% "))
        except ValueError:
            continue
        if value < 0:
            continue
        return min(1.0, value / 100 if labels[name].rstrip().endswith("%") or value > 1 else value)
    return None


def service_weight(service: str, weights: Mapping[str, ServiceWeight]) -> ServiceWeight:
    if service in weights:
        return weights[service]
    fits = (weight for pattern, weight in weights.items() if fnmatchcase(service, pattern))
    return next(fits, "normal")


def is_graver(one: Severity, other: Severity) -> bool:
    return SEVERITY_LEVELS.index(one) < SEVERITY_LEVELS.index(other)


MIN_SERVICES_FOR_OUTAGE = 5
"""Services down at the same time that count as a total outage."""
MAX_NAMES = 1_000
"""The maximum number of names that are counted."""


class IncidentImpact:
    def __init__(self, weights: Mapping[str, ServiceWeight]) -> None:
        self._weights = weights
        self.down: set[str] = set()
        self.hosts: set[str] = set()
        self.known = False
        """Whether it is known what users notice of the gravest effect."""
        self._worst: tuple[Severity, str] = ("P3", "")
        self._floor: tuple[Severity, str] = ("P3", "")

    def add(self, location: AlertLocation, impact: AlertImpact) -> None:
        if impact.effect in ("data", "down"):
            if location.service and len(self.down) < MAX_NAMES:
                self.down.add(location.service)
            if location.host and len(self.hosts) < MAX_NAMES:
                self.hosts.add(location.host)
        found = self._alert_severity(location, impact)
        better_known = impact.known and not self.known and found[0] == self._worst[0]
        if not self._worst[1] or better_known or is_graver(found[0], self._worst[0]):
            self._worst, self.known = found, impact.known
        if impact.floor is not None and is_graver(impact.floor, self._floor[0]):
            self._floor = impact.floor, impact.grading

    def grade(self) -> tuple[Severity, str]:
        severity, why = self._worst
        if len(self.down) >= MIN_SERVICES_FOR_OUTAGE and severity != "P0":
            severity, why = "P0", f"{len(self.down)} services do not work"
        elif len(self.down) > 1:
            why = f"{why}; {len(self.down)} services are hit: {', '.join(sorted(self.down)[:5])}"
        elif len(self.hosts) > 1:
            why = f"{why}; on {len(self.hosts)} hosts"
        floor, floor_reason = self._floor
        if is_graver(floor, severity):
            return floor, f"{floor_reason}; {why}" if why else floor_reason
        return severity, why

    def _alert_severity(self, location: AlertLocation, impact: AlertImpact) -> tuple[Severity, str]:
        severity, why = SEVERITY_BY_EFFECT[impact.effect], impact.why
        weight = service_weight(location.service, self._weights) if location.service else "normal"
        if weight == "critical" and severity != "P3":
            severity, why = _shift_severity(severity, -1), f"{why}; {location.service} is critical"
        elif weight == "minor" and impact.effect != "data":
            severity, why = _shift_severity(severity, 1), f"{why}; {location.service} is minor"
        return severity, why


def _shift_severity(severity: Severity, by: int) -> Severity:
    level = SEVERITY_LEVELS.index(severity) + by
    return SEVERITY_LEVELS[min(max(level, 0), len(SEVERITY_LEVELS) - 1)]
