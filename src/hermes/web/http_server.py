"""A small HTTP/1.1 server with limits on time, size and memory.

h11 parses the protocol. This module limits how long a client may take, how much it may send, and
how much memory all connections together may use.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol

import anyio
import h11
import msgspec
from anyio.abc import ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup

from hermes.core.errors import SettingsError
from hermes.core.messages import Value

MAX_HEAD_BYTES = 16 * 1024
"""Maximum size of the request line with its headers."""
SMALL_BODY_BYTES = 32 * 1024
"""Larger bodies are read only two at a time, to limit memory."""
CLOSE_DELAY_S = 1.0
"""Time for a rejected client to read the response before the connection is closed."""


class WebLimits(Value, kw_only=True, frozen=True):
    max_body_bytes: int = 2**20
    request_timeout_s: float = 10.0
    idle_timeout_s: float = 75.0
    max_connections: int = 1000


class WebRequest(Value, kw_only=True, frozen=True):
    method: str
    path: str
    headers: Mapping[str, str] = {}
    """With lower-case names."""
    body: bytes = b""


class WebResponse(Value, kw_only=True, frozen=True):
    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class WebHandler(Protocol):
    def check_head(self, request: WebRequest) -> WebResponse | None:
        """Return a rejection from the head alone, so that unauthorized bodies are not read."""
        ...

    async def respond(self, request: WebRequest) -> WebResponse: ...

    def record_response(self, request: WebRequest | None, reply: WebResponse) -> None:
        """Called for every response; the request is None when it could not be parsed."""
        ...


class WebRequestRejected(Exception):
    """The request is answered with `reply` and the connection is closed."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.reply = error_response(status, message)


def error_response(status: HTTPStatus, message: str, *headers: tuple[str, str]) -> WebResponse:
    return WebResponse(status=status, body=msgspec.json.encode({"error": message}), headers=headers)


class WebConnection:
    """One connection, which serves any number of requests."""

    def __init__(self, stream: ByteStream, limits: WebLimits, large: anyio.Semaphore) -> None:
        self._stream = stream
        self._limits = limits
        self._large = large
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._head: WebRequest | None = None

    async def serve(self, handler: WebHandler) -> None:
        """Serve requests until the end; a client that disconnects is not an error."""
        async with self._stream:
            try:
                while await self._serve_request(handler):
                    self._wire.start_next_cycle()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return

    async def reject(self, reply: WebResponse) -> None:
        async with self._stream:
            try:
                await self._send_and_close(reply)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return

    async def _serve_request(self, handler: WebHandler) -> bool:
        """Serve one request; True when the connection can be reused."""
        self._head = None
        if not await self._wait_for_request():
            return False
        reading = anyio.CancelScope()
        slot = LargeBodySlot(self._large)
        try:
            with anyio.fail_after(self._limits.request_timeout_s) as reading:
                request = await self._read_request(handler, slot)
            if request is None:
                return False
            reply = await handler.respond(request)
            handler.record_response(request, reply)
            await self._send(reply)
            return self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE
        except TimeoutError:
            if not reading.cancelled_caught:  # the client did not read the response
                return False
            # Not 408: Alertmanager never retries after a 4xx, and a slow network is not its fault.
            timed_out = WebRequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, self._timeout_text())
            await self._reject_request(handler, timed_out.reply)
        except WebRequestRejected as rejected:
            await self._reject_request(handler, rejected.reply)
        finally:
            slot.release()
        return False

    async def _reject_request(self, handler: WebHandler, reply: WebResponse) -> None:
        handler.record_response(self._head, reply)
        await self._send_and_close(reply)

    async def _wait_for_request(self) -> bool:
        """Wait for the first byte of the next request; False when there will be none."""
        if self._wire.trailing_data[0]:
            return True
        with anyio.move_on_after(self._limits.idle_timeout_s):
            try:
                self._wire.receive_data(await self._stream.receive())
            except anyio.EndOfStream:
                return False
            return True
        return False

    async def _read_request(self, handler: WebHandler, slot: "LargeBodySlot") -> WebRequest | None:
        event = await self._next_event()
        if not isinstance(event, h11.Request):
            return None
        head = _convert_request(event)
        self._head = head
        if (rejection := handler.check_head(head)) is not None:
            rejected = WebRequestRejected(rejection.status, "")
            rejected.reply = rejection
            raise rejected
        length = head.headers.get("content-length", "0")
        self._check_body_size(int(length))  # h11 has checked that it is a number
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            self._check_body_size(len(body))
            if len(body) > SMALL_BODY_BYTES:
                await slot.acquire()
        return msgspec.structs.replace(head, body=bytes(body))

    async def _next_event(self) -> object:
        try:
            while (event := self._wire.next_event()) is h11.NEED_DATA:
                if self._wire.they_are_waiting_for_100_continue:
                    continue_response = h11.InformationalResponse(status_code=100, headers=[])
                    await self._stream.send(self._wire.send(continue_response) or b"")
                try:
                    self._wire.receive_data(await self._stream.receive())
                except anyio.EndOfStream:
                    self._wire.receive_data(b"")
        except h11.RemoteProtocolError as error:
            raise WebRequestRejected(
                HTTPStatus(error.error_status_hint), f"not HTTP: {error}"
            ) from error
        return event

    def _check_body_size(self, size: int) -> None:
        if size > (max_bytes := self._limits.max_body_bytes):
            message = (
                f"the body is limited to {max_bytes:,} bytes; with Alertmanager, set max_alerts"
            )
            raise WebRequestRejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)

    def _timeout_text(self) -> str:
        return f"the request did not arrive within {self._limits.request_timeout_s:g} seconds"

    async def _send_and_close(self, reply: WebResponse) -> None:
        """Send the response, and let the client read it before the connection is closed."""
        if self._wire.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        await self._send(reply, close=True)
        await self._stream.send_eof()
        unread = 4 * SMALL_BODY_BYTES
        with anyio.move_on_after(CLOSE_DELAY_S):
            while unread > 0:
                try:
                    unread -= len(await self._stream.receive())
                except anyio.EndOfStream:
                    return

    async def _send(self, reply: WebResponse, *, close: bool = False) -> None:
        headers = [
            ("content-type", reply.content_type),
            ("content-length", str(len(reply.body))),
            ("x-content-type-options", "nosniff"),
            *reply.headers,
            *([("connection", "close")] if close else []),
        ]
        response = h11.Response(
            status_code=reply.status, headers=headers, reason=reply.status.phrase
        )
        data = self._wire.send(response) or b""
        if self._head is None or self._head.method != "HEAD":
            data += self._wire.send(h11.Data(data=reply.body)) or b""
        data += self._wire.send(h11.EndOfMessage()) or b""
        with anyio.fail_after(self._limits.request_timeout_s):
            await self._stream.send(data)


