"""Turns error responses of providers into our errors, with the delay that a provider asks for."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from hermes.core.errors import (
    ContextTooLong,
    InvalidApiKey,
    MalformedReply,
    ModelError,
    ModelTimedOut,
    OutOfCredit,
    PicturesRejected,
    ProviderOverloaded,
    RateLimited,
    RequestRejected,
)
from hermes.core.messages import Value
from hermes.models.catalog import model_references
from hermes.plumbing.patterns import lazy_pattern
from hermes.plumbing.problems import closest_name
from hermes.plumbing.units import parse_duration

_RESET_HEADERS = ("x-ratelimit-reset", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")


def requested_retry_delay(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds, or None when the response has no delay. Header names are lower case."""
    now = now or datetime.now(UTC)
    if (milliseconds := _parse_number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if after := headers.get("retry-after", ""):
        return _parse_delay(after, now)
    resets = [_parse_delay(headers[name], now) for name in _RESET_HEADERS if headers.get(name)]
    known = [wait for wait in resets if wait is not None]
    return max(known) if known else None


def _parse_delay(text: str, now: datetime) -> float | None:
    """`text` may be seconds, a duration (6m0s), an epoch in s or ms, or a date."""
    text = text.strip()
    if (number := _parse_number(text)) is not None:
        if number > 1e11:
            number /= 1000
        return max(0.0, number - now.timestamp()) if number > 1e9 else max(0.0, number)
    try:
        return parse_duration(text)
    except ValueError:
        return _delay_until_date(text, now)


def _delay_until_date(text: str, now: datetime) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            then = read(text)
        except ValueError:
            continue
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - now).total_seconds())
    return None


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_TOO_LONG = lazy_pattern(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|request_too_large"
    r"|maximum context length|context (length|window|size) (is |was |limit )?exceeded"
    r"|exceeds? the (available |model'?s? |maximum )*(context|input length)"
    r"|exceeds? (the )?context (limit|window|length)|prompt is too long|input is too long"
    r"|too many (input )?tokens|longer than the (maximum )?(model|context)"
    r"|reduce the length of the (messages|prompt)|larger than the max.{0,20}context"
    r"|input (token count|length).{0,60}exceeds?|max_model_len|maximum prompt length"
    r"|exceed(ed|s)? (the )?model token limit|context window exceeds",
    re.IGNORECASE,
)
_PICTURES = lazy_pattern(
    r"image[^.]{0,80}(too (large|big|many)|exceed|at most|maximum|invalid|unsupported)"
    r"|image[^.]{0,80}not supported"
    r"|(too many|invalid|unsupported|at most \d+) images?|could not process (the |this )?image"
    r"|unable to (process|download|decode) (the |this )?(input )?image"
    r"|(not|n't|no endpoints found that) support (for )?(image|vision|multimodal|picture)"
    r"|image_(too_large|parse_error)|(invalid|unsupported)_image|not a (vision|multimodal) model",
    re.IGNORECASE,
)
_NO_CREDIT = lazy_pattern(
    r"insufficient_quota|billing_error|insufficient (credits?|balance|funds)|credit balance"
    r"|exceeded your current quota|out of credits?|payment required|billing_hard_limit",
    re.IGNORECASE,
)
_BAD_KEY = lazy_pattern(
    r"authentication_error|invalid_api_key|(incorrect|invalid|expired|missing) api[ _-]?key"
    r"|api key not valid|no auth credentials|invalid x-api-key",
    re.IGNORECASE,
)
_FORBIDDEN_TEXT = lazy_pattern(
    r"moderation|flagged|not available in your|unsupported_country", re.I
)
_RATE_LIMIT = lazy_pattern(r"rate_?limit|too many requests|throttl", re.IGNORECASE)
_SECRET = lazy_pattern(r"\b(sk-|key-|Bearer\s+)[A-Za-z0-9_\-.]{8,}")


class ProviderEndpoint(Value, frozen=True, kw_only=True):
    """The provider and address that an error message names."""

    title: str
    reference: str = ""
    url: str = ""
    key_variable: str = ""
    hint: str = ""
    secrets: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "[key]")
        return _SECRET.sub("[key]", text)


def error_from_response(
    endpoint: ProviderEndpoint, status: int, headers: Mapping[str, str], body: bytes
) -> ModelError:
    """The error for an HTTP status that is not a success."""
    kind, detail = _read_error_body(body)
    what = f"{endpoint.title} answered {status}" + (
        f": {endpoint.redact(detail)}" if detail else ""
    )
    return _build_error(
        _error_type(status, f"{kind} {detail}"), endpoint, what, requested_retry_delay(headers)
    )


