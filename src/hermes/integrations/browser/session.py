"""The browser of one run: the page in front, the acts on it, and what they changed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.integrations.browser.address_checks import RequestChecks
from hermes.integrations.browser.devtools import (
    BrowserGone,
    CommandRefused,
    DevTools,
    MessageTransport,
    PageUnresponsive,
)
from hermes.integrations.browser.elements import click_element, press_key, type_text
from hermes.integrations.browser.page import (
    BrowserPage,
    DialogOpened,
    ElementReference,
    PageClosed,
)
from hermes.integrations.browser.page_scripts import (
    HAS_CANVAS,
    READ_IMAGES,
    SCROLLS,
    WAIT_UNTIL_QUIET,
)
from hermes.integrations.browser.snapshot import cut_lines, describe_difference
from hermes.plumbing.addresses import AddressGuard

MAX_PAGES = 5
MAX_IMAGES = 50
MAX_NOTES_SHOWN = 5
MAX_NOTE_CHARS = 300
ScrollDirection = Literal["up", "down", "top", "bottom"]
_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
_FRAME_DOMAINS = ("Page.enable", "Runtime.enable", "DOM.enable", "Log.enable", "Inspector.enable")


class BrowserLimits(Value, kw_only=True, frozen=True):
    load_timeout_s: float = 15.0
    """How long a page may load before it is shown as it is."""


class Screenshot(Value, frozen=True):
    data: str
    """JPEG in base64."""
    width: int
    height: int


class ChromiumSession:
    """A started browser. Made by `open_session` only."""

    def __init__(
        self, devtools: DevTools, guard: AddressGuard, limits: BrowserLimits, group: TaskGroup
    ) -> None:
        self._devtools, self._group, self._limits = devtools, group, limits
        self._checks = RequestChecks(devtools, guard)
        self._pages: dict[str, BrowserPage] = {}
        """By target, in the order in which they came to the front."""
        self._owners: dict[str, BrowserPage] = {}
        """The page that a session belongs to."""
        self._numbers = count(1)
        self._acting = False
        self._notes: list[str] = []
        self._context: dict[str, str] = {}
        self._attached = anyio.Event()
        devtools.listen("", lambda method, parameters: self._note("", method, parameters))

    @property
    def ended(self) -> bool:
        return self._devtools.ended.is_set()

    @property
    def url(self) -> str:
        """The address of the page in front; empty when there is none."""
        page = self.front
        return page.url if page is not None and not page.ended else ""

    def find(self, reference: str) -> ElementReference:
        """Raises `ToolError`."""
        return self._page().find(reference)

    @property
    def dialog(self) -> str:
        page = self.front
        return page.dialog.describe() if page is not None and page.dialog is not None else ""

    async def start(self) -> None:
        """Its pages are in a context of their own, which keeps nothing and ends with us: a browser
        elsewhere may have other pages."""
        made = await self._devtools.call("Target.createBrowserContext", {"disposeOnDetach": True})
        self._context = {"browserContextId": made["browserContextId"]}
        await self._devtools.call(
            "Browser.setDownloadBehavior", {"behavior": "deny", **self._context}
        )
        await self._devtools.call("Target.setAutoAttach", _ATTACH)

    async def navigate(self, url: str) -> str:
        url = url.strip()
        if "://" not in url and not url.partition(":")[0].isalpha():
            url = f"https://{url}"
        await self._checks.check_url(url)
        page = await self._open_page()
        if page.dialog is not None:
            return page.dialog.describe()
        try:
            answer = await page.call("Page.navigate", {"url": url})
        except DialogOpened as opened:
            return str(opened)
        except PageUnresponsive:
            await self._close(page)
            page = await self._open_page()
            answer = await page.call("Page.navigate", {"url": url})
        if error := answer.get("errorText"):
            raise ToolError(f"{url} was not opened: {error}{self._take_notes(page)}")
        return await self._show(page, whole=True)

    async def snapshot(self, *, full: bool = False) -> str:
        page = self._page()
        if page.dialog is not None:
            return page.dialog.describe()
        if not full:
            return await self._show(page, whole=True)
        return self._header(page) + "\n".join(await page.read_lines(full=True))

    async def click(self, reference: str) -> str:
        page = self._page()
        element = page.find(reference)
        return await self._act(page, lambda: click_element(page, element))

    async def type(self, reference: str, text: str, *, submit: bool = False) -> str:
        page = self._page()
        element = page.find(reference)
        return await self._act(page, lambda: type_text(page, element, text, submit))

    async def press(self, key: str) -> str:
        page = self._page()
        return await self._act(page, lambda: press_key(page, key))

    async def answer_dialog(self, *, accept: bool) -> str:
        page = self._page(dialog_too=True)
        if page.dialog is None:
            raise ToolError("there is no dialog")
        leaves, page.dialog = page.dialog.kind == "beforeunload" and accept, None

        async def answer() -> str:
            page.requested = page.requested or leaves
            await page.call("Page.handleJavaScriptDialog", {"accept": accept})
            return ""

        return await self._act(page, answer)

    async def scroll(self, direction: ScrollDirection) -> str:
        page = self._page()
        await page.evaluate(SCROLLS[direction])
        await page.evaluate(WAIT_UNTIL_QUIET)
        return await self._show(page, whole=True)

    async def back(self) -> str:
        page = self._page()
        history = await page.call("Page.getNavigationHistory")
        index, entries = history["currentIndex"], history["entries"]
        if index == 0 or entries[index - 1]["url"] == "about:blank":
            if len(self._pages) < 2:
                raise ToolError("there is no earlier page")
            await self._close(page)
            return await self._show(self._page(), whole=True)

        async def go_back() -> str:
            page.requested = True
            await page.call("Page.navigateToHistoryEntry", {"entryId": entries[index - 1]["id"]})
            return ""

        return await self._act(page, go_back)

    async def images(self) -> str:
        page = self._page()
        found = await page.evaluate(READ_IMAGES) or []
        lines = [
            f'{each["source"]} {each["width"]}×{each["height"]} "{str(each["text"])[:100]}"'
            for each in found[:MAX_IMAGES]
        ]
        more = [f"[and {len(found) - MAX_IMAGES} more]"] if len(found) > MAX_IMAGES else []
        return "\n".join([*lines, *more]) or "The page has no images."

    def console(self) -> str:
        page = self._page(dialog_too=True)
        lines = "\n".join(page.console)
        page.console.clear()
        return lines or "Nothing new was written to the console."

    async def screenshot(self) -> Screenshot:
        page = self._page()
        size = (await page.call("Page.getLayoutMetrics"))["cssLayoutViewport"]
        taken = await page.call("Page.captureScreenshot", {"format": "jpeg", "quality": 70})
        return Screenshot(taken["data"], int(size["clientWidth"]), int(size["clientHeight"]))

    async def _act(self, page: BrowserPage, act: Any) -> str:
        """Does it, waits for what it causes, and shows what is different."""
        page.check_usable()
        before, address = list(page.lines), page.url
        self._acting = True
        try:
            said = await act()
            if not page.ended and page.dialog is None:
                await self._settle(page)
        except DialogOpened as opened:
            return f"{opened}{self._take_notes(page)}"
        except PageClosed:
            said = page.ended
        finally:
            self._acting = False
        front = self.front
        if front is None or (front is page and page.ended):
            raise ToolError(f"{page.ended or 'the page was closed'}{self._take_notes(page)}")
        if front.dialog is not None:
            return front.dialog.describe()
        same = front is page and front.url.partition("#")[0] == address.partition("#")[0]
        shown = await self._show(front, whole=not same, before=before if same else [])
        return f"{said}\n{shown}" if said else shown

    async def _settle(self, page: BrowserPage) -> None:
        if not page.requested and not page.loading:
            with suppress(BrowserGone, CommandRefused):  # its document is being replaced
                await page.evaluate(WAIT_UNTIL_QUIET)
        if page.requested or page.loading:
            await page.wait_for_load(self._limits.load_timeout_s)

    async def _show(
        self, page: BrowserPage, *, whole: bool, before: list[str] | None = None
    ) -> str:
        await page.wait_for_load(self._limits.load_timeout_s)
        if page.dialog is not None:
            return f"{page.dialog.describe()}{self._take_notes(page)}"
        try:
            lines = await _retry_once(page.read_lines)
        except DialogOpened as opened:
            return f"{opened}{self._take_notes(page)}"
        header = self._header(page)
        if not whole and before is not None:
            if lines == before:
                return f"{header}Nothing changed."
            if difference := describe_difference(before, lines):
                return f"{header}Changed:\n{difference}"
        if not lines:
            drawn = await page.evaluate(HAS_CANVAS)
            canvas = " It draws itself: browser_vision looks at it." if drawn else ""
            header += f"Nothing on it can be read.{canvas}\n"
        return header + cut_lines(lines, page.scroll_position)

    def _header(self, page: BrowserPage) -> str:
        loading = " (still loading)" if page.loading else ""
        return f"{page.url[:500]}{loading}{self._take_notes(page)}\n"

    def _take_notes(self, page: BrowserPage) -> str:
        """Return what happened since the last answer, one event on each line."""
        notes = [*self._notes, *page.notes]
        notes += [f"refused: {each}" for each in self._checks.refusals]
        self._notes.clear()
        page.notes.clear()
        self._checks.refusals.clear()
        shown = [note[:MAX_NOTE_CHARS] for note in dict.fromkeys(notes)]
        more = len(shown) - MAX_NOTES_SHOWN
        shown = shown[:MAX_NOTES_SHOWN] + ([f"and {more} more"] if more > 0 else [])
        return "".join(f"\n[{note}]" for note in shown)

    @property
    def front(self) -> BrowserPage | None:
        """The page in front; None when none is open."""
        return next(reversed(self._pages.values()), None)

    def _page(self, *, dialog_too: bool = False) -> BrowserPage:
        page = self.front
        if page is None:
            raise ToolError("no page is open; browser_navigate opens one")
        if page.ended:
            raise PageClosed(page.ended)
        return page

    async def _open_page(self) -> BrowserPage:
        page = self.front
        if page is not None and not page.ended:
            return page
        if page is not None:
            await self._close(page)
        made = await self._devtools.call(
            "Target.createTarget", {"url": "about:blank", **self._context}
        )
        while made["targetId"] not in self._pages:
            await self._attached.wait()
        page = self._pages[made["targetId"]]
        await page.frames()
        return page

    async def _close(self, page: BrowserPage) -> None:
        page.end("the page was closed")
        self._pages.pop(page.target, None)
        await self._devtools.post("Target.closeTarget", {"targetId": page.target})

    def _note(self, session: str, method: str, parameters: dict[str, Any]) -> None:
        if method == "Target.attachedToTarget":
            self._attach(session, parameters)
        elif method == "Target.detachedFromTarget":
            self._detach(parameters.get("sessionId", ""))
        elif method == "Fetch.requestPaused":
            self._group.start_soon(self._checks.answer, session, parameters)
        elif (page := self._owners.get(session)) is not None:
            page.note(session, method, parameters)

    def _attach(self, parent: str, parameters: dict[str, Any]) -> None:
        session, target = parameters["sessionId"], parameters["targetInfo"]
        kind, context = target["type"], target.get("browserContextId", "")
        if not parent and context != self._context["browserContextId"]:
            self._group.start_soon(self._leave, session)
            return
        self._devtools.listen(session, lambda method, more: self._note(session, method, more))
        if kind == "page":
            self._add_page(session, target)
        elif parent in self._owners and kind == "iframe":
            self._owners[session] = self._owners[parent]
            self._owners[session].sessions[session] = None
        self._group.start_soon(self._prepare, session, kind)

    async def _leave(self, session: str) -> None:
        """Leaves a page of another run alone."""
        await self._devtools.post("Runtime.runIfWaitingForDebugger", session=session)
        await self._devtools.post("Target.detachFromTarget", {"sessionId": session})

    def _add_page(self, session: str, target: dict[str, Any]) -> None:
        page = BrowserPage(self._devtools, session, target["targetId"], self._numbers)
        page.main_frame = target["targetId"]  # the main frame has the number of its target
        self._owners[session] = page
        opener = target.get("openerId") or target.get("openerFrameId")
        if opener and not (self._acting and len(self._pages) < MAX_PAGES):
            self._notes.append("the page opened another window, which was closed")
            self._group.start_soon(self._close, page)
            return
        if opener:
            self._notes.append("a new window was opened; browser_back returns from it")
            page.requested = True
        self._pages[page.target] = page
        self._attached.set()
        self._attached = anyio.Event()

    async def _prepare(self, session: str, kind: str) -> None:
        """Nothing of a target runs before its requests are checked."""
        devtools = self._devtools
        await devtools.post("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}, session=session)
        await devtools.post("Target.setAutoAttach", _ATTACH, session=session)
        if kind in ("page", "iframe"):
            for method in _FRAME_DOMAINS:
                await devtools.post(method, session=session)
            chooser = {"enabled": True}
            await devtools.post("Page.setInterceptFileChooserDialog", chooser, session=session)
        await devtools.post("Runtime.runIfWaitingForDebugger", session=session)

    def _detach(self, session: str) -> None:
        self._devtools.forget(session, PageClosed("the page was closed"))
        page = self._owners.pop(session, None)
        if page is None:
            return
        page.sessions.pop(session, None)
        if page.session == session:
            page.end(page.ended or "the page closed itself; browser_navigate opens another one")
            if len(self._pages) > 1:
                self._pages.pop(page.target, None)
                self._notes.append("the window was closed; this is the one before")


async def _retry_once(read: Any) -> Any:
    try:
        return await read()
    except CommandRefused:  # the document was replaced while it was read
        return await read()


@asynccontextmanager
async def open_session(
    transport: MessageTransport, guard: AddressGuard, limits: BrowserLimits | None = None
) -> AsyncIterator[ChromiumSession]:
    """A browser that is ready for its first page. Raises `ToolError`."""
    devtools = DevTools(transport)
    async with anyio.create_task_group() as group:
        group.start_soon(devtools.run)
        session = ChromiumSession(devtools, guard, limits or BrowserLimits(), group)
        await session.start()
        yield session
        group.cancel_scope.cancel()
