"""Now: open incidents, waiting approvals, services, jobs, the day and the channels at a glance."""

from typing import Protocol

from hermes.plumbing.http_service import HttpRequest
from hermes.web.pages import Form, FormFields, Page, PageContext, PageSet, Submitted, Visitor

LIVE_KINDS = (
    "incident.",
    "approval.",
    "action.",
    "grant.",
    "job.",
    "probe.",
    "notice.",
    "channel.",
    "watch.",
)


class OverviewViews(Protocol):
    """What the page Now shows and does. May raise `HermesError` and `UnknownIdError`."""

    async def overview(self, person: str) -> PageContext: ...

    async def acknowledge(self, id: str, *, person: str) -> str:
        """One line about it."""
        ...


def overview_pages(views: OverviewViews) -> PageSet:
    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        return await views.overview(visitor.person)

    async def acknowledge(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.acknowledge(request.params["id"], person=visitor.person)
        return Submitted("/", text)

    return PageSet(
        pages=[Page("now", "/", "now.html", show, live=LIVE_KINDS)],
        forms=[Form("/now/{id}/acknowledge", acknowledge)],
    )
