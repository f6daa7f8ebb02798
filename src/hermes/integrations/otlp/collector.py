"""Sends encoded spans to the collector that the settings name."""

from collections.abc import Callable, Mapping

from hermes.core.errors import HermesError
from hermes.integrations.otlp.encoding import read_rejection
from hermes.plumbing.http_client import (
    HttpError,
    HttpLimits,
    TemporaryHttpError,
    send_http_request,
)

LIMITS = HttpLimits(timeout_s=10.0, total_timeout_s=30.0, max_answer_bytes=64 * 1024)
RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
MAX_ERROR_CHARS = 200


class CollectorUnavailable(HermesError):
    """The collector takes nothing now; it may the next time."""


class CollectorRefused(HermesError):
    """The collector will never take these spans."""


async def send_to_collector(
    address: str, headers: Mapping[str, str], body: bytes, redact: Callable[[str], str]
) -> str:
    """Return what the collector did not accept. Raises `CollectorUnavailable` and
    `CollectorRefused`."""
    try:
        answer = await send_http_request("POST", address, LIMITS, headers=dict(headers), body=body)
    except TemporaryHttpError as error:
        raise CollectorUnavailable(f"{address}: {error}") from error
    except HttpError as error:
        raise CollectorRefused(f"{address}: {error}") from error
    if 200 <= answer.status < 300:
        return read_rejection(answer.body)
    text = f"{address} answers {answer.status}: {redact(answer.error_text)[:MAX_ERROR_CHARS]}"
    if answer.status in RETRIED_STATUSES:
        raise CollectorUnavailable(text)
    raise CollectorRefused(text)
