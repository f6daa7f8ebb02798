"""Browsers elsewhere, over a WebSocket: at an address of the settings, or of Browserbase."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.integrations.browser.devtools import MAX_MESSAGE_BYTES, MessageTransport
from hermes.plumbing.http_client import HttpError, HttpLimits, send_http_request

BROWSERBASE_URL = "https://api.browserbase.com"
CONNECT_TIMEOUT_S = 30.0
_LIMITS = HttpLimits(timeout_s=20.0, total_timeout_s=30.0, max_answer_bytes=1_000_000)


class WebSocketTransport:
    """Messages over a WebSocket, one in each frame."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message.decode())
        except ConnectionClosed as error:
            raise EnvironmentFailed("the remote browser has gone") from error

    async def receive(self) -> bytes:
        try:
            message = await self._connection.recv()
        except ConnectionClosed:
            return b""
        return message if isinstance(message, bytes) else message.encode()

    def last_words(self) -> str:
        return self._connection.close_reason or ""


@asynccontextmanager
async def connect_remote_browser(address: str) -> AsyncIterator[MessageTransport]:
    """`address` is ws:// or wss://, or the http:// address of a debugging port.

    Raises `ToolError`.
    """
    url = address if urlsplit(address).scheme in ("ws", "wss") else await _find_socket(address)
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            connection = await connect(
                url,
                max_size=MAX_MESSAGE_BYTES,
                compression=None,
                proxy=None,
                user_agent_header=None,
            )
    except (OSError, TimeoutError, ValueError, WebSocketException) as error:
        where = urlsplit(url).hostname  # the rest of the address may hold a key
        raise ToolError(
            f"the browser at {where} cannot be reached: {type(error).__name__}"
        ) from error
    try:
        yield WebSocketTransport(connection)
    finally:
        with anyio.move_on_after(5, shield=True):
            await connection.close()


@asynccontextmanager
async def open_browserbase(
    key: str, project: str, url: str = BROWSERBASE_URL
) -> AsyncIterator[MessageTransport]:
    """A browser of Browserbase, which is given back at the end of the block. Raises `ToolError`."""
    made = await _send(f"{url}/v1/sessions", key, {"projectId": project})
    number, address = made.get("id"), made.get("connectUrl")
    if not isinstance(number, str) or not isinstance(address, str):
        raise ToolError("Browserbase answered without an address of the browser")
    try:
        async with connect_remote_browser(address) as transport:
            yield transport
    finally:
        release = {"projectId": project, "status": "REQUEST_RELEASE"}
        with anyio.move_on_after(20, shield=True):
            await _send(f"{url}/v1/sessions/{number}", key, release)


async def _find_socket(address: str) -> str:
    try:
        answer = await send_http_request("GET", f"{address.rstrip('/')}/json/version", _LIMITS)
    except HttpError as error:
        raise ToolError(f"the browser at {address} cannot be reached: {error}") from error
    found = _read_json(answer.body).get("webSocketDebuggerUrl")
    if not isinstance(found, str):
        raise ToolError(f"{address} is not the debugging port of a browser")
    return found


async def _send(url: str, key: str, body: Mapping[str, str]) -> dict[str, Any]:
    headers = {"X-BB-API-Key": key, "Content-Type": "application/json"}
    try:
        answer = await send_http_request(
            "POST", url, _LIMITS, headers=headers, body=msgspec.json.encode(body)
        )
    except HttpError as error:
        raise ToolError(f"Browserbase cannot be reached: {error}") from error
    if answer.status >= 300:
        text = answer.body[:200].decode("utf-8", "replace")
        raise ToolError(f"Browserbase answered {answer.status}: {text}")
    return _read_json(answer.body)


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
