"""Authenticates callers of the API: tokens, rights, and how much each token may ask for."""

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import anyio

from hermes.core.errors import StoreError
from hermes.core.events.access import AccessRight
from hermes.core.messages import Value
from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.web.tokens import TokenRegistry, token_digest

MAX_REQUESTS_PER_MINUTE = 60
MAX_STREAMS = 4
RATE_WINDOW_S = 60.0
TOKEN_HINT = "create one with: hermes token add --as NAME"


class ApiCaller(Value, kw_only=True, frozen=True):
    token: str
    """Id of the token."""
    person: str
    rights: tuple[AccessRight, ...]


class AccessControl:
    """Checks the token of a request from its head, before its body is read."""

    def __init__(self, tokens: TokenRegistry) -> None:
        self._tokens = tokens
        self._callers: dict[str, ApiCaller] = {}
        self._request_times: dict[str, deque[float]] = defaultdict(deque)
        self._streams: dict[str, int] = defaultdict(int)

    def require(self, right: AccessRight) -> Callable[[HttpRequest], Awaitable[None]]:
        """A check of the head for a route that needs `right`."""

        async def check(request: HttpRequest) -> None:
            caller = await self._authenticate(request)
            if right not in caller.rights:
                message = f"the token {caller.token} lacks the right `{right}`"
                raise HttpRefusal(HTTPStatus.FORBIDDEN, message)
            self._count_request(caller)

        return check

    def caller(self, request: HttpRequest) -> ApiCaller:
        """Return who sent a request whose head was checked."""
        return self._callers[token_digest(_bearer_text(request))]

    def check_stream(self, caller: ApiCaller) -> None:
        """Raises `HttpRefusal` when the token has too many open streams."""
        if self._streams[caller.token] >= MAX_STREAMS:
            message = f"a token has at most {MAX_STREAMS} open streams; close one"
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, message, retry_after="5")

    @contextmanager
    def count_stream(self, caller: ApiCaller) -> Iterator[None]:
        self._streams[caller.token] += 1
        try:
            yield
        finally:
            self._streams[caller.token] -= 1

    async def _authenticate(self, request: HttpRequest) -> ApiCaller:
        text = _bearer_text(request)
        if not text:
            message = f"send a token as `Authorization: Bearer …`; {TOKEN_HINT}"
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, message, www_authenticate="Bearer")
        try:
            token = await self._tokens.find(text)
        except StoreError as error:
            message = "the journal cannot be read; try again"
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, retry_after="5") from error
        if token is None:
            message = f"the token is unknown, expired or revoked; {TOKEN_HINT}"
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, message, www_authenticate="Bearer")
        caller = ApiCaller(token=token.id, person=token.person, rights=token.rights)
        self._callers[token.digest] = caller
        return caller

    def _count_request(self, caller: ApiCaller) -> None:
        now, times = anyio.current_time(), self._request_times[caller.token]
        while times and times[0] <= now - RATE_WINDOW_S:
            times.popleft()
        if len(times) >= MAX_REQUESTS_PER_MINUTE:
            wait_s = max(1, round(times[0] + RATE_WINDOW_S - now))
            message = f"a token may send {MAX_REQUESTS_PER_MINUTE} requests a minute"
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, message, retry_after=str(wait_s))
        times.append(now)


def _bearer_text(request: HttpRequest) -> str:
    scheme, _, text = request.headers.get("authorization", "").strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
