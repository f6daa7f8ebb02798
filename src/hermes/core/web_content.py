"""Searches of the web and its pages, as values, and the protocols of those who bring them.

A plug-in in the group `hermes.search` is a function that takes a `SearchProviderContext` and
returns a `SearchProvider`. A provider sends nothing itself: it describes the request, which the
policy sees before it is sent, and reads the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from hermes.core.messages import OutgoingRequest, Value


class WebSearchQuery(Value, kw_only=True, frozen=True):
    text: str
    limit: int = 5
    site: str = ""
    """Only pages of this host; empty: of all."""
    since: date | None = None
    """Only pages of this day or later, as far as the provider knows their age."""
    today: date

    def with_site(self) -> str:
        """The text for providers that take the host in the words of the query."""
        return f"{self.text} site:{self.site}" if self.site else self.text

    def age_days(self) -> int:
        return max(1, (self.today - self.since).days) if self.since else 0


class WebSearchHit(Value, kw_only=True, frozen=True):
    title: str
    url: str
    snippet: str = ""
    at: str = ""
    """When it was published, as far as the provider knows."""


@dataclass(frozen=True)
class SearchRequest:
    """A request to a provider. Its headers may contain the key, so they are never shown."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    body: str = ""


@dataclass(frozen=True)
class SearchProviderContext:
    """The address of a provider, as far as one is set, and its key."""

    name: str
    url: str = ""
    """Without a slash at the end; empty: the provider's own."""
    key: str = field(default="", repr=False)


class SearchProvider(Protocol):
    def build_request(self, query: WebSearchQuery) -> SearchRequest: ...

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        """Any error means that it is no list of results."""


class SearchAnswer(Value, kw_only=True, frozen=True):
    provider: str
    hits: tuple[WebSearchHit, ...]
    notes: tuple[str, ...] = ()
    """Which providers were passed over, and why."""


class SearchesWeb(Protocol):
    """Searches the web. Raises `ToolError`."""

    def preview(self, query: WebSearchQuery) -> OutgoingRequest:
        """The request that `search` sends first."""

    async def search(self, query: WebSearchQuery) -> SearchAnswer: ...


class PageLink(Value, frozen=True):
    text: str
    url: str


class PageContent(Value, kw_only=True, frozen=True):
    url: str
    """The address after redirects."""
    kind: str
    """html, pdf, json or text."""
    text: str
    title: str = ""
    date: str = ""
    links: tuple[PageLink, ...] = ()
    notes: tuple[str, ...] = ()
    """What the reader should know, such as that a library is missing."""


class ReadsPages(Protocol):
    """Reads pages of the web. Raises `ToolError`."""

    def preview(self, url: str, *, render: bool) -> OutgoingRequest:
        """The request that `read` sends first."""

    async def read(self, url: str, *, render: bool) -> PageContent: ...


class RendersPages(Protocol):
    """Runs the scripts of a page: a service or a browser. Raises `ToolError`."""

    name: str

    def preview(self, url: str) -> OutgoingRequest: ...

    async def render(self, url: str) -> tuple[str, bytes]:
        """The address in the end, and the HTML that the scripts made."""
