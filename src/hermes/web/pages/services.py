"""The page Services: state, checks, incidents, maintenance, and which service needs which."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from markupsafe import Markup

from hermes.plumbing.charts import ChartNode, layer_chart
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
from hermes.web.pages.paging import page_address, whole_number
from hermes.web.templating import embed_drawing

MAX_NODES = 60
"""More services than these are a list, not a picture."""
MAX_WINDOWS = 30


class ServiceViews(Protocol):
    """Methods may raise `HermesError`."""

    async def services(self, *, limit: int, skip: int) -> Mapping[str, Any]: ...

    async def add_maintenance(
        self, target: str, *, length: str, begins: str, reason: str, person: str
    ) -> str:
        """Returns one line about what was done."""
        ...

    async def end_maintenance(self, window: str, *, person: str) -> str: ...


def service_pages(views: ServiceViews) -> PageSet:
    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        skip = whole_number(request, "skip")
        found = await views.services(limit=MAX_ROWS, skip=skip)
        more = skip + MAX_ROWS < found["count"]
        return {
            **found,
            "maintenance": found["maintenance"][:MAX_WINDOWS],
            "windows_left_out": max(0, len(found["maintenance"]) - MAX_WINDOWS),
            "names": [row["name"] for row in found["services"]],
            "older": page_address(request, skip=skip + MAX_ROWS) if more else "",
            "topology": _topology(found["links"]),
        }

    async def add(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.add_maintenance(
            fields.get("target", "").strip(),
            length=fields.get("length", ""),
            begins=fields.get("begins", ""),
            reason=fields.get("reason", ""),
            person=visitor.person,
        )
        return Submitted("/services#maintenance", text)

    async def end(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.end_maintenance(fields.get("window", ""), person=visitor.person)
        return Submitted("/services#maintenance", text)

    live = ("health.", "incident.", "maintenance.")
    return PageSet(
        pages=[Page("services", "/services", "services.html", show, live=live)],
        forms=[Form("/services/maintenance", add), Form("/services/maintenance/end", end)],
    )


def _topology(links: Sequence[Mapping[str, Any]]) -> Markup:
    """A picture of who needs whom; empty without links, or with too many services."""
    states: dict[str, str] = {}
    for each in links:
        states |= {each["service"]: each["service_state"], each["needs"]: each["needs_state"]}
    if len(states) > MAX_NODES:
        return Markup("")
    nodes = [
        ChartNode(name, state, f"#service-{quote(name, safe='')}")
        for name, state in sorted(states.items())
    ]
    pairs = [(each["service"], each["needs"]) for each in links]
    return embed_drawing(layer_chart("Which service needs which", nodes, pairs))
