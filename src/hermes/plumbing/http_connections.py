"""The connections of the HTTP server: hypercorn reads and writes them, Starlette finds the route.

Added here is what they do not do: a deadline for each request from its first byte to its last, a
limit on connections and on the memory of bodies, and the refusal of ambiguous requests. Only
HTTP/1.1 is spoken. See ADR 22.
"""

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import h11
import msgspec
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest, HttpRoute, HttpService
from hermes.plumbing.problems import suggest_name

SMALL_BODY_BYTES = 32 * 1024
MAX_LARGE_BODIES = 2
"""Larger bodies are read only two at a time, to limit memory."""
CLOSE_DELAY_S = 1.0
"""Time for a client to read the response before the connection is closed."""
MAX_DISCARDED_BYTES = 4 * SMALL_BODY_BYTES
"""Bytes that a refused client may still send in this time."""
GRACEFUL_STOP_S = 3.0
"""Time for requests to end when the server stops."""
TOO_MANY_CONNECTIONS = "too many connections; try again"


class ConnectionAcceptor:
    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._app = _RecordedApp(build_app(service), service)
        self._context = WorkerContext(None)
        self._config = Config()
        self._config.include_server_header = self._config.include_date_header = False
        self._config.errorlog = None
        self._connections: dict[asyncio.Task[None], _Connection] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = _Connection(
            self._app, asyncio.get_running_loop(), self._config, self._context, {}, reader, writer
        )
        connection.service = self._service
        connection.refused = len(self._connections) >= self._service.limits.max_connections
        self._connections[task] = connection
        try:
            with suppress(asyncio.CancelledError):  # by `stop`; asyncio would log it
                await connection.run()
        finally:
            del self._connections[task]

    async def stop(self) -> None:
        await self._context.terminated.set()
        for connection in self._connections.values():
            connection.close_if_idle()
        if tasks := list(self._connections):
            _, late = await asyncio.wait(tasks, timeout=GRACEFUL_STOP_S)
            for task in late:
                task.cancel()
            await asyncio.wait(tasks)


class _Connection(TCPServer):
    """hypercorn limits the time of one read; this limits the time of a whole request."""

    service: HttpService
    refused = False
    """There are too many connections; this one only hears so."""
    _request_start_s: float | None = None
    _close_deadline_s: float | None = None
    _read_scope: anyio.CancelScope | None = None
    _wire: "_Http1Protocol"

    async def _read_data(self) -> None:
        await self.idle_task.stop()  # replaced by the deadlines below
        outer = self.protocol
        outer.protocol = self._wire = _Http1Protocol(
            outer.app, outer.config, outer.context, outer.task_group, outer.state,
            outer.ssl, outer.client, outer.server, outer.send,
        )  # fmt: skip
        self._wire.service = self.service
        if self.refused:
            await self._wire.refuse(
                HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS, (b"retry-after", b"1")
            )
        with suppress(OSError):  # the client has gone
            await self._read_requests()
        await self.protocol.handle(Closed())

    async def _read_requests(self) -> None:
        discarded_bytes = 0
        while not self.reader.at_eof() and discarded_bytes <= MAX_DISCARDED_BYTES:
            with anyio.CancelScope(deadline=self._deadline()) as self._read_scope:
                data = await self.reader.read(MAX_RECV)
            if self._read_scope.cancelled_caught:
                if self._close_deadline_s is not None or not self._is_receiving():
                    return
                # Not 408: Alertmanager never retries after a 4xx, and the network may be slow.
                timeout_s = self.service.limits.request_timeout_s
                message = f"the request did not arrive within {timeout_s:g} seconds"
                await self._wire.refuse(HTTPStatus.SERVICE_UNAVAILABLE, message)
            elif self._close_deadline_s is not None:
                discarded_bytes += len(data)
            else:
                await self._handle_data(data)

    async def _handle_data(self, data: bytes) -> None:
        if self._request_start_s is None:
            self._request_start_s = anyio.current_time()
        try:
            await self.protocol.handle(RawData(data))
        except HttpRefusal as refusal:
            await self._wire.refuse(refusal.status, str(refusal))

    def _is_receiving(self) -> bool:
        """A request has begun to arrive and has not arrived."""
        state = self._wire.connection.their_state
        begun = bool(self._wire.connection.trailing_data[0])
        return state is h11.SEND_BODY or (state is h11.IDLE and begun)

    def _deadline(self) -> float:
        now, limits = anyio.current_time(), self.service.limits
        if self._close_deadline_s is not None:
            return self._close_deadline_s
        if self._is_receiving():
            self._request_start_s = self._request_start_s or now
            return self._request_start_s + limits.request_timeout_s
        self._request_start_s = None
        idle = self._wire.connection.their_state is h11.IDLE
        return now + limits.idle_timeout_s if idle else math.inf

    def close_if_idle(self) -> None:
        if self._read_scope is None:  # accepted a moment ago
            self.writer.close()
        elif self._wire.connection.their_state is h11.IDLE and not self._is_receiving():
            self._read_scope.cancel()

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, RawData):
            with anyio.move_on_after(self.service.limits.request_timeout_s) as sending:
                await super().protocol_send(event)
            if sending.cancelled_caught:  # the client does not read
                self.writer.transport.abort()
        elif isinstance(event, Closed):
            with suppress(OSError, RuntimeError):
                self.writer.write_eof()
            if self._close_deadline_s is None:
                self._close_deadline_s = anyio.current_time() + CLOSE_DELAY_S
                self._set_read_deadline(self._close_deadline_s)
        elif isinstance(event, Updated) and event.idle:  # the next request may come
            self._request_start_s = None
            self._set_read_deadline(anyio.current_time() + self.service.limits.idle_timeout_s)

    def _set_read_deadline(self, deadline_s: float) -> None:
        if self._read_scope is not None:
            self._read_scope.deadline = deadline_s

    async def _close(self) -> None:
        self.writer.close()
        with anyio.move_on_after(CLOSE_DELAY_S, shield=True), suppress(OSError):
            await self.writer.wait_closed()
        self.writer.transport.abort()  # nothing, unless the client does not read


