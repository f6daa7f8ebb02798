"""The dashboard: sessions, pages, forms, static files, and the stream that keeps pages current."""

import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import anyio
import msgspec

from hermes.core.errors import HermesError, StoreError
from hermes.core.protocols import Journal
from hermes.plumbing.http_server import serve_http
from hermes.plumbing.http_service import (
    HttpRefusal,
    HttpReply,
    HttpRequest,
    HttpRoute,
    HttpService,
)
from hermes.web.api_routes import UnknownIdError
from hermes.web.browser_checks import (
    PAGE_HEADERS,
    SESSION_COOKIE,
    THEME_COOKIE,
    THEMES,
    check_csrf,
    check_form_head,
    check_host,
    check_origin,
    csrf_token,
    parse_form,
    read_cookies,
    session_cookie,
)
from hermes.web.event_stream import (
    PING,
    STREAM_HEADERS,
    STREAM_TYPE,
    next_or_ping,
    stream_event,
)
from hermes.web.page_parts import PagePatch, PageVersion, RenderedPage, split_page
from hermes.web.pages import (
    NAVIGATION,
    DashboardStatus,
    Form,
    Page,
    PageSet,
    Submitted,
    Visitor,
)
from hermes.web.sessions import SESSION_VALIDITY, SessionRegistry
from hermes.web.settings import WebSettings
from hermes.web.templating import TemplateSet, read_static

HTML_TYPE = "text/html; charset=utf-8"
STATIC_MAX_AGE_S = 365 * 86400
THEME_MAX_AGE_S = 365 * 86400
MAX_STREAMS_PER_SESSION = 16
"""A browser has one; without Web Locks every visible tab has one."""
MAX_EVENTS_READ = 1000
EVERYTHING = "*"
"""In place of the kinds of events: there were too many to read."""

MAX_OUTLINES = 32
"""Versions of pages that browsers have; a browser with another one gets the whole page."""
VERSION_HEADER = "x-page-version"
LEAST_PAUSE_S, PAUSE_FACTOR = 0.1, 5.0
"""Between two patches: a page that is slow to make is made less often."""
LOOPBACK = "127.0.0.1"

Respond = Callable[[HttpRequest], Awaitable[HttpReply]]


@dataclass(frozen=True)
class Notice:
    """One line about what a form did, shown once on the next page."""

    text: str


