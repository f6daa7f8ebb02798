"""How long a provider asks us to wait, in the many ways it may say so."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RESETS = ("x-ratelimit-reset", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")


def asked_wait(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds, or None when the answer does not say. Header names are lower case."""
    now = now or datetime.now(UTC)
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    if after := headers.get("retry-after", ""):
        return _moment(after, now)
    resets = [_moment(headers[name], now) for name in _RESETS if headers.get(name)]
    known = [wait for wait in resets if wait is not None]
    return max(known) if known else None


def _moment(text: str, now: datetime) -> float | None:
    """`text` may be seconds, a duration (6m0s), an epoch in s or ms, or a date."""
    text = text.strip()
    if (number := _number(text)) is not None:
        if number > 1e11:
            number /= 1000
        return max(0.0, number - now.timestamp()) if number > 1e9 else max(0.0, number)
    if (parts := _DURATION.findall(text)) and not _DURATION.sub("", text):
        return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    return _until(text, now)


def _until(text: str, now: datetime) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            then = read(text)
        except ValueError:
            continue
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - now).total_seconds())
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
