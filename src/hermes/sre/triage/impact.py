"""How bad it is: computed from what is hit, with the reason; words count where nothing else does.

    P0  total outage, or data at risk      P1  something does not work for its users
    P2  it works, worse than it should     P3  a warning: nothing is hit yet

What the monitor says of itself is a floor: triage may find it worse, never better.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

from hermes.core.events.incidents import AlertRaised, Severity
from hermes.core.messages import Value
from hermes.sre.case import QUESTION
from hermes.sre.triage.settings import Weight
from hermes.sre.triage.topology import place_of

Effect = Literal["data", "down", "worse", "warning"]
BY_KIND: dict[str, Effect] = {
    **dict.fromkeys(("port", "http", "unit", "postgres", "mysql", "redis", "sqlite"), "down"),
    **dict.fromkeys(("answers", "log", "disk", "inodes", "memory", "processes", "cron"), "worse"),
    **dict.fromkeys(("cpu", "load", "zombies", "tls", "certificate", "command"), "warning"),
    **dict.fromkeys(("config", "forecast"), "warning"),
}
SEVERITIES: dict[Effect, Severity] = {"data": "P0", "down": "P1", "worse": "P2", "warning": "P3"}
HINTS: dict[str, Severity] = {
    **{name.lower(): name for name in ("P0", "P1", "P2", "P3")},
    **dict.fromkeys(("emergency", "disaster", "blocker"), "P0"),
    **dict.fromkeys(("critical", "crit", "page", "fatal", "alert", "high"), "P1"),
    **dict.fromkeys(("error", "major", "average", "ticket", "medium"), "P2"),
    **dict.fromkeys(("warning", "warn", "minor", "info", "low", "none", "notice"), "P3"),
}
LEVELS: tuple[Severity, ...] = ("P0", "P1", "P2", "P3")
SHARES = ("failing_share", "error_ratio", "error_rate", "failing")
RISK = ("data_at_risk", "data_loss")
APART = ("disk", "inodes", "tls", "certificate")
"""Kinds that keep a problem of their own however bad it is: a full disk is no dead service."""
AHEAD = ("config", "forecast", "tls", "certificate")
"""Kinds that warn of an outage to come: each is reported, whatever else its service has."""
FULL = 98.0
"""Percent of a disk in use at which nothing can be written any more."""
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)")
_FAILS = re.compile(r"\b(?:fail\w*|errors?|5xx|50[0-4])\b", re.I)
_SLOW = re.compile(r"took|slow|unusual|usual|latency", re.I)
_EXPIRED = re.compile(r"\b(?:has expired|expired|is over)\b", re.I)
_WORDS: tuple[tuple[re.Pattern[str], Effect], ...] = (
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


class Impact(Value, frozen=True):
    """What one alert says is hit."""

    effect: Effect
    why: str
    share: float | None = None
    floor: Severity | None = None
    hint: str = ""


def impact_of(alert: AlertRaised) -> Impact:
    labels = dict(alert.labels)
    hint = alert.severity or labels.get("severity", "")
    effect, why, share = _effect(alert, labels)
    return Impact(effect, why, share, HINTS.get(hint.lower()), hint[:40])


def problem_of(alert: AlertRaised, alarm: str) -> str:
    """Which problem it is, beside its service: all that says that it is down is one problem."""
    labels = dict(alert.labels)
    if labels.get("kind") in APART:
        return alarm
    return "down" if _effect(alert, labels)[0] in ("data", "down") else alarm


def question_of(alert: AlertRaised) -> str:
    """What a probe of ours asks people; the label of another monitor is no question."""
    return dict(alert.labels).get(QUESTION, "") if alert.source == "probe" else ""


def ahead(alert: AlertRaised | None) -> bool:
    """Whether a probe of ours warns of an outage to come."""
    return alert is not None and dict(alert.labels).get("kind") in AHEAD


def at_risk(alert: AlertRaised) -> bool:
    """Said by a label, not by words: these may come from anywhere."""
    labels = dict(alert.labels)
    said = any(labels.get(name, "").lower() in ("true", "yes", "1") for name in RISK)
    return said or labels.get("impact", "").lower() == "data"


def _effect(alert: AlertRaised, labels: Mapping[str, str]) -> tuple[Effect, str, float | None]:
    name = place_of(labels).name
    if at_risk(alert):
        return "data", f"data of {name} is at risk, by its label", None
    if question := question_of(alert):
        return "warning", question, None
    share = _share(labels, alert.title)
    if share is not None:
        told = f"{share:.0%} of what is asked of {name} fails"
        return ("down" if share >= 0.5 else "worse" if share >= 0.01 else "warning"), told, share
    kind = labels.get("kind", "")
    if kind in BY_KIND:
        return _by_kind(kind, name, alert)
    return _by_words(alert, labels, name)


def _by_kind(kind: str, name: str, alert: AlertRaised) -> tuple[Effect, str, None]:
    effect, why = BY_KIND[kind], f"the {kind} probe of {name} fails"
    percent = _SHARE.search(alert.title)
    if kind in ("disk", "inodes") and percent and float(percent[1]) >= FULL:
        return "down", f"{percent[1]} percent in use ({kind}): nothing can be written", None
    if kind in ("tls", "certificate") and _EXPIRED.search(alert.title):
        return "down", f"the certificate of {name} is no longer valid", None
    if effect == "down" and _SLOW.search(alert.title):
        return "worse", f"{name} answers, but not as usual ({kind} probe)", None
    if effect == "down":
        why = f"{name} does not answer as it should ({kind} probe)"
    return effect, why, None


def _by_words(
    alert: AlertRaised, labels: Mapping[str, str], name: str
) -> tuple[Effect, str, float | None]:
    said = f"{labels.get('alertname', '')} {alert.title}"
    percent = _SHARE.search(said)
    if percent and _FAILS.search(said):
        share = min(1.0, float(percent[1]) / 100)
        effect: Effect = "down" if share >= 0.5 else "worse"
        return effect, f"{share:.0%} fails at {name}, by the words of the alert", share
    for pattern, found in _WORDS:
        if match := pattern.search(said):
            return found, f"the alert about {name} says {match[0].lower()!r}", None
    return "warning", f"nothing says that {name} is hit", None


def _share(labels: Mapping[str, str], title: str) -> float | None:
    for name in SHARES:
        try:
            value = float(labels.get(name, "").rstrip("% "))
        except ValueError:
            continue
        if value < 0:
            continue
        return min(1.0, value / 100 if labels[name].rstrip().endswith("%") or value > 1 else value)
    return None


def weight_of(service: str, weights: Mapping[str, Weight]) -> Weight:
    if service in weights:
        return weights[service]
    fits = (weight for pattern, weight in weights.items() if fnmatchcase(service, pattern))
    return next(fits, "normal")


def graver(one: Severity, other: Severity) -> bool:
    return LEVELS.index(one) < LEVELS.index(other)
