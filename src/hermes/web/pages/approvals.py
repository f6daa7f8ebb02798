"""Approvals: what waits for an answer, what was settled today, and the grants in force."""

from typing import Protocol

from hermes.plumbing.http_service import HttpRequest
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

LIVE_KINDS = ("approval.", "action.", "grant.")


class ApprovalViews(Protocol):
    """What the pages of approvals show and do. May raise `HermesError` and `UnknownIdError`."""

    async def approval_list(self, person: str, *, limit: int) -> PageContext: ...

    async def approval_page(self, id: str, person: str) -> PageContext: ...

    async def answer(self, id: str, verb: str, *, hash: str, note: str, person: str) -> str:
        """One line about it. `hash` is that of the action that the person was shown."""
        ...

    async def revoke(self, grant: str, *, person: str) -> str: ...


def approval_pages(views: ApprovalViews) -> PageSet:
    async def show_list(request: HttpRequest, visitor: Visitor) -> PageContext:
        return await views.approval_list(visitor.person, limit=MAX_ROWS)

    async def show_one(request: HttpRequest, visitor: Visitor) -> PageContext:
        return await views.approval_page(request.params["id"], visitor.person)

    async def answer(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.answer(
            request.params["id"],
            fields.get("verb", ""),
            hash=fields.get("hash", ""),
            note=fields.get("note", ""),
            person=visitor.person,
        )
        return Submitted("/approvals", text)

    async def revoke(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.revoke(request.params["grant"], person=visitor.person)
        return Submitted("/approvals", text)

    return PageSet(
        pages=[
            Page("approvals", "/approvals", "approvals.html", show_list, live=LIVE_KINDS),
            Page("approvals", "/approvals/{id}", "approval.html", show_one, live=LIVE_KINDS),
        ],
        forms=[
            Form("/approvals/{id}", answer),
            Form("/grants/{grant}/revoke", revoke),
        ],
    )
