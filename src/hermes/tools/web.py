"""The tools `web_search` and `web_extract`: pages found and read, as untrusted text.

Who searches and who reads is given to them, and opened by the first call. Each request is shown to
the policy as it is sent; several pages are several calls, so that the policy decides about each
host.
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, cast

import anyio
import msgspec

from hermes.core.errors import SettingsError, StoreError, ToolError
from hermes.core.messages import OutgoingRequest, RemoteTarget, Risk, ToolCall, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.core.web_content import (
    PageContent,
    ReadsPages,
    SearchAnswer,
    SearchesWeb,
    WebSearchQuery,
)
from hermes.plumbing.units import parse_duration
from hermes.tools.declare import ToolRequirements, about, check_arguments, json_schema

SEARCH_TOOL, EXTRACT_TOOL = "web_search", "web_extract"
MAX_HITS, MAX_PAGES = 20, 5
MAX_QUERY_CHARS = 400
MAX_SHOWN_LINKS = 30
SEARCH_KEYS = (
    *("systems.searxng.url", "BRAVE_API_KEY", "TAVILY_API_KEY", "EXA_API_KEY"),
    *("FIRECRAWL_API_KEY", "tools.web.search"),
)
"""One of them is enough for a search."""
SEARCH_NEEDS = ToolRequirements(
    any_of=SEARCH_KEYS,
    how="hermes config set SEARXNG_URL <url>, or BRAVE_API_KEY <key> (TAVILY, EXA, FIRECRAWL)",
)
EXTRACT_NEEDS = ToolRequirements(
    any_of=(*SEARCH_KEYS, "tools.web.extract"),
    how="hermes config set tools.web.extract true",
)
_HOST = re.compile(r"(?=.{1,253}$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62})(?:\.[a-zA-Z0-9-]{1,63})+")


PageUrl = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uri"})]


class SearchArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    query: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_HITS)] = 5
    site: Annotated[str, about("only pages of this host, such as docs.python.org")] = ""
    since: Annotated[str, about("a day (2026-01-31) or an age (7d)")] = ""


class ExtractArguments(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename={"start": "from"}
):
    urls: Annotated[list[PageUrl], msgspec.Meta(min_length=1, max_length=MAX_PAGES)]
    max_chars: Annotated[
        int, msgspec.Meta(ge=500, le=100_000, description="of text, for all pages together")
    ] = 15_000
    start: Annotated[int, msgspec.Meta(ge=0, description="the first character, to read on")] = 0
    render: Annotated[bool, about("run the scripts of the page first")] = False


class WebSearchTool:
    """Implements `Tool` and `ShowsRequest`."""

    needs = SEARCH_NEEDS
    spec = ToolSpec(
        name=SEARCH_TOOL,
        description="Search the web. Read a result with `web_extract`.",
        parameters=json_schema(SearchArguments),
        risk=Risk.READ,
    )

    def __init__(self, open_web: Callable[[], SearchesWeb] | None = None) -> None:
        self._open, self._web = open_web, cast("SearchesWeb | None", None)

    def validate(self, arguments: Mapping[str, Any]) -> WebSearchQuery:
        given = check_arguments(SEARCH_TOOL, SearchArguments, arguments)
        assert isinstance(given, SearchArguments)
        text, site = " ".join(given.query.split()), given.site.strip().lower()
        if not text or len(text) > MAX_QUERY_CHARS:
            raise ToolError(f"query must have 1 to {MAX_QUERY_CHARS} characters")
        if site and not _HOST.fullmatch(site):
            raise ToolError("site must be the name of a host, such as docs.python.org")
        today = datetime.now(UTC).date()
        since = _parse_since(given.since.strip(), today)
        return WebSearchQuery(text=text, limit=given.limit, site=site, since=since, today=today)

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest:
        return self._require().preview(self.validate(arguments))

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        query = self.validate(arguments)
        return render_answer(query, await self._require().search(query))

    def _require(self) -> SearchesWeb:
        if self._open is None:
            raise ToolError(f"no search provider is configured: {SEARCH_NEEDS.how}")
        try:
            self._web = self._web or self._open()
        except SettingsError as error:
            raise ToolError(str(error)) from error
        return self._web


class WebExtractTool:
    """Implements `Tool`, `ShowsRequest` and `ActsElsewhere`."""

    needs = EXTRACT_NEEDS
    spec = ToolSpec(
        name=EXTRACT_TOOL,
        description="Read web pages: the text of HTML, PDF, JSON and plain text, with links.",
        parameters=json_schema(ExtractArguments),
        risk=Risk.READ,
    )

    def __init__(self, open_pages: Callable[[], ReadsPages] | None = None) -> None:
        self._open, self._pages = open_pages, cast("ReadsPages | None", None)
        self._numbers = itertools.count(1)

    def validate(self, arguments: Mapping[str, Any]) -> ExtractArguments:
        given = check_arguments(EXTRACT_TOOL, ExtractArguments, arguments)
        assert isinstance(given, ExtractArguments)
        for url in given.urls if self._open is not None else ():
            self._require().preview(url, render=given.render)
        return given

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest:
        """The first request; a call with several addresses makes an inner call for each."""
        given = self.validate(arguments)
        first, *more = (self._require().preview(url, render=given.render) for url in given.urls)
        if not more:
            return first
        return msgspec.structs.replace(first, body="\n".join(each.url for each in more))

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        """The host of the page, also where a service fetches it."""
        given = self.validate(arguments)
        hosts = {_host_of(self._require().preview(url, render=False).url) for url in given.urls}
        return RemoteTarget(kind="web", host=hosts.pop() if len(hosts) == 1 else "")

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        given = self.validate(arguments)
        if len(given.urls) == 1:
            return await self._read_one(context, given)
        texts = [""] * len(given.urls)

        async def read(position: int) -> None:
            one = {
                "urls": [given.urls[position]],
                "max_chars": max(500, given.max_chars // len(given.urls)),
                "from": given.start,
                "render": given.render,
            }
            call = ToolCall(f"{EXTRACT_TOOL}-{next(self._numbers)}", EXTRACT_TOOL, one)
            result = await context.call(call)
            failed = "" if result.status == "ok" else f"{given.urls[position]}: not read: "
            texts[position] = f"{failed}{result.content}"

        async with anyio.create_task_group() as group:
            for position in range(len(given.urls)):
                group.start_soon(read, position)
        return "\n\n---\n\n".join(texts)

    async def _read_one(self, context: ToolContext, given: ExtractArguments) -> str:
        page = await self._require().read(given.urls[0], render=given.render)
        end = given.start + given.max_chars
        shown = page.text[given.start : end]
        notes = [f"[{note}]" for note in page.notes]
        if given.start and not shown:
            notes.append(f"[the text has only {len(page.text):,} characters]")
        if len(shown) < len(page.text):
            notes.append(await self._keep(context, page))
        if end < len(page.text):
            notes.append(f"[{len(page.text) - end:,} characters follow: from={end}]")
        return "\n".join(filter(None, [render_head(page), shown, *notes, render_links(page)]))

    async def _keep(self, context: ToolContext, page: PageContent) -> str:
        name = f"{EXTRACT_TOOL}-{hashlib.sha256(page.text.encode()).hexdigest()[:12]}"
        try:
            kept = await context.artifacts.save(context.run, name, context.redact(page.text))
        except StoreError as error:
            return f"[the whole text could not be kept: {error}]"
        return f"[the whole text ({len(page.text):,} characters) is {kept}: read_file opens it]"

    def _require(self) -> ReadsPages:
        if self._open is None:
            raise ToolError(f"pages are not read here: {EXTRACT_NEEDS.how}")
        try:
            self._pages = self._pages or self._open()
        except SettingsError as error:
            raise ToolError(str(error)) from error
        return self._pages


web_search, web_extract = WebSearchTool(), WebExtractTool()
"""To be listed; those of an application get what they need."""


def render_answer(query: WebSearchQuery, answer: SearchAnswer) -> str:
    lines = [f"[{note}]" for note in answer.notes]
    if not answer.hits:
        return "\n".join([*lines, f"{answer.provider} finds nothing for {query.with_site()!r}"])
    lines.append(f"Results of {answer.provider}:")
    for number, hit in enumerate(answer.hits, 1):
        lines.append(f"{number}. {hit.title or hit.url}{f' ({hit.at})' if hit.at else ''}")
        lines.append(f"   {hit.url}")
        if hit.snippet:
            lines.append(f"   {hit.snippet}")
    return "\n".join(lines)


def render_head(page: PageContent) -> str:
    date = f"Date: {page.date}\n" if page.date else ""
    title = f"Title: {page.title}\n" if page.title else ""
    return f"{title}{date}Address: {page.url} ({page.kind})\n"


def render_links(page: PageContent) -> str:
    if not page.links:
        return ""
    lines = [
        f"[{number}] {link.text}: {link.url}"
        for number, link in enumerate(page.links[:MAX_SHOWN_LINKS], 1)
    ]
    more = len(page.links) - len(lines)
    return "\n".join(["\nLinks:", *lines, *([f"and {more} more"] if more else [])])


def _parse_since(text: str, today: date) -> date | None:
    if not text:
        return None
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            found = date.fromisoformat(text)
        else:
            found = today - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError) as error:
        message = f"since must be a day such as 2026-01-31 or an age such as 7d: {error}"
        raise ToolError(message) from error
    return min(found, today)


def _host_of(url: str) -> str:
    found = re.match(r"https?://(\[[^\]]+\]|[^/:?#]+)", url)
    return found[1].strip("[]") if found else ""
