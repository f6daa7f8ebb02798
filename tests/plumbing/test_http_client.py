"""The client against a server of raw bytes: what is an answer, and what is which error."""

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from hermes.plumbing.http_client import (
    HttpAnswerTooLarge,
    HttpConnectionLost,
    HttpError,
    HttpLimits,
    HttpTimedOut,
    HttpUnreachable,
    PermanentHttpError,
    TemporaryHttpError,
    send_http_request,
)

pytestmark = pytest.mark.anyio
LIMITS = HttpLimits(timeout_s=30, max_answer_bytes=1000)
SHORT = HttpLimits(timeout_s=0.5, total_timeout_s=1.0, max_answer_bytes=10_000_000)
Handler = Callable[[SocketStream, bytes], Awaitable[None]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncGenerator[tuple[str, list[bytes]], None]:
    """The address, and the heads that arrived."""
    heads: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            try:
                while b"\r\n\r\n" not in head:
                    head += await stream.receive()
            except anyio.EndOfStream:
                return
            heads.append(head)
            try:
                await handler(stream, head)
            except anyio.BrokenResourceError:
                return  # the client hung up, as it should

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}", heads
        group.cancel_scope.cancel()


def answering(data: bytes, *, hang: bool = False) -> Handler:
    async def handler(stream: SocketStream, head: bytes) -> None:
        await stream.send(data)
        if hang:
            await anyio.sleep(30)

    return handler


def whole(status: str, body: bytes = b"", *lines: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


async def test_every_status_is_an_answer() -> None:
    for status in ("200 OK", "404 Not Found", "503 Service Unavailable"):
        async with served(answering(whole(status, b"text"))) as (url, heads):
            answer = await send_http_request("POST", url, LIMITS, headers={"a": "b"}, body=b"x")
        assert f"{answer.status} {answer.reason}" == status and answer.body == b"text"
        assert heads[0].startswith(b"POST / HTTP/1.1\r\n") and b"\r\na: b\r\n" in heads[0]


@pytest.mark.parametrize(
    ("handler", "error", "words"),
    [
        (answering(whole("200 OK", b"x" * 1001)), HttpAnswerTooLarge, "1,000 bytes"),
        (answering(b""), HttpConnectionLost, "failed"),
        (answering(b"hello\r\n\r\n"), HttpConnectionLost, "failed"),
        (
            answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
            HttpConnectionLost,
            "failed",
        ),
    ],
)
async def test_an_answer_that_cannot_be_used_may_have_been_acted_on(
    handler: Handler, error: type[HttpError], words: str
) -> None:
    async with served(handler) as (url, _):
        with pytest.raises(error, match=words) as found:
            await send_http_request("GET", url, LIMITS)
    assert found.value.may_have_arrived
    assert isinstance(found.value, TemporaryHttpError) == (error is not HttpAnswerTooLarge)


async def test_an_answer_without_end_is_cut_by_size_and_by_time() -> None:
    async def flood(stream: SocketStream, head: bytes) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send(b"x" * 65_536)

    async def trickle(stream: SocketStream, head: bytes) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.1)

    async with served(flood) as (url, _):
        with pytest.raises(HttpAnswerTooLarge):
            await send_http_request("GET", url, LIMITS)
    for handler in (trickle, answering(b"HTTP/1.1 200 OK\r\n", hang=True)):
        async with served(handler) as (url, _):
            with pytest.raises(HttpTimedOut, match="no answer within") as found:
                await send_http_request("GET", url, SHORT)
            assert found.value.may_have_arrived


async def test_a_body_that_nobody_wants_is_not_waited_for() -> None:
    head = b"HTTP/1.1 204 No Content\r\n\r\n"
    endless = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nx"
    for data, status in ((head, 204), (endless, 200)):
        async with served(answering(data, hang=True)) as (url, _):
            answer = await send_http_request("POST", url, HttpLimits(timeout_s=5), body=b"x")
        assert (answer.status, answer.body) == (status, b"")


async def test_a_redirect_is_followed_only_when_asked_and_only_on_the_same_host() -> None:
    async def moved(stream: SocketStream, head: bytes) -> None:
        if head.startswith(b"GET /new "):
            await stream.send(whole("200 OK", b"found"))
        elif head.startswith(b"GET /away "):
            await stream.send(whole("302 Found", b"", "location: http://127.0.0.2:1/new"))
        else:
            await stream.send(whole("302 Found", b"", "location: /new"))

    async with served(moved) as (url, heads):
        answer = await send_http_request("GET", f"{url}/old", LIMITS)
        assert (answer.status, answer.location, len(heads)) == (302, f"{url}/new", 1)
        answer = await send_http_request("GET", f"{url}/old", LIMITS, same_host_redirects=True)
        assert (answer.status, answer.body, len(heads)) == (200, b"found", 3)
        answer = await send_http_request("GET", f"{url}/away", LIMITS, same_host_redirects=True)
        assert (answer.status, answer.location) == (302, "http://127.0.0.2:1/new")


async def test_a_redirect_in_a_circle_ends() -> None:
    async with served(answering(whole("302 Found", b"", "location: /"))) as (url, heads):
        answer = await send_http_request("GET", url, LIMITS, same_host_redirects=True)
    assert answer.status == 302 and len(heads) == 11


async def test_a_port_without_tls_is_told_in_words() -> None:
    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        port = listener.extra(SocketAttribute.local_port)
        with pytest.raises(HttpError, match="does not speak TLS at this port"):
            await send_http_request("GET", f"https://127.0.0.1:{port}", LIMITS, proxies=False)
        group.cancel_scope.cancel()


async def test_without_a_connection_nothing_was_sent() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(HttpUnreachable, match="Connection refused") as found:
            await send_http_request("GET", url, LIMITS)
    assert not found.value.may_have_arrived


@pytest.mark.parametrize(
    "url", ["", "nonsense", "file:///etc/passwd", "http://[::1", "http://a:x/"]
)
async def test_an_invalid_address_is_permanent(url: str) -> None:
    with pytest.raises(PermanentHttpError, match="invalid"):
        await send_http_request("GET", url, LIMITS)


async def test_a_header_with_a_line_break_is_permanent() -> None:
    async with served(answering(whole("200 OK"))) as (url, heads):
        with pytest.raises(PermanentHttpError, match="invalid"):
            await send_http_request("GET", url, LIMITS, headers={"a": "b\r\nc: d"})
    assert heads == []


async def test_a_proxy_of_the_environment_is_used_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        served(answering(whole("200 OK", b"the proxy"))) as (proxy, _),
        served(answering(whole("200 OK", b"the host"))) as (url, _),
    ):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert (await send_http_request("GET", url, LIMITS)).body == b"the proxy"
        assert (await send_http_request("GET", url, LIMITS, proxies=False)).body == b"the host"
        monkeypatch.setenv("http_proxy", "gopher://x")
        with pytest.raises(PermanentHttpError, match="proxy"):
            await send_http_request("GET", url, LIMITS)


def test_httpx2_is_not_imported_before_a_request() -> None:
    program = "import sys, hermes.plumbing.http_client; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("library", ["h2.connection", "trio"])
def test_a_client_does_not_load_what_it_never_uses_and_leaves_it_to_others(library: str) -> None:
    code = (
        "import sys, httpx2; from hermes.plumbing.http_client import build_http_client\n"
        "build_http_client('http://127.0.0.1', timeout=httpx2.Timeout(1))\n"
        f"print({library!r} in sys.modules)\n"
        f"import {library}"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
