"""Reads what Alertmanager sends to a webhook (version 4), alert by alert.

One that cannot be read does not take the others along. What can be understood is kept: a missing
date or fingerprint is no reason to lose an alert.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import (
    SHORT,
    TEXT,
    TITLE,
    Scalar,
    digest,
    labels_of,
    plain,
    prose,
    word,
)
from hermes.core.messages import Value

VERSION = "4"
SAID = 20
"""Complaints that one answer lists."""


class Unreadable(Exception):
    """Nothing of it can be used; the text says why."""


class Read(Value, kw_only=True, frozen=True):
    alerts: tuple[AlertRaised, ...] = ()
    refused: tuple[str, ...] = ()
    left_out: int = 0
    """Alerts that Alertmanager itself left out, by its `max_alerts`."""


class _Payload(msgspec.Struct, rename="camel"):
    alerts: list[msgspec.Raw]
    version: Scalar = ""
    status: str = "firing"
    truncated_alerts: int = 0


class _Alert(msgspec.Struct, rename="camel"):
    labels: dict[str, Scalar]
    status: Literal["firing", "resolved"] | None = None
    annotations: dict[str, Scalar] = {}
    starts_at: Scalar = ""
    fingerprint: str = ""
    generator_url: str = msgspec.field(default="", name="generatorURL")


_payloads = msgspec.json.Decoder(_Payload)
_alerts = msgspec.json.Decoder(_Alert)


def read(body: bytes) -> Read:
    """Raises `Unreadable` when there is nothing to keep."""
    try:
        payload = _payloads.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"not an Alertmanager payload: {error}") from error
    if word(payload.version) != VERSION:
        got = plain(word(payload.version), 20) or "nothing"
        raise Unreadable(f"version: only {VERSION} is understood, got {got}")
    found: list[AlertRaised] = []
    refused: list[str] = []
    now = datetime.now(UTC)
    for number, raw in enumerate(payload.alerts):
        try:
            found.append(_raised(_alerts.decode(raw), payload.status, now))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            refused.append(f"alerts[{number}]: {plain(str(error), SHORT)}")
    if refused and not found:
        raise Unreadable("no alert could be read: " + "; ".join(refused[:SAID]))
    return Read(
        alerts=tuple(found), refused=tuple(refused), left_out=max(0, payload.truncated_alerts)
    )


def _raised(alert: _Alert, status: str, now: datetime) -> AlertRaised:
    labels = labels_of(alert.labels)
    notes = {plain(name, SHORT): word(value) for name, value in alert.annotations.items()}
    name = word(alert.labels.get("alertname"))
    title = plain(notes.get("summary") or name or notes.get("description", ""), TITLE)
    return AlertRaised(
        run="watch",
        at=now,
        source="alertmanager",
        fingerprint=plain(alert.fingerprint, SHORT) or digest(labels=labels),
        title=title or "an alert without a name",
        text=_text(notes, alert.generator_url),
        labels=labels,
        severity=plain(word(alert.labels.get("severity")), SHORT),
        resolved=(alert.status or status) == "resolved",
        since=since(alert.starts_at, now),
    )


def _text(notes: Mapping[str, str], link: str) -> str:
    """The description, then what else was noted: a link to a runbook is worth having."""
    said = notes.get("description") or notes.get("message") or ""
    told = {"summary", "description", "message"}
    rest = [f"{name}: {plain(value, TEXT)}" for name, value in notes.items() if name not in told]
    if link:
        rest.append(f"source: {plain(link, TEXT)}")
    return prose("\n".join(filter(None, [prose(said, TEXT), *rest])), TEXT)


def since(given: Scalar, now: datetime) -> datetime | None:
    """When it began; None where that is not said, or is no date. Never in the future."""
    try:
        began = msgspec.convert(given, datetime, strict=True)
    except msgspec.ValidationError:
        return None
    began = began if began.tzinfo else began.replace(tzinfo=UTC)
    if began.year <= 1:  # Go's way of saying never
        return None
    return min(began.astimezone(UTC), now)
