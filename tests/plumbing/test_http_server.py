"""The server over raw sockets: what it refuses, what it cuts off, and how it stops."""

import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

import anyio
import pytest
from anyio.abc import SocketStream, TaskGroup, TaskStatus

from hermes.plumbing.http_server import HttpListenError, serve_http
from hermes.plumbing.http_service import (
    HttpRefusal,
    HttpReply,
    HttpRequest,
    HttpRoute,
    HttpServerLimits,
    HttpService,
)

pytestmark = pytest.mark.anyio
GET = b"GET /echo HTTP/1.1\r\nhost: x\r\n\r\n"
CLOSE = b"GET /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@dataclass
class Site:
    group: TaskGroup
    port: int = 0
    answered: list[tuple[str, int]] = field(default_factory=list)
    begun: anyio.Event = field(default_factory=anyio.Event)
    go_on: anyio.Event = field(default_factory=anyio.Event)

    async def echo(self, request: HttpRequest) -> HttpReply:
        return HttpReply(body=request.body or request.path.encode(), content_type="text/plain")

    async def wait(self, request: HttpRequest) -> HttpReply:
        self.begun.set()
        await self.go_on.wait()
        return HttpReply(body=b"waited")

    async def large(self, request: HttpRequest) -> HttpReply:
        return HttpReply(body=b"x" * 50_000_000)

    async def connect(self) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port)

    async def raw(self, data: bytes) -> bytes:
        async with await self.connect() as stream:
            await stream.send(data)
            return await drained(stream)

    async def until_served(self) -> None:
        with anyio.fail_after(60):
            while b" 200 " not in await self.raw(CLOSE):
                continue


async def check_head(request: HttpRequest) -> None:
    if "secret" in request.headers:
        raise HttpRefusal(HTTPStatus.UNAUTHORIZED, "who are you?", www_authenticate="Basic")


async def received(stream: SocketStream, words: bytes) -> bytes:
    """Head and body may come apart."""
    found = b""
    while words not in found:
        found += await stream.receive()
    return found


async def drained(stream: SocketStream) -> bytes:
    found = b""
    with anyio.fail_after(60):
        while True:
            try:
                found += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return found


@asynccontextmanager
async def served(**limits: float) -> AsyncGenerator[Site, None]:
    async with anyio.create_task_group() as group:
        site = Site(group)
        service = HttpService(
            routes=(
                HttpRoute("/echo", ("GET", "POST"), site.echo),
                HttpRoute("/wait", ("GET",), site.wait),
                HttpRoute("/large", ("GET",), site.large),
            ),
            limits=HttpServerLimits(**limits),  # type: ignore[arg-type]
            check_head=check_head,
            record_response=lambda path, status: site.answered.append((path, status)),
        )

        async def serve(*, task_status: TaskStatus[int]) -> None:
            await serve_http(service, "127.0.0.1", 0, ready=task_status.started)

        site.port = await group.start(serve)
        yield site
        group.cancel_scope.cancel()


def post(body: bytes, *lines: bytes) -> bytes:
    head = [b"POST /echo HTTP/1.1", b"host: x", b"connection: close", *lines, b"", b""]
    return b"\r\n".join(head) + body


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (post(b"0\r\n\r\n", b"content-length: 5", b"transfer-encoding: chunked"), 400, "exclude"),
        (post(b"", b"Authorization: a", b"authorization: b"), 400, "two Authorization"),
        (post(b"", b"content-length: 1", b"content-length: 2"), 400, "not HTTP"),
        (post(b"", b"transfer-encoding: gzip"), 501, "not HTTP"),
        (post(b"", b"a: " + b"x" * 40_000).rstrip(), 431, "not HTTP"),
        (post(b"", b"name : value"), 400, "not HTTP"),
        (b"hello\r\n\r\n", 400, "not HTTP"),
        (post(b"x" * 2001, b"content-length: 2001"), 413, "2,000 bytes"),
        (post(b"", b"content-length: 99999999999"), 413, "2,000 bytes"),
        (post(b"", b"content-length: 1999", b"secret: 1"), 401, "who are you"),
        (CLOSE.replace(b"host", b"connection: upgrade\r\nupgrade: websocket\r\nhost"), 400, "Web"),
    ],
)
async def test_what_is_refused_is_answered_in_json_and_recorded(
    data: bytes, status: int, words: str
) -> None:
    async with served(max_body_bytes=2000) as site:
        answer = await site.raw(data)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ".encode()), answer
        assert b"connection: close" in head.lower() and words in json.loads(body)["error"]
        assert [code for _, code in site.answered] == [status]
        assert b" 200 " in await site.raw(CLOSE)


