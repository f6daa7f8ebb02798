"""A browser over a WebSocket: a stand-in of Browserbase that relays to a real Chromium."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from browser_pages import VARIABLES, needs_chromium, page_server, reference
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from hermes.core.errors import ToolError
from hermes.environments.local import LocalEnvironment
from hermes.integrations.browser.address_checks import open_address_proxy
from hermes.integrations.browser.devtools import MessageTransport
from hermes.integrations.browser.launch import find_program, start_local_browser
from hermes.integrations.browser.remote import connect_remote_browser, open_browserbase
from hermes.integrations.browser.session import open_session
from hermes.plumbing.addresses import AddressGuard, guard_for

pytestmark = [pytest.mark.anyio, pytest.mark.command]
KEY, PROJECT, SESSION_PATH = "bb_live_key", "project-7", "/v1/sessions/session-9"


class BrowserbaseStandIn(ThreadingHTTPServer):
    """Knows two requests of the API, and refuses everything else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ApiHandler)
        self.socket_address = ""
        self.asked: list[tuple[str, dict[str, str]]] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class _ApiHandler(BaseHTTPRequestHandler):
    server: BrowserbaseStandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("X-BB-API-Key") != KEY:
            self._answer(401, {"message": "Unauthorized"})
        elif self.path == "/v1/sessions" and body == {"projectId": PROJECT}:
            self._answer(201, {"id": "session-9", "connectUrl": self.server.socket_address})
        elif self.path == SESSION_PATH and body.get("status") == "REQUEST_RELEASE":
            self._answer(200, {"id": "session-9", "status": "COMPLETED"})
        else:
            self._answer(400, {"message": "Bad Request"})
        self.server.asked.append((self.path, body))

    def _answer(self, status: int, body: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def browserbase() -> Iterator[BrowserbaseStandIn]:
    server = BrowserbaseStandIn()
    yield server
    server.shutdown()
    server.server_close()


@asynccontextmanager
async def relayed_chromium(folder: Path, guard: AddressGuard) -> AsyncIterator[str]:
    """The address of a WebSocket whose messages go to a browser over its pipe."""

    async def relay(connection: ServerConnection) -> None:
        async with (
            LocalEnvironment(folder, VARIABLES) as environment,
            open_address_proxy(guard) as port,
            start_local_browser(environment, find_program(None), port, VARIABLES) as browser,
            anyio.create_task_group() as group,
        ):
            group.start_soon(_copy_back, browser, connection)
            try:
                async for message in connection:
                    await browser.send(str(message).encode())
            finally:
                group.cancel_scope.cancel()

    async with serve(relay, "127.0.0.1", 0, max_size=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/?apiKey={KEY}"


async def _copy_back(browser: MessageTransport, connection: ServerConnection) -> None:
    try:
        while message := await browser.receive():
            await connection.send(message.decode())
    except ConnectionClosed:
        pass


@needs_chromium
async def test_a_browser_of_browserbase_is_used_and_given_back(
    tmp_path: Path, browserbase: BrowserbaseStandIn
) -> None:
    api = f"http://127.0.0.1:{browserbase.server_port}"
    with page_server(
        {"/": "<h1 id=out>Far</h1><button onclick=\"out.textContent='hit'\">Go"}
    ) as pages:
        guard = guard_for([pages.address])
        async with relayed_chromium(tmp_path, guard) as address:
            browserbase.socket_address = address
            async with (
                open_browserbase(KEY, PROJECT, api) as transport,
                open_session(transport, guard) as session,
            ):
                shown = await session.navigate(pages.address)
                assert "hit" in await session.click(reference(shown, '"Go"'))
                with pytest.raises(ToolError, match="not a public address"):
                    await session.navigate("http://169.254.169.254/")
    assert [path for path, _ in browserbase.asked] == ["/v1/sessions", SESSION_PATH]


async def test_a_wrong_key_and_an_absent_browser_are_told(browserbase: BrowserbaseStandIn) -> None:
    api = f"http://127.0.0.1:{browserbase.server_port}"
    with pytest.raises(ToolError, match="Browserbase answered 401"):
        async with open_browserbase("wrong", PROJECT, api):
            pass
    for address in ("ws://127.0.0.1:9/devtools", "http://127.0.0.1:9", "ws://"):
        with pytest.raises(ToolError, match="cannot be reached"):
            async with connect_remote_browser(address):
                pass
    with pytest.raises(ToolError, match="not the debugging port"):
        async with connect_remote_browser(api):
            pass
