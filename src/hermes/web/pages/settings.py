"""The page Settings: every key with value, source and meaning; secrets, channels, people."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

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
from hermes.web.pages.paging import cut_page, query_text


class SettingViews(Protocol):
    """Nothing that it returns has the value of a secret. Methods may raise `HermesError`."""

    @property
    def home(self) -> str: ...

    async def settings(
        self, *, words: str = "", changed: bool = False
    ) -> Sequence[Mapping[str, Any]]: ...

    async def secrets(self) -> Sequence[Mapping[str, Any]]: ...
    async def channels(self) -> Sequence[Mapping[str, Any]]: ...
    async def people(self) -> Sequence[Mapping[str, Any]]: ...

    async def test_channel(self, name: str, *, person: str) -> str:
        """Send a test message; returns one line about it."""
        ...


def setting_pages(views: SettingViews) -> PageSet:
    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        """Without a search or a section: what differs from the defaults."""
        words, section = query_text(request, "q"), query_text(request, "section")
        every = await views.settings()
        sections: dict[str, int] = {}
        for row in every:
            sections[row["section"]] = sections.get(row["section"], 0) + 1
        found = await views.settings(words=words, changed=not (words or section))
        rows = [row for row in found if section in ("", row["section"])]
        part = cut_page(rows, request, MAX_ROWS)
        overview = not (words or section)
        return {
            "rows": part.rows,
            "older": part.older,
            "words": words,
            "section": section,
            "sections": dict(sorted(sections.items())),
            "every": len(every),
            "overview": overview,
            "secrets": await views.secrets() if overview else [],
            "channels": await views.channels() if overview else [],
            "people": await views.people() if overview else [],
            "home": views.home,
        }

    async def test(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        text = await views.test_channel(request.params["name"], person=visitor.person)
        return Submitted("/settings#channels-title", text)

    live = ("channel.", "person.")
    return PageSet(
        pages=[Page("settings", "/settings", "settings.html", show, live=live)],
        forms=[Form("/settings/channels/{name}/test", test)],
    )
