"""The page Services: state, checks, incidents, maintenance, and which service needs which."""

from collections.abc import Mapping
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
from hermes.web.pages.paging import PagePart, cut_page

MAX_NODES = 60
"""More services than these are a list, not a picture."""


class ServiceViews(Protocol):
    """Methods may raise `HermesError`."""

    async def services(self) -> Mapping[str, Any]: ...

    async def add_maintenance(
        self, target: str, *, length: str, begins: str, reason: str, person: str
    ) -> str:
        """Returns one line about what was done."""
        ...

    async def end_maintenance(self, window: str, *, person: str) -> str: ...


def service_pages(views: ServiceViews) -> PageSet:
    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        found = await views.services()
        part: PagePart = cut_page(found["services"], request, MAX_ROWS)
        states: dict[str, int] = {}
        for row in found["services"]:
            states[row["state"]] = states.get(row["state"], 0) + 1
        return {
            **found,
            "services": part.rows,
            "names": [row["name"] for row in found["services"][:MAX_ROWS]],
            "states": states,
            "older": part.older,
            "topology": _topology(found),
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


def _topology(found: Mapping[str, Any]) -> Markup:
    """A picture of who needs whom; empty without links, or with too many services."""
    linked = {name for each in found["links"] for name in (each["service"], each["needs"])}
    if len(linked) > MAX_NODES:
        return Markup("")
    nodes = [
        ChartNode(row["name"], row["state"], f"#service-{quote(row['name'], safe='')}")
        for row in sorted(found["services"], key=lambda row: row["name"])
        if row["name"] in linked
    ]
    links = [(each["service"], each["needs"]) for each in found["links"]]
    # The drawing escapes every text in it.
    return Markup(layer_chart("Which service needs which", nodes, links))
