"""Writes spans as OTLP/JSON, and reads what a collector answers."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from hermes.integrations.otlp.spans import AttributeValue, Span, SpanPoint

SCOPE = "hermes"
MAX_VALUE_CHARS = 1_000
STATUS_UNSET, STATUS_ERROR = 0, 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def encode_spans(
    spans: Sequence[Span],
    resource: dict[str, AttributeValue],
    *,
    version: str,
    redact: Callable[[str], str] = str,
) -> bytes:
    """The body of a request to `/v1/traces`. Every text goes through `redact`, and is cut."""

    def clean(text: str) -> str:
        return redact(text)[:MAX_VALUE_CHARS]

    scope = {"name": SCOPE, "version": version}
    scoped = {"scope": scope, "spans": [_span(each, clean) for each in spans]}
    held = {"resource": {"attributes": _attributes(resource, clean)}, "scopeSpans": [scoped]}
    return msgspec.json.encode({"resourceSpans": [held]})


def read_rejection(body: bytes) -> str:
    """Return what a collector did not accept of a request that it answered with success; mostly
    empty."""
    try:
        partial = msgspec.json.decode(body or b"{}").get("partialSuccess") or {}
        count = int(partial.get("rejectedSpans") or 0)
    except (msgspec.DecodeError, AttributeError, ValueError, TypeError):
        return ""
    return f"{count} spans were rejected: {partial.get('errorMessage', '')}" if count else ""


def _span(span: Span, clean: Callable[[str], str]) -> dict[str, Any]:
    status: dict[str, Any] = {"code": STATUS_UNSET}
    if span.error:
        status = {"code": STATUS_ERROR, "message": clean(span.error)}
    found: dict[str, Any] = {
        "traceId": span.trace,
        "spanId": span.id,
        "name": clean(span.name),
        "kind": span.kind,
        "startTimeUnixNano": _nanoseconds(span.began),
        "endTimeUnixNano": _nanoseconds(max(span.began, span.ended)),
        "attributes": _attributes(span.attributes, clean),
        "events": [_point(each, clean) for each in span.points],
        "status": status,
    }
    if span.parent:
        found["parentSpanId"] = span.parent
    return found


def _point(point: SpanPoint, clean: Callable[[str], str]) -> dict[str, Any]:
    attributes = _attributes(point.attributes, clean)
    return {"name": point.name, "timeUnixNano": _nanoseconds(point.at), "attributes": attributes}


def _attributes(
    values: dict[str, AttributeValue], clean: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Without those that are empty."""
    return [
        {"key": key, "value": _value(value, clean)} for key, value in values.items() if value != ""
    ]


def _value(value: AttributeValue, clean: Callable[[str], str]) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": clean(value)}


def _nanoseconds(at: datetime) -> str:
    """Exact: a float of seconds since 1970 has no nanoseconds."""
    passed = at - _EPOCH
    micros = (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    return str(micros * 1_000)