async def test_head_gets_no_body_also_when_it_is_refused() -> None:
    async with served() as site:
        for lines in (b"", b"authorization: a\r\nauthorization: b\r\n"):
            answer = await site.raw(
                CLOSE.replace(b"GET", b"HEAD").replace(b"host", lines + b"host")
            )
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 ") and body == b""


async def test_http_2_is_not_spoken() -> None:
    async with served() as site:
        answer = await site.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 4")
        offer = (
            b"connection: close, upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n"
        )
        answer = await site.raw(GET.replace(b"host", offer + b"host"))
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"/echo")


async def test_a_refused_client_that_still_sends_can_read_why() -> None:
    async with served(max_body_bytes=1000) as site:
        answer = await site.raw(post(b"x" * 100_000, b"content-length: 100000"))
        assert answer.startswith(b"HTTP/1.1 413") and b"1,000 bytes" in answer


async def test_a_sender_that_trickles_is_cut_off_at_its_deadline() -> None:
    async def trickle(site: Site, data: bytes) -> None:
        async with await site.connect() as stream:
            try:
                for byte in data:
                    await stream.send(bytes([byte]))
                    await anyio.sleep(0.05)
                answers.append(b"never cut off")
            except (anyio.BrokenResourceError, OSError):
                pass  # cut off, and it went on sending
            answers.append(await drained(stream))

    answers: list[bytes] = []
    async with served(request_timeout_s=0.5, idle_timeout_s=30) as site:
        async with anyio.create_task_group() as group:
            for data in (b"GET /" + b"x" * 400, post(b"x" * 400, b"content-length: 400")):
                group.start_soon(trickle, site, data)
                group.start_soon(partial(site.raw, CLOSE))
        assert b"never cut off" not in answers
        assert [code for _, code in site.answered].count(503) == 2


async def test_a_silent_sender_is_told_and_holds_up_nobody() -> None:
    async with served(request_timeout_s=0.5, idle_timeout_s=3) as site:
        slow = [await site.connect() for _ in range(20)]
        for number, stream in enumerate(slow):
            await stream.send((b"G", post(b"half", b"content-length: 100"))[number % 2])
        assert b" 200 " in await site.raw(CLOSE)
        for stream in slow:
            answer = await drained(stream)
            assert b" 503 " in answer and b"did not arrive within 0.5 seconds" in answer
            await stream.aclose()
        async with await site.connect() as idle:
            assert await drained(idle) == b""


async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async with (
        served(request_timeout_s=0.5, max_connections=1) as site,
        await site.connect() as deaf,
    ):
        await deaf.send(GET.replace(b"/echo", b"/large"))
        await site.until_served()


async def test_a_slow_answer_is_waited_for_and_the_connection_goes_on() -> None:
    async with (
        served(request_timeout_s=1.5, idle_timeout_s=1.5) as site,
        await site.connect() as stream,
    ):
        await stream.send(GET.replace(b"/echo", b"/wait"))
        await site.begun.wait()
        await anyio.sleep(2.0)
        site.go_on.set()
        await received(stream, b"waited")
        await stream.send(CLOSE)
        assert b"/echo" in await drained(stream)


async def test_requests_sent_at_once_are_answered_in_order() -> None:
    async with served() as site:
        site.go_on.set()
        answer = await site.raw(GET + GET.replace(b"/echo", b"/wait") + GET + CLOSE)
        assert answer.count(b"HTTP/1.1 200") == 4
        assert answer.index(b"waited") > answer.index(b"/echo")


