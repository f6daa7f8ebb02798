"""The table of routes: each row is served, and described in the document of the API."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from hermes.core.events.access import AccessRight
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest, HttpRoute
from hermes.web.access import AccessControl
from hermes.web.request_body import refuse_errors
from hermes.web.stored_answers import AnswerStore

CHANGING_METHODS = ("POST", "PATCH", "DELETE")


class UnknownIdError(Exception):
    """There is no such thing; the text says what was looked for."""


@dataclass(frozen=True)
class QueryParameter:
    name: str
    about: str
    kind: type = str


@dataclass(frozen=True, kw_only=True)
class ApiRoute:
    method: str
    path: str
    """As Starlette writes it: `/api/jobs/{id}`."""
    about: str
    """One sentence for the document."""
    respond: Callable[[HttpRequest], Awaitable[object]]
    """Returns a reply, or what is sent as JSON. May raise `HttpRefusal`, `HermesError` and
    `UnknownIdError`."""
    right: AccessRight | None = None
    """None: the route checks its callers itself, or everybody may use it."""
    check_head: Callable[[HttpRequest], Awaitable[None]] | None = None
    """Checks the head in place of a right, before the body is read."""
    body: Any = None
    """The type that reads the body; None: there is none."""
    body_needed: bool = True
    answer: Any = None
    """The type of the answer; None: it is described by `content_type` alone."""
    content_type: str = "application/json"
    streams: bool = False
    """Whether the body can ask for server-sent events in place of one answer."""
    signed: bool = False
    """Whether a signature of the body takes the place of a token."""
    query: tuple[QueryParameter, ...] = ()
    changes: bool | None = None
    """Whether it makes or changes something, so that `Idempotency-Key` counts; None: by method."""

    @property
    def makes_changes(self) -> bool:
        return self.method in CHANGING_METHODS if self.changes is None else self.changes


def serve_routes(
    table: Iterable[ApiRoute], access: AccessControl, answers: AnswerStore
) -> list[HttpRoute]:
    """Return what the server serves for these rows."""
    found = []
    for row in table:
        respond = _answering(row.respond)
        if row.makes_changes and row.right is not None:
            respond = _repeatable(respond, access, answers)
        check = access.require(row.right) if row.right is not None else row.check_head
        found.append(HttpRoute(row.path, (row.method,), respond, check))
    return found


def _answering(
    find: Callable[[HttpRequest], Awaitable[object]],
) -> Callable[[HttpRequest], Awaitable[HttpReply]]:
    """A responder whose answer is JSON and whose errors are refusals."""

    async def respond(request: HttpRequest) -> HttpReply:
        with refuse_errors():
            try:
                found = await find(request)
            except UnknownIdError as error:
                raise HttpRefusal(HTTPStatus.NOT_FOUND, str(error)) from error
        if isinstance(found, HttpReply):
            return found
        return HttpReply(body=msgspec.json.encode(found, enc_hook=str))

    return respond


def _repeatable(
    respond: Callable[[HttpRequest], Awaitable[HttpReply]],
    access: AccessControl,
    answers: AnswerStore,
) -> Callable[[HttpRequest], Awaitable[HttpReply]]:
    """A responder that gives a request with the same key the same answer, once it has one."""

    async def respond_once(request: HttpRequest) -> HttpReply:
        if "idempotency-key" not in request.headers:
            return await respond(request)
        return await answers.answer_once(request, access.caller(request).token, respond)

    return respond_once
