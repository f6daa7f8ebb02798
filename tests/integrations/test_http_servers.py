"""MCP servers over HTTP: a server of the official library, and ones that answer badly."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_application import served
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from hermes.app.mcp.servers import open_servers
from hermes.core.errors import ToolError
from hermes.integrations.mcp.pins import ServerAddress, ServerPin, make_pin
from hermes.integrations.mcp.servers import McpServer, NeedsPerson, ServerLimits
from hermes.settings.load import load

pytestmark = [pytest.mark.anyio, pytest.mark.command]
TOKEN = "shop-token-123456789"


@asynccontextmanager
async def connected(folder: Path, url: str, **headers: str) -> AsyncIterator[McpServer]:
    address = ServerAddress(url=url, headers=headers)
    loaded = load(home=folder, variables={"SHOP_TOKEN": TOKEN, "PATH": "/usr/bin:/bin"})
    limits = ServerLimits(restart_delays_s=(), connect_s=20.0)
    async with open_servers(loaded, folder, None, limits) as servers:
        yield servers.server(ServerPin(name="shop", address=address))


async def test_a_server_of_the_library_answers_and_gets_the_header(tmp_path: Path) -> None:
    seen: list[str] = []
    own = MCPServer("shop")

    @own.tool()
    def price(name: str) -> str:
        """The price of a thing."""
        return f"{name}: 3"

    inner = own.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"x-token", b"").decode())
        await inner(scope, receive, send)

    async with (
        served(app) as url,
        connected(tmp_path, f"{url}/mcp", **{"X-Token": "SHOP_TOKEN"}) as server,
    ):
        _, (tool,) = await server.listing()
        answer = await server.call(make_pin(tool, None, ""), {"name": "tea"}, run="r", ask=None)
        assert answer.text == "tea: 3"
    assert set(seen) == {TOKEN}


async def wants_login(request: Request) -> Response:
    return PlainTextResponse("who are you?", 401)


async def is_a_page(request: Request) -> Response:
    return Response("<html>hello</html>", media_type="text/html")


async def redirects(request: Request) -> Response:
    return RedirectResponse("http://169.254.169.254/latest/meta-data", 307)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (wants_login, NeedsPerson, "wants a login"),
        (is_a_page, ToolError, "did not answer"),
        (redirects, ToolError, "did not answer"),
    ],
)
async def test_a_server_that_cannot_be_used_is_told(
    tmp_path: Path, answer: Any, kind: type[Exception], said: str
) -> None:
    app = Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])
    async with served(app) as url, connected(tmp_path, f"{url}/mcp") as server:
        with pytest.raises(kind, match=said):
            await server.listing()


async def test_nothing_listens_there(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with connected(tmp_path, f"{url}/mcp") as server:
            with pytest.raises(ToolError, match="did not answer"):
                await server.listing()


async def test_resources_and_prompts_are_tools_that_are_reviewed_like_others(
    tmp_path: Path,
) -> None:
    own = MCPServer("shop")

    @own.resource("shop://opening")
    def opening() -> str:
        """When the shop is open."""
        return "from nine to five"

    @own.resource("shop://stock/{item}")
    def stock(item: str) -> str:
        return f"{item}: 12"

    @own.prompt()
    def greet(name: str) -> str:
        """Greets somebody."""
        return f"Say hello to {name}."

    async with (
        served(own.streamable_http_app()) as url,
        connected(tmp_path, f"{url}/mcp") as server,
    ):
        _, listed = await server.listing()
        tools = {tool.name: make_pin(tool, None, "") for tool in listed}

        async def call(tool: str, **arguments: Any) -> str:
            return str((await server.call(tools[tool], arguments, run="r", ask=None)).text)

        everything = await call("resources")
        assert "shop://opening: When the shop is open." in everything
        assert "shop://stock/{item}" in everything
        assert "opening" not in await call("resources", query="stock")
        assert await call("resources", uri="shop://opening") == "from nine to five"
        assert await call("resources", uri="shop://stock/tea") == "tea: 12"
        assert await call("prompts") == "greet(name): Greets somebody."
        assert "Say hello to Ann." in await call("prompts", name="greet", arguments={"name": "Ann"})
        with pytest.raises(ToolError, match="did not run resources"):
            await call("resources", uri="shop://nothing/at/all")


async def test_a_tool_of_the_server_called_resources_stays_its_own(tmp_path: Path) -> None:
    own = MCPServer("shop")

    @own.resource("shop://opening")
    def opening() -> str:
        return "from nine to five"

    @own.tool()
    def resources() -> str:
        return "the tool"

    async with (
        served(own.streamable_http_app()) as url,
        connected(tmp_path, f"{url}/mcp") as server,
    ):
        _, listed = await server.listing()
        (tool,) = [each for each in listed if each.name == "resources"]
        answer = await server.call(make_pin(tool, None, ""), {}, run="r", ask=None)
        assert answer.text == "the tool"
