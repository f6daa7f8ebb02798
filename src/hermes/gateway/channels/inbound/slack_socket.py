"""One connection in socket mode, with a watchdog.

The library reconnects automatically and may then receive nothing more. So each client lives as long
as its connection: when it ends, or neither a pong nor an event came for a while, the caller opens
a new one.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import NamedTuple, Self

import aiohttp
import anyio
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

MAX_WAITING_REQUESTS = 1_000


class SocketTiming(NamedTuple):
    ping_interval_s: float = 20.0
    check_interval_s: float = 5.0
    silence_s: float = 90.0
    """Without a pong or an event for so long, the connection is given up."""


class SlackSocket:
    """Made by `open`."""

    def __init__(self, client: SocketModeClient, timing: SocketTiming) -> None:
        self._client, self._timing = client, timing
        self._heard_at = time.time()
        self._give, self._given = anyio.create_memory_object_stream[SocketModeRequest](
            MAX_WAITING_REQUESTS
        )
        client.socket_mode_request_listeners.append(self._receive)

    @classmethod
    async def open(cls, web: AsyncWebClient, app_token: str, timing: SocketTiming) -> Self:
        """Raises the errors of the client where Slack refuses or cannot be reached."""
        answer = await web.apps_connections_open(app_token=app_token)
        client = SocketModeClient(
            app_token,
            logger=web.logger,
            web_client=web,
            auto_reconnect_enabled=False,
            ping_interval=timing.ping_interval_s,
        )
        client.wss_uri = answer["url"]
        socket = cls(client, timing)
        try:
            with anyio.fail_after(timing.silence_s):
                await client.connect()  # type: ignore[no-untyped-call] # tries until it succeeds
        except BaseException:
            with anyio.CancelScope(shield=True):
                await socket.close()
            raise
        return socket

    async def _receive(self, _: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        self._heard_at = time.time()
        with suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._give.send_nowait(request)  # one that does not fit is delivered again later

    async def requests(self) -> AsyncIterator[SocketModeRequest]:
        """Ends when the connection does, or is silent."""
        while True:
            request = None
            with anyio.move_on_after(self._timing.check_interval_s):
                request = await self._given.receive()
            if request is not None:
                yield request
            elif not await self._is_alive():
                return

    async def _is_alive(self) -> bool:
        session = self._client.current_session
        if session is None or session.closed:
            return False
        heard_at = max(self._heard_at, self._client.last_ping_pong_time or 0.0)
        return time.time() - heard_at < self._timing.silence_s

    async def acknowledge(self, envelope_id: str) -> None:
        """Without a connection Slack delivers it again, with the same key."""
        with suppress(aiohttp.ClientError, ConnectionError):
            await self._client.send_socket_mode_response(SocketModeResponse(envelope_id))

    async def close(self) -> None:
        tasks = [self._client.message_processor, self._client.current_session_monitor]
        await self._client.close()  # type: ignore[no-untyped-call]
        self._give.close()
        self._given.close()
        running = [each for each in (*tasks, self._client.message_receiver) if each is not None]
        await asyncio.wait(running)
