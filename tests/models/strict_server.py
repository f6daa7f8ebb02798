"""A provider on loopback that is strict about what it is asked and misbehaves to order.

Every request is checked against the rules of its dialect; a broken rule is a 400 and is kept in
`complaints`, which the fixture looks at. What it answers is a queue of acts.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from dialect_rules import anthropic_complaints, openai_complaints

KEY = "sk-live-0123456789abcdef"


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Act = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class StrictServer:
    acts: list[Act] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    asked: anyio.Event = field(default_factory=anyio.Event)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def will(self, *acts: Act) -> None:
        self.acts.extend(acts)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                self.asked.set()
                await self._answer(request, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test is over
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        complaints = _complaints(request)
        if complaints:
            self.complaints += complaints
            body = json.dumps({"error": {"type": "strict", "message": "; ".join(complaints)}})
            await answers(400, body)(request, writer)
        elif not self.acts:
            await answers(500, '{"error": {"message": "the script is over"}}')(request, writer)
        else:
            await self.acts.pop(0)(request, writer)


@asynccontextmanager
async def strict_server() -> AsyncIterator[StrictServer]:
    strict = StrictServer()
    async with await asyncio.start_server(strict.serve, "127.0.0.1", 0, limit=2**26) as server:
        strict.port = server.sockets[0].getsockname()[1]
        yield strict


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    line = await reader.readline()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (header := await reader.readline()).strip():
        name, _, value = header.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(line.split()[1].decode(), headers, json.loads(body))


def _complaints(request: Request) -> list[str]:
    found = []
    if not re.match(r"application/json", request.headers.get("content-type", "")):
        found.append("content-type must be application/json")
    if request.path == "/v1/chat/completions":
        return found + openai_complaints(request.headers, request.body)
    if request.path == "/v1/messages":
        return found + anthropic_complaints(request.headers, request.body)
    return [*found, f"no such path: {request.path}"]


def answers(status: int, body: str | bytes, headers: dict[str, str] | None = None) -> Act:
    """A plain HTTP answer."""

    async def act(request: Request, writer: asyncio.StreamWriter) -> None:
        data = body.encode() if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data)

    return act


def streams(*pieces: str | bytes, ends: str = "well", pause: float = 0.0) -> Act:
    """Pieces of an event stream as they are; `ends`: well, closed (half a chunk) or hung."""

    async def act(request: Request, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
        for piece in pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
            await asyncio.sleep(pause)
        if ends == "well":
            writer.write(b"0\r\n\r\n")
        elif ends == "hung":
            await asyncio.sleep(3600)
        else:
            raise ConnectionResetError

    return act


def hangs() -> Act:
    async def act(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    return act


def hangs_up() -> Act:
    async def act(request: Request, writer: asyncio.StreamWriter) -> None:
        raise ConnectionResetError

    return act


def event(data: Any) -> str:
    return f"data: {json.dumps(data)}\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    """One event of the OpenAI dialect."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return event({"object": "chat.completion.chunk", "choices": [choice], **more})


def usage_chunk(**usage: Any) -> str:
    return event({"object": "chat.completion.chunk", "choices": [], "usage": usage})


def says(text: str) -> Act:
    """A whole answer of the OpenAI dialect, streamed or not as it was asked."""

    async def act(request: Request, writer: asyncio.StreamWriter) -> None:
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        if request.body.get("stream"):
            words = [chunk({"content": word}) for word in re.findall(r"\S+\s*", text)]
            end = [chunk({}, "stop"), usage_chunk(**usage), "data: [DONE]\n\n"]
            await streams(chunk({"role": "assistant", "content": ""}), *words, *end)(
                request, writer
            )
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            whole = {"object": "chat.completion", "choices": [choice], "usage": usage}
            json_head = {"content-type": "application/json"}
            await answers(200, json.dumps(whole), json_head)(request, writer)

    return act
