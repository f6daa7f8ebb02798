"""Every search provider against a strict stand-in that is written from its documents."""

import json
from collections.abc import AsyncGenerator
from datetime import date
from pathlib import Path

import pytest
from aiohttp import web

from hermes.core.errors import ToolError
from hermes.core.web_content import WebSearchQuery
from hermes.integrations.web.search import PROVIDER_ORDER, ProviderAddresses, WebSearch
from standins.search import KEY, SearchStandin

pytestmark = pytest.mark.anyio
ALL_PROVIDERS = (*PROVIDER_ORDER, "duckduckgo")
TODAY = date(2026, 2, 10)
QUERY = WebSearchQuery(text="nginx 502", today=TODAY)
NARROW = WebSearchQuery(
    text="nginx 502", limit=3, site="nginx.org", since=date(2026, 2, 3), today=TODAY
)


@pytest.fixture
async def standin() -> AsyncGenerator[SearchStandin, None]:
    made = SearchStandin()
    async with made.serving():
        yield made
        assert made.problems == []


def search_by(standin: SearchStandin, *names: str) -> WebSearch:
    return WebSearch(
        ProviderAddresses(
            chosen=names,
            urls=dict.fromkeys(ALL_PROVIDERS, f"{standin.url}/"),
            keys=dict.fromkeys(ALL_PROVIDERS, KEY),
        )
    )


@pytest.mark.parametrize("name", ALL_PROVIDERS)
async def test_each_provider_answers_in_the_same_form(standin: SearchStandin, name: str) -> None:
    answer = await search_by(standin, name).search(QUERY)
    assert (answer.provider, answer.notes) == (name, ())
    [hit] = answer.hits
    assert (hit.title, hit.url) == ("Nginx 502 & you", "https://nginx.org/en/docs/")
    assert hit.snippet == "The upstream is down"
    assert hit.at in ("", "2026-02-03")


@pytest.mark.parametrize(
    ("name", "site", "since"),
    [
        ("searxng", {"q": "nginx 502 site:nginx.org"}, {"time_range": "month"}),
        ("brave", {"q": "nginx 502 site:nginx.org"}, {"freshness": "2026-02-03to2026-02-10"}),
        ("tavily", {"include_domains": ["nginx.org"]}, {"start_date": "2026-02-03"}),
        (
            "exa",
            {"includeDomains": ["nginx.org"]},
            {"startPublishedDate": "2026-02-03T00:00:00.000Z"},
        ),
        (
            "firecrawl",
            {"query": "nginx 502 site:nginx.org"},
            {"tbs": "cdr:1,cd_min:02/03/2026,cd_max:02/10/2026"},
        ),
        ("duckduckgo", {"q": "nginx+502+site%3Anginx.org"}, {"df": "w"}),
    ],
)
async def test_site_and_age_are_sent_in_the_words_of_each(
    standin: SearchStandin, name: str, site: dict[str, object], since: dict[str, object]
) -> None:
    await search_by(standin, name).search(NARROW)
    assert standin.sent[0].items() >= {**site, **since}.items()


async def test_what_is_shown_before_is_what_is_sent_without_the_key(standin: SearchStandin) -> None:
    for name in ALL_PROVIDERS:
        web_search = search_by(standin, name)
        shown = web_search.preview(NARROW)
        assert KEY not in f"{shown.url}{shown.body}"
        assert shown.effect == "read"
        assert not shown.configured  # also one's own SearXNG asks the world
        await web_search.search(NARROW)
        if shown.body.startswith("{"):
            assert json.loads(shown.body) == standin.sent[-1]


async def test_the_next_is_asked_when_one_is_at_its_limit(standin: SearchStandin) -> None:
    standin.limited = {"brave"}
    web_search = search_by(standin, "brave", "exa")
    answer = await web_search.search(QUERY)
    assert answer.provider == "exa"
    assert "brave is at its limit (429, too many requests, asks to wait: 900)" in answer.notes[0]
    assert standin.asked == ["brave", "exa"]
    await web_search.search(QUERY)
    assert standin.asked == ["brave", "exa", "exa"]  # not before the time that it asked for
    assert "/search" in web_search.preview(QUERY).url
    standin.limited = {"brave", "exa"}
    with pytest.raises(ToolError, match=r"exa is at its limit.*brave is at its limit"):
        await web_search.search(QUERY)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "is the key BRAVE_API_KEY right"),
        (500, "brave answers 500: broken"),
        (302, "redirect"),
    ],
)
async def test_another_failure_is_told_and_does_not_send_the_query_elsewhere(
    standin: SearchStandin, status: int, words: str
) -> None:
    headers = {"Location": "https://example.com/"} if status == 302 else {}
    standin.answers["brave"] = web.json_response(
        {"error": "broken"}, status=status, headers=headers
    )
    with pytest.raises(ToolError, match=words):
        await search_by(standin, "brave", "exa").search(QUERY)
    assert standin.asked == ["brave"]