async def test_a_client_that_closes_its_half_still_gets_the_answer() -> None:
    async with served() as site, await site.connect() as stream:
        await stream.send(post(b"body", b"content-length: 4"))
        await stream.send_eof()
        assert (await drained(stream)).endswith(b"body")


async def test_connections_beyond_the_limit_are_refused_and_freed_ones_are_not() -> None:
    async with served(max_connections=2) as site:
        held = [await site.connect() for _ in range(2)]
        for stream in held:
            await stream.send(b"GET")
        answer = await site.raw(CLOSE)
        assert answer.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in answer.lower()
        assert site.answered == [("", 503)]
        for stream in held:
            await stream.aclose()
        await site.until_served()


async def test_large_bodies_are_read_only_two_at_a_time() -> None:
    head = b"content-length: 60000"
    async with served(request_timeout_s=120) as site:
        first = [await site.connect() for _ in range(2)]
        for stream in first:
            await stream.send(post(b"x" * 50_000, head))
        await anyio.sleep(0.5)
        await anyio.wait_all_tasks_blocked()
        async with await site.connect() as third:
            await third.send(post(b"x" * 60_000, head))
            with pytest.raises(TimeoutError), anyio.fail_after(1):
                await third.receive()
            assert b" 200 " in await site.raw(post(b"small", b"content-length: 5"))
            await first[0].send(b"x" * 10_000)
            assert b" 200 " in await drained(first[0])
            assert b" 200 " in await drained(third)
        for stream in first:
            await stream.aclose()


async def test_it_stops_after_the_requests_that_it_has() -> None:
    async with served() as site, await site.connect() as idle, await site.connect() as busy:
        await idle.send(GET)
        await received(idle, b"/echo")
        await busy.send(GET.replace(b"/echo", b"/wait"))
        await site.begun.wait()
        with anyio.CancelScope(shield=True):
            site.group.cancel_scope.cancel()
            assert await drained(idle) == b""
            site.go_on.set()
            assert b"waited" in await drained(busy)
            with pytest.raises(OSError):
                await site.connect()


async def test_an_address_that_is_taken_is_an_error_with_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HttpListenError, match="Address already in use"):
            await serve_http(HttpService(routes=()), "127.0.0.1", port, ready=print)
    with pytest.raises(HttpListenError, match="0-65535"):
        await serve_http(HttpService(routes=()), "127.0.0.1", 99_999, ready=print)


async def test_a_missing_library_is_reported_before_the_server_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hermes.plumbing.http_server.LIBRARIES", ("h11", "no_such_library"))
    with pytest.raises(HttpListenError, match="not installed: no_such_library"):
        await serve_http(HttpService(routes=()), "127.0.0.1", 0, ready=print)


def test_what_serves_connections_is_loaded_with_the_first_one() -> None:
    """A watch listens for alerts that may never come; hypercorn and Starlette take 7 MB."""
    program = (
        "import socket, sys, anyio\n"
        "from hermes.plumbing.http_server import serve_http\n"
        "from hermes.plumbing.http_service import HttpService\n"
        "async def main():\n"
        "    ports = []\n"
        "    async with anyio.create_task_group() as group:\n"
        "        async def serve():\n"
        "            await serve_http(HttpService(routes=()), '127.0.0.1', 0, ready=ports.append)\n"
        "        group.start_soon(serve)\n"
        "        while not ports:\n"
        "            await anyio.sleep(0.01)\n"
        "        print('hypercorn' in sys.modules)\n"
        "        async with await anyio.connect_tcp('127.0.0.1', ports[0]) as stream:\n"
        "            await stream.send(b'GET / HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n')\n"
        "            print((await stream.receive())[:12].decode())\n"
        "        print('hypercorn' in sys.modules)\n"
        "        group.cancel_scope.cancel()\n"
        "anyio.run(main)\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed.splitlines() == ["False", "HTTP/1.1 404", "True"]
