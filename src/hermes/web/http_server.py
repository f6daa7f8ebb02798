"""HTTP/1.1 for machines: requests that arrive in time and in bounds, answered one by one.

h11 reads the protocol. What it leaves to its user is here: how long a peer may take, how much it
may send, and how much all of them together may keep in memory.
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
"""Bytes of a request line with its headers."""
SMALL_BODY_BYTES = 32 * 1024
"""Bodies up to this size are read side by side; larger ones two at a time, to bound memory."""
CLOSE_DELAY_S = 1.0
"""Seconds for a refused peer to notice; without them its unread body would eat our answer."""


class WebLimits(Value, kw_only=True, frozen=True):
    body: int = 2**20
    patience: float = 10.0
    idle: float = 75.0
    connections: int = 1000


class WebRequest(Value, kw_only=True, frozen=True):
    method: str
    path: str
    headers: Mapping[str, str] = {}
    """Names in small letters."""
    body: bytes = b""


class WebResponse(Value, kw_only=True, frozen=True):
    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class WebHandler(Protocol):
    def check_head(self, request: WebRequest) -> WebResponse | None:
        """A refusal by the head alone, so that strangers cannot make us read their bodies."""
        ...

    async def respond(self, request: WebRequest) -> WebResponse: ...

    def record_response(self, request: WebRequest | None, reply: WebResponse) -> None:
        """Told of every reply; the request is None when what came was none."""
        ...


class WebRequestRejected(Exception):
    """The request ends here, with this reply."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.reply = error_response(status, words)


def error_response(status: HTTPStatus, words: str, *headers: tuple[str, str]) -> WebResponse:
    return WebResponse(status=status, body=msgspec.json.encode({"error": words}), headers=headers)


class WebConnection:
    """One connection: as many requests as it cares to send."""

    def __init__(self, stream: ByteStream, limits: WebLimits, large: anyio.Semaphore) -> None:
        self._stream = stream
        self._limits = limits
        self._large = large
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._head: WebRequest | None = None

    async def serve(self, handler: WebHandler) -> None:
        """A peer that goes away in the middle of it is nobody's error."""
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
        """Whether there may be a next time."""
        self._head = None
        if not await self._wait_for_request():
            return False
        reading = anyio.CancelScope()
        holds = LargeBodySlot(self._large)
        try:
            with anyio.fail_after(self._limits.patience) as reading:
                request = await self._read_request(handler, holds)
            if request is None:
                return False
            reply = await handler.respond(request)
            handler.record_response(request, reply)
            await self._send(reply)
            return self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE
        except TimeoutError:
            if not reading.cancelled_caught:  # it would not take our answer
                return False
            # Not 408: Alertmanager never repeats what got a 4xx, and a slow line is not its fault.
            late = WebRequestRejected(HTTPStatus.SERVICE_UNAVAILABLE, self._timeout_text())
            await self._reject_request(handler, late.reply)
        except WebRequestRejected as refused:
            await self._reject_request(handler, refused.reply)
        finally:
            holds.release()
        return False

    async def _reject_request(self, handler: WebHandler, reply: WebResponse) -> None:
        handler.record_response(self._head, reply)
        await self._send_and_close(reply)

    async def _wait_for_request(self) -> bool:
        """Wait for the first byte of the next request; False when there will be none."""
        if self._wire.trailing_data[0]:
            return True
        with anyio.move_on_after(self._limits.idle):
            try:
                self._wire.receive_data(await self._stream.receive())
            except anyio.EndOfStream:
                return False
            return True
        return False

    async def _read_request(self, handler: WebHandler, holds: "LargeBodySlot") -> WebRequest | None:
        event = await self._next_event()
        if not isinstance(event, h11.Request):
            return None
        head = _convert_request(event)
        self._head = head
        if (no := handler.check_head(head)) is not None:
            refused = WebRequestRejected(no.status, "")
            refused.reply = no
            raise refused
        length = head.headers.get("content-length", "0")
        self._check_body_size(int(length))  # h11 has made sure that it is a number
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            self._check_body_size(len(body))
            if len(body) > SMALL_BODY_BYTES:
                await holds.acquire()
        return msgspec.structs.replace(head, body=bytes(body))

    async def _next_event(self) -> object:
        try:
            while (event := self._wire.next_event()) is h11.NEED_DATA:
                if self._wire.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=100, headers=[])
                    await self._stream.send(self._wire.send(go_on) or b"")
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
        if size > (most := self._limits.body):
            words = (
                f"a body has at most {most:,} bytes; send less at once (Alertmanager: max_alerts)"
            )
            raise WebRequestRejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)

    def _timeout_text(self) -> str:
        return f"the request did not arrive within {self._limits.patience:g} seconds"

    async def _send_and_close(self, reply: WebResponse) -> None:
        """Answer, and let the peer read the answer before the connection goes."""
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
            ("content-type", reply.media),
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
        with anyio.fail_after(self._limits.patience):
            await self._stream.send(data)


class LargeBodySlot:
    """A place among the large bodies, taken at most once and given back in any case."""

    def __init__(self, places: anyio.Semaphore) -> None:
        self._places = places
        self._held = False

    async def acquire(self) -> None:
        if not self._held:
            await self._places.acquire()
            self._held = True

    def release(self) -> None:
        if self._held:
            self._places.release()


def _convert_request(event: h11.Request) -> WebRequest:
    # A header that is sent twice, such as two lengths, is refused by h11 where it matters.
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path = event.target.decode("latin-1").partition("?")[0]
    return WebRequest(method=event.method.decode("latin-1"), path=path, headers=headers)


LISTEN_BACKLOG = 1024
MAX_LARGE_BODIES = 2
"""Large bodies in memory at once."""
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
            "Another watcher may be running; else choose other web.listen and web.port"
        ) from error
    floor = _ConnectionAcceptor(handler, limits)
    async with listener, anyio.create_task_group() as group:
        for each in listener.listeners:
            assert isinstance(each, SocketListener)
            group.start_soon(floor.accept, each, group)
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
                # Out of file descriptors, or a peer gone already: others must finish first.
                await anyio.sleep(0.05)
                continue
            group.start_soon(self._serve_connection, stream)

    async def _serve_connection(self, stream: SocketStream) -> None:
        peer = WebConnection(stream, self._limits, self._large)
        self._open_connections += 1
        try:
            if self._open_connections > self._limits.connections:
                full = error_response(
                    HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY_CONNECTIONS, ("retry-after", "1")
                )
                self._handler.record_response(None, full)
                await peer.reject(full)
            else:
                await peer.serve(self._handler)
        finally:
            self._open_connections -= 1
