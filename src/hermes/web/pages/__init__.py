"""The pages of the dashboard. They are loaded only where the web port has a dashboard.

To add a page:

1. In `web/pages/NAME.py`, write a Protocol with what the page shows and does (its class is in
   `app/web`), and a function that returns its pages and forms:

       def service_pages(views: ServiceViews) -> PageSet:
           async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
               return {"services": await views.services()}

           async def mute(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
               text = await views.mute(request.params["name"], person=visitor.person)
               return Submitted("/services", text)

           return PageSet(
               pages=[Page("services", "/services", "services.html", show, live=("probe.",))],
               forms=[Form("/services/{name}/mute", mute)],
           )

2. In `web/templates`, write the template: `{% extends "base.html" %}`, the block `content`, and
   the macros of `parts.html`. Every change is a plain form that begins with `{{ parts.csrf() }}`.
   A template has no `style` attribute and no script: the browser refuses both. What a person may
   not do is shown as a disabled button with the reason: `parts.button(text, visitor.why_not)`.
3. Add the set to `page_sets` in `app/web/dashboard.py`: its entry in `NAVIGATION` is linked then.

`show` and `submit` may raise `HermesError` (an error page with status 409), `UnknownIdError` (404)
and `HttpRefusal`. A page has at most `MAX_ROWS` rows and 200 KB; older rows by a cursor in the
query (`?before=ID`). The page is shown again when an event is written whose kind begins with one of
`live`; what has a stable `id` keeps its focus and its open `<details>`, and what is enclosed in the
marks of `page_parts` is sent alone. Cells of a table carry
`data-label`, because a table becomes cards on a narrow screen; rows for the keys j and k carry
`data-row`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hermes.plumbing.http_service import HttpRequest

MAX_ROWS = 100
"""Rows of a page; older ones are on the next page."""

PageContext = Mapping[str, Any]
FormFields = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who looks at a page."""

    person: str
    session: str
    csrf: str
    """The token that every form of this session sends."""
    why_not: str = ""
    """Why this person may change nothing; empty when they may."""


@dataclass(frozen=True, kw_only=True)
class BarStatus:
    """What the bar of every page shows."""

    counts: Mapping[str, int]
    """By name of the entry in `NAVIGATION`: open incidents, waiting approvals."""
    alarm: str = ""
    """The open P0, in one line; empty without one."""
    alarm_href: str = ""


class DashboardStatus(Protocol):
    """What every page needs to know. Methods may raise `StoreError`."""

    async def why_not(self, person: str) -> str:
        """Return why this person may change nothing; empty when they may."""
        ...

    async def bar(self) -> BarStatus: ...


@dataclass(frozen=True)
class Submitted:
    """What a form did: where to go now, and one line about it."""

    location: str
    text: str = ""


@dataclass(frozen=True)
class Page:
    name: str
    """Of the entry in `NAVIGATION` that it belongs to."""
    path: str
    """As Starlette writes it: `/incidents/{id}`."""
    template: str
    show: Callable[[HttpRequest, Visitor], Awaitable[PageContext]]
    live: tuple[str, ...] = ()
    """Beginnings of the kinds of events after which it is shown again; none: it never is."""


@dataclass(frozen=True)
class Form:
    path: str
    submit: Callable[[HttpRequest, Visitor, FormFields], Awaitable[Submitted]]


@dataclass(frozen=True, kw_only=True)
class PageSet:
    pages: Sequence[Page]
    forms: Sequence[Form] = ()


@dataclass(frozen=True)
class NavigationEntry:
    name: str
    title: str
    path: str
    key: str = ""
    """After `g`, it goes to this page."""


NAVIGATION = (
    NavigationEntry("now", "Now", "/", "n"),
    NavigationEntry("incidents", "Incidents", "/incidents", "i"),
    NavigationEntry("approvals", "Approvals", "/approvals", "a"),
    NavigationEntry("services", "Services", "/services", "s"),
    NavigationEntry("trends", "Trends", "/trends", "t"),
    NavigationEntry("skills", "Skills", "/skills", "k"),
    NavigationEntry("memory", "Memory", "/memory", "m"),
    NavigationEntry("drills", "Drills", "/drills", "d"),
    NavigationEntry("audit", "Audit", "/audit", "u"),
    NavigationEntry("schedules", "Schedules", "/schedules", "c"),
    NavigationEntry("settings", "Settings", "/settings", "e"),
)
