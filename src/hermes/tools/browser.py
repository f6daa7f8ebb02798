"""The tools of the browser: looking at pages is free, acting on them is asked about once a site."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import urlsplit

from hermes.core.errors import ToolError
from hermes.core.messages import OutgoingRequest, RemoteTarget, Risk, ToolSpec
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import FunctionTool, ToolRequirements, about, tool

BROWSER_KIND = "browser"
"""How policies and people see where these tools act."""
_REFERENCE_HELP = "from the last snapshot, such as e4"


class WebPage(Protocol):
    """The browser of one run. Its methods raise `ToolError`, and answer with the page as text."""

    async def navigate(self, url: str) -> str: ...
    async def snapshot(self, *, full: bool = False) -> str: ...
    async def click(self, reference: str) -> str: ...
    async def type(self, reference: str, text: str, *, submit: bool = False) -> str: ...
    async def press(self, key: str) -> str: ...
    async def scroll(self, direction: Literal["up", "down", "top", "bottom"]) -> str: ...
    async def back(self) -> str: ...
    async def images(self) -> str: ...
    def console(self) -> str: ...
    async def answer_dialog(self, *, accept: bool) -> str: ...


class WebBrowsers(Protocol):
    """The browsers of all runs; each is started by the first page that its run opens."""

    async def page(self, run: str, *, start: bool = False) -> WebPage:
        """Raises `ToolError` when none is open and `start` is false."""

    async def close(self, run: str) -> bool: ...
    async def look(self, context: ToolContext, question: str) -> str:
        """Answers a question about a picture of the page."""

    def address(self, run: str, reference: str = "") -> str:
        """The address of the page in front, or of the frame that an element is in; empty: none."""

    def describe(self, run: str, reference: str = "") -> str:
        """The element, or the dialog that is open, in words."""

    def is_configured(self, url: str) -> bool:
        """Return whether the operator named this address."""


class BrowserTool:
    """A tool that uses the browser of a run. Implements `Tool`, `HasStatePerRun`, `ActsElsewhere`
    and `ShowsRequest`."""

    def __init__(self, made: FunctionTool, browsers: WebBrowsers, run: str = "") -> None:
        self._made, self._browsers, self._run = made, browsers, run
        self.needs: ToolRequirements = made.needs

    @property
    def spec(self) -> ToolSpec:
        return self._made.spec

    def of_run(self, run: str) -> Tool:
        return BrowserTool(self._made, self._browsers, run)

    def validate(self, arguments: Mapping[str, Any]) -> object:
        """Check the arguments; no approval is requested for an element that is not on the page."""
        fitted = self._made.validate(arguments)
        if self._run and "ref" in arguments:
            self._browsers.describe(self._run, str(arguments["ref"]))
        return fitted

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return await self._made(context, arguments)

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget:
        """The site: what was approved for one does not hold for another."""
        parts = urlsplit(self.request(arguments).url)
        port = f":{parts.port}" if parts.port else ""
        return RemoteTarget(kind=BROWSER_KIND, host=f"{parts.hostname or ''}{port}")

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest:
        """Return what people see: the real element and not only its reference."""
        name, run = self.spec.name, self._run
        reference = str(arguments.get("ref", ""))
        url = str(arguments.get("url") or self._browsers.address(run, reference))
        configured = self._browsers.is_configured(url)
        if self.spec.risk is Risk.READ or arguments.get("accept") is False:
            return OutgoingRequest(method="GET", url=url, effect="read", configured=configured)
        what = [self._browsers.describe(run, reference)]
        what += [repr(arguments["text"])] if "text" in arguments else []
        what += [str(arguments["key"])] if "key" in arguments else []
        what += ["and submit it"] if arguments.get("submit") else []
        return OutgoingRequest(
            method=name.removeprefix("browser_"),
            url=url,
            body=" ".join(filter(None, what)),
            effect="write",
            configured=configured,
        )


def make_browser_tools(
    browsers: WebBrowsers, keys: Collection[str] = (), needs: ToolRequirements | None = None
) -> dict[str, Tool]:
    """All of them. `keys` can be pressed; `needs` is what is missing on this host."""
    made = [*_looking_tools(browsers), *_acting_tools(browsers, keys)]
    for each in made:
        each.needs = needs or ToolRequirements()
    return {each.spec.name: BrowserTool(each, browsers) for each in made}


def _looking_tools(browsers: WebBrowsers) -> list[FunctionTool]:
    @tool(risk=Risk.READ, alone=True)
    async def browser_navigate(context: ToolContext, url: str) -> str:
        """Open a web page, and get it as text: roles, names, values and references."""
        page = await browsers.page(context.run, start=True)
        return await page.navigate(url)

    @tool(risk=Risk.READ, alone=True)
    async def browser_snapshot(
        context: ToolContext, full: Annotated[bool, about("all of a long page")] = False
    ) -> str:
        """The open page as text. References in brackets end with their page."""
        return await (await browsers.page(context.run)).snapshot(full=full)

    @tool(risk=Risk.READ, alone=True)
    async def browser_scroll(
        context: ToolContext, direction: Literal["up", "down", "top", "bottom"] = "down"
    ) -> str:
        """Scroll the page, and show that part of it."""
        return await (await browsers.page(context.run)).scroll(direction)

    @tool(risk=Risk.READ, alone=True)
    async def browser_back(context: ToolContext) -> str:
        """Go back to the page before."""
        return await (await browsers.page(context.run)).back()

    @tool(risk=Risk.READ, alone=True)
    async def browser_get_images(context: ToolContext) -> str:
        """List the images of the page."""
        return await (await browsers.page(context.run)).images()

    @tool(risk=Risk.READ, alone=True)
    async def browser_console(context: ToolContext) -> str:
        """What the page wrote to its console since the last call, with its errors."""
        return (await browsers.page(context.run)).console()

    @tool(risk=Risk.READ, alone=True)
    async def browser_vision(
        context: ToolContext, question: Annotated[str, about("about what can be seen")]
    ) -> str:
        """Look at a picture of the page, for what its text does not tell."""
        return await browsers.look(context, question)

    @tool(risk=Risk.READ, alone=True)
    async def browser_close(context: ToolContext) -> str:
        """Close the browser; everything in it is forgotten."""
        return "Closed." if await browsers.close(context.run) else "No browser was open."

    looking = (browser_navigate, browser_snapshot, browser_scroll, browser_back)
    return [*looking, browser_get_images, browser_console, browser_vision, browser_close]


def _acting_tools(browsers: WebBrowsers, keys: Collection[str]) -> list[FunctionTool]:
    @tool(risk=Risk.CHANGE, alone=True)
    async def browser_click(
        context: ToolContext, ref: Annotated[str, about(_REFERENCE_HELP)]
    ) -> str:
        """Click on an element, and see what changed."""
        return await (await browsers.page(context.run)).click(ref)

    @tool(risk=Risk.CHANGE, alone=True)
    async def browser_type(
        context: ToolContext,
        ref: Annotated[str, about(_REFERENCE_HELP)],
        text: Annotated[str, about("replaces what is in the field; of a list, the choice")],
        submit: Annotated[bool, about("submit the form")] = False,
    ) -> str:
        """Type into a field. Passwords are typed by people only."""
        return await (await browsers.page(context.run)).type(ref, text, submit=submit)

    @tool(risk=Risk.CHANGE, alone=True)
    async def browser_press(
        context: ToolContext,
        key: Annotated[str, about("Enter, Tab, Escape, Space, ArrowDown, PageDown …")],
    ) -> str:
        """Press a key. Text is typed with browser_type."""
        if key not in keys:
            raise ToolError(f"there is no key {key!r}; there are: {', '.join(keys)}")
        return await (await browsers.page(context.run)).press(key)

    @tool(risk=Risk.CHANGE, alone=True)
    async def browser_dialog(context: ToolContext, accept: bool) -> str:
        """Answer a dialog that the page shows."""
        return await (await browsers.page(context.run)).answer_dialog(accept=accept)

    return [browser_click, browser_type, browser_press, browser_dialog]
