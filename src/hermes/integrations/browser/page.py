"""One page of the browser: what happens in it, its frames, its snapshot and its references."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import anyio

from hermes.core.errors import ToolError
from hermes.core.foreign_text import clean_line
from hermes.core.messages import Value
from hermes.integrations.browser.devtools import BrowserGone, CommandRefused, DevTools
from hermes.integrations.browser.page_scripts import FIND_ELEMENT, READ_PAGE
from hermes.integrations.browser.snapshot import render_rows

MAX_CONSOLE_LINES = 200
MAX_LINE_CHARS = 500
MAX_FRAMES = 20
MAX_REFERENCES = 20_000
_WORLD_NAME = "hermes"


class DialogOpened(ToolError):
    """A dialog of the page waits for an answer; nothing else can happen in the page."""


class PageClosed(ToolError):
    """The page crashed or was closed."""


class PageDialog(Value, kw_only=True, frozen=True):
    kind: str
    message: str
    default: str = ""

    def describe(self) -> str:
        if self.kind == "beforeunload":
            said = "asks whether to leave it, although something may not be saved"
        else:
            said = f'shows a dialog ({self.kind}): "{clean_line(self.message, MAX_LINE_CHARS)}"'
        return f"The page {said}. browser_dialog answers it (accept true or false)."


class ElementReference(Value, kw_only=True, frozen=True):
    """An element of a page, as long as its document is there."""

    session: str
    number: int
    frame: str
    document: str
    role: str
    name: str
    url: str
    """The address of its frame."""

    def describe(self) -> str:
        return f'{self.role} "{self.name}"' if self.name else self.role


class PageFrame(Value, frozen=True):
    session: str
    id: str
    document: str
    url: str


class BrowserPage:
    """A page that we are attached to. Its events arrive by `note`."""

    def __init__(self, devtools: DevTools, session: str, target: str, counter: Iterator[int]):
        self._devtools, self.session, self.target = devtools, session, target
        self._counter = counter
        self.sessions: dict[str, None] = {session: None}
        """Ours, and those of frames in other processes."""
        self.dialog: PageDialog | None = None
        self.ended = ""
        """Why it can be used no more."""
        self.loading, self.requested = False, False
        self.main_frame = ""
        self.url = "about:blank"
        self.unreachable = ""
        self.console: deque[str] = deque(maxlen=MAX_CONSOLE_LINES)
        self.notes: list[str] = []
        """What happened and was not reported yet."""
        self.lines: list[str] = []
        self.scroll_position = 0.0
        """How far it was scrolled when it was read: 0 at the top, 1 at the end."""
        self.references: dict[str, ElementReference] = {}
        self._names: dict[tuple[str, str, int], str] = {}
        self._changed = anyio.Event()

    def note(self, session: str, method: str, parameters: Mapping[str, Any]) -> None:
        handler = _HANDLERS.get(method)
        if handler is not None:
            handler(self, session, parameters)
            self._changed.set()
            self._changed = anyio.Event()

    def end(self, why: str) -> None:
        self.ended = self.ended or why
        self.dialog = None
        self.references.clear()
        for session in self.sessions:
            self._devtools.fail(session, PageClosed(self.ended))
        self._changed.set()

    def on_dialog(self, session: str, parameters: Mapping[str, Any]) -> None:
        self.dialog = PageDialog(
            kind=str(parameters.get("type", "alert")),
            message=str(parameters.get("message", "")),
            default=str(parameters.get("defaultPrompt", "")),
        )
        for each in self.sessions:  # nothing answers until the dialog is closed
            self._devtools.fail(each, DialogOpened(self.dialog.describe()))

    def on_dialog_closed(self, session: str, parameters: Mapping[str, Any]) -> None:
        self.dialog = None

    def on_navigated(self, session: str, parameters: Mapping[str, Any]) -> None:
        frame = parameters.get("frame", {})
        if session != self.session or frame.get("parentId"):
            return
        self.main_frame, self.url = frame.get("id", ""), _whole_url(frame)
        self.unreachable = frame.get("unreachableUrl", "")
        self.requested = False
        self.forget_references()
        self.lines = []

    def on_navigated_within(self, session: str, parameters: Mapping[str, Any]) -> None:
        if parameters.get("frameId") == self.main_frame:
            self.url, self.requested = parameters.get("url", self.url), False

    def on_requested(self, session: str, parameters: Mapping[str, Any]) -> None:
        here = parameters.get("disposition", "currentTab") == "currentTab"
        if parameters.get("frameId") == self.main_frame and here:
            self.requested = True

    def on_started(self, session: str, parameters: Mapping[str, Any]) -> None:
        if parameters.get("frameId") == self.main_frame:
            self.loading = True

    def on_stopped(self, session: str, parameters: Mapping[str, Any]) -> None:
        if parameters.get("frameId") == self.main_frame:
            self.loading, self.requested = False, False

    def on_crashed(self, session: str, parameters: Mapping[str, Any]) -> None:
        if session == self.session:
            self.end("the page crashed; browser_navigate opens it again, or another one")

    def on_console(self, session: str, parameters: Mapping[str, Any]) -> None:
        words = [_console_word(each) for each in parameters.get("args", ())[:20]]
        self._keep(str(parameters.get("type", "log")), " ".join(words))

    def on_exception(self, session: str, parameters: Mapping[str, Any]) -> None:
        details = parameters.get("exceptionDetails", {})
        thrown = details.get("exception", {}).get("description") or details.get("text", "")
        self._keep("exception", str(thrown))

    def on_log(self, session: str, parameters: Mapping[str, Any]) -> None:
        entry = parameters.get("entry", {})
        self._keep(
            str(entry.get("level", "log")), f"{entry.get('text', '')} {entry.get('url', '')}"
        )

    def on_file_chooser(self, session: str, parameters: Mapping[str, Any]) -> None:
        self.notes.append("the page asked for a file to upload: uploads are off")

    def _keep(self, kind: str, text: str) -> None:
        self.console.append(f"{kind}: {clean_line(text, MAX_LINE_CHARS)}")

    async def wait_for_load(self, timeout_s: float) -> bool:
        """Return whether it is loaded; false when it still loads after that time."""
        with anyio.move_on_after(timeout_s):
            while (self.loading or self.requested) and not self.ended and self.dialog is None:
                await self._changed.wait()
        return not (self.loading or self.requested)

    def check_usable(self) -> None:
        """Raises `PageClosed` and `DialogOpened`."""
        if self.ended:
            raise PageClosed(self.ended)
        if self.dialog is not None:
            raise DialogOpened(self.dialog.describe())

    async def call(
        self, method: str, parameters: Mapping[str, Any] | None = None, *, session: str = ""
    ) -> dict[str, Any]:
        self.check_usable()
        return await self._devtools.call(method, parameters, session=session or self.session)

    async def evaluate(self, script: str, frame: PageFrame | None = None) -> Any:
        """Runs one of our scripts beside those of the page."""
        world = await self._world(frame)
        answer = await self.call(
            "Runtime.evaluate",
            {
                "expression": script,
                "contextId": world,
                "awaitPromise": True,
                "returnByValue": True,
                "timeout": 5_000,
            },
            session=frame.session if frame else "",
        )
        return answer.get("result", {}).get("value")

    async def call_on(self, element: ElementReference, script: str, *arguments: Any) -> Any:
        """Runs one of our functions with the element as `this`. Raises `ToolError`."""
        found = await self.resolve(element)
        answer = await self.call(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": script,
                "objectId": found,
                "arguments": [{"value": each} for each in arguments],
                "returnByValue": True,
                "userGesture": True,
            },
            session=element.session,
        )
        if "exceptionDetails" in answer:
            raise ToolError("the page did not let this element be used")
        return answer.get("result", {}).get("value")

    async def resolve(self, element: ElementReference) -> str:
        """The object of the element, for our scripts. Raises `ToolError` when it is gone."""
        frame = PageFrame(element.session, element.frame, element.document, element.url)
        try:
            answer = await self.call(
                "Runtime.evaluate",
                {
                    "expression": FIND_ELEMENT.format(number=element.number),
                    "contextId": await self._world(frame),
                },
                session=element.session,
            )
        except CommandRefused as error:
            raise ToolError(_GONE) from error
        found = answer.get("result", {}).get("objectId")
        if found is None:
            raise ToolError(_GONE)
        return str(found)

    async def _world(self, frame: PageFrame | None) -> int:
        found = await self.call(
            "Page.createIsolatedWorld",
            {"frameId": frame.id if frame else self.main_frame, "worldName": _WORLD_NAME},
            session=frame.session if frame else "",
        )
        return int(found["executionContextId"])

    async def frames(self) -> list[PageFrame]:
        found: list[PageFrame] = []
        for session in list(self.sessions):
            try:
                tree = (await self.call("Page.getFrameTree", session=session))["frameTree"]
            except (BrowserGone, CommandRefused):
                if session == self.session:
                    raise
                continue  # the frame went meanwhile
            if session == self.session:
                self.main_frame, self.url = tree["frame"]["id"], _whole_url(tree["frame"])
            found += _flatten_frames(session, tree)
        return found[:MAX_FRAMES]

    async def read_lines(self, *, full: bool = False) -> list[str]:
        """The page as text; references of earlier snapshots stay valid in the same document."""
        lines: list[str] = []
        for frame in await self.frames():
            try:
                inner = await self._read_frame(frame, full)
            except (BrowserGone, CommandRefused):
                if frame.id == self.main_frame:
                    raise
                continue
            if frame.id == self.main_frame:
                lines += inner
            elif inner:
                lines += [f"frame {frame.url[:200]}", *(f"  {line}" for line in inner)]
        self.lines = lines
        return lines

    async def _read_frame(self, frame: PageFrame, full: bool) -> list[str]:
        found = await self.evaluate(READ_PAGE, frame)
        if not isinstance(found, dict):
            raise CommandRefused("the page could not be read; browser_vision looks at it")
        if frame.id == self.main_frame:
            top, view, height = found["scroll"]
            self.scroll_position = float(top) / max(float(height) - float(view), 1.0)

        def refer(number: int, role: str, name: str) -> str:
            return self._refer(frame, number, role, name)

        lines = render_rows(found["rows"], refer, found["secrets"], full=full)
        return [*lines, "[the page has more, which was not read]"] if found["cut"] else lines

    def _refer(self, frame: PageFrame, number: int, role: str, name: str) -> str:
        key = (frame.session, frame.document, number)
        reference = self._names.get(key)
        if reference is None:
            if len(self._names) > MAX_REFERENCES:  # a page that makes new elements for ever
                self.forget_references()
            reference = self._names[key] = f"e{next(self._counter)}"
        self.references[reference] = ElementReference(
            session=frame.session,
            number=number,
            frame=frame.id,
            document=frame.document,
            role=role,
            name=name,
            url=frame.url,
        )
        return reference

    def find(self, reference: str) -> ElementReference:
        """Raises `ToolError` when it is not an element of this page."""
        found = self.references.get(reference.strip().strip("[]"))
        if found is None:
            raise ToolError(
                f"{reference} is not on this page: references end with their page. "
                "browser_snapshot shows the present ones."
            )
        return found

    def forget_references(self) -> None:
        self.references.clear()
        self._names.clear()


_GONE = (
    "the element is gone: the page has changed since the snapshot. browser_snapshot shows what is "
    "there now."
)
_HANDLERS = {
    "Page.javascriptDialogOpening": BrowserPage.on_dialog,
    "Page.javascriptDialogClosed": BrowserPage.on_dialog_closed,
    "Page.frameNavigated": BrowserPage.on_navigated,
    "Page.navigatedWithinDocument": BrowserPage.on_navigated_within,
    "Page.frameRequestedNavigation": BrowserPage.on_requested,
    "Page.frameStartedLoading": BrowserPage.on_started,
    "Page.frameStoppedLoading": BrowserPage.on_stopped,
    "Page.fileChooserOpened": BrowserPage.on_file_chooser,
    "Inspector.targetCrashed": BrowserPage.on_crashed,
    "Runtime.consoleAPICalled": BrowserPage.on_console,
    "Runtime.exceptionThrown": BrowserPage.on_exception,
    "Log.entryAdded": BrowserPage.on_log,
}


def _whole_url(frame: Mapping[str, Any]) -> str:
    return str(frame.get("url", "")) + str(frame.get("urlFragment", ""))


def _flatten_frames(session: str, tree: Mapping[str, Any]) -> list[PageFrame]:
    frame = tree["frame"]
    found = [PageFrame(session, frame["id"], frame.get("loaderId", ""), frame.get("url", ""))]
    for child in tree.get("childFrames", ()):
        found += _flatten_frames(session, child)
    return found


def _console_word(argument: Mapping[str, Any]) -> str:
    value = argument.get("value")
    return str(argument.get("description", "") if value is None else value)
