"""The door for machines, open: alerts in, health and metrics out."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

import anyio
import msgspec
from anyio.abc import TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.web.credentials import check_exposure, knows
from hermes.web.http import Limits, Reply, Request, refusal
from hermes.web.intake import Intake
from hermes.web.listening import listen
from hermes.web.settings import WebSettings
from hermes.web.tally import MEDIA, Tally

Answer = Callable[[Request], Awaitable[Reply]]
LOOK = 2.0
"""Seconds that the journal may take to say how far it is."""


@dataclass(frozen=True)
class Watched:
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
    watched: Watched | None = None,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `await group.start(...)` returns its address once it listens.

    `token` is the value of the secret that `settings.token_variable` names. Raises
    `SettingsError` when it may not or cannot listen there.
    """
    check_exposure(settings.listen, token, settings.token_variable)
    door = AlertDoor(bus, settings, token, watched or Watched())
    limits = Limits(
        body=settings.largest,
        patience=settings.patience,
        idle=settings.idle,
        connections=settings.connections,
    )
    host = f"[{settings.listen}]" if ":" in settings.listen else settings.listen

    def ready(port: int) -> None:
        task_status.started(f"http://{host}:{port}")

    await listen(settings.listen, settings.port, door, limits, ready=ready)


class AlertDoor:
    """Fulfils `http.Door`."""

    def __init__(self, bus: Bus, settings: WebSettings, token: str, watched: Watched) -> None:
        self._bus = bus
        self._token = token
        self._watched = watched
        self._silence = settings.silence
        self._tally = Tally()
        self._intake = Intake(bus, self._tally)
        self._routes: dict[str, dict[str, Answer]] = {
            "/alerts": {"POST": self._intake.alertmanager},
            "/alerts/generic": {"POST": self._intake.generic},
            "/healthz": {"GET": self._health, "HEAD": self._health},
            "/metrics": {"GET": self._metrics, "HEAD": self._metrics},
        }

    def admit(self, request: Request) -> Reply | None:
        methods = self._routes.get(request.path)
        if methods is None:
            there = ", ".join(self._routes)
            return refusal(HTTPStatus.NOT_FOUND, f"there is nothing here; there are: {there}")
        if request.method not in methods:
            allowed = ", ".join(methods)
            words = f"{request.path} takes only {allowed}"
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, words, ("allow", allowed))
        return self._stranger(request) or _encoded(request)

    async def answer(self, request: Request) -> Reply:
        try:
            return await self._routes[request.path][request.method](request)
        except Exception as error:  # noqa: BLE001 - a bug in one answer must not end the watch
            words = f"this is a bug in Hermes: {type(error).__name__}"
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, words)

    def note(self, request: Request | None, reply: Reply) -> None:
        path = request.path if request and request.path in self._routes else "other"
        self._tally.replied(path, reply.status)
        if reply.status >= HTTPStatus.BAD_REQUEST and reply.status not in _COUNTED:
            self._tally.refused(reply.status.phrase.lower().replace(" ", "-"))

    def _stranger(self, request: Request) -> Reply | None:
        # Every browser says where a POST comes from: without this, any web page that somebody on
        # this host looks at could raise alerts on the loopback address.
        if "origin" in request.headers:
            return refusal(HTTPStatus.FORBIDDEN, "not for browsers: the request has an Origin")
        open_to_all = not self._token or request.path == "/healthz"
        if open_to_all or knows(request.headers.get("authorization", ""), self._token):
            return None
        words = "the token is missing or wrong: send it as bearer token or as basic password"
        return refusal(HTTPStatus.UNAUTHORIZED, words, ("www-authenticate", "Bearer, Basic"))

    async def _health(self, request: Request) -> Reply:
        wrong = [words for words in (await self._store(), self._watch()) if words]
        status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
        beat = self._watched.heartbeat()
        told = {"ok": not wrong, "wrong": wrong, "heartbeat": beat}
        return Reply(status=status, body=msgspec.json.encode(told))

    async def _store(self) -> str:
        """Empty when all is well; no paths or other inner things: anybody may read this."""
        try:
            with anyio.fail_after(LOOK):
                newest = await self._bus.journal.last()
        except (StoreError, TimeoutError):
            return "the journal cannot be read"
        if not self._watched.gauges().get("journal_writable", 1.0):
            return "the journal cannot be written; the watch goes on from memory"
        trouble = self._intake.still_in_trouble(newest)
        return f"the journal refused alerts at {trouble.at:%H:%M:%S} UTC" if trouble else ""

    def _watch(self) -> str:
        beat = self._watched.heartbeat()
        if beat is None:
            return ""
        silent = (datetime.now(UTC) - beat).total_seconds()
        return f"no sign of life for {silent:.0f} seconds" if silent > self._silence else ""

    async def _metrics(self, request: Request) -> Reply:
        text = self._tally.text(self._watched.open_incidents(), self._watched.gauges())
        return Reply(body=text.encode(), media=MEDIA)


_COUNTED = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE}
"""Those that the intake counts itself, alert by alert."""


def _encoded(request: Request) -> Reply | None:
    if request.headers.get("content-encoding", "identity") == "identity":
        return None
    return refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send it as it is, without an encoding")