class LargeBodySlot:
    """One of the slots for large bodies; acquired at most once and always released."""

    def __init__(self, slots: anyio.Semaphore) -> None:
        self._slots = slots
        self._held = False

    async def acquire(self) -> None:
        if not self._held:
            await self._slots.acquire()
            self._held = True

    def release(self) -> None:
        if self._held:
            self._slots.release()


def _convert_request(event: h11.Request) -> WebRequest:
    # h11 rejects repeated headers where it matters, for example two lengths.
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path = event.target.decode("latin-1").partition("?")[0]
    return WebRequest(method=event.method.decode("latin-1"), path=path, headers=headers)


LISTEN_BACKLOG = 1024
MAX_LARGE_BODIES = 2
TOO_MANY_CONNECTIONS = "too many connections; try again"


async def serve_http(
    host: str, port: int, handler: WebHandler, limits: WebLimits, *, ready: Callable[[int], None]
) -> None:
    """Serve until cancelled. Raises `SettingsError` when it cannot listen."""
    try:
        listener = await anyio.create_tcp_listener(
            local_host=host, local_port=port, backlog=LISTEN_BACKLOG
        )
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"cannot listen on {host} port {port}: {why}. "
            "Another watcher may be running; otherwise change web.listen and web.port"
        ) from error
    acceptor = _ConnectionAcceptor(handler, limits)
    async with listener, anyio.create_task_group() as group:
        for each in listener.listeners:
            assert isinstance(each, SocketListener)
            group.start_soon(acceptor.accept, each, group)
        ready(listener.extra(SocketAttribute.local_port))


class _ConnectionAcceptor:
    def __init__(self, handler: WebHandler, limits: WebLimits) -> None:
        self._handler = handler
        self._limits = limits
        self._large = anyio.Semaphore(MAX_LARGE_BODIES)
        self._open_connections = 0

    async def accept(self, listener: SocketListener, group: TaskGroup) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError:
                # Out of file descriptors, or the client is gone: wait for other connections.
                await anyio.sleep(0.05)
                continue
            group.start_soon(self._serve_connection, stream)

    async def _serve_connection(self, stream: SocketStream) -> None:
        connection = WebConnection(stream, self._limits, self._large)
        self._open_connections += 1
        try:
            if self._open_connections > self._limits.max_connections:
                response = error_response(
                    HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS, ("retry-after", "1")
                )
                self._handler.record_response(None, response)
                await connection.reject(response)
            else:
                await connection.serve(self._handler)
        finally:
            self._open_connections -= 1
