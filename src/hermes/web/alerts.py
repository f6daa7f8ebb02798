"""Parses alerts of Alertmanager (webhook version 4) and of a generic webhook, and records them.

An invalid alert does not affect the others in the payload. A missing date or fingerprint does not
make an alert invalid.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Literal, Protocol, runtime_checkable

import msgspec

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import (
    MAX_FIELD_CHARS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    LabelValue,
    alert_fingerprint,
    clean_labels,
    clean_line,
    clean_text,
    scalar_text,
)
from hermes.core.messages import Value
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest
from hermes.web.metrics import AlertMetrics

ALERTMANAGER_VERSION = "4"
MAX_LISTED_PROBLEMS = 20


class AlertPayloadInvalid(Exception):
    """The payload contains no usable alert; the text says why."""


class ParsedAlerts(Value, kw_only=True, frozen=True):
    alerts: tuple[AlertRaised, ...] = ()
    rejected: tuple[str, ...] = ()
    truncated_count: int = 0
    """Alerts that Alertmanager left out because of its `max_alerts`."""


class _AlertmanagerPayload(msgspec.Struct, rename="camel"):
    alerts: list[msgspec.Raw]
    version: LabelValue = ""
    status: str = "firing"
    truncated_alerts: int = 0


class _AlertmanagerAlert(msgspec.Struct, rename="camel"):
    labels: dict[str, LabelValue]
    status: Literal["firing", "resolved"] | None = None
    annotations: dict[str, LabelValue] = {}
    starts_at: LabelValue = ""
    fingerprint: str = ""
    generator_url: str = msgspec.field(default="", name="generatorURL")


_alertmanager_payload_decoder = msgspec.json.Decoder(_AlertmanagerPayload)
_alertmanager_alert_decoder = msgspec.json.Decoder(_AlertmanagerAlert)


def parse_alertmanager(body: bytes) -> ParsedAlerts:
    """Raises `AlertPayloadInvalid` when no alert can be used."""
    try:
        payload = _alertmanager_payload_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AlertPayloadInvalid(f"not an Alertmanager payload: {error}") from error
    if scalar_text(payload.version) != ALERTMANAGER_VERSION:
        got = clean_line(scalar_text(payload.version), 20) or "nothing"
        raise AlertPayloadInvalid(f"version: only {ALERTMANAGER_VERSION} is understood, got {got}")
    found: list[AlertRaised] = []
    rejected: list[str] = []
    now = datetime.now(UTC)
    for number, raw in enumerate(payload.alerts):
        try:
            found.append(_alert_event(_alertmanager_alert_decoder.decode(raw), payload.status, now))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            rejected.append(f"alerts[{number}]: {clean_line(str(error), MAX_FIELD_CHARS)}")
    if rejected and not found:
        raise AlertPayloadInvalid(
            "no alert could be read: " + "; ".join(rejected[:MAX_LISTED_PROBLEMS])
        )
    return ParsedAlerts(
        alerts=tuple(found),
        rejected=tuple(rejected),
        truncated_count=max(0, payload.truncated_alerts),
    )


def _alert_event(alert: _AlertmanagerAlert, status: str, now: datetime) -> AlertRaised:
    labels = clean_labels(alert.labels)
    notes = {
        clean_line(name, MAX_FIELD_CHARS): scalar_text(value)
        for name, value in alert.annotations.items()
    }
    name = scalar_text(alert.labels.get("alertname"))
    title = clean_line(
        notes.get("summary") or name or notes.get("description", ""), MAX_TITLE_CHARS
    )
    return AlertRaised(
        run="watch",
        at=now,
        source="alertmanager",
        fingerprint=clean_line(alert.fingerprint, MAX_FIELD_CHARS)
        or alert_fingerprint(labels=labels),
        title=title or "an alert without a name",
        text=_alert_text(notes, alert.generator_url),
        labels=labels,
        severity=clean_line(scalar_text(alert.labels.get("severity")), MAX_FIELD_CHARS),
        resolved=(alert.status or status) == "resolved",
        since=parse_start_time(alert.starts_at, now),
    )


def _alert_text(notes: Mapping[str, str], link: str) -> str:
    """The description, then the other annotations, for example a link to a runbook."""
    description = notes.get("description") or notes.get("message") or ""
    shown_names = {"summary", "description", "message"}
    rest = [
        f"{name}: {clean_line(value, MAX_TEXT_CHARS)}"
        for name, value in notes.items()
        if name not in shown_names
    ]
    if link:
        rest.append(f"source: {clean_line(link, MAX_TEXT_CHARS)}")
    return clean_text(
        "\n".join(filter(None, [clean_text(description, MAX_TEXT_CHARS), *rest])), MAX_TEXT_CHARS
    )


def parse_start_time(value: LabelValue, now: datetime) -> datetime | None:
    """Return the start time, never in the future; None when it is missing or invalid."""
    try:
        started = msgspec.convert(value, datetime, strict=True)
    except msgspec.ValidationError:
        return None
    started = started if started.tzinfo else started.replace(tzinfo=UTC)
    if started.year <= 1:  # the zero time of Go
        return None
    return min(started.astimezone(UTC), now)


class _GenericAlert(msgspec.Struct):
    title: str
    text: str = ""
    labels: dict[str, LabelValue] = {}
    severity: str = ""
    fingerprint: str = ""
    resolved: bool = False
    since: LabelValue = ""


_generic_alert_decoder = msgspec.json.Decoder(_GenericAlert)


def parse_generic_alert(body: bytes) -> AlertRaised:
    """Raises `AlertPayloadInvalid` with what is wrong."""
    try:
        alert = _generic_alert_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AlertPayloadInvalid(f"not an alert: {error}") from error
    title = clean_line(alert.title, MAX_TITLE_CHARS)
    if not title:
        raise AlertPayloadInvalid("not an alert: title must not be empty")
    labels, now = clean_labels(alert.labels), datetime.now(UTC)
    return AlertRaised(
        run="watch",
        at=now,
        source="webhook",
        fingerprint=clean_line(alert.fingerprint, MAX_FIELD_CHARS)
        or alert_fingerprint(title, labels=labels),
        title=title,
        text=clean_text(alert.text, MAX_TEXT_CHARS),
        labels=labels,
        severity=clean_line(alert.severity, MAX_FIELD_CHARS),
        resolved=alert.resolved,
        since=parse_start_time(alert.since, now),
    )


MAX_ALERTS_PER_APPEND = 500
"""A large payload is written in parts, so that it does not delay other writers."""


@runtime_checkable
class BufferingJournal(Protocol):
    """A journal that buffers events in memory while it cannot be written."""

    @property
    def outage(self) -> object | None: ...


class JournalFailure(Value, kw_only=True, frozen=True):
    """The journal rejected an alert and has recorded nothing since."""

    at: datetime
    last_position: int | None = None
    """The last event at the first check after the failure; a later event ends the failure."""


class AlertIntake:
    def __init__(self, bus: Bus, metrics: AlertMetrics) -> None:
        self._bus = bus
        self._metrics = metrics
        self._failure: JournalFailure | None = None

    async def receive_alertmanager(self, request: HttpRequest) -> HttpReply:
        return await self._receive(lambda: parse_alertmanager(request.body))

    async def receive_generic(self, request: HttpRequest) -> HttpReply:
        return await self._receive(
            lambda: ParsedAlerts(alerts=(parse_generic_alert(request.body),))
        )

    def current_failure(self, last_position: int) -> JournalFailure | None:
        """Return the failure; any later event shows that the journal can be written again."""
        failure = self._failure
        if failure is None:
            return None
        if failure.last_position is None:
            self._failure = JournalFailure(at=failure.at, last_position=last_position)
        elif last_position > failure.last_position:
            self._failure = None
        return self._failure

    async def _receive(self, read: Callable[[], ParsedAlerts]) -> HttpReply:
        started = time.monotonic()
        try:
            found = read()
        except AlertPayloadInvalid as error:
            self._metrics.count_rejected("malformed")
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, str(error)) from error
        try:
            for first in range(0, len(found.alerts), MAX_ALERTS_PER_APPEND):
                await self._bus.publish(*found.alerts[first : first + MAX_ALERTS_PER_APPEND])
        except StoreError as error:
            self._metrics.count_rejected("store", len(found.alerts))
            self._failure = JournalFailure(at=datetime.now(UTC))
            message = f"not recorded, send it again: {error}"
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, retry_after="5") from error
        if found.alerts:
            self._failure = None
        self._metrics.observe_latency(time.monotonic() - started)
        self._count(found)
        journal = self._bus.journal
        buffered = isinstance(journal, BufferingJournal) and journal.outage is not None
        data = {
            "accepted": len(found.alerts),
            "refused": found.rejected[:MAX_LISTED_PROBLEMS],
            **({"stored": False} if buffered else {}),
        }
        status = HTTPStatus.ACCEPTED if buffered else HTTPStatus.OK
        return HttpReply(status=status, body=msgspec.json.encode(data))

    def _count(self, found: ParsedAlerts) -> None:
        for alert in found.alerts:
            self._metrics.count_alert(alert.source, resolved=alert.resolved)
        if found.rejected:
            self._metrics.count_rejected("malformed", len(found.rejected))
        self._metrics.count_truncated(found.truncated_count)
