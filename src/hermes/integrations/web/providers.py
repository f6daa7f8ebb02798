"""The search providers: each says what is sent for a query, and reads the answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from hermes.core.errors import SettingsError
from hermes.core.web_content import (
    SearchProvider,
    SearchProviderContext,
    SearchRequest,
    WebSearchHit,
    WebSearchQuery,
)
from hermes.integrations.web.html_text import read_anchors, strip_tags

_JSON_HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}


class SearxngProvider:
    """A SearXNG server, usually of the operator's own; it needs `json` in `search.formats`."""

    def __init__(self, context: SearchProviderContext) -> None:
        if not context.url:
            raise SettingsError("searxng needs its address: hermes config set SEARXNG_URL <url>")
        self._url = context.url

    def build_request(self, query: WebSearchQuery) -> SearchRequest:
        words = {"q": query.with_site(), "format": "json"}
        if query.since:
            words["time_range"] = _period(query, {1: "day", 31: "month"}, "year")
        return SearchRequest(
            "GET", f"{self._url}/search?{urlencode(words)}", {"Accept": "application/json"}
        )

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        return [
            _hit(each, snippet=each.get("content"), at=each.get("publishedDate"))
            for each in _items(json.loads(body)["results"])
        ]


class BraveProvider:
    def __init__(self, context: SearchProviderContext) -> None:
        self._url, self._key = context.url or "https://api.search.brave.com", context.key

    def build_request(self, query: WebSearchQuery) -> SearchRequest:
        words = {"q": query.with_site(), "count": str(query.limit)}
        if query.since:
            words["freshness"] = f"{query.since}to{query.today}"
        return SearchRequest(
            "GET",
            f"{self._url}/res/v1/web/search?{urlencode(words)}",
            {"Accept": "application/json", "X-Subscription-Token": self._key},
        )

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        found = json.loads(body)
        return [  # without any result there is no `web`
            _hit(each, snippet=each.get("description"), at=each.get("page_age"))
            for each in _items((found.get("web") or {}).get("results", []))
        ]


class TavilyProvider:
    def __init__(self, context: SearchProviderContext) -> None:
        self._url, self._key = context.url or "https://api.tavily.com", context.key

    def build_request(self, query: WebSearchQuery) -> SearchRequest:
        body: dict[str, Any] = {"query": query.text, "max_results": query.limit}
        if query.site:
            body["include_domains"] = [query.site]
        if query.since:
            body["start_date"] = str(query.since)
        headers = {**_JSON_HEADERS, "Authorization": f"Bearer {self._key}"}
        return SearchRequest("POST", f"{self._url}/search", headers, json.dumps(body))

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        return [
            _hit(each, snippet=each.get("content"), at=each.get("published_date"))
            for each in _items(json.loads(body)["results"])
        ]


class ExaProvider:
    def __init__(self, context: SearchProviderContext) -> None:
        self._url, self._key = context.url or "https://api.exa.ai", context.key

    def build_request(self, query: WebSearchQuery) -> SearchRequest:
        body: dict[str, Any] = {
            "query": query.text,
            "numResults": query.limit,
            "contents": {"highlights": True},
        }
        if query.site:
            body["includeDomains"] = [query.site]
        if query.since:
            body["startPublishedDate"] = f"{query.since}T00:00:00.000Z"
        headers = {**_JSON_HEADERS, "x-api-key": self._key}
        return SearchRequest("POST", f"{self._url}/search", headers, json.dumps(body))

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        return [
            _hit(
                each,
                snippet=" … ".join(map(str, each.get("highlights") or ())),
                at=each.get("publishedDate"),
            )
            for each in _items(json.loads(body)["results"])
        ]


class FirecrawlProvider:
    def __init__(self, context: SearchProviderContext) -> None:
        self._url, self._key = context.url or "https://api.firecrawl.dev", context.key

    def build_request(self, query: WebSearchQuery) -> SearchRequest:
        body: dict[str, Any] = {"query": query.with_site(), "limit": query.limit}
        if query.since:
            first, last = (f"{day:%m/%d/%Y}" for day in (query.since, query.today))
            body["tbs"] = f"cdr:1,cd_min:{first},cd_max:{last}"
        headers = {**_JSON_HEADERS, "Authorization": f"Bearer {self._key}"}
        return SearchRequest("POST", f"{self._url}/v2/search", headers, json.dumps(body))

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        return [
            _hit(each, snippet=each.get("description"), at=each.get("date"))
            for each in _items(json.loads(body)["data"].get("web", []))
        ]


class DuckduckgoProvider:
    """The page of results for browsers without scripts: there is no interface for programs."""

    def __init__(self, context: SearchProviderContext) -> None:
        self._url = context.url or "https://html.duckduckgo.com"

    def build_request(self, query: WebSearchQuery) -> SearchRequest:
        words = {"q": query.with_site()}
        if query.since:
            words["df"] = _period(query, {1: "d", 7: "w", 31: "m"}, "y")
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return SearchRequest("POST", f"{self._url}/html/", headers, urlencode(words))

    def read_hits(self, body: bytes) -> Sequence[WebSearchHit]:
        hits: list[WebSearchHit] = []
        for classes, target, text in read_anchors(body.decode("utf-8", "replace")):
            if "result__a" in classes:
                hits.append(WebSearchHit(title=text, url=_redirect_target(target)))
            elif "result__snippet" in classes and hits and not hits[-1].snippet:
                last = hits.pop()
                hits.append(WebSearchHit(title=last.title, url=last.url, snippet=text))
        return [hit for hit in hits if urlsplit(hit.url).hostname != "duckduckgo.com"]


def open_searxng(context: SearchProviderContext) -> SearchProvider:
    return SearxngProvider(context)


def open_brave(context: SearchProviderContext) -> SearchProvider:
    return BraveProvider(context)


def open_tavily(context: SearchProviderContext) -> SearchProvider:
    return TavilyProvider(context)


def open_exa(context: SearchProviderContext) -> SearchProvider:
    return ExaProvider(context)


def open_firecrawl(context: SearchProviderContext) -> SearchProvider:
    return FirecrawlProvider(context)


def open_duckduckgo(context: SearchProviderContext) -> SearchProvider:
    return DuckduckgoProvider(context)


def _items(found: object) -> list[Mapping[str, Any]]:
    if not isinstance(found, list):
        raise TypeError("the results are not a list")
    return [each for each in found if isinstance(each, Mapping)]


def _hit(item: Mapping[str, Any], *, snippet: object, at: object) -> WebSearchHit:
    return WebSearchHit(
        title=strip_tags(str(item.get("title") or "")),
        url=str(item.get("url") or ""),
        snippet=strip_tags(str(snippet or "")),
        at=str(at or "")[:10],
    )


def _period(query: WebSearchQuery, names: Mapping[int, str], longest: str) -> str:
    """The shortest period of the provider that reaches back far enough."""
    return next((name for days, name in names.items() if query.age_days() <= days), longest)


def _redirect_target(url: str) -> str:
    """DuckDuckGo's results lead through an address of DuckDuckGo that contains the real one."""
    parts = urlsplit(url)
    found = parse_qs(parts.query).get("uddg")
    return found[0] if found and parts.path == "/l/" else url
