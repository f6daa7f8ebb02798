"""Joins MCP servers: pins become tools, connections get an environment, variables and a folder."""

import base64
import gc
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.core.errors import SettingsError, ToolError
from hermes.core.protocols import PublishEvents, StartsPipedProcesses, Tool, ToolContext
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.integrations.mcp.pins import ServerAddress, ServerPin, ToolPin
    from hermes.integrations.mcp.servers import McpServers, ServerConnection, ServerLimits
    from hermes.integrations.mcp.tools import McpTool
    from hermes.plumbing.addresses import AddressGuard

ALWAYS_GIVEN_VARIABLES = ("PATH", "HOME", "LANG")
INSTALL_HINT = 'the library for MCP is not installed: pip install "hermes-oncall[mcp]"'


def has_servers(home: Path) -> bool:
    """Return whether any server was added. Costs one look at a folder."""
    return any((home / "mcp").glob("*.json"))


def list_mcp_tools(loaded: LoadedSettings) -> "dict[str, McpTool]":
    """The tools of all reviewed servers, to be shown: none can be called."""
    if not has_servers(loaded.home):
        return {}
    from hermes.integrations.mcp.pins import PinStore
    from hermes.integrations.mcp.tools import make_tools

    async def call(*_: object) -> str:
        raise ToolError("the server is not open")

    return make_tools(PinStore(loaded.home).load_all()[0], call)


@asynccontextmanager
async def open_mcp_tools(
    loaded: LoadedSettings, folder: Path, publish: PublishEvents, taken: Collection[str] = ()
) -> AsyncIterator[tuple[dict[str, Tool], tuple[str, ...]]]:
    """The tools of all reviewed servers, and what is wrong with some pins. No server is started."""
    if not has_servers(loaded.home):
        yield {}, ()
        return
    from hermes.integrations.mcp.pins import PinStore
    from hermes.integrations.mcp.tools import make_tools

    pins, problems = PinStore(loaded.home).load_all()
    async with open_servers(loaded, folder, publish) as servers:

        async def call(
            server: "ServerPin",
            tool: "ToolPin",
            arguments: Mapping[str, Any],
            context: ToolContext,
        ) -> str:
            answer = await servers.server(server).call(
                tool, arguments, run=context.run, ask=context.ask
            )
            text: str = await _with_media(answer, server.name, context)
            if answer.failed:
                raise ToolError(text or "the tool failed without a word")
            return text or "[no output]"

        yield _shown_tools(loaded, make_tools(pins, call, taken)), tuple(problems)


def _shown_tools(loaded: LoadedSettings, tools: "dict[str, McpTool]") -> dict[str, Tool]:
    """The tools; too many to be shown are found by a search."""
    from hermes.tools.tool_search import make_tool_search, specs_tokens

    specs = [tool.spec for tool in tools.values()]
    if specs_tokens(specs) <= loaded.settings.tools.shown_tokens:
        return dict(tools)
    for tool in tools.values():
        tool.found_by_search = True
    return {**make_tool_search(tools), **tools}


async def _with_media(answer: Any, server: str, context: ToolContext) -> str:
    """The text, and where the pictures and sounds are kept."""
    lines = [answer.text] if answer.text else []
    for number, media in enumerate(answer.media, 1):
        if media.media.startswith("image/"):
            lines.append(await _picture_line(media.data, server, context))
            continue
        kept = f"data:{media.media};base64,{base64.b64encode(media.data).decode()}"
        reference = await context.artifacts.save(context.run, f"mcp-{server}-{number}", kept)
        lines.append(f"[{media.media}, {len(media.data):,} bytes, kept as {reference}]")
    return "\n".join(lines)


async def _picture_line(data: bytes, server: str, context: ToolContext) -> str:
    try:
        picture = await context.add_picture(data, f"from the MCP server {server}")
    except ToolError as error:
        return f"[a picture that was left out: {error}]"
    size = f"{picture.width} × {picture.height} pixels, {picture.bytes:,} bytes"
    return f"[{picture.media}, {size}, kept as {picture.artifact}]"