class _Http1Protocol(H11Protocol):
    """HTTP/1.1 alone, without ambiguous requests, and with errors in JSON."""

    service: HttpService
    _method = b""

    async def _check_protocol(self, event: h11.Request) -> None:
        """hypercorn switches to HTTP/2 here; the name is not free."""
        self._method = event.method
        names = [name for name, _ in event.headers]
        if b"content-length" in names and b"transfer-encoding" in names:
            message = "content-length and transfer-encoding exclude each other"
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)
        if names.count(b"authorization") > 1:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "there are two Authorization headers")
        if any(
            name == b"upgrade" and b"websocket" in value.lower() for name, value in event.headers
        ):
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "WebSocket is not spoken here")

    async def _send_error_response(self, status_code: int) -> None:
        """Called while the error of h11 is handled."""
        await self.refuse(HTTPStatus(status_code), f"not HTTP: {sys.exception()}")

    async def refuse(self, status: HTTPStatus, message: str, *headers: tuple[bytes, bytes]) -> None:
        """Answer without the application, and close the connection."""
        state = self.connection.our_state
        if state in {h11.IDLE, h11.SEND_RESPONSE}:
            path = self.stream.scope["path"] if self.stream is not None else ""
            self.service.record_response(path, status)
            body = msgspec.json.encode({self.service.error_field: message})
            more = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                *headers,
            ]
            await self._send_h11_event(
                h11.Response(status_code=status, headers=more, reason=status.phrase)
            )
            if state is h11.IDLE or self._method != b"HEAD":
                await self._send_h11_event(h11.Data(data=body))
            await self._send_h11_event(h11.EndOfMessage())
        await self.send(Closed())


class _RecordedApp:
    """Records responses; what is sent after the client has gone, is not sent."""

    def __init__(self, app: ASGIApp, service: HttpService) -> None:
        self._app = app
        self._service = service

    async def __call__(
        self, scope: Any, receive: Any, send: Any, sync_spawn: Any, call_soon: Any
    ) -> None:
        gone = False

        async def receive_message() -> Any:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        async def send_message(message: Any) -> None:
            if gone:
                return
            if message["type"] == "http.response.start":
                self._service.record_response(scope["path"], HTTPStatus(message["status"]))
            await send(message)

        await self._app(scope, receive_message, send_message)


