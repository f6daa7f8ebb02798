"""Approvals: what waits for an answer, what was settled today, and the grants in force."""

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

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

CONFIRM_TEXT = "It cannot be undone: nothing is recorded until you confirm it here."
LIVE_KINDS = ("approval.", "action.", "grant.")


@dataclass(frozen=True, kw_only=True)
class PressedAnswer:
    """What a form about a request contained."""

    verb: str
    hash: str = ""
    """Of the action that the person was shown."""
    note: str = ""
    confirmation: str = ""
    """What only the page that asks once more contains."""


class ApprovalViews(Protocol):
    """What the pages of approvals show and do. May raise `HermesError` and `UnknownIdError`."""

    async def approval_list(self, person: str, *, limit: int) -> PageContext: ...

    async def approval_page(self, id: str, person: str, *, confirm: str = "") -> PageContext:
        """`confirm` is a verb that the page asks for once more."""
        ...

    async def answer(self, id: str, answer: "PressedAnswer", *, person: str) -> str:
        """One line about it; empty when it must be confirmed on the page of the request."""
        ...

    async def revoke(self, grant: str, *, person: str) -> str: ...


def approval_pages(views: ApprovalViews) -> PageSet:
    async def show_list(request: HttpRequest, visitor: Visitor) -> PageContext:
        return await views.approval_list(visitor.person, limit=MAX_ROWS)

    async def show_one(request: HttpRequest, visitor: Visitor) -> PageContext:
        confirm = request.query.get("confirm", "")
        return await views.approval_page(request.params["id"], visitor.person, confirm=confirm)

    async def answer(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        pressed = PressedAnswer(
            verb=fields.get("verb", ""),
            hash=fields.get("hash", ""),
            note=fields.get("note", ""),
            confirmation=fields.get("confirmation", ""),
        )
        id = request.params["id"]
        text = await views.answer(id, pressed, person=visitor.person)
        if not text:
            return Submitted(f"/approvals/{quote(id)}?confirm={quote(pressed.verb)}", CONFIRM_TEXT)
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