@asynccontextmanager
async def open_servers(
    loaded: LoadedSettings,
    folder: Path,
    publish: PublishEvents | None,
    limits: "ServerLimits | None" = None,
) -> AsyncIterator["McpServers"]:
    """Servers whose connections are opened by the first call."""
    from hermes.integrations.mcp.servers import DEFAULT_LIMITS, McpServers

    def connect(pin: "ServerPin") -> AbstractAsyncContextManager["ServerConnection"]:
        return _connect(loaded, folder, pin)

    async with McpServers(connect, publish, limits or DEFAULT_LIMITS) as servers:
        yield servers


@asynccontextmanager
async def _connect(
    loaded: LoadedSettings, folder: Path, pin: "ServerPin"
) -> AsyncIterator["ServerConnection"]:
    from hermes.integrations.mcp.servers import NeedsPerson

    try:
        sdk = _load_library()
    except ImportError as error:
        raise NeedsPerson(f"{INSTALL_HINT} ({error})") from error
    from hermes.app.tools.tooling import environment_options
    from hermes.environments.open import open_environment

    address, hooks = pin.address, sdk.ConnectionHooks(pin.name, str(folder))
    if address.url:
        from hermes.integrations.mcp.http_connection import connect_by_http

        headers, auth = server_headers(loaded, pin), _stored_login(loaded, pin)
        guard = login_guard(loaded, address.url)
        async with connect_by_http(pin.name, address.url, headers, auth, hooks, guard) as opened:
            yield opened
        return
    variables = server_variables(loaded, address, pin.name)
    options = environment_options(loaded, folder)
    terminal = msgspec.structs.replace(options.settings, backend=address.environment)
    async with open_environment(replace(options, settings=terminal)) as environment:
        if not isinstance(environment, StartsPipedProcesses):
            raise NeedsPerson(
                f"an environment of the kind {address.environment} cannot run the MCP server "
                f"{pin.name}"
            )
        process = environment.open_piped(
            address.command,
            variables=variables,
            log=loaded.home / "logs" / f"mcp-{pin.name}.log",
        )
        async with sdk.connect_by_pipe(pin.name, process, hooks) as opened:
            yield opened


def _load_library() -> Any:
    """An eighth of this import would be the garbage collector, which finds nothing in it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        from hermes.integrations.mcp import connection
    finally:
        if collects:
            gc.enable()
    return connection


def server_headers(loaded: LoadedSettings, pin: "ServerPin") -> dict[str, str]:
    return {
        name: loaded.secrets[variable]
        for name, variable in pin.address.headers.items()
        if _require(loaded, variable, pin.name)
    }


def login_guard(loaded: LoadedSettings, url: str) -> "AddressGuard":
    """Lets the server and `tools.private_addresses` through; a server chooses where we log in."""
    from hermes.app.tools.tooling import allowed_addresses
    from hermes.plumbing.addresses import AddressGuard, guard_for

    return AddressGuard(guard_for([url]).allowed | allowed_addresses(loaded).allowed)


def _stored_login(loaded: LoadedSettings, pin: "ServerPin") -> Any:
    """None without a login. Raises `NeedsPerson` when one is needed and cannot be renewed."""
    from hermes.integrations.mcp.logins import LoginStore
    from hermes.integrations.mcp.servers import NeedsPerson

    store, address = LoginStore(loaded.home), pin.address
    login = store.load(pin.name, address.url)
    if login is not None and login.can_be_used:
        from hermes.integrations.mcp.oauth import StoredLoginAuth

        return StoredLoginAuth(store, pin.name, login)
    if login is not None or address.oauth:
        raise NeedsPerson(
            f"the MCP server {pin.name} needs a login: a person logs in with "
            f"`hermes mcp login {pin.name}`"
        )
    return None


def server_variables(
    loaded: LoadedSettings, address: "ServerAddress", server: str
) -> dict[str, str]:
    """The variables that the address names, never ours; on this host PATH, HOME and LANG, too."""
    given = {
        name: loaded.secrets[name]
        for name in ALWAYS_GIVEN_VARIABLES
        if name in loaded.secrets and address.environment == "local"
    }
    if address.environment == "local":
        given.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    return given | {
        name: loaded.secrets[name] for name in address.env if _require(loaded, name, server)
    }


def _require(loaded: LoadedSettings, name: str, server: str) -> bool:
    if loaded.secrets.get(name):
        return True
    raise SettingsError(
        f"the MCP server {server} needs {name}: set it with `hermes config set {name} <value>`"
    )
