"""Reads the plain form of an alert, for monitors that are no Alertmanager."""

from datetime import UTC, datetime

import msgspec

from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import SHORT, TEXT, TITLE, Scalar, digest, labels_of, plain, prose
from hermes.web.alertmanager import Unreadable, since


class _Alert(msgspec.Struct):
    title: str
    text: str = ""
    labels: dict[str, Scalar] = {}
    severity: str = ""
    fingerprint: str = ""
    resolved: bool = False
    since: Scalar = ""


_alerts = msgspec.json.Decoder(_Alert)


def read(body: bytes) -> AlertRaised:
    """Raises `Unreadable` with what is wrong."""
    try:
        alert = _alerts.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"not an alert: {error}") from error
    title = plain(alert.title, TITLE)
    if not title:
        raise Unreadable("not an alert: title must not be empty")
    labels, now = labels_of(alert.labels), datetime.now(UTC)
    return AlertRaised(
        run="watch",
        at=now,
        source="webhook",
        fingerprint=plain(alert.fingerprint, SHORT) or digest(title, labels=labels),
        title=title,
        text=prose(alert.text, TEXT),
        labels=labels,
        severity=plain(alert.severity, SHORT),
        resolved=alert.resolved,
        since=since(alert.since, now),
    )
