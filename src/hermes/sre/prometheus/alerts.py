"""Turns what Prometheus answers into alerts; the same trouble always has the same fingerprint."""

from collections.abc import Mapping
from datetime import datetime

from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import SHORT, TEXT, TITLE, digest, labels_of, plain
from hermes.sre.prometheus.client import ActiveAlert, Series
from hermes.sre.prometheus.settings import PrometheusRule

SOURCE = "prometheus"
ORIGIN = "hermes_rule"
"""The label that says which question an alert answers: by it a restarted watch knows its own."""


def of_series(rule: PrometheusRule, series: Series, origin: str, since: datetime) -> AlertRaised:
    named = {name: value for name, value in series.labels.items() if name != "__name__"}
    service = named.get(rule.service_label) or named.get("job", "")
    labels = named | ({"service": service} if service else {}) | rule.labels
    about = service or named.get("instance", "")
    title = rule.summary or (f"{rule.name}: {about}" if about else rule.name)
    return AlertRaised(
        run="watch",
        source=SOURCE,
        fingerprint=digest(rule.name, *sorted(f"{k}={v}" for k, v in series.labels.items())),
        title=plain(title, TITLE),
        text=plain(f"{rule.query} gives {series.value} for {_shown(named)}", TEXT),
        labels=labels_of(labels | {"alertname": rule.name, ORIGIN: origin}, ORIGIN),
        severity=plain(rule.severity or named.get("severity", ""), SHORT),
        since=since,
    )


def of_alert(alert: ActiveAlert, origin: str) -> AlertRaised:
    """An alert that Prometheus raises itself; Alertmanager would call it by the same name."""
    notes = alert.annotations
    title = notes.get("summary") or alert.labels.get("alertname", "") or "an alert without a name"
    text = notes.get("description") or notes.get("message") or f"value {alert.value}"
    return AlertRaised(
        run="watch",
        source=SOURCE,
        fingerprint=fingerprint(alert.labels),
        title=plain(title, TITLE),
        text=plain(text, TEXT),
        labels=labels_of(alert.labels | {ORIGIN: origin}, ORIGIN),
        severity=plain(alert.labels.get("severity", ""), SHORT),
        since=alert.active_at,
    )


def of_trouble(url: str, origin: str, title: str, why: str, since: datetime) -> AlertRaised:
    """The watch itself is blind: that is worth an alert, too."""
    return AlertRaised(
        run="watch",
        source=SOURCE,
        fingerprint=digest("trouble", url, origin),
        title=plain(title, TITLE),
        text=plain(why, TEXT),
        labels=(("alertname", "PrometheusNotAnswering"), (ORIGIN, origin)),
        severity="warning",
        since=since,
    )


def origin_of(alert: AlertRaised) -> str:
    return dict(alert.labels).get(ORIGIN, "")


def fingerprint(labels: Mapping[str, str]) -> str:
    """As Alertmanager computes it (FNV-1a over the sorted labels): so that both are one alert."""
    number = 0xCBF29CE484222325
    for name in sorted(labels):
        for byte in b"\xff".join((name.encode(), labels[name].encode(), b"")):
            number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}"


def _shown(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "all"
