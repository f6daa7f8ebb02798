"""Just enough of HTTP to answer JSON with JSON, one request a connection."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from hermes.core.messages import Value

HEAD, BODY = 16_384, 1_048_576
PATIENCE = 30.0
"""Seconds for a request to arrive."""


class Request(Value, kw_only=True, frozen=True):
    method: str
    path: str
    headers: dict[str, str] = {}
    """Names in small letters."""
    body: dict[str, Any] = {}
    query: dict[str, str] = {}


class Refused(Exception):
    """The answer is this status and these words."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


Answer = Callable[[Request], Awaitable[object]]


async def converse(stream: ByteStream, answer: Answer) -> None:
    """One request, one answer. A peer that goes away in the middle of it is nobody's error."""
    async with stream:
        try:
            with anyio.fail_after(PATIENCE):
                request = await read(stream)
            status, body = HTTPStatus.OK, await answer(request)
        except Refused as refused:
            status, body = refused.status, {"detail": str(refused)}
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, TimeoutError):
            return
        try:
            await stream.send(encode(status, body))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


async def read(stream: ByteStream) -> Request:
    buffered = BufferedByteReceiveStream(stream)
    try:
        head = (await buffered.receive_until(b"\r\n\r\n", HEAD)).decode("latin-1")
    except anyio.DelimiterNotFound as error:
        raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long a head") from error
    first, *rest = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise Refused(HTTPStatus.BAD_REQUEST, "that is not HTTP")
    pairs = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    path, _, query = words[1].partition("?")
    body = await _body(buffered, headers)
    named = dict(each.split("=", 1) for each in query.split("&") if "=" in each)
    return Request(method=words[0], path=path, headers=headers, body=body, query=named)


async def _body(stream: BufferedByteReceiveStream, headers: dict[str, str]) -> dict[str, Any]:
    size = headers.get("content-length", "0")
    if not size.isdecimal() or "transfer-encoding" in headers:
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "say how long the body is: content-length")
    if int(size) > BODY:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY:,} bytes")
    raw = await stream.receive_exactly(int(size)) if int(size) else b"{}"
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"not a JSON object: {error}") from error


def encode(status: HTTPStatus, body: object) -> bytes:
    data = msgspec.json.encode(body)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(data)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + data