class Dashboard:
    def __init__(
        self,
        sets: Sequence[PageSet],
        journal: Journal,
        settings: WebSettings,
        status: DashboardStatus,
    ) -> None:
        self._pages = [page for each in sets for page in each.pages]
        self._forms = [form for each in sets for form in each.forms]
        self._journal = journal
        self._settings = settings
        self._status = status
        self._sessions = SessionRegistry(journal)
        self._templates = TemplateSet()
        self._notices: dict[str, Notice] = {}
        self._streams: dict[str, int] = {}
        self._outlines: dict[str, PageVersion] = {}
        """By version, the one that was used last at the end."""
        names = {page.name for page in self._pages}
        self._navigation = [each for each in NAVIGATION if each.name in names]

    def routes(self) -> list[HttpRoute]:
        return [
            *(self._get(page.path, self._show(page)) for page in self._pages),
            *(self._post(form.path, self._submit(form)) for form in self._forms),
            self._get("/login", self._login_page),
            self._post("/login", self._login),
            self._post("/logout", self._submit(Form("/logout", self._logout))),
            self._post("/theme", self._submit(Form("/theme", self._stay))),
            self._get("/live", self._live),
            HttpRoute("/static/{name}", ("GET",), self._static),
        ]

    def _get(self, path: str, respond: Respond) -> HttpRoute:
        return HttpRoute(path, ("GET",), self._answer(respond))

    def _post(self, path: str, respond: Respond) -> HttpRoute:
        async def checked(request: HttpRequest) -> HttpReply:
            check_origin(request, self._settings)
            return await respond(request)

        return HttpRoute(path, ("POST",), self._answer(checked), check_form_head)

    def _answer(self, respond: Respond) -> Respond:
        """Errors as pages, and the headers of a page on everything."""

        async def answered(request: HttpRequest) -> HttpReply:
            try:
                check_host(request, self._settings)
                return await respond(request)
            except HttpRefusal as error:
                return self._error(request, error.status, str(error))
            except UnknownIdError as error:
                return self._error(request, HTTPStatus.NOT_FOUND, str(error))
            except StoreError:
                message = "the journal cannot be used now; try again"
                return self._error(request, HTTPStatus.SERVICE_UNAVAILABLE, message)
            except HermesError as error:
                return self._error(request, HTTPStatus.CONFLICT, str(error))

        return answered

    def _show(self, page: Page) -> Respond:
        async def respond(request: HttpRequest) -> HttpReply:
            visitor = await self._visitor(request)
            if visitor is None:
                return self._ask_for_login(request)
            notice = self._notices.pop(visitor.session, None)
            rendered = await self._render_page(page, request, visitor, notice)
            known = self._outlines.get(request.headers.get(VERSION_HEADER, ""))
            self._remember(rendered.outline)
            if known is not None and page.live:
                body = msgspec.json.encode(rendered.patch_from(known))
                return HttpReply(body=body, headers=PAGE_HEADERS)
            body = rendered.html.encode()
            return HttpReply(body=body, content_type=HTML_TYPE, headers=PAGE_HEADERS)

        return respond

    async def _render_page(
        self, page: Page, request: HttpRequest, visitor: Visitor, notice: Notice | None = None
    ) -> RenderedPage:
        """Every version of a page is made here, so that rights are checked for each of them."""
        position = await self._journal.last()
        context = await page.show(request, visitor)
        more = {
            "page": page,
            "visitor": visitor,
            "notice": notice,
            "position": position,
            "bar": await self._status.bar(),
        }
        return split_page(self._render_text(request, page.template, {**context, **more}))

    def _remember(self, outline: PageVersion) -> None:
        self._outlines.pop(outline.version, None)
        self._outlines[outline.version] = outline
        while len(self._outlines) > MAX_OUTLINES:
            self._outlines.pop(next(iter(self._outlines)))

    def _submit(self, form: Form) -> Respond:
        async def respond(request: HttpRequest) -> HttpReply:
            visitor = await self._visitor(request)
            if visitor is None:
                return self._ask_for_login(request)
            fields = parse_form(request)
            check_csrf(fields.pop("csrf", ""), visitor.csrf)
            submitted = await form.submit(request, visitor, fields)
            if submitted.text:
                self._notices[visitor.session] = Notice(submitted.text)
            headers = {**PAGE_HEADERS, "location": submitted.location}
            if form.path == "/theme" and (theme := fields.get("theme", "")) in ("", *THEMES):
                headers["set-cookie"] = (
                    f"{THEME_COOKIE}={theme}; Path=/; Max-Age={THEME_MAX_AGE_S}; SameSite=Lax"
                )
            return HttpReply(status=HTTPStatus.SEE_OTHER, content_type=HTML_TYPE, headers=headers)

        return respond

    async def _visitor(self, request: HttpRequest) -> Visitor | None:
        secret = read_cookies(request).get(SESSION_COOKIE, "")
        session = await self._sessions.find(secret) if secret else None
        if session is None:
            return None
        why_not = await self._status.why_not(session.person)
        return Visitor(
            person=session.person, session=session.id, csrf=csrf_token(secret), why_not=why_not
        )

    def _ask_for_login(self, request: HttpRequest) -> HttpReply:
        context = {"code": "", "person": ""}
        return self._render(request, "login.html", context, status=HTTPStatus.UNAUTHORIZED)

    async def _login_page(self, request: HttpRequest) -> HttpReply:
        """The link is not used up by looking at it: previews of chats do that."""
        code = request.query.get("code", "")
        login = await self._sessions.find_login(code)
        if login is None:
            return self._ask_for_login(request)
        return self._render(request, "login.html", {"code": code, "person": login.person})

    async def _login(self, request: HttpRequest) -> HttpReply:
        code = parse_form(request).get("code", "")
        secret = await self._sessions.redeem(code, browser=request.headers.get("user-agent", ""))
        if not secret:
            message = "the link is used or older than 5 minutes; run: hermes web login"
            raise HttpRefusal(HTTPStatus.FORBIDDEN, message)
        cookie = session_cookie(secret, int(SESSION_VALIDITY.total_seconds()))
        headers = {**PAGE_HEADERS, "location": "/", "set-cookie": cookie}
        return HttpReply(status=HTTPStatus.SEE_OTHER, content_type=HTML_TYPE, headers=headers)

    async def _logout(
        self, request: HttpRequest, visitor: Visitor, fields: Mapping[str, str]
    ) -> Submitted:
        await self._sessions.end(visitor.session, by=visitor.person)
        return Submitted("/")

    async def _stay(
        self, request: HttpRequest, visitor: Visitor, fields: Mapping[str, str]
    ) -> Submitted:
        back = fields.get("back", "/")
        elsewhere = back.startswith(("//", "/\\")) or not back.startswith("/")
        return Submitted("/" if elsewhere else back)

    async def _live(self, request: HttpRequest) -> HttpReply:
        visitor = await self._visitor(request)
        if visitor is None:
            raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "the session has ended")
        if self._streams.get(visitor.session, 0) >= MAX_STREAMS_PER_SESSION:
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too many open tabs")
        text = request.headers.get("last-event-id", "") or request.query.get("after", "")
        after = int(text[:18]) if text.isascii() and text.isdigit() else await self._journal.last()
        stream = self._changes(request, visitor, after)
        return HttpReply(content_type=STREAM_TYPE, headers=STREAM_HEADERS, stream=stream)

    async def _changes(
        self, request: HttpRequest, visitor: Visitor, after: int
    ) -> AsyncGenerator[bytes, None]:
        """Return which kinds of events were written, and what differs on the page of the reading
        tab."""
        self._streams[visitor.session] = self._streams.get(visitor.session, 0) + 1
        shown = self._find_page(request)
        known = self._outlines.get(request.query.get("version", ""))
        pause_s = 0.0
        try:
            yield PING
            while (visitor_now := await self._visitor(request)) is not None:
                newest, kinds = await self._journal.last(), set[str]()
                if newest - after > MAX_EVENTS_READ:
                    after, kinds = newest, {EVERYTHING}
                async for recorded in self._journal.read(after=after):
                    kinds.add(recorded.event.kind)
                    newest = max(newest, recorded.seq)
                if kinds:
                    began, patch = time.perf_counter(), None
                    if shown is not None and _concerns(shown[0], kinds):
                        rendered = await self._try_render(*shown, visitor_now)
                        if rendered is not None:
                            patch = rendered.patch_from(known)
                            known = rendered.outline
                            self._remember(known)
                    pause_s = max(LEAST_PAUSE_S, PAUSE_FACTOR * (time.perf_counter() - began))
                    yield _change_event(kinds, patch, newest)
                after = max(after, newest)
                await anyio.sleep(pause_s)
                pause_s = 0.0
                if await next_or_ping(partial(self._wait, after)) is None:
                    yield stream_event({"at": datetime.now(UTC).isoformat()}, name="alive")
        finally:
            self._streams[visitor.session] -= 1

    def _find_page(self, request: HttpRequest) -> tuple[Page, HttpRequest] | None:
        """The page of the tab that reads the stream, and the request that shows it."""
        address = urlsplit(request.query.get("page", ""))
        path = unquote(address.path)
        for page in self._pages:
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", page.path)
            if page.live and (found := re.fullmatch(pattern, path)):
                query = dict(parse_qsl(address.query, keep_blank_values=True))
                return page, replace(request, path=path, query=query, params=found.groupdict())
        return None

    async def _try_render(
        self, page: Page, request: HttpRequest, visitor: Visitor
    ) -> RenderedPage | None:
        """Return None when the page cannot be shown now: the browser asks for it, and sees why."""
        try:
            return await self._render_page(page, request, visitor)
        except (HermesError, HttpRefusal, UnknownIdError):
            return None

    async def _wait(self, after: int) -> bool:
        await self._journal.changed(after)
        return True

    async def _static(self, request: HttpRequest) -> HttpReply:
        found = read_static(request.params["name"])
        if found is None:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "there is no such file")
        headers = {"cache-control": f"public, max-age={STATIC_MAX_AGE_S}, immutable"}
        return HttpReply(body=found[0], content_type=found[1], headers=headers)

    def _error(self, request: HttpRequest, status: HTTPStatus, message: str) -> HttpReply:
        context = {"status": status, "message": message}
        return self._render(request, "error.html", context, status=status)

    def _render(
        self,
        request: HttpRequest,
        template: str,
        context: Mapping[str, Any],
        *,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> HttpReply:
        body = split_page(self._render_text(request, template, context)).html.encode()
        return HttpReply(status=status, body=body, content_type=HTML_TYPE, headers=PAGE_HEADERS)

    def _render_text(self, request: HttpRequest, template: str, context: Mapping[str, Any]) -> str:
        theme = read_cookies(request).get(THEME_COOKIE, "")
        common = {
            "page": None,
            "visitor": None,
            "notice": None,
            "position": 0,
            "bar": None,
            "navigation": self._navigation,
            "theme": theme if theme in THEMES else "",
            "path": request.path,
            "now": datetime.now(UTC),
        }
        return self._templates.render(template, {**common, **context})


def _concerns(page: Page, kinds: set[str]) -> bool:
    return EVERYTHING in kinds or any(kind.startswith(page.live) for kind in kinds)


def _change_event(kinds: set[str], patch: PagePatch | None, newest: int) -> bytes:
    data: dict[str, Any] = {"kinds": sorted(kinds)}
    if patch is not None:
        data["patch"] = patch
    return stream_event(data, name="change", id=newest)


async def serve_alone(routes: Sequence[HttpRoute], ready: Callable[[str], None]) -> None:
    """Serve on a free port of loopback until cancelled; `ready` gets the address.

    Raises `HttpListenError`.
    """
    await serve_http(
        HttpService(routes=routes),
        LOOPBACK,
        0,
        ready=lambda port: ready(f"http://{LOOPBACK}:{port}"),
    )
