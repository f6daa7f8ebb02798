"""Queries a Prometheus server over HTTP, with limits on time and size."""

import base64
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import anyio
import anyio.to_thread
import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value

READ_CHUNK_BYTES = 65_536
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
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._headers = {"User-Agent": "hermes-sre"} | _authorization(user, secret)
        # Threads that wait for a slow answer cannot be stopped; the limit keeps them few.
        self._threads = anyio.CapacityLimiter(4)

    async def query(self, promql: str) -> list[MetricSeries]:
        """Raises `PrometheusUnavailable` and `PrometheusQueryError`."""
        form = {"query": promql, "timeout": f"{self._timeout:g}s"}
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
        work = partial(self._fetch, path, form)
        try:
            with anyio.fail_after(self._timeout + 0.5):
                status, body = await anyio.to_thread.run_sync(
                    work, abandon_on_cancel=True, limiter=self._threads
                )
        except TimeoutError:
            raise PrometheusUnavailable(f"no answer within {self._timeout:g} seconds") from None
        reply = _decode_reply(status, body)
        if reply.status == "success":
            return reply.data
        if status in {400, 422}:
            raise PrometheusQueryError(reply.error or f"status {status}")
        raise PrometheusUnavailable(f"it answers {status}: {reply.error[:300]}")

    def _fetch(self, path: str, form: bytes | None) -> tuple[int, bytes]:
        # Proxies of the environment are ignored: only the configured address is used.
        opener = build_opener(ProxyHandler({}), _RefuseRedirects())
        request = Request(self._url + path, data=form, headers=self._headers)
        deadline = time.monotonic() + self._timeout
        try:
            with opener.open(request, timeout=self._timeout) as reply:
                return reply.status, self._drain(reply.read1, deadline)
        except HTTPError as error:
            with error:
                return error.code, self._drain(error.read, deadline)
        except (URLError, OSError, ValueError) as error:
            raise PrometheusUnavailable(str(getattr(error, "reason", error))) from error

    def _drain(self, read: Callable[[int], bytes], deadline: float) -> bytes:
        body = bytearray()
        while chunk := read(READ_CHUNK_BYTES):
            body += chunk
            if len(body) > self._max_bytes:
                raise PrometheusQueryError(
                    f"the answer has more than {self._max_bytes:,} bytes; narrow it down"
                )
            if time.monotonic() > deadline:
                raise PrometheusUnavailable(f"no whole answer within {self._timeout:g} seconds")
        return bytes(body)


class _RefuseRedirects(HTTPRedirectHandler):
    """Redirects are refused: the token is only for the configured address."""

    def redirect_request(self, *args: Any) -> Request | None:
        args[1].close()
        raise PrometheusUnavailable(
            f"it sends us on to {args[5]}: not followed; set that as the url"
        )


def _authorization(user: str, secret: str) -> dict[str, str]:
    if user:
        pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _decode_reply(status: int, body: bytes) -> _PrometheusReply:
    try:
        return msgspec.json.decode(body, type=_PrometheusReply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise PrometheusUnavailable(f"it answers {status}, and not as a Prometheus does") from None


def _decode(data: msgspec.Raw, kind: type[DecodedT]) -> DecodedT:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PrometheusUnavailable(f"its answer cannot be read: {error}") from error