def error_from_payload(endpoint: ProviderEndpoint, error: Any) -> ModelError:
    """The error inside an answer that had begun with a success."""
    kind, detail = _describe_error(error)
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    reason = endpoint.redact(detail or kind or "no reason given")
    what = f"{endpoint.title} broke off with an error: {reason}"
    return _build_error(
        _error_type(status, f"{kind} {detail}"), endpoint, what, _retry_delay_in(error)
    )


def malformed_reply(endpoint: ProviderEndpoint, what: str, sample: bytes = b"") -> MalformedReply:
    shown = endpoint.redact(sample[:200].decode("utf-8", "replace")).strip()
    return MalformedReply(f"{endpoint.title} {what}" + (f": {shown!r}" if shown else ""))


def missing_key_error(endpoint: ProviderEndpoint) -> InvalidApiKey:
    return InvalidApiKey(
        f"there is no key for {endpoint.title}: set {endpoint.key_variable} or run `hermes setup`"
    )


def unusable_key_error(endpoint: ProviderEndpoint) -> InvalidApiKey:
    return InvalidApiKey(
        f"the key in {endpoint.key_variable or 'the settings'} holds characters that no key has "
        "(a line break?); set it again, or run `hermes setup`"
    )


def _error_type(status: int, text: str) -> type[ModelError]:
    if status == 403 and _FORBIDDEN_TEXT.search(text):
        return RequestRejected
    if status in (401, 403):
        return InvalidApiKey
    if status in (400, 404, 413, 415, 422) and _PICTURES.search(text):
        return PicturesRejected
    if status not in (402, 429) and _TOO_LONG.search(text):
        return ContextTooLong
    if _NO_CREDIT.search(text):
        return OutOfCredit
    if status in (400, 500) and _BAD_KEY.search(text):
        return InvalidApiKey
    if status >= 500 and _RATE_LIMIT.search(text):
        return RateLimited
    plain: dict[int, type[ModelError]] = {
        402: OutOfCredit,
        408: ModelTimedOut,
        413: ContextTooLong,
        429: RateLimited,
    }
    return plain.get(status, ProviderOverloaded if status >= 500 else RequestRejected)


def _build_error(
    kind: type[ModelError], endpoint: ProviderEndpoint, what: str, wait: float | None
) -> ModelError:
    if kind is RateLimited:
        return RateLimited(what, wait=wait)
    if kind is InvalidApiKey:
        variable = endpoint.key_variable or "the key"
        return InvalidApiKey(f"{what}. Check {variable}, or run `hermes setup`.")
    if kind is OutOfCredit:
        return OutOfCredit(
            f"{what}. The account behind {endpoint.key_variable or 'it'} must be paid."
        )
    if kind is RequestRejected:
        return RequestRejected(what + _advice(endpoint, what))
    return kind(what)


def _advice(endpoint: ProviderEndpoint, what: str) -> str:
    if "answered 404" in what or re.search(r"model.{0,40}(not|unknown|invalid)", what, re.I):
        known = model_references()
        guess = "" if endpoint.reference in known else closest_name(endpoint.reference, known)
        meant = f" Did you mean {guess}?" if guess else ""
        name, url = endpoint.reference, endpoint.url
        return f". Is the model's name right ({name}), and the address {url}?{meant}"
    if re.search(r"answered 3\d\d", what):
        return (
            f". {endpoint.url} points elsewhere: set the base_url of the provider to where it went."
        )
    return ""


def _read_error_body(body: bytes) -> tuple[str, str]:
    if body.lstrip()[:1] == b"<":
        return "", "a web page instead of an answer (a proxy, or a wrong address?)"
    try:
        return _describe_error(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", body[:300].decode("utf-8", "replace").strip()


def _describe_error(error: Any) -> tuple[str, str]:
    """Kind and text of an error object, whatever its nesting."""
    if isinstance(error, list) and error:
        error = error[0]
    if not isinstance(error, dict):
        return "", str(error or "")[:500]
    if inner := error.get("error") or error.get("detail"):
        return _describe_error(inner)
    kind = " ".join(str(error[name]) for name in ("type", "code") if error.get(name))
    text = str(error.get("message") or "")
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        text = f"{text} ({raw})"  # OpenRouter puts the text of the provider behind it here
    return kind, text[:500]


def _retry_delay_in(error: Any) -> float | None:
    metadata = error.get("metadata") if isinstance(error, dict) else None
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    if not isinstance(headers, dict):
        return None
    return requested_retry_delay({str(name).lower(): str(value) for name, value in headers.items()})
