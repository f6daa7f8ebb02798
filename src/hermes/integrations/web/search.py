"""Asks search providers: the first that is configured, and the next when one is at its limit."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import PluginError, SettingsError, ToolError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import OutgoingRequest
from hermes.core.plugins import BUILT_IN, call_plugin, load_plugin
from hermes.core.web_content import (
    SearchAnswer,
    SearchProvider,
    SearchProviderContext,
    SearchRequest,
    WebSearchHit,
    WebSearchQuery,
)
from hermes.plumbing.addresses import guard_for
from hermes.plumbing.http_client import HttpAnswer, HttpError, HttpLimits, send_http_request

SEARXNG_PROVIDER = "searxng"
PROVIDER_ORDER = (SEARXNG_PROVIDER, "brave", "tavily", "exa", "firecrawl")
"""DuckDuckGo is not among them: it blocks programs, so it is only asked when it is named."""
SEARCH_LIMITS = HttpLimits(timeout_s=15, total_timeout_s=20, max_answer_bytes=2 * 2**20)
USER_AGENT = "hermes-oncall"
_LIMIT_STATUSES = frozenset({402, 429, 432, 433})
"""Too many requests, or no credit left; 432 and 433 are Tavily's."""
_BLOCKED_STATUS = 202
"""DuckDuckGo answers so, with a riddle for people in place of results."""
_DEFAULT_WAIT_S, _MAX_WAIT_S = 60.0, 3600.0
_MAX_TITLE_CHARS, _MAX_SNIPPET_CHARS, _MAX_URL_CHARS = 200, 400, 2_000
_MAX_ERROR_CHARS = 200


def key_variable(provider: str) -> str:
    return f"{provider.upper().replace('-', '_')}_API_KEY"


class ProviderAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator configured for providers."""

    chosen: tuple[str, ...] = ()
    """Providers in their order; empty: those with a key or an address."""
    urls: Mapping[str, str] = {}
    keys: Mapping[str, str] = {}
    """By provider."""
    home: Path | None = None
    """Where files of plug-ins are."""

    def names(self) -> tuple[str, ...]:
        if self.chosen:
            return self.chosen
        return tuple(
            name
            for name in PROVIDER_ORDER
            if self.keys.get(name) or (name == SEARXNG_PROVIDER and self.urls.get(name))
        )


class WebSearch:
    """Implements `SearchesWeb`. Providers are loaded with the first search."""

    def __init__(self, addresses: ProviderAddresses) -> None:
        self._addresses = addresses
        self._providers: dict[str, SearchProvider] = {}
        self._limited_until: dict[str, float] = {}
        """By provider, the monotonic time before which it is not asked again."""

    def preview(self, query: WebSearchQuery) -> OutgoingRequest:
        request = self._build_request(self._order()[0], query)
        return OutgoingRequest(
            method=request.method, url=request.url, body=request.body, effect="read"
        )

    async def search(self, query: WebSearchQuery) -> SearchAnswer:
        notes: list[str] = []
        for name in self._order():
            answer = await self._send(name, self._build_request(name, query))
            if answer.status in _LIMIT_STATUSES or answer.status == _BLOCKED_STATUS:
                self._limited_until[name] = time.monotonic() + _wait_seconds(answer)
                notes.append(_limit_note(name, answer))
                continue
            return SearchAnswer(
                provider=name,
                hits=_clean_hits(_read_hits(name, self._provider(name), answer), query),
                notes=tuple(notes),
            )
        raise ToolError("; ".join(notes))

    def _order(self) -> list[str]:
        """Those at their limit come last: the others may know the answer."""
        now, names = time.monotonic(), self._addresses.names()
        if not names:
            raise ToolError(
                "no search provider is configured: hermes config set SEARXNG_URL <url>, or one of "
                + ", ".join(map(key_variable, PROVIDER_ORDER[1:]))
            )
        return sorted(names, key=lambda name: self._limited_until.get(name, 0.0) > now)

    def _build_request(self, name: str, query: WebSearchQuery) -> SearchRequest:
        try:
            return call_plugin(name, self._provider(name).build_request, query)
        except (PluginError, SettingsError) as error:
            raise ToolError(str(error)) from error

    def _provider(self, name: str) -> SearchProvider:
        """Raises `PluginError` and `SettingsError`."""
        if name not in self._providers:
            made = load_plugin("search", name, self._addresses.home)
            context = SearchProviderContext(
                name=name,
                url=self._addresses.urls.get(name, "").rstrip("/"),
                key=self._addresses.keys.get(name, ""),
            )
            self._providers[name] = call_plugin(name, made, context)
        return self._providers[name]

    async def _send(self, name: str, request: SearchRequest) -> HttpAnswer:
        # A plug-in may only reach public addresses, and the one that the operator set for it.
        built_in = name in BUILT_IN["search"]
        allowed = [request.url if built_in else self._addresses.urls.get(name, "")]
        configured = bool(self._addresses.urls.get(name))
        try:
            answer = await send_http_request(
                request.method,
                request.url,
                SEARCH_LIMITS,
                headers={"User-Agent": USER_AGENT, **request.headers},
                body=request.body.encode() or None,
                guard=guard_for(allowed if configured else ()),
            )
        except HttpError as error:
            raise ToolError(f"{name}: {error}") from error
        if answer.location:
            raise ToolError(f"{name} redirects to {answer.location}, which is not followed")
        if answer.status >= 400 and answer.status not in _LIMIT_STATUSES:
            raise ToolError(_status_problem(name, answer))
        return answer


def _read_hits(name: str, provider: SearchProvider, answer: HttpAnswer) -> Sequence[WebSearchHit]:
    try:
        return call_plugin(name, provider.read_hits, answer.body)
    except (PluginError, SettingsError) as error:
        kind = answer.content_type.partition(";")[0] or "no type"
        raise ToolError(
            f"{name} answered {kind} that is no list of results: {visible_line(str(error), 80)}"
        ) from error


def _clean_hits(hits: Sequence[WebSearchHit], query: WebSearchQuery) -> tuple[WebSearchHit, ...]:
    """Without invisible characters, addresses that are no pages, and repetitions."""
    found: dict[str, WebSearchHit] = {}
    for hit in hits:
        url = hit.url.strip()
        plain = url.isprintable() and " " not in url and len(url) <= _MAX_URL_CHARS
        if plain and url.lower().startswith(("http://", "https://")):
            found.setdefault(
                url,
                WebSearchHit(
                    title=visible_line(hit.title, _MAX_TITLE_CHARS),
                    url=url,
                    snippet=visible_line(hit.snippet, _MAX_SNIPPET_CHARS),
                    at=visible_line(hit.at, 40),
                ),
            )
    return tuple(found.values())[: query.limit]


def _wait_seconds(answer: HttpAnswer) -> float:
    """As long as it asks for; a date is not read, it waits the usual time."""
    try:
        return min(max(float(answer.retry_after), 1.0), _MAX_WAIT_S)
    except ValueError:
        return _DEFAULT_WAIT_S


def _limit_note(name: str, answer: HttpAnswer) -> str:
    wait = f", asks to wait: {visible_line(answer.retry_after, 40)}" if answer.retry_after else ""
    if answer.status == _BLOCKED_STATUS:
        return f"{name} blocks programs at the moment"
    what = "no credit left" if answer.status in (402, 432, 433) else "too many requests"
    return f"{name} is at its limit ({answer.status}, {what}{wait})"


def _status_problem(name: str, answer: HttpAnswer) -> str:
    if answer.status == 403 and name == SEARXNG_PROVIDER:
        return "searxng answers 403: add json to search.formats in its settings.yml"
    if answer.status in (401, 403):
        return f"{name} answers {answer.status}: is the key {key_variable(name)} right?"
    return f"{name} answers {answer.status}: {_error_words(answer)}"


def _error_words(answer: HttpAnswer) -> str:
    return visible_line(answer.error_text, _MAX_ERROR_CHARS) or answer.reason
