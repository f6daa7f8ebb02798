"""The alert server: routes, authorization, health and metrics."""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

import anyio
import msgspec
from anyio.abc import TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import SettingsError, StoreError
from hermes.web.alerts import AlertIntake
from hermes.web.http_server import WebLimits, WebRequest, WebResponse, error_response, serve_http
from hermes.web.metrics import METRICS_CONTENT_TYPE, AlertMetrics
from hermes.web.settings import WebSettings


def is_authorized(authorization: str, token: str) -> bool:
    """Check a bearer token, or the password of basic authentication with any user name."""
    scheme, _, credential = authorization.strip().partition(" ")
    if scheme.lower() == "basic":
        try:
            credential = base64.b64decode(credential.strip(), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return False
        credential = credential.partition(":")[2]
    elif scheme.lower() != "bearer":
        return False
    # Constant time: the duration must not reveal how much of a guess was right.
    return hmac.compare_digest(credential.strip().encode(), token.encode())


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


RouteHandler = Callable[[WebRequest], Awaitable[WebResponse]]
JOURNAL_CHECK_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class WatchStatus:
    """Functions that return the state of the watch."""

    open_incidents: Callable[[], Mapping[str, int]] = dict
    """Open incidents by severity."""
    heartbeat: Callable[[], datetime | None] = lambda: None
    """The last heartbeat; None without one."""
    gauges: Callable[[], Mapping[str, float]] = dict
    """Further metrics by name; `journal_writable` is 0 while the watch runs from memory."""


async def serve_alerts(
    bus: Bus,
    settings: WebSettings,
    *,
    token: str = "",
    watch: WatchStatus | None = None,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `await group.start(...)` returns its address once it listens.

    `token` is the value of the secret that `settings.token_variable` names. Raises
    `SettingsError` when it may not or cannot listen there.
    """
    check_exposure(settings.listen, token, settings.token_variable)
    handler = AlertHandler(bus, settings, token, watch or WatchStatus())
    limits = WebLimits(
        max_body_bytes=settings.largest,
        request_timeout_s=settings.patience,
        idle_timeout_s=settings.idle,
        max_connections=settings.connections,
    )
    host = f"[{settings.listen}]" if ":" in settings.listen else settings.listen

    def ready(port: int) -> None:
        task_status.started(f"http://{host}:{port}")

    await serve_http(settings.listen, settings.port, handler, limits, ready=ready)


class AlertHandler:
    """Implements `WebHandler`."""

    def __init__(self, bus: Bus, settings: WebSettings, token: str, watch: WatchStatus) -> None:
        self._bus = bus
        self._token = token
        self._watch_status = watch
        self._max_silence_s = settings.silence
        self._alert_metrics = AlertMetrics()
        self._intake = AlertIntake(bus, self._alert_metrics)
        self._routes: dict[str, dict[str, RouteHandler]] = {
            "/alerts": {"POST": self._intake.receive_alertmanager},
            "/alerts/generic": {"POST": self._intake.receive_generic},
            "/healthz": {"GET": self._health, "HEAD": self._health},
            "/metrics": {"GET": self._metrics, "HEAD": self._metrics},
        }

    def check_head(self, request: WebRequest) -> WebResponse | None:
        methods = self._routes.get(request.path)
        if methods is None:
            known_paths = ", ".join(self._routes)
            return error_response(HTTPStatus.NOT_FOUND, f"unknown path; there are: {known_paths}")
        if request.method not in methods:
            allowed = ", ".join(methods)
            message = f"{request.path} accepts only {allowed}"
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, message, ("allow", allowed))
        return self._check_caller(request) or _reject_encoded_body(request)

    async def respond(self, request: WebRequest) -> WebResponse:
        try:
            return await self._routes[request.path][request.method](request)
        except Exception as error:  # noqa: BLE001 - a bug in one response must not end the watch
            message = f"this is a bug in Hermes: {type(error).__name__}"
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, message)

    def record_response(self, request: WebRequest | None, reply: WebResponse) -> None:
        path = request.path if request and request.path in self._routes else "other"
        self._alert_metrics.count_response(path, reply.status)
        if (
            reply.status >= HTTPStatus.BAD_REQUEST
            and reply.status not in _STATUSES_COUNTED_BY_INTAKE
        ):
            self._alert_metrics.count_rejected(reply.status.phrase.lower().replace(" ", "-"))

    def _check_caller(self, request: WebRequest) -> WebResponse | None:
        # Browsers send an Origin with every POST. Without this check, any web page opened on this
        # host could raise alerts on the loopback address.
        if "origin" in request.headers:
            return error_response(
                HTTPStatus.FORBIDDEN, "not for browsers: the request has an Origin"
            )
        open_to_all = not self._token or request.path == "/healthz"
        if open_to_all or is_authorized(request.headers.get("authorization", ""), self._token):
            return None
        message = "the token is missing or wrong: send it as bearer token or as basic password"
        scheme = ("www-authenticate", "Bearer, Basic")
        return error_response(HTTPStatus.UNAUTHORIZED, message, scheme)

    async def _health(self, request: WebRequest) -> WebResponse:
        problems = list(filter(None, (await self._store_problem(), self._watch_problem())))
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        heartbeat = self._watch_status.heartbeat()
        data = {"ok": not problems, "wrong": problems, "heartbeat": heartbeat}
        return WebResponse(status=status, body=msgspec.json.encode(data))

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

    async def _metrics(self, request: WebRequest) -> WebResponse:
        text = self._alert_metrics.render(
            self._watch_status.open_incidents(), self._watch_status.gauges()
        )
        return WebResponse(body=text.encode(), content_type=METRICS_CONTENT_TYPE)


_STATUSES_COUNTED_BY_INTAKE = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
"""The intake counts these itself, per alert."""


def _reject_encoded_body(request: WebRequest) -> WebResponse | None:
    if request.headers.get("content-encoding", "identity") == "identity":
        return None
    return error_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send it without a content encoding")
