"""Logs a person in at an MCP server by OAuth, with a browser here or on another machine."""

import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.app.mcp.servers import INSTALL_HINT, login_guard, server_headers
from hermes.app.people import require_person
from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.mcp import MCP_RUN, McpLoggedIn, McpLoggedOut
from hermes.core.messages import Value
from hermes.integrations.mcp.logins import LoginStore, StoredLogin
from hermes.integrations.mcp.pins import ServerPin
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings

PASTE_PORT = 8765
"""A redirect to this port goes nowhere: the person copies the address of the page that fails."""
_SCREEN_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY")

AskForAddress = Callable[[], str]
"""Asks the person for the address that the browser ended at; blocks."""
WaitForRedirect = Callable[[str], Awaitable[str]]


class LoginOptions(Value, kw_only=True, frozen=True):
    """The options with which a person logs in."""

    paste: bool = False
    """Whether the address is pasted, because the browser runs on another machine."""
    browser: bool = True
    port: int = 0
    """Of this machine, for the redirect; 0: any free one."""
    client_id: str = ""
    """Of a client that was registered by hand, or the https address of a document about it."""
    client_secret: str = ""
    """The variable with its secret."""
    scope: str = ""
    """Rights to ask for besides those that the server names, with spaces between."""


def has_screen(loaded: LoadedSettings) -> bool:
    """Return whether a browser can be opened here."""
    return any(loaded.secrets.get(name) for name in _SCREEN_VARIABLES)


async def log_in_at_server(
    loaded: LoadedSettings,
    pin: ServerPin,
    options: LoginOptions,
    *,
    show: Callable[[str], None],
    ask: AskForAddress,
) -> StoredLogin:
    """Keeps the login when it works; the earlier one stays until then. Raises `HermesError`."""
    if not pin.address.url:
        raise SettingsError(f"{pin.name} is started by a command; it needs no login over OAuth")
    try:
        from hermes.integrations.mcp import oauth
        from hermes.integrations.mcp.connection import ConnectionHooks
    except ImportError as error:
        raise SettingsError(f"{INSTALL_HINT} ({error})") from error

    by = await _person(loaded)

    async def show_address(address: str) -> None:
        show(address)
        if options.browser and not options.paste and has_screen(loaded):
            webbrowser.open(address)

    async with _redirects(options, ask) as (uri, wait):
        login = await oauth.log_in(
            ConnectionHooks(pin.name, str(Path.cwd())),
            pin.address.url,
            server_headers(loaded, pin),
            uri,
            show_address,
            wait,
            guard=login_guard(loaded, pin.address.url),
            client={
                **_client(loaded, options),
                "scope": _with_earlier_scopes(loaded, pin, options.scope),
            },
        )
    LoginStore(loaded.home).save(pin.name, login)
    await _record(loaded, McpLoggedIn(run=MCP_RUN, server=pin.name, issuer=login.issuer, by=by))
    return login


def _with_earlier_scopes(loaded: LoadedSettings, pin: ServerPin, scope: str) -> str:
    """Whoever asks for more keeps what was given before."""
    earlier = LoginStore(loaded.home).load(pin.name, pin.address.url) if scope else None
    given = str(earlier.tokens.get("scope") or "") if earlier is not None else ""
    return " ".join(dict.fromkeys([*given.split(), *scope.split()]))


async def log_out_of_server(loaded: LoadedSettings, pin: ServerPin) -> None:
    """Forgets the tokens. Raises `SettingsError` when there are none."""
    store = LoginStore(loaded.home)
    if not store.exists(pin.name):
        raise SettingsError(f"nobody is logged in at {pin.name}; `hermes mcp login` logs in")
    by = await _person(loaded)
    store.remove(pin.name)
    await _record(loaded, McpLoggedOut(run=MCP_RUN, server=pin.name, by=by))


async def _person(loaded: LoadedSettings) -> str:
    async with open_journal(loaded.store) as journal:
        return await require_person(loaded, journal)


async def _record(loaded: LoadedSettings, event: Event) -> None:
    async with open_journal(loaded.store) as journal:
        await journal.append(event)


@asynccontextmanager
async def _redirects(
    options: LoginOptions, ask: AskForAddress
) -> AsyncIterator[tuple[str, WaitForRedirect]]:
    import anyio

    from hermes.integrations.mcp import oauth

    if not options.paste:
        async with oauth.open_redirect_listener(options.port) as found:
            yield found
        return

    async def wait(state: str) -> str:
        while True:
            address = (await anyio.to_thread.run_sync(ask)).strip()
            if oauth.has_state(address, state):
                return address

    yield f"http://127.0.0.1:{options.port or PASTE_PORT}{oauth.CALLBACK_PATH}", wait


def _client(loaded: LoadedSettings, options: LoginOptions) -> dict[str, str]:
    if not options.client_id:
        return {}
    given = {"client_id": options.client_id}
    if name := options.client_secret:
        if not loaded.secrets.get(name):
            raise SettingsError(f"{name} is not set: `hermes config set {name} <value>` sets it")
        given["client_secret"] = loaded.secrets[name]
    return given
