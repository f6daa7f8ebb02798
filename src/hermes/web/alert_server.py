"""Who may call: those who know the token; and where one may listen without any."""

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
    """As bearer token, or as the password of basic authentication whatever the user's name."""
    scheme, _, shown = authorization.strip().partition(" ")
    if scheme.lower() == "basic":
        try:
            shown = base64.b64decode(shown.strip(), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return False
        shown = shown.partition(":")[2]
    elif scheme.lower() != "bearer":
        return False
    # Constant time: the duration of a comparison must not tell how much of a guess was right.
    return hmac.compare_digest(shown.strip().encode(), token.encode())


def check_exposure(listen: str, token: str, variable: str) -> None:
    """Raises `SettingsError`: an alert sets an agent to work, so strangers must not raise one."""
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
"""Seconds that the journal may take to say how far it is."""


@dataclass(frozen=True)
class WatchStatus:
    """What the watch can say of itself."""

    open_incidents: Callable[[], Mapping[str, int]] = dict
    """Open incidents by severity."""
    heartbeat: Callable[[], datetime | None] = lambda: None
    """Its last sign of life; None where it gives none."""
    gauges: Callable[[], Mapping[str, float]] = dict
    """Further figures by name; `journal_writable` is 0 while the watch runs from memory."""


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
    door = AlertHandler(bus, settings, token, watch or WatchStatus())
    limits = WebLimits(
        body=settings.largest,
        patience=settings.patience,
        idle=settings.idle,
        connections=settings.connections,
    )
    host = f"[{settings.listen}]" if ":" in settings.listen else settings.listen

    def ready(port: int) -> None:
        task_status.started(f"http://{host}:{port}")

    await serve_http(settings.listen, settings.port, door, limits, ready=ready)


class AlertHandler:
    """Fulfils `http.Door`."""

    def __init__(self, bus: Bus, settings: WebSettings, token: str, watched: WatchStatus) -> None:
        self._bus = bus
        self._token = token
        self._watch_status = watched
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
            there = ", ".join(self._routes)
            return error_response(
                HTTPStatus.NOT_FOUND, f"there is nothing here; there are: {there}"
            )
        if request.method not in methods:
            allowed = ", ".join(methods)
            words = f"{request.path} takes only {allowed}"
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, words, ("allow", allowed))
        return self._check_caller(request) or _reject_encoded_body(request)

    async def respond(self, request: WebRequest) -> WebResponse:
        try:
            return await self._routes[request.path][request.method](request)
        except Exception as error:  # noqa: BLE001 - a bug in one answer must not end the watch
            words = f"this is a bug in Hermes: {type(error).__name__}"
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, words)

    def record_response(self, request: WebRequest | None, reply: WebResponse) -> None:
        path = request.path if request and request.path in self._routes else "other"
        self._alert_metrics.count_response(path, reply.status)
        if (
            reply.status >= HTTPStatus.BAD_REQUEST
            and reply.status not in _STATUSES_COUNTED_BY_INTAKE
        ):
            self._alert_metrics.count_rejected(reply.status.phrase.lower().replace(" ", "-"))

    def _check_caller(self, request: WebRequest) -> WebResponse | None:
        # Every browser says where a POST comes from: without this, any web page that somebody on
        # this host looks at could raise alerts on the loopback address.
        if "origin" in request.headers:
            return error_response(
                HTTPStatus.FORBIDDEN, "not for browsers: the request has an Origin"
            )
        open_to_all = not self._token or request.path == "/healthz"
        if open_to_all or is_authorized(request.headers.get("authorization", ""), self._token):
            return None
        words = "the token is missing or wrong: send it as bearer token or as basic password"
        return error_response(HTTPStatus.UNAUTHORIZED, words, ("www-authenticate", "Bearer, Basic"))

    async def _health(self, request: WebRequest) -> WebResponse:
        wrong = [words for words in (await self._store_problem(), self._watch_problem()) if words]
        status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
        beat = self._watch_status.heartbeat()
        told = {"ok": not wrong, "wrong": wrong, "heartbeat": beat}
        return WebResponse(status=status, body=msgspec.json.encode(told))

    async def _store_problem(self) -> str:
        """Empty when all is well; no paths or other inner things: anybody may read this."""
        try:
            with anyio.fail_after(JOURNAL_CHECK_TIMEOUT_S):
                newest = await self._bus.journal.last()
        except (StoreError, TimeoutError):
            return "the journal cannot be read"
        if not self._watch_status.gauges().get("journal_writable", 1.0):
            return "the journal cannot be written; the watch goes on from memory"
        trouble = self._intake.current_failure(newest)
        return f"the journal refused alerts at {trouble.at:%H:%M:%S} UTC" if trouble else ""

    def _watch_problem(self) -> str:
        beat = self._watch_status.heartbeat()
        if beat is None:
            return ""
        silent = (datetime.now(UTC) - beat).total_seconds()
        return f"no sign of life for {silent:.0f} seconds" if silent > self._max_silence_s else ""

    async def _metrics(self, request: WebRequest) -> WebResponse:
        text = self._alert_metrics.render(
            self._watch_status.open_incidents(), self._watch_status.gauges()
        )
        return WebResponse(body=text.encode(), media=METRICS_CONTENT_TYPE)


_STATUSES_COUNTED_BY_INTAKE = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
"""Those that the intake counts itself, alert by alert."""


def _reject_encoded_body(request: WebRequest) -> WebResponse | None:
    if request.headers.get("content-encoding", "identity") == "identity":
        return None
    return error_response(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send it as it is, without an encoding"
    )
