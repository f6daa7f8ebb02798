"""What an HTTP server serves: routes, requests, replies, refusals and limits."""

import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import anyio


class HttpRefusal(Exception):
    """The request is answered with this status and message."""

    def __init__(self, status: HTTPStatus, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


async def _never() -> None:
    await anyio.sleep_forever()


def _nothing() -> None:
    return


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """With lower-case names."""
    query: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    """What the placeholders of the route's path stand for."""
    body: bytes = b""
    disconnected: Callable[[], Awaitable[None]] = _never
    """Waits until the client has gone. Not while a stream is sent: that one is ended then."""


def host_name(request: HttpRequest) -> str:
    """The name under which the client reaches us, without the port."""
    host = request.headers.get("host", "").lower()
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host


def is_loopback_name(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None
    """Sent in place of the body, part by part, until the client has gone."""
    on_stream_end: Callable[[], None] = _nothing
    """Called once the stream was sent or the client has gone, also before its first part."""


@dataclass(frozen=True)
class HttpRoute:
    path: str
    """As Starlette writes it: `/files/{name}`."""
    methods: tuple[str, ...]
    """GET includes HEAD."""
    respond: Callable[[HttpRequest], Awaitable[HttpReply]]
    """May raise `HttpRefusal`."""
    check_head: "Callable[[HttpRequest], Awaitable[None]] | None" = None
    """Like that of the service, for this route alone."""


@dataclass(frozen=True, kw_only=True)
class HttpServerLimits:
    max_body_bytes: int = 2**20
    request_timeout_s: float = 10.0
    """For a request to arrive, from its first byte to its last, and for each part of a response."""
    idle_timeout_s: float = 75.0
    max_connections: int = 1000


async def _accept_everybody(request: HttpRequest) -> None:
    return


def _record_nothing(path: str, status: HTTPStatus) -> None:
    return


@dataclass(frozen=True)
class ErrorBody:
    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, kw_only=True)
class HttpService:
    """What is served, and how much of it."""

    routes: Sequence[HttpRoute]
    limits: HttpServerLimits = HttpServerLimits()
    check_head: Callable[[HttpRequest], Awaitable[None]] = _accept_everybody
    """Raises `HttpRefusal` from the head alone, so that unauthorized bodies are not read."""
    record_response: Callable[[str, HTTPStatus], None] = _record_nothing
    """Called for every response; the path is empty when the request could not be parsed."""
    error_field: str = "error"
    """Name of the JSON field with the message of an error."""
    render_error: Callable[[str, HTTPStatus, str], ErrorBody | None] = lambda *_: None
    """Path, status and message; None: a JSON object with `error_field`."""
    size_hint: str = ""
    """Added to the message about a body that is too large."""
