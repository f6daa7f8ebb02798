"""HTTP/1.1 for machines: requests that arrive in time and in bounds, answered one by one.

h11 reads the protocol. What it leaves to its user is here: how long a peer may take, how much it
may send, and how much all of them together may keep in memory.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

import anyio
import h11
import msgspec
from anyio.abc import ByteStream

from hermes.core.messages import Value

HEAD = 16 * 1024
"""Bytes of a request line with its headers."""
SMALL = 32 * 1024
"""Bodies up to this size are read side by side; larger ones two at a time, to bound memory."""
LINGER = 1.0
"""Seconds for a refused peer to notice; without them its unread body would eat our answer."""


class Limits(Value, kw_only=True, frozen=True):
    body: int = 2**20
    patience: float = 10.0
    idle: float = 75.0
    connections: int = 1000


class Request(Value, kw_only=True, frozen=True):
    method: str
    path: str
    headers: Mapping[str, str] = {}
    """Names in small letters."""
    body: bytes = b""


class Reply(Value, kw_only=True, frozen=True):
    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    media: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Door(Protocol):
    def admit(self, request: Request) -> Reply | None:
        """A refusal by the head alone, so that strangers cannot make us read their bodies."""
        ...

    async def answer(self, request: Request) -> Reply: ...

    def note(self, request: Request | None, reply: Reply) -> None:
        """Told of every reply; the request is None when what came was none."""
        ...


class Refused(Exception):
    """The request ends here, with this reply."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.reply = refusal(status, words)


def refusal(status: HTTPStatus, words: str, *headers: tuple[str, str]) -> Reply:
    return Reply(status=status, body=msgspec.json.encode({"error": words}), headers=headers)


class Peer:
    """One connection: as many requests as it cares to send."""

    def __init__(self, stream: ByteStream, limits: Limits, large: anyio.Semaphore) -> None:
        self._stream = stream
        self._limits = limits
        self._large = large
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
        self._head: Request | None = None

    async def converse(self, door: Door) -> None:
        """A peer that goes away in the middle of it is nobody's error."""
        async with self._stream:
            try:
                while await self._once(door):
                    self._wire.start_next_cycle()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return

    async def turn_away(self, reply: Reply) -> None:
        async with self._stream:
            try:
                await self._part(reply)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return

    async def _once(self, door: Door) -> bool:
        """Whether there may be a next time."""
        self._head = None
        if not await self._begun():
            return False
        reading = anyio.CancelScope()
        holds = Holds(self._large)
        try:
            with anyio.fail_after(self._limits.patience) as reading:
                request = await self._read(door, holds)
            if request is None:
                return False
            reply = await door.answer(request)
            door.note(request, reply)
            await self._send(reply)
            return self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE
        except TimeoutError:
            if not reading.cancelled_caught:  # it would not take our answer
                return False
            # Not 408: Alertmanager never repeats what got a 4xx, and a slow line is not its fault.
            late = Refused(HTTPStatus.SERVICE_UNAVAILABLE, self._late())
            await self._refuse(door, late.reply)
        except Refused as refused:
            await self._refuse(door, refused.reply)
        finally:
            holds.release()
        return False

    async def _refuse(self, door: Door, reply: Reply) -> None:
        door.note(self._head, reply)
        await self._part(reply)

    async def _begun(self) -> bool:
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

    async def _read(self, door: Door, holds: "Holds") -> Request | None:
        event = await self._event()
        if not isinstance(event, h11.Request):
            return None
        head = _request_of(event)
        self._head = head
        if (no := door.admit(head)) is not None:
            refused = Refused(no.status, "")
            refused.reply = no
            raise refused
        length = head.headers.get("content-length", "0")
        self._fits(int(length))  # h11 has made sure that it is a number
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            self._fits(len(body))
            if len(body) > SMALL:
                await holds.acquire()
        return msgspec.structs.replace(head, body=bytes(body))

    async def _event(self) -> object:
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
            raise Refused(HTTPStatus(error.error_status_hint), f"not HTTP: {error}") from error
        return event

    def _fits(self, size: int) -> None:
        if size > (most := self._limits.body):
            words = (
                f"a body has at most {most:,} bytes; send less at once (Alertmanager: max_alerts)"
            )
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words)

    def _late(self) -> str:
        return f"the request did not arrive within {self._limits.patience:g} seconds"

    async def _part(self, reply: Reply) -> None:
        """Answer, and let the peer read the answer before the connection goes."""
        if self._wire.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        await self._send(reply, close=True)
        await self._stream.send_eof()
        unread = 4 * SMALL
        with anyio.move_on_after(LINGER):
            while unread > 0:
                try:
                    unread -= len(await self._stream.receive())
                except anyio.EndOfStream:
                    return

    async def _send(self, reply: Reply, *, close: bool = False) -> None:
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


class Holds:
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


def _request_of(event: h11.Request) -> Request:
    # A header that is sent twice, such as two lengths, is refused by h11 where it matters.
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    path = event.target.decode("latin-1").partition("?")[0]
    return Request(method=event.method.decode("latin-1"), path=path, headers=headers)
