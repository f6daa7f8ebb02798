"""A strict stand-in for the search providers, which cannot be reached from here.

It is written from the documents of their interfaces: Brave Search, Tavily, Exa, Firecrawl v2 and
SearXNG; DuckDuckGo's page of results has no document, so it has the shape of a page that was seen.
An unknown path or parameter, a wrong type and a wrong key are errors of the stand-in, kept in
`problems`.
"""

import json
from typing import Any

from aiohttp import web

from standins.common import StandinBase, expect_arguments

KEY = "key-of-a-provider-1234"
HIT = {"title": "Nginx <b>502</b> &amp; you", "url": "https://nginx.org/en/docs/"}
BRAVE_PATH, SEARXNG_PATH, EXA_OR_TAVILY_PATH = "/res/v1/web/search", "/search", "/search"
DUCKDUCKGO_PAGE = """<html><body><div class="result results_links web-result">
<h2 class="result__title"><a rel="nofollow" class="result__a"
 href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fnginx.org%2Fen%2Fdocs%2F&amp;rut=ab12">Nginx
 <b>502</b> &amp; you</a></h2>
<a class="result__snippet" href="//duckduckgo.com/l/?uddg=x">The <b>upstream</b> is down</a></div>
<div class="result result--ad"><a class="result__a"
 href="https://duckduckgo.com/y.js?ad_domain=x">An advertisement</a></div></body></html>"""
SCRAPED = {
    "success": True,
    "data": {
        "rawHtml": "<html><body><article><p>made by a script</p></article></body></html>",
        "metadata": {"url": "https://example.com/app", "statusCode": 200},
    },
}


class SearchStandin(StandinBase):
    """All providers on one port."""

    def __init__(self, *, limited: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.limited = set(limited)
        """Providers that answer 429."""
        self.answers: dict[str, web.Response] = {}
        """By provider: what it answers instead."""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/{rest:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        provider = self._provider(request, body)
        self.asked.append(provider)
        if provider in self.limited:
            return web.json_response({"error": "slow"}, status=429, headers={"Retry-After": "900"})
        if provider in self.answers:
            return self.answers[provider]
        given = dict(request.query) if request.method == "GET" else self._body(request, body)
        self.sent.append(given)
        allowed, required, answer = self._contract(provider)
        self.problems += [
            f"{provider}: {each}" for each in expect_arguments(given, allowed, required)
        ]
        if isinstance(answer, str):
            return web.Response(text=answer, content_type="text/html")
        return web.json_response(answer)

    def _body(self, request: web.Request, body: bytes) -> dict[str, Any]:
        if request.content_type == "application/json":
            found: dict[str, Any] = json.loads(body)
            return found
        return dict(pair.split("=", 1) for pair in body.decode().split("&"))

    def _provider(self, request: web.Request, body: bytes) -> str:
        headers, call = request.headers, (request.method, request.path)
        bearer = headers.get("Authorization") == f"Bearer {KEY}"
        known = {
            "brave": call == ("GET", BRAVE_PATH) and headers.get("X-Subscription-Token") == KEY,
            "tavily": call == ("POST", EXA_OR_TAVILY_PATH) and bearer,
            "exa": call == ("POST", EXA_OR_TAVILY_PATH) and headers.get("x-api-key") == KEY,
            "firecrawl": call == ("POST", "/v2/search") and bearer,
            "scrape": call == ("POST", "/v2/scrape") and bearer,
            "searxng": call == ("GET", SEARXNG_PATH) and request.query.get("format") == "json",
            "duckduckgo": call == ("POST", "/html/"),
        }
        found = [name for name, fits in known.items() if fits]
        if len(found) != 1:
            self.complain(f"no provider knows {call}")
            raise web.HTTPNotFound
        return found[0]

    def _contract(self, provider: str) -> tuple[dict[str, Any], set[str], Any]:
        """Arguments with their types, those that are required, and the answer."""
        contracts: dict[str, tuple[dict[str, Any], set[str], Any]] = {
            "brave": (
                {"q": str, "count": str, "freshness": str},
                {"q"},
                {
                    "type": "search",
                    "web": {
                        "results": [
                            {
                                **HIT,
                                "description": "The <strong>upstream</strong> is down",
                                "page_age": "2026-02-03T01:02:03",
                            }
                        ]
                    },
                },
            ),
            "tavily": (
                {"query": str, "max_results": int, "include_domains": list, "start_date": str},
                {"query"},
                {
                    "query": "x",
                    "results": [{**HIT, "content": "The upstream is down", "score": 0.9}],
                },
            ),
            "exa": (
                {
                    "query": str,
                    "numResults": int,
                    "contents": dict,
                    "includeDomains": list,
                    "startPublishedDate": str,
                },
                {"query"},
                {
                    "requestId": "r",
                    "results": [
                        {
                            **HIT,
                            "id": "i",
                            "highlights": ["The upstream is down"],
                            "publishedDate": "2026-02-03T00:00:00.000Z",
                        }
                    ],
                },
            ),
            "firecrawl": (
                {"query": str, "limit": int, "tbs": str},
                {"query"},
                {
                    "success": True,
                    "data": {"web": [{**HIT, "description": "The upstream is down"}]},
                },
            ),
            "scrape": ({"url": str, "formats": list}, {"url"}, SCRAPED),
            "searxng": (
                {"q": str, "format": str, "time_range": str},
                {"q"},
                {
                    "query": "x",
                    "results": [{**HIT, "content": "The upstream is down", "publishedDate": None}],
                },
            ),
            "duckduckgo": ({"q": str, "df": str}, {"q"}, DUCKDUCKGO_PAGE),
        }
        return contracts[provider]
