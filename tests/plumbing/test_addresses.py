"""No spelling, redirect or changing name leads to an address that is not public: a real listener
counts connections."""

import gzip
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from hermes.plumbing.addresses import (
    AddressGuard,
    GuardedNetwork,
    HttpAddressForbidden,
    guard_for,
    is_public,
)
from hermes.plumbing.http_client import (
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    HttpTimedOut,
    PermanentHttpError,
    send_http_request,
)

pytestmark = pytest.mark.anyio
LIMITS = HttpLimits(timeout_s=10, total_timeout_s=20, max_answer_bytes=100_000, max_redirects=5)
PRIVATE = (
    *("127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "0x7f.0.0.1", "0x7f000001", "0177.0.0.1"),
    *("2130706433", "017700000001", "0x7F.1", "0177.1", "127.0x0.0.1", "127.000.000.001", "0"),
    *("0.0.0.0", "0x0", "00", "0.1", "localhost", "LOCALHOST", "localhost.", "127.0.0.1."),
    *(
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[0000::0001]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ),
    *("[::127.0.0.1]", "[::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]"),
    *("[64:ff9b:1::127.0.0.1]", "[2002:7f00:1::]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]"),
    *("169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.16689662"),
    *("0xa9.0xfe.0xa9.0xfe", "169.254.43518", "025177524776", "[fe80::1]", "[fd00:ec2::254]"),
    *("[fc00::1]", "[fec0::1]", "[ff02::1]", "10.0.0.1", "10.1", "0xa000001", "167772161"),
    *("172.16.0.1", "172.31.255.255", "192.168.1.1", "192.168.257", "100.64.0.1", "198.18.0.1"),
    *("224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "203.0.113.9", "192.88.99.1"),
    *("%31%32%37.0.0.1", "①②⑦.0.0.1", "１２７.０.０.１", "127。0。0。1", "[2001:db8::1]"),
)


class Listener:
    """A server on loopback that counts connections and answers with what it is given."""

    def __init__(self, port: int) -> None:
        self.port, self.connections, self.answer = port, 0, b""
        self.heads: list[bytes] = []


@asynccontextmanager
async def listening(answer: bytes = b"", *, endless: bytes = b"") -> AsyncGenerator[Listener, None]:
    async def serve(stream: SocketStream) -> None:
        found.connections += 1
        async with stream:
            try:
                found.heads.append(await stream.receive())
                await stream.send(found.answer)
                while endless:
                    await stream.send(endless)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                return  # the client hung up, as it should

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    found = Listener(listener.extra(SocketAttribute.local_port))
    found.answer = answer
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield found
        group.cancel_scope.cancel()


def reply(body: bytes = b"ok", head: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n{head}\r\n".encode() + body


def redirect(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n".encode()


async def test_no_spelling_of_a_private_address_is_connected_to() -> None:
    assert len(PRIVATE) >= 60
    async with listening(reply()) as there:
        for host in PRIVATE:
            with pytest.raises(HttpError):
                await send_http_request(
                    "GET", f"http://{host}:{there.port}/", LIMITS, guard=AddressGuard()
                )
        await send_http_request("GET", f"http://127.0.0.1:{there.port}/", LIMITS)
        assert there.connections == 1  # the last one, without a guard


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:{other}/",
        "//0x7f.1:{other}/",
        "http://[::ffff:127.0.0.1]:{other}/",
        "file:///etc/passwd",
        "http://user:pw@127.0.0.1:{other}/",
    ],
)
async def test_a_redirect_of_a_configured_host_is_checked_again(target: str) -> None:
    async with listening(reply()) as other, listening() as first:
        first.answer = redirect(target.format(other=other.port))
        url = f"http://127.0.0.1:{first.port}/"
        with pytest.raises(PermanentHttpError):
            await send_http_request("GET", url, LIMITS, guard=guard_for([url]))
        assert (first.connections, other.connections) == (1, 0)


async def test_a_redirect_to_itself_ends() -> None:
    async with listening() as there:
        url = f"http://127.0.0.1:{there.port}/"
        there.answer = redirect(url)
        with pytest.raises(PermanentHttpError, match="more than 5 times"):
            await send_http_request("GET", url, LIMITS, guard=guard_for([url]))


async def test_keys_are_not_sent_to_the_host_of_a_redirect() -> None:
    async with listening(reply()) as other, listening() as first:
        urls = [f"http://127.0.0.1:{each.port}/" for each in (first, other)]
        first.answer = redirect(urls[1])
        keys = {"Authorization": "Bearer abc", "X-Api-Key": "k"}
        answer = await send_http_request(
            "GET", urls[0], LIMITS, headers=keys, guard=guard_for(urls)
        )
        assert answer.status == 200
        assert b"abc" in first.heads[0]
        assert b"abc" not in other.heads[0]
        assert b"x-api-key" not in other.heads[0].lower()


class Rebinding:
    """A network that answers a name with another address at each question, as a hostile server of
    names does: the address that was checked is the one that is connected to."""

    def __init__(self) -> None:
        self.connected: list[str] = []

    async def connect_tcp(self, host: str, port: int, **options: object) -> str:
        self.connected.append(host)
        return host


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    network = Rebinding()
    guarded = GuardedNetwork(AddressGuard(), network)
    assert await guarded.connect_tcp("8.8.8.8", 80) == "8.8.8.8"
    assert network.connected == ["8.8.8.8"]  # never a name, which could mean another host by now
    with pytest.raises(HttpAddressForbidden):
        await guarded.connect_tcp("localhost", 80)
    with pytest.raises(HttpAddressForbidden):
        await guarded.connect_unix_socket("/run/docker.sock")
    assert network.connected == ["8.8.8.8"]


async def test_a_configured_host_is_allowed_with_its_port_only() -> None:
    guard = guard_for(["http://localhost:9090/prometheus", "https://db.internal."])
    assert await guard.resolve("LOCALHOST", 9090)
    with pytest.raises(HttpAddressForbidden, match="not a public address"):
        await guard.resolve("localhost", 9091)
    assert ("db.internal", 443) in guard.allowed


def test_public_addresses_stay_public() -> None:
    for address in ("8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"):
        assert is_public(address), address


async def test_a_resolver_that_maps_everything_is_named() -> None:
    with pytest.raises(HttpAddressForbidden, match="may answer every name"):
        await AddressGuard().resolve("198.18.0.7", 80)


async def test_a_packed_answer_is_unpacked_up_to_the_limit() -> None:
    limits = HttpLimits(timeout_s=10, total_timeout_s=20, max_answer_bytes=100_000)
    async with listening() as there:
        url, head = f"http://127.0.0.1:{there.port}/", "content-encoding: gzip\r\n"
        there.answer = reply(gzip.compress(b"fine"), head)
        assert (await send_http_request("GET", url, limits)).body == b"fine"
        there.answer = reply(gzip.compress(b"\0" * 50_000_000), head)
        with pytest.raises(HttpAnswerTooLarge, match="unpacked"):
            await send_http_request("GET", url, limits)
        there.answer = reply(b"not packed", head)
        with pytest.raises(PermanentHttpError, match="cannot be unpacked"):
            await send_http_request("GET", url, limits)


async def test_chunks_without_end_are_cut_by_size_and_by_time() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with listening(chunked, endless=b"400\r\n" + b"x" * 1024 + b"\r\n") as there:
        with pytest.raises(HttpAnswerTooLarge):
            await send_http_request("GET", f"http://127.0.0.1:{there.port}/", LIMITS)
    short = HttpLimits(timeout_s=5, total_timeout_s=0.3, max_answer_bytes=10**9)
    async with listening(chunked, endless=b"1\r\nx\r\n") as there:
        with pytest.raises(HttpTimedOut):
            await send_http_request("GET", f"http://127.0.0.1:{there.port}/", short)


def test_the_resolver_reads_numbers_as_the_guard_expects() -> None:
    """If the C library stopped to read these, the spellings above would test nothing."""
    assert socket.getaddrinfo("0x7f.1", 80)[0][4][0] == "127.0.0.1"
