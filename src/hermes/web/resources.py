"""`/api`: incidents, approvals and statistics, for programs."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Protocol

from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest
from hermes.web.access import AccessControl
from hermes.web.answer_types import (
    ApprovalAnswer,
    ApprovalDetail,
    ApprovalOutcome,
    ApprovalPage,
    IncidentDetail,
    IncidentNote,
    IncidentPage,
    IncidentReport,
    IncidentSummary,
    IncidentTimeline,
    IncidentUpdate,
    ReportedIncident,
    StatisticsAnswer,
)
from hermes.web.api_routes import ApiRoute, QueryParameter
from hermes.web.request_body import decode_body

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200
MAX_DAYS = 3650
MARKDOWN_TYPE = "text/markdown; charset=utf-8"

LIMIT = QueryParameter("limit", f"At most so many, 1 to {MAX_PAGE_SIZE}.", int)
BEFORE = QueryParameter("before", "Only what is older than the one with this id.")


class ApiViews(Protocol):
    """Reads everything that the API shows. Each method may raise `HermesError`, and
    `UnknownIdError` for an id."""

    async def incidents(
        self, *, only_open: bool, limit: int, before: str
    ) -> Sequence[IncidentSummary]:
        """The newest first; `before`: older than this incident."""
        ...

    async def incident(self, id: str) -> IncidentDetail: ...
    async def incident_report(self, id: str) -> str: ...
    async def incident_timeline(self, id: str) -> IncidentTimeline: ...
    async def approvals(self, *, everything: bool) -> Sequence[ApprovalDetail]: ...
    async def approval(self, id: str) -> ApprovalDetail: ...
    async def statistics(self, *, days: int) -> StatisticsAnswer: ...


class ApiActions(Protocol):
    """Acts for a person through the API. Each method may raise `HermesError` and
    `UnknownIdError`."""

    async def answer_approval(
        self, id: str, answer: ApprovalAnswer, *, person: str
    ) -> ApprovalOutcome: ...
    async def report(self, report: IncidentReport, *, person: str) -> ReportedIncident: ...
    async def acknowledge(self, id: str, *, person: str) -> IncidentUpdate: ...
    async def close(self, id: str, *, person: str, reason: str) -> IncidentUpdate: ...
    async def reopen(self, id: str, *, person: str, reason: str) -> IncidentUpdate: ...
    async def tell(self, id: str, *, person: str, text: str) -> IncidentUpdate: ...


class ApiResources:
    def __init__(self, views: ApiViews, actions: ApiActions, access: AccessControl) -> None:
        self._views = views
        self._actions = actions
        self._access = access

    def routes(self) -> list[ApiRoute]:
        return [*self._incident_routes(), *self._change_routes(), *self._approval_routes()]

    def _incident_routes(self) -> list[ApiRoute]:
        one = "/api/incidents/{id}"
        only_open = QueryParameter("open", "1: only those that are not over.")
        return [
            ApiRoute(
                method="GET", path="/api/incidents", right="read", respond=self._incidents,
                about="Incidents, the newest first.",
                query=(only_open, LIMIT, BEFORE), answer=IncidentPage,
            ),
            ApiRoute(
                method="GET", path=one, right="read", respond=self._incident,
                about="One incident with its cause, changes, checks and cost.",
                answer=IncidentDetail,
            ),
            ApiRoute(
                method="GET", path=f"{one}/report", right="read", respond=self._report,
                about="The report for people.", content_type=MARKDOWN_TYPE,
            ),
            ApiRoute(
                method="GET", path=f"{one}/timeline", right="read", respond=self._timeline,
                about="What happened when.", answer=IncidentTimeline,
            ),
            ApiRoute(
                method="GET", path="/api/stats", right="read", respond=self._statistics,
                about="Times to detect, to acknowledge and to repair, by week and by resolver.",
                query=(QueryParameter("days", f"Of the last days, 1 to {MAX_DAYS}.", int),),
                answer=StatisticsAnswer,
            ),
        ]  # fmt: skip

    def _change_routes(self) -> list[ApiRoute]:
        one = "/api/incidents/{id}"
        return [
            ApiRoute(
                method="POST", path="/api/incidents", right="act", respond=self._open,
                about="Report a problem; a running watch handles it at once.",
                body=IncidentReport, answer=ReportedIncident,
            ),
            ApiRoute(
                method="POST", path=f"{one}/ack", right="act", respond=self._acknowledge,
                about="Acknowledge an incident.", answer=IncidentUpdate,
            ),
            ApiRoute(
                method="POST", path=f"{one}/close", right="act", respond=self._close,
                about="Close an incident: a person has handled it. The text says why.",
                body=IncidentNote, body_needed=False, answer=IncidentUpdate,
            ),
            ApiRoute(
                method="POST", path=f"{one}/reopen", right="act", respond=self._reopen,
                about="Open an incident again. The text says why.",
                body=IncidentNote, body_needed=False, answer=IncidentUpdate,
            ),
            ApiRoute(
                method="POST", path=f"{one}/tell", right="act", respond=self._tell,
                about="Tell what a person knows about an incident: a hint, no order.",
                body=IncidentNote, answer=IncidentUpdate,
            ),
        ]  # fmt: skip

    def _approval_routes(self) -> list[ApiRoute]:
        everything = QueryParameter("all", "1: also those that are settled.")
        return [
            ApiRoute(
                method="GET", path="/api/approvals", right="read", respond=self._approvals,
                about="Requests that wait for a person.", query=(everything,), answer=ApprovalPage,
            ),
            ApiRoute(
                method="GET", path="/api/approvals/{id}", right="read", respond=self._approval,
                about="One request with its command, effects and hash.", answer=ApprovalDetail,
            ),
            ApiRoute(
                method="POST", path="/api/approvals/{id}", right="approve", respond=self._answer,
                about="Answer a request; the hash is that of the action that was shown.",
                body=ApprovalAnswer, answer=ApprovalOutcome,
            ),
        ]  # fmt: skip

    async def _incidents(self, request: HttpRequest) -> object:
        found = await self._views.incidents(
            only_open=is_set(request, "open"),
            limit=page_size(request),
            before=request.query.get("before", ""),
        )
        return IncidentPage(incidents=list(found))

    async def _incident(self, request: HttpRequest) -> object:
        return await self._views.incident(request.params["id"])

    async def _timeline(self, request: HttpRequest) -> object:
        return await self._views.incident_timeline(request.params["id"])

    async def _report(self, request: HttpRequest) -> HttpReply:
        text = await self._views.incident_report(request.params["id"])
        return HttpReply(body=text.encode(), content_type=MARKDOWN_TYPE)

    async def _open(self, request: HttpRequest) -> object:
        report = decode_body(request, IncidentReport)
        return await self._actions.report(report, person=self._access.caller(request).person)

    async def _acknowledge(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return await self._actions.acknowledge(request.params["id"], person=person)

    async def _close(self, request: HttpRequest) -> object:
        note, person = _read_note(request), self._access.caller(request).person
        return await self._actions.close(request.params["id"], person=person, reason=note.text)

    async def _reopen(self, request: HttpRequest) -> object:
        note, person = _read_note(request), self._access.caller(request).person
        return await self._actions.reopen(request.params["id"], person=person, reason=note.text)

    async def _tell(self, request: HttpRequest) -> object:
        note, person = decode_body(request, IncidentNote), self._access.caller(request).person
        if not note.text.strip():
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "`text` is what you know; it is empty")
        return await self._actions.tell(request.params["id"], person=person, text=note.text)

    async def _approvals(self, request: HttpRequest) -> object:
        found = await self._views.approvals(everything=is_set(request, "all"))
        return ApprovalPage(approvals=list(found))

    async def _approval(self, request: HttpRequest) -> object:
        return await self._views.approval(request.params["id"])

    async def _answer(self, request: HttpRequest) -> object:
        answer = decode_body(request, ApprovalAnswer)
        person = self._access.caller(request).person
        return await self._actions.answer_approval(request.params["id"], answer, person=person)

    async def _statistics(self, request: HttpRequest) -> object:
        return await self._views.statistics(days=whole_number(request, "days", 30, MAX_DAYS))


def _read_note(request: HttpRequest) -> IncidentNote:
    return decode_body(request, IncidentNote) if request.body else IncidentNote()


def is_set(request: HttpRequest, name: str) -> bool:
    return request.query.get(name, "") in ("1", "true")


def page_size(request: HttpRequest) -> int:
    return whole_number(request, "limit", DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def whole_number(request: HttpRequest, name: str, default: int, most: int) -> int:
    """Raises `HttpRefusal`."""
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= most:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, f"`{name}` is a number from 1 to {most}")
    return int(text[:9])
