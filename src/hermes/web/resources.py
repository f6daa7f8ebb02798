"""`/api`: incidents, approvals, runs and statistics, for programs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal, Protocol

import msgspec

from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest, HttpRoute
from hermes.web.access import AccessControl
from hermes.web.request_body import decode_body, refuse_errors

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

JsonObject = Mapping[str, Any]


class UnknownIdError(Exception):
    """There is no such thing; the text says what was looked for."""


class ApiViews(Protocol):
    """What the API shows. Each method may raise `HermesError`, and `UnknownIdError` for an id."""

    async def incidents(self, *, only_open: bool, limit: int, before: str) -> Sequence[JsonObject]:
        """The newest first; `before`: older than this incident."""
        ...

    async def incident(self, id: str) -> JsonObject: ...
    async def incident_report(self, id: str) -> str: ...
    async def incident_timeline(self, id: str) -> Sequence[JsonObject]: ...
    async def approvals(self, *, everything: bool) -> Sequence[JsonObject]: ...
    async def approval(self, id: str) -> JsonObject: ...
    async def runs(self, *, limit: int, person: str) -> Sequence[JsonObject]: ...
    async def statistics(self, *, days: int) -> JsonObject: ...


class ApiActions(Protocol):
    """What the API does for a person. Each method may raise `HermesError` and `UnknownIdError`."""

    async def answer_approval(
        self, id: str, verb: str, *, person: str, hash: str, note: str
    ) -> JsonObject: ...
    async def acknowledge(self, id: str, *, person: str) -> JsonObject: ...
    async def close(self, id: str, *, person: str, reason: str) -> JsonObject: ...


class ApprovalAnswer(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    verb: Literal["once", "session", "always", "deny", "go", "stop"]
    hash: str
    """Of the action that was shown: an answer is valid for nothing else."""
    note: str = ""


class IncidentNote(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    text: str = ""


class ApiResources:
    def __init__(self, views: ApiViews, actions: ApiActions, access: AccessControl) -> None:
        self._views = views
        self._actions = actions
        self._access = access

    def routes(self) -> list[HttpRoute]:
        read, act = self._access.require("read"), self._access.require("act")
        approve = self._access.require("approve")
        return [
            HttpRoute("/api/incidents", ("GET",), answering(self._incidents), read),
            HttpRoute("/api/incidents/{id}", ("GET",), answering(self._incident), read),
            HttpRoute("/api/incidents/{id}/report", ("GET",), self._report, read),
            HttpRoute("/api/incidents/{id}/timeline", ("GET",), answering(self._timeline), read),
            HttpRoute("/api/incidents/{id}/ack", ("POST",), answering(self._acknowledge), act),
            HttpRoute("/api/incidents/{id}/close", ("POST",), answering(self._close), act),
            HttpRoute("/api/approvals", ("GET",), answering(self._approvals), read),
            HttpRoute("/api/approvals/{id}", ("GET",), answering(self._approval), read),
            HttpRoute("/api/approvals/{id}", ("POST",), answering(self._answer), approve),
            HttpRoute("/api/runs", ("GET",), answering(self._runs), read),
            HttpRoute("/api/stats", ("GET",), answering(self._statistics), read),
        ]

    async def _incidents(self, request: HttpRequest) -> object:
        found = await self._views.incidents(
            only_open=request.query.get("open", "") in ("1", "true"),
            limit=page_size(request),
            before=request.query.get("before", ""),
        )
        return {"incidents": found}

    async def _incident(self, request: HttpRequest) -> object:
        return await self._views.incident(request.params["id"])

    async def _timeline(self, request: HttpRequest) -> object:
        return {"timeline": await self._views.incident_timeline(request.params["id"])}

    async def _report(self, request: HttpRequest) -> HttpReply:
        with refuse_errors():
            try:
                text = await self._views.incident_report(request.params["id"])
            except UnknownIdError as error:
                raise HttpRefusal(HTTPStatus.NOT_FOUND, str(error)) from error
        return HttpReply(body=text.encode(), content_type="text/markdown; charset=utf-8")

    async def _acknowledge(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return await self._actions.acknowledge(request.params["id"], person=person)

    async def _close(self, request: HttpRequest) -> object:
        note = decode_body(request, IncidentNote) if request.body else IncidentNote()
        person = self._access.caller(request).person
        return await self._actions.close(request.params["id"], person=person, reason=note.text)

    async def _approvals(self, request: HttpRequest) -> object:
        everything = request.query.get("all", "") in ("1", "true")
        return {"approvals": await self._views.approvals(everything=everything)}

    async def _approval(self, request: HttpRequest) -> object:
        return await self._views.approval(request.params["id"])

    async def _answer(self, request: HttpRequest) -> object:
        answer = decode_body(request, ApprovalAnswer)
        person = self._access.caller(request).person
        return await self._actions.answer_approval(
            request.params["id"], answer.verb, person=person, hash=answer.hash, note=answer.note
        )

    async def _runs(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return {"runs": await self._views.runs(limit=page_size(request), person=person)}

    async def _statistics(self, request: HttpRequest) -> object:
        return await self._views.statistics(days=whole_number(request, "days", 30, 3650))


def answering(
    find: Callable[[HttpRequest], Awaitable[object]],
) -> Callable[[HttpRequest], Awaitable[HttpReply]]:
    """A responder whose answer is JSON and whose errors are refusals."""

    async def respond(request: HttpRequest) -> HttpReply:
        with refuse_errors():
            try:
                found = await find(request)
            except UnknownIdError as error:
                raise HttpRefusal(HTTPStatus.NOT_FOUND, str(error)) from error
        return HttpReply(body=msgspec.json.encode(found, enc_hook=str))

    return respond


def page_size(request: HttpRequest) -> int:
    return whole_number(request, "limit", DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def whole_number(request: HttpRequest, name: str, default: int, most: int) -> int:
    """Raises `HttpRefusal`."""
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= most:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"`{name}` is a number from 1 to {most}")
    return int(text)
