"""The web server: alerts, health and metrics, and the routes that it is given."""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.abc import TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import SettingsError, StoreError
from hermes.plumbing.http_server import HttpListenError, serve_http
from hermes.plumbing.http_service import (
    ErrorBody,
    HttpRefusal,
    HttpReply,
    HttpRequest,
    HttpRoute,
    HttpServerLimits,
    HttpService,
)
from hermes.web.alerts import AlertIntake
from hermes.web.metrics import METRICS_CONTENT_TYPE, AlertMetrics
from hermes.web.settings import WebSettings

if TYPE_CHECKING:
    import ssl


def read_credential(authorization: str) -> str:
    """A bearer token, or the password of basic authentication with any user name; else empty."""
    scheme, _, credential = authorization.strip().partition(" ")
    if scheme.lower() == "basic":
        try:
            credential = base64.b64decode(credential.strip(), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return ""
        credential = credential.partition(":")[2]
    elif scheme.lower() != "bearer":
        return ""
    return credential.strip()


def is_authorized(authorization: str, token: str) -> bool:
    # Constant time: the duration must not reveal how much of a guess was right.
    return hmac.compare_digest(read_credential(authorization).encode(), token.encode())


def check_exposure(listen: str, token: str, variable: str) -> None:
    """Raises `SettingsError`: alerts start an agent, so a reachable address needs a token."""
    if token or _is_loopback(listen):
        return
    raise SettingsError(
        f"web.listen is {listen}, which others can reach, and there is no token. "
        f"Set one (hermes config set {variable}) or listen on 127.0.0.1"
    )


def _is_loopback(listen: str) -> bool:
    try:
        return ipaddress.ip_address(listen).is_loopback
    except ValueError:
        return listen == "localhost"


JOURNAL_CHECK_TIMEOUT_S = 2.0
OPEN_PATHS = ("/healthz", "/readyz")
"""They need no token: load balancers and container managers have none."""


async def _no_activity() -> Mapping[str, float]:
    return {}


async def _no_rights(token: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class WatchStatus:
    """Functions that return the state of the watch."""

    open_incidents: Callable[[], Mapping[str, int]] = dict
    """Open incidents by severity."""
    heartbeat: Callable[[], datetime | None] = lambda: None
    """The last heartbeat; None without one."""
    gauges: Callable[[], Mapping[str, float]] = dict
    """Further metrics by name; `journal_writable` is 0 while the watch runs from memory."""
    activity: Callable[[], Awaitable[Mapping[str, float]]] = _no_activity
    """Metrics that are read from the journal. May raise `StoreError`."""
    token_rights: Callable[[str], Awaitable[Sequence[str]]] = _no_rights
    """The rights of a token of the API; none for an unknown one. May raise `StoreError`."""


class AlertListenError(SettingsError):
    """The address at which alerts are to be received cannot be used now."""


async def serve_alerts(
    bus: Bus,
    settings: WebSettings,
    *,
    token: str = "",
    watch: WatchStatus | None = None,
    api: Sequence[HttpRoute] = (),
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `await group.start(...)` returns its address once it listens.

    `api`: further routes, which check their callers themselves.
    `token` is the value of the secret that `settings.token_variable` names. Raises
    `SettingsError` when it may not or cannot listen there.
    """
    check_exposure(settings.listen, token, settings.token_variable)
    endpoints = AlertEndpoints(bus, settings, token, watch or WatchStatus())
    service = endpoints.service(settings, api)
    host = f"[{settings.listen}]" if ":" in settings.listen else settings.listen
    tls = _load_tls(settings) if settings.cert or settings.key else None
    scheme = "https" if tls else "http"

    def ready(port: int) -> None:
        task_status.started(f"{scheme}://{host}:{port}")

    try:
        await serve_http(service, settings.listen, settings.port, ready=ready, tls=tls)
    except HttpListenError as error:
        raise AlertListenError(
            f"cannot listen on {settings.listen} port {settings.port}: {error}. "
            "Another program has it, perhaps another watch. Choose another port, hermes config set "
            "web.port 8090, and start the watch again"
        ) from error


def _load_tls(settings: WebSettings) -> "ssl.SSLContext":
    """Raises `SettingsError`."""
    from hermes.plumbing.certificates import (  # noqa: PLC0415 - only with a certificate
        CertificateError,
        load_server_certificate,
    )

    try:
        return load_server_certificate(settings.cert, settings.key)
    except CertificateError as error:
        raise SettingsError(f"the certificate of web.cert and web.key: {error}") from error


class AlertEndpoints:
    def __init__(self, bus: Bus, settings: WebSettings, token: str, watch: WatchStatus) -> None:
        self._bus = bus
        self._token = token
        self._watch_status = watch
        self._max_silence_s = settings.silence
        self._streams = 0
        self._hosts = tuple(each.lower() for each in settings.hosts)
        self._alert_metrics = AlertMetrics()
        self._intake = AlertIntake(bus, self._alert_metrics)
        check = self._check_head
        self._routes = (
            HttpRoute(ALERTS_PATH, ("POST",), self._intake.receive_alertmanager, check),
            HttpRoute(f"{ALERTS_PATH}/generic", ("POST",), self._intake.receive_generic, check),
            HttpRoute("/healthz", ("GET",), self._health, check),
            HttpRoute("/readyz", ("GET",), self._readiness, check),
            HttpRoute("/metrics", ("GET",), self._metrics, check),
        )
        self._paths = {each.path for each in self._routes}

    def service(self, settings: WebSettings, api: Sequence[HttpRoute] = ()) -> HttpService:
        limits = HttpServerLimits(
            max_body_bytes=settings.largest,
            request_timeout_s=settings.patience,
            idle_timeout_s=settings.idle,
            max_connections=settings.connections,
        )
        return HttpService(
            routes=(*self._routes, *map(self._with_counted_streams, api)),
            limits=limits,
            record_response=self._record_response,
            render_error=render_error,
            size_hint="; with Alertmanager, set max_alerts",
        )

    def _with_counted_streams(self, route: HttpRoute) -> HttpRoute:
        async def respond(request: HttpRequest) -> HttpReply:
            reply = await route.respond(request)
            if reply.stream is None:
                return reply
            return replace(reply, stream=self._count_stream(reply.stream))

        return replace(route, respond=respond)

    async def _count_stream(self, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        self._streams += 1
        try:
            async for part in stream:
                yield part
        finally:
            self._streams -= 1
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _record_response(self, path: str, status: HTTPStatus) -> None:
        self._alert_metrics.count_response(path if path in self._paths else "other", status)
        refused = status >= HTTPStatus.BAD_REQUEST and status not in _STATUSES_COUNTED_BY_INTAKE
        if refused and path.startswith(ALERTS_PATH):
            self._alert_metrics.count_rejected(status.phrase.lower().replace(" ", "-"))

    async def _check_head(self, request: HttpRequest) -> None:
        # Browsers send an Origin with every POST. Without this check, any web page opened on this
        # host could raise alerts on the loopback address.
        if "origin" in request.headers:
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "not for browsers: the request has an Origin")
        if not self._token and not self._is_own_name(request.headers.get("host", "")):
            message = (
                "this address is not known by that name; use 127.0.0.1, or add it to web.hosts"
            )
            raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, message)
        open_to_all = not self._token or request.path in OPEN_PATHS
        authorization = request.headers.get("authorization", "")
        known = open_to_all or is_authorized(authorization, self._token)
        if not known and not await self._has_right(request):
            message = "the token is missing or wrong: send it as bearer token or as basic password"
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, message, www_authenticate="Bearer, Basic")
        if request.headers.get("content-encoding", "identity") != "identity":
            message = "send it without a content encoding"
            raise HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)

    async def _has_right(self, request: HttpRequest) -> bool:
        """Return whether a token of the API was sent that may do this."""
        credential = read_credential(request.headers.get("authorization", ""))
        needed = "alert" if request.method == "POST" else "read"
        with suppress(StoreError):
            return bool(credential) and needed in await self._watch_status.token_rights(credential)
        return False

    def _is_own_name(self, host: str) -> bool:
        """Return False for the name of a page that made it resolve to our address (DNS rebinding).

        A name without a dot is one of the local network: no outsider can own it.
        """
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return "." not in name or name in self._hosts or name.endswith(".localhost")
        return True

    async def _health(self, request: HttpRequest) -> HttpReply:
        problems = list(filter(None, (await self._store_problem(), self._watch_problem())))
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        heartbeat = self._watch_status.heartbeat()
        data = {"ok": not problems, "wrong": problems, "heartbeat": heartbeat}
        return HttpReply(status=status, body=msgspec.json.encode(data))

    async def _readiness(self, request: HttpRequest) -> HttpReply:
        """Say whether requests can be sent here now: what they report would be kept."""
        problems = list(filter(None, (await self._store_problem(),)))
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        data = {"ok": not problems, "wrong": problems}
        return HttpReply(status=status, body=msgspec.json.encode(data))

    async def _store_problem(self) -> str:
        """Empty without a problem. Anyone may read this text, so it contains no paths."""
        try:
            with anyio.fail_after(JOURNAL_CHECK_TIMEOUT_S):
                last_position = await self._bus.journal.last()
        except (StoreError, TimeoutError):
            return "the journal cannot be read"
        if not self._watch_status.gauges().get("journal_writable", 1.0):
            return "the journal cannot be written; the watch continues in memory"
        failure = self._intake.current_failure(last_position)
        return f"the journal rejected alerts at {failure.at:%H:%M:%S} UTC" if failure else ""

    def _watch_problem(self) -> str:
        heartbeat = self._watch_status.heartbeat()
        if heartbeat is None:
            return ""
        silence_s = (datetime.now(UTC) - heartbeat).total_seconds()
        silent = silence_s > self._max_silence_s
        return f"no heartbeat for {silence_s:.0f} seconds" if silent else ""

    async def _metrics(self, request: HttpRequest) -> HttpReply:
        gauges = {**self._watch_status.gauges(), "streams_open": float(self._streams)}
        with suppress(StoreError):  # what needs no journal is shown without it
            gauges |= await self._watch_status.activity()
        text = self._alert_metrics.render(self._watch_status.open_incidents(), gauges)
        return HttpReply(body=text.encode(), content_type=METRICS_CONTENT_TYPE)


def render_error(path: str, status: HTTPStatus, message: str) -> ErrorBody | None:
    """Errors as the clients of a path expect them."""
    if path.startswith("/v1/"):
        kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request"
        error = {"message": message, "type": kind, "param": None, "code": status.phrase.lower()}
        return ErrorBody(msgspec.json.encode({"error": error}))
    if path.startswith("/api/"):
        problem = {"title": status.phrase, "status": status.value, "detail": message}
        return ErrorBody(msgspec.json.encode(problem), "application/problem+json")
    return None


ALERTS_PATH = "/alerts"
_STATUSES_COUNTED_BY_INTAKE = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
"""The intake counts these itself, per alert."""
