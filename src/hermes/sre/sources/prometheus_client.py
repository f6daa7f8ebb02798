"""Queries a Prometheus server over HTTP, with limits on time and size."""

import base64
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.plumbing.http_client import (
    HttpAnswer,
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    HttpTimedOut,
    send_http_request,
)

FORM_CONTENT_TYPE = "application/x-www-form-urlencoded"
DecodedT = TypeVar("DecodedT")


class PrometheusUnavailable(Exception):
    """Prometheus gave no usable answer; it may the next time."""


class PrometheusQueryError(Exception):
    """Prometheus refused the query; a person must correct it."""


class MetricSeries(Value, frozen=True):
    labels: dict[str, str]
    value: str


class PrometheusAlert(Value, rename="camel", frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    state: str = ""
    active_at: datetime | None = None
    value: str = ""


class _PrometheusReply(msgspec.Struct, rename="camel"):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _MetricPoint(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _QueryResult(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _AlertsReply(msgspec.Struct):
    alerts: list[PrometheusAlert]


class PrometheusClient:
    def __init__(
        self, url: str, *, timeout: float, max_bytes: int, user: str = "", secret: str = ""
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise SettingsError(f"sre.prometheus.url: {url!r} is no http:// or https:// address")
        self._url = url.rstrip("/")
        self._limits = HttpLimits(
            timeout_s=timeout, total_timeout_s=timeout, max_answer_bytes=max_bytes
        )
        self._headers = {"User-Agent": "hermes-sre"} | _authorization(user, secret)

    async def query(self, promql: str) -> list[MetricSeries]:
        """Raises `PrometheusUnavailable` and `PrometheusQueryError`."""
        form = {"query": promql, "timeout": f"{self._limits.timeout_s:g}s"}
        data = await self._ask("/api/v1/query", urlencode(form).encode())
        found = _decode(data, _QueryResult)
        if found.result_type != "vector":
            kind = found.result_type
            raise PrometheusQueryError(
                f"gives a {kind}, not series; write a filter such as `up == 0`"
            )
        points = _decode(found.result, list[_MetricPoint])
        return [MetricSeries(point.metric, point.value[1]) for point in points]

    async def alerts(self) -> list[PrometheusAlert]:
        """Alerts that fire. Raises `PrometheusUnavailable` and `PrometheusQueryError`."""
        found = _decode(await self._ask("/api/v1/alerts", None), _AlertsReply)
        return [alert for alert in found.alerts if alert.state == "firing"]

    async def _ask(self, path: str, form: bytes | None) -> msgspec.Raw:
        answer = await self._fetch(path, form)
        reply = _decode_reply(answer)
        if reply.status == "success":
            return reply.data
        if answer.status in {400, 422}:
            raise PrometheusQueryError(reply.error or f"status {answer.status}")
        raise PrometheusUnavailable(f"it answers {answer.status}: {reply.error[:300]}")

    async def _fetch(self, path: str, form: bytes | None) -> HttpAnswer:
        """Proxies and redirects are ignored: the token is only for the configured address."""
        method, headers = "GET", self._headers
        if form is not None:
            method, headers = "POST", headers | {"Content-Type": FORM_CONTENT_TYPE}
        try:
            answer = await send_http_request(
                method, self._url + path, self._limits, headers=headers, body=form, proxies=False
            )
        except HttpAnswerTooLarge as error:
            raise PrometheusQueryError(f"{error}; narrow it down") from error
        except HttpTimedOut as error:
            message = f"no whole answer within {self._limits.timeout_s:g} seconds"
            raise PrometheusUnavailable(message) from error
        except HttpError as error:
            raise PrometheusUnavailable(str(error)) from error
        if answer.location:
            raise PrometheusUnavailable(
                f"it sends us on to {answer.location}: not followed; set that as the url"
            )
        return answer


def _authorization(user: str, secret: str) -> dict[str, str]:
    if user:
        pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _decode_reply(answer: HttpAnswer) -> _PrometheusReply:
    try:
        return msgspec.json.decode(answer.body, type=_PrometheusReply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = f"it answers {answer.status}, and not as a Prometheus does"
        raise PrometheusUnavailable(message) from None


def _decode(data: msgspec.Raw, kind: type[DecodedT]) -> DecodedT:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PrometheusUnavailable(f"its answer cannot be read: {error}") from error
