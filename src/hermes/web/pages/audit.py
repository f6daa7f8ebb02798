"""The page Audit: what was decided, approved and done; and whether the log is as it was written."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Protocol

from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.web.pages import (
    MAX_ROWS,
    Form,
    FormFields,
    Page,
    PageContext,
    PageSet,
    Submitted,
    Visitor,
)
from hermes.web.pages.paging import page_address, query_text

VERDICTS = ("allow", "ask", "deny", "dry-run")
MAX_SEQ_DIGITS = 18


class AuditViews(Protocol):
    """Methods may raise `HermesError`."""

    async def actions(
        self,
        *,
        person: str,
        words: str = "",
        verdict: str = "",
        rule: str = "",
        run: str = "",
        limit: int,
        before: int = 0,
    ) -> Mapping[str, Any]: ...

    async def chain(self) -> Mapping[str, Any]: ...

    async def verify(self) -> str:
        """Check the whole log; returns one line about it."""
        ...


def audit_pages(views: AuditViews) -> PageSet:
    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        wanted = {name: query_text(request, name) for name in ("q", "verdict", "rule", "run")}
        if wanted["verdict"] and wanted["verdict"] not in VERDICTS:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "there is no such verdict")
        before = request.query.get("before", "")
        if before and not (before.isascii() and before.isdigit() and len(before) <= MAX_SEQ_DIGITS):
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "`before` is the number of an event")
        found = await views.actions(
            person=visitor.person,
            words=wanted["q"],
            verdict=wanted["verdict"],
            rule=wanted["rule"],
            run=wanted["run"],
            limit=MAX_ROWS,
            before=int(before or 0),
        )
        return {
            "actions": found["actions"],
            "older": page_address(request, before=found["next"]) if found["next"] else "",
            "chain": await views.chain(),
            "verdicts": VERDICTS,
            "filter": wanted,
            "filtered": any(wanted.values()),
            "before": before,
        }

    async def verify(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        return Submitted("/audit", await views.verify())

    return PageSet(
        pages=[Page("audit", "/audit", "audit.html", show, live=("tool.decided", "approval."))],
        forms=[Form("/audit/verify", verify)],
    )