def build_app(service: HttpService) -> Starlette:
    large_bodies = anyio.Semaphore(MAX_LARGE_BODIES)

    def endpoint(route: HttpRoute) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            head = HttpRequest(
                method=request.method,
                path=request.scope["path"],
                headers=dict(request.headers),
                query=dict(request.query_params),
                params=dict(request.path_params),
            )
            await service.check_head(head)
            if route.check_head is not None:
                await route.check_head(head)
            async with _BodyReader(service, large_bodies) as reader:
                body = await reader.read(request)
                whole = replace(head, body=body, disconnected=partial(_disconnected, request))
                reply = await route.respond(whole)
            return _response(reply)

        return respond

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpRefusal)
        return _error_response(request, service, error.status, str(error), error.headers)

    async def refuse_unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = dict.fromkeys(each.path for each in service.routes)
        message = f"unknown path; {suggest_name(request.scope['path'], known)}"
        headers = {}
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = _allowed_methods(app, request.scope)
            message, headers = f"{request.scope['path']} accepts only {allowed}", {"allow": allowed}
        return _error_response(request, service, HTTPStatus(error.status_code), message, headers)

    async def report_bug(request: Request, error: Exception) -> Response:
        message = f"this is a bug in Hermes: {type(error).__name__}"
        return _error_response(request, service, HTTPStatus.INTERNAL_SERVER_ERROR, message)

    app = Starlette(
        routes=[
            Route(each.path, endpoint(each), methods=list(each.methods)) for each in service.routes
        ],
        exception_handlers={
            HttpRefusal: refuse, HTTPException: refuse_unknown, Exception: report_bug
        },
    )  # fmt: skip
    app.router.redirect_slashes = False
    return app


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _allowed_methods(app: Starlette, scope: Scope) -> str:
    """Of all routes with this path: each of them has its own methods."""
    routes = [each for each in app.routes if isinstance(each, Route)]
    found = [each for each in routes if each.matches(scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for each in found for method in each.methods or ()}))


class _BodyReader:
    """Reads one body within the limits; a slot for a large one is held until the response."""

    def __init__(self, service: HttpService, slots: anyio.Semaphore) -> None:
        self._service = service
        self._slots = slots
        self._held = False

    async def __aenter__(self) -> "_BodyReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._held:
            self._slots.release()

    async def read(self, request: Request) -> bytes:
        self._check_size(int(request.headers.get("content-length", "0")))  # a number, by h11
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            self._check_size(len(body))
            if len(body) > SMALL_BODY_BYTES and not self._held:
                await self._acquire_slot()
        return bytes(body)

    async def _acquire_slot(self) -> None:
        with anyio.move_on_after(self._service.limits.request_timeout_s):
            await self._slots.acquire()
            self._held = True
        if not self._held:
            message = "too many large requests; try again"
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, message, retry_after="1")

    def _check_size(self, size: int) -> None:
        if size > (max_bytes := self._service.limits.max_body_bytes):
            message = f"the body is limited to {max_bytes:,} bytes{self._service.size_hint}"
            raise HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def _error_response(
    request: Request,
    service: HttpService,
    status: HTTPStatus,
    message: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    error = service.render_error(request.scope["path"], status, message)
    body = error.body if error else msgspec.json.encode({service.error_field: message})
    content_type = error.content_type if error else "application/json"
    return _response(
        HttpReply(status=status, body=body, content_type=content_type, headers=headers or {})
    )


class _ReplyStream(StreamingResponse):
    def __init__(self, reply: HttpReply, headers: Mapping[str, str]) -> None:
        assert reply.stream is not None
        super().__init__(reply.stream, reply.status, headers=headers)
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reply.on_stream_end()


def _response(reply: HttpReply) -> Response:
    headers = {
        "content-type": reply.content_type,
        "x-content-type-options": "nosniff",
        **reply.headers,
    }
    if reply.stream is not None:
        return _ReplyStream(reply, headers)
    return Response(reply.body, reply.status, headers=headers)
