"""The list of incidents, and the page of one incident."""

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

LIVE_KINDS = (
    "incident.",
    "change",
    "report.",
    "approval.",
    "playbook.",
    "fix.",
    "experiment.",
    "notice.sent",
)
STATES = ("all", "open")
TIMELINE_FILTERS = ("all", "actions", "people")


class IncidentViews(Protocol):
    """What the pages of incidents show and do. May raise `HermesError` and `UnknownIdError`."""

    async def incident_list(
        self, *, only_open: bool, text: str, before: str, limit: int
    ) -> PageContext:
        """`incidents`, newest first, and `older`: the cursor of the next page, or empty."""
        ...

    async def incident_page(
        self, id: str, *, show: str, before: int, limit: int
    ) -> PageContext: ...

    async def incident_report(self, id: str) -> str: ...

    async def change_incident(self, id: str, verb: str, text: str, *, person: str) -> str:
        """Acknowledge, close, reopen or tell; one line about it."""
        ...


def incident_pages(views: IncidentViews) -> PageSet:
    async def show_list(request: HttpRequest, visitor: Visitor) -> PageContext:
        state, text = request.query.get("state", ""), request.query.get("q", "")[:200]
        state = state if state in STATES else STATES[0]
        found = await views.incident_list(
            only_open=state == "open",
            text=text,
            before=request.query.get("before", ""),
            limit=MAX_ROWS,
        )
        return {**found, "state": state, "text": text}

    async def show_one(request: HttpRequest, visitor: Visitor) -> PageContext:
        chosen, before = request.query.get("show", ""), request.query.get("before", "")
        chosen = chosen if chosen in TIMELINE_FILTERS else TIMELINE_FILTERS[0]
        found = await views.incident_page(
            request.params["id"],
            show=chosen,
            before=int(before[:18]) if before.isascii() and before.isdigit() else 0,
            limit=MAX_ROWS,
        )
        return {**found, "show": chosen, "filters": TIMELINE_FILTERS}

    async def show_report(request: HttpRequest, visitor: Visitor) -> PageContext:
        id = request.params["id"]
        return {"id": id, "report": await views.incident_report(id)}

    async def change(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        id, verb = request.params["id"], fields.get("verb", "")
        text = await views.change_incident(id, verb, fields.get("text", ""), person=visitor.person)
        return Submitted(f"/incidents/{id}", text)

    return PageSet(
        pages=[
            Page("incidents", "/incidents", "incidents.html", show_list, live=("incident.",)),
            Page("incidents", "/incidents/{id}", "incident.html", show_one, live=LIVE_KINDS),
            Page("incidents", "/incidents/{id}/report", "report.html", show_report),
        ],
        forms=[Form("/incidents/{id}", change)],
    )
