"""Reads what Alertmanager sends to a webhook (version 4), alert by alert.

One that cannot be read does not take the others along. What can be understood is kept: a missing
date or fingerprint is no reason to lose an alert.
"""

import time
from collections.abc import Callable, Mapping, Sequence
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
from hermes.web.http_server import WebRequest, WebResponse, error_response
from hermes.web.metrics import AlertMetrics

ALERTMANAGER_VERSION = "4"
MAX_LISTED_PROBLEMS = 20
"""Complaints that one answer lists."""


class AlertPayloadInvalid(Exception):
    """Nothing of it can be used; the text says why."""


class ParsedAlerts(Value, kw_only=True, frozen=True):
    alerts: tuple[AlertRaised, ...] = ()
    refused: tuple[str, ...] = ()
    left_out: int = 0
    """Alerts that Alertmanager itself left out, by its `max_alerts`."""


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
    """Raises `AlertPayloadInvalid` when there is nothing to keep."""
    try:
        payload = _alertmanager_payload_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AlertPayloadInvalid(f"not an Alertmanager payload: {error}") from error
    if scalar_text(payload.version) != ALERTMANAGER_VERSION:
        got = clean_line(scalar_text(payload.version), 20) or "nothing"
        raise AlertPayloadInvalid(f"version: only {ALERTMANAGER_VERSION} is understood, got {got}")
    found: list[AlertRaised] = []
    refused: list[str] = []
    now = datetime.now(UTC)
    for number, raw in enumerate(payload.alerts):
        try:
            found.append(_alert_event(_alertmanager_alert_decoder.decode(raw), payload.status, now))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            refused.append(f"alerts[{number}]: {clean_line(str(error), MAX_FIELD_CHARS)}")
    if refused and not found:
        raise AlertPayloadInvalid(
            "no alert could be read: " + "; ".join(refused[:MAX_LISTED_PROBLEMS])
        )
    return ParsedAlerts(
        alerts=tuple(found), refused=tuple(refused), left_out=max(0, payload.truncated_alerts)
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
    """The description, then what else was noted: a link to a runbook is worth having."""
    said = notes.get("description") or notes.get("message") or ""
    told = {"summary", "description", "message"}
    rest = [
        f"{name}: {clean_line(value, MAX_TEXT_CHARS)}"
        for name, value in notes.items()
        if name not in told
    ]
    if link:
        rest.append(f"source: {clean_line(link, MAX_TEXT_CHARS)}")
    return clean_text(
        "\n".join(filter(None, [clean_text(said, MAX_TEXT_CHARS), *rest])), MAX_TEXT_CHARS
    )


def parse_start_time(given: LabelValue, now: datetime) -> datetime | None:
    """When it began; None where that is not said, or is no date. Never in the future."""
    try:
        began = msgspec.convert(given, datetime, strict=True)
    except msgspec.ValidationError:
        return None
    began = began if began.tzinfo else began.replace(tzinfo=UTC)
    if began.year <= 1:  # Go's way of saying never
        return None
    return min(began.astimezone(UTC), now)


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
"""Alerts of one append: a giant payload must not hold up everybody else's."""


@runtime_checkable
class BufferingJournal(Protocol):
    """A journal that goes on in memory: what it took is acted upon, and not yet stored."""

    @property
    def outage(self) -> object | None: ...


class JournalFailure(Value, kw_only=True, frozen=True):
    """The journal refused an alert, and took nothing since."""

    at: datetime
    newest: int | None = None
    """The last event as of the first look after that; a later one is the all-clear."""


class AlertIntake:
    def __init__(self, bus: Bus, metrics: AlertMetrics) -> None:
        self._bus = bus
        self._tally = metrics
        self._trouble: JournalFailure | None = None

    async def receive_alertmanager(self, request: WebRequest) -> WebResponse:
        return await self._receive(lambda: parse_alertmanager(request.body))

    async def receive_generic(self, request: WebRequest) -> WebResponse:
        return await self._receive(
            lambda: ParsedAlerts(alerts=(parse_generic_alert(request.body),))
        )

    def current_failure(self, newest: int) -> JournalFailure | None:
        """Anybody's later event shows that the journal can be written again."""
        trouble = self._trouble
        if trouble is not None and trouble.newest is None:
            self._trouble = JournalFailure(at=trouble.at, newest=newest)
        elif trouble is not None and trouble.newest is not None and newest > trouble.newest:
            self._trouble = None
        return self._trouble

    async def _receive(self, read: Callable[[], ParsedAlerts]) -> WebResponse:
        began = time.monotonic()
        try:
            found = read()
        except AlertPayloadInvalid as error:
            self._tally.count_rejected("malformed")
            return error_response(HTTPStatus.BAD_REQUEST, str(error))
        try:
            await self._publish(found.alerts)
        except StoreError as error:
            self._tally.count_rejected("store", len(found.alerts))
            self._trouble = JournalFailure(at=datetime.now(UTC))
            words = f"not kept, send it again: {error}"
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, words, ("retry-after", "5"))
        if found.alerts:
            self._trouble = None
        self._tally.observe_latency(time.monotonic() - began)
        self._count(found)
        journal = self._bus.journal
        held = isinstance(journal, BufferingJournal) and journal.outage is not None
        told = {
            "accepted": len(found.alerts),
            "refused": found.refused[:MAX_LISTED_PROBLEMS],
            **({"stored": False} if held else {}),
        }
        status = HTTPStatus.ACCEPTED if held else HTTPStatus.OK
        return WebResponse(status=status, body=msgspec.json.encode(told))

    async def _publish(self, alerts: Sequence[AlertRaised]) -> None:
        for first in range(0, len(alerts), MAX_ALERTS_PER_APPEND):
            await self._bus.publish(*alerts[first : first + MAX_ALERTS_PER_APPEND])

    def _count(self, found: ParsedAlerts) -> None:
        for alert in found.alerts:
            self._tally.count_alert(alert.source, resolved=alert.resolved)
        if found.refused:
            self._tally.count_rejected("malformed", len(found.refused))
        self._tally.count_truncated(found.left_out)