@pytest.mark.parametrize(
    "body", ["<html>no", "[]", "{}", '{"results": 7}', '{"results": null}', "[" * 100_000]
)
async def test_an_answer_of_another_shape_is_told(standin: SearchStandin, body: str) -> None:
    standin.answers["tavily"] = web.Response(text=body, content_type="application/json")
    with pytest.raises(ToolError, match="tavily answered application/json that is no list"):
        await search_by(standin, "tavily").search(QUERY)


async def test_hits_are_cleaned(standin: SearchStandin) -> None:
    hits = [
        {"title": "a\u202eb\x1b[31m", "url": "https://a.example/", "content": "x" * 5000},
        {"title": "again", "url": "https://a.example/"},
        {"title": "file", "url": "file:///etc/passwd"},
        {"title": "script", "url": "javascript:alert(1)"},
        {"title": "space", "url": "https://a.example/ b"},
        "no object",
    ]
    standin.answers["searxng"] = web.json_response({"results": hits})
    answer = await search_by(standin, "searxng").search(QUERY)
    [hit] = answer.hits
    assert (hit.title, hit.url, len(hit.snippet)) == ("ab", "https://a.example/", 400)


async def test_searxng_without_json_says_what_to_change(standin: SearchStandin) -> None:
    standin.answers["searxng"] = web.Response(status=403)
    with pytest.raises(ToolError, match=r"search\.formats"):
        await search_by(standin, "searxng").search(QUERY)


async def test_duckduckgo_that_blocks_is_told(standin: SearchStandin) -> None:
    standin.answers["duckduckgo"] = web.Response(status=202, text="<html>are you a person?</html>")
    with pytest.raises(ToolError, match="duckduckgo blocks programs"):
        await search_by(standin, "duckduckgo").search(QUERY)


def test_the_order_is_that_of_the_settings_or_of_what_has_a_key() -> None:
    keys = {"exa": KEY, "brave": KEY, "duckduckgo": KEY}
    assert ProviderAddresses(keys=keys).names() == ("brave", "exa")
    own = {"searxng": "http://127.0.0.1:1", "brave": "http://127.0.0.1:2"}
    assert ProviderAddresses(keys={}, urls=own).names() == ("searxng",)
    assert ProviderAddresses(chosen=("duckduckgo",), keys=keys).names() == ("duckduckgo",)


async def test_a_plug_in_provides_results_and_reaches_no_private_address(
    standin: SearchStandin, tmp_path: Path
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/mine.py").write_text(
        "from hermes.core.web_content import WebSearchHit, SearchRequest\n"
        "class Mine:\n"
        "    def __init__(self, context): self.context = context\n"
        "    def build_request(self, query):\n"
        f"        url = self.context.url or {standin.url!r}\n"
        "        return SearchRequest('GET', f'{url}/search?q={query.text}&format=json')\n"
        "    def read_hits(self, body):\n"
        "        return [WebSearchHit(title=self.context.key, url='https://mine.example/')]\n"
        "ENTRY_POINTS = {'hermes.search': {'mine': Mine}}\n"
    )
    keys, urls = {"mine": KEY}, {"mine": standin.url}
    query = WebSearchQuery(text="nginx", today=TODAY)
    addresses = ProviderAddresses(chosen=("mine",), keys=keys, urls=urls, home=tmp_path)
    answer = await WebSearch(addresses).search(query)
    assert [hit.title for hit in answer.hits] == [KEY]
    addresses = ProviderAddresses(chosen=("mine",), keys=keys, home=tmp_path)
    with pytest.raises(ToolError, match="is not a public address"):
        await WebSearch(addresses).search(query)
    with pytest.raises(ToolError, match="no search named 'brav'; did you mean brave"):
        await WebSearch(ProviderAddresses(chosen=("brav",))).search(query)
    with pytest.raises(ToolError, match="searxng needs its address"):
        WebSearch(ProviderAddresses(chosen=("searxng",))).preview(query)
