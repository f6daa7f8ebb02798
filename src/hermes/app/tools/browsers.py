"""Joins the browser: settings become allowed addresses, a program or an address, and tools."""

import base64
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from hermes.app.tools.tooling import allowed_addresses, environment_options
from hermes.core.errors import ToolError
from hermes.core.messages import ToolCall
from hermes.core.protocols import StartsPipedProcesses, Tool, ToolContext
from hermes.core.run_ids import new_id
from hermes.plumbing.addresses import AddressGuard
from hermes.settings.load import LoadedSettings
from hermes.tools.browser import WebBrowsers, make_browser_tools
from hermes.tools.declare import ToolRequirements

if TYPE_CHECKING:
    from hermes.integrations.browser.browsers import Browsers
    from hermes.integrations.browser.devtools import MessageTransport
    from hermes.integrations.browser.session import ChromiumSession

BROWSERBASE = "browserbase"
BROWSERBASE_VARIABLES = ("BROWSERBASE_API_KEY", "BROWSERBASE_PROJECT_ID")
VISION_TOOL = "vision_analyze"
CHROME_PATH_VARIABLE = "CHROME_PATH"
INSTALL_COMMAND = "sudo apt-get install chromium"
_GIVEN_VARIABLES = ("PATH", "LANG", "TMPDIR")
_PORTS = {"http": 80, "https": 443}


class ApplicationBrowsers:
    """The browsers of this application. Implements `hermes.tools.browser.WebBrowsers`."""

    def __init__(
        self, browsers: "Browsers | None", guard: AddressGuard, *, asks_other_model: bool = False
    ) -> None:
        self._browsers, self._guard = browsers, guard
        self._asks_other_model = asks_other_model

    async def page(self, run: str, *, start: bool = False) -> "ChromiumSession":
        return await self._open.page(run, start=start)

    async def close(self, run: str) -> bool:
        return await self._open.close(run)

    async def end_run(self, run: str) -> None:
        await self._open.close(run)

    async def look(self, context: ToolContext, question: str) -> str:
        """A model that sees finds the picture in the result; otherwise another one is asked."""
        taken = await self._open.screenshot(context.run)
        shown = f"the page {self.address(context.run)}"
        picture = await context.add_picture(base64.b64decode(taken.data), shown)
        if not self._asks_other_model:
            return f"A picture of {shown} is in this result ({picture.artifact})."
        arguments = {"image": picture.artifact, "question": question}
        answer = await context.call(ToolCall(new_id("look"), VISION_TOOL, arguments))
        if answer.status != "ok":
            raise ToolError(answer.content)
        return answer.content

    def address(self, run: str, reference: str = "") -> str:
        session = self._session(run)
        if session is None:
            return ""
        return session.find(reference).url if reference else session.url

    def describe(self, run: str, reference: str = "") -> str:
        session = self._session(run)
        if session is None:
            return ""
        return session.find(reference).describe() if reference else session.dialog

    def is_configured(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError:
            return False
        return ((parts.hostname or "").lower().rstrip("."), port) in self._guard.allowed

    def _session(self, run: str) -> "ChromiumSession | None":
        return self._browsers.find(run) if self._browsers is not None else None

    @property
    def _open(self) -> "Browsers":
        if self._browsers is None:
            raise ToolError("there is no browser here")
        return self._browsers


def list_browser_tools(loaded: LoadedSettings) -> dict[str, Tool]:
    """The tools as `hermes tools` shows them, with what is missing."""
    from hermes.integrations.browser.elements import KEYS

    return make_browser_tools(ApplicationBrowsers(None, AddressGuard()), KEYS, _missing(loaded))


@asynccontextmanager
async def open_browsers(
    loaded: LoadedSettings, folder: Path
) -> AsyncIterator[tuple[dict[str, Tool], ApplicationBrowsers]]:
    """The tools. A browser is started by the first page that a run opens."""
    from hermes.integrations.browser.browsers import open_browsers as open_all
    from hermes.integrations.browser.elements import KEYS

    guard = allowed_addresses(loaded)

    def start() -> AbstractAsyncContextManager["ChromiumSession"]:
        return _start(loaded, folder, guard)

    async with open_all(start) as browsers:
        other = bool(getattr(loaded.settings.model, "vision", ""))
        joined = ApplicationBrowsers(browsers, guard, asks_other_model=other)
        checked: WebBrowsers = joined
        yield make_browser_tools(checked, KEYS, _missing(loaded)), joined


def _missing(loaded: LoadedSettings) -> ToolRequirements:
    """Return what must be installed; nothing when a browser is there."""
    remote = loaded.settings.tools.remote_browser
    if remote:
        return ToolRequirements(variables=BROWSERBASE_VARIABLES if remote == BROWSERBASE else ())
    if _program(loaded):
        return ToolRequirements()
    wrong = loaded.secrets.get(CHROME_PATH_VARIABLE)
    how = f"{CHROME_PATH_VARIABLE} names no program: {wrong}" if wrong else INSTALL_COMMAND
    if loaded.settings.terminal.backend == "local":
        return ToolRequirements(programs=(wrong or "chromium",), how=how)
    return ToolRequirements(settings=("tools.remote_browser",), how=how)


def _program(loaded: LoadedSettings) -> str:
    from hermes.integrations.browser.launch import find_program

    secrets = loaded.secrets
    return find_program(secrets.get("PATH"), secrets.get(CHROME_PATH_VARIABLE, ""))


def _connect_remote(
    loaded: LoadedSettings,
) -> AbstractAsyncContextManager["MessageTransport"]:
    """Raises `ToolError`."""
    try:
        from hermes.integrations.browser.remote import connect_remote_browser, open_browserbase
    except ImportError as error:
        raise ToolError(
            "the library for remote browsers is missing: "
            'pip install "hermes-oncall[remote-browser]"'
        ) from error
    remote = loaded.settings.tools.remote_browser
    if remote != BROWSERBASE:
        return connect_remote_browser(remote)
    key, project = (loaded.secrets.get(name, "") for name in BROWSERBASE_VARIABLES)
    return open_browserbase(key, project)


@asynccontextmanager
async def _start(
    loaded: LoadedSettings, folder: Path, guard: AddressGuard
) -> AsyncIterator["ChromiumSession"]:
    from hermes.integrations.browser.session import open_session

    if loaded.settings.tools.remote_browser:
        async with (
            _connect_remote(loaded) as transport,
            open_session(transport, guard) as session,
        ):
            yield session
        return
    from hermes.environments.open import open_environment
    from hermes.integrations.browser.address_checks import open_address_proxy
    from hermes.integrations.browser.launch import start_local_browser

    program = _program(loaded)
    if not program:
        raise ToolError(f"there is no Chromium on this host: {INSTALL_COMMAND}")
    variables = {name: loaded.secrets[name] for name in _GIVEN_VARIABLES if name in loaded.secrets}
    options = environment_options(loaded, folder)
    local = msgspec.structs.replace(options.settings, backend="local")
    log = loaded.home / "logs" / "browser.log"
    async with open_environment(replace(options, settings=local)) as environment:
        if not isinstance(environment, StartsPipedProcesses):
            raise ToolError("this host cannot run a browser")
        async with (
            open_address_proxy(guard) as port,
            start_local_browser(environment, program, port, variables, log) as transport,
            open_session(transport, guard) as session,
        ):
            yield session
