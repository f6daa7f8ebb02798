"""Checks the addresses of a browser: of each request before it is sent, and of each connection.

Chromium asks for each request whether it may be sent, but resolves names itself afterwards, and
does not ask for WebSockets. So a local one connects through a proxy of ours, which connects to
checked addresses only: behind it, Chromium resolves no name and opens no other connection.
"""

import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

from hermes.core.errors import ToolError
from hermes.core.foreign_text import clean_line
from hermes.integrations.browser.devtools import DevTools
from hermes.plumbing.addresses import AddressGuard
from hermes.plumbing.http_client import HttpError

MAX_HEAD_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 20.0
_CONNECTIONS_FILE = Path("/proc/net/tcp")
_DROPPED_HEADERS = (b"proxy-", b"connection:", b"keep-alive:")


INLINE_SCHEMES = frozenset({"data", "blob", "about"})
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
MAX_KEPT_REFUSALS = 20
MAX_CHECKED_HOSTS = 1_000
MAX_URL_CHARS = 300


class RequestChecks:
    """Answers the requests that the browser has paused; remembers the hosts that it has checked."""

    def __init__(self, devtools: DevTools, guard: AddressGuard) -> None:
        self._devtools, self._guard = devtools, guard
        self._verdicts: dict[tuple[str, int], str] = {}
        self.refusals: deque[str] = deque(maxlen=MAX_KEPT_REFUSALS)

    async def check_url(self, url: str) -> None:
        """For an address that a person or a model gave. Raises `ToolError`."""
        if why := await self._objection(url, frozenset()):
            raise ToolError(f"not opened: {why}")

    async def answer(self, session: str, parameters: dict[str, Any]) -> None:
        url = str(parameters.get("request", {}).get("url", ""))
        paused = {"requestId": parameters.get("requestId")}
        why = await self._objection(url, INLINE_SCHEMES)
        if not why:
            await self._devtools.post("Fetch.continueRequest", paused, session=session)
            return
        self.refusals.append(f"{clean_line(url, MAX_URL_CHARS)}: {why}")
        await self._devtools.post(
            "Fetch.failRequest", {**paused, "errorReason": "BlockedByClient"}, session=session
        )

    async def _objection(self, url: str, inline: frozenset[str]) -> str:
        """Return why it may not be requested; empty when it may."""
        try:
            parts = urlsplit(url.strip())
            scheme, host = parts.scheme.lower(), parts.hostname or ""
            port = parts.port or _PORTS.get(scheme, 0)
        except ValueError as error:
            return f"it is not an address: {error}"
        if scheme in inline:
            return ""
        if not scheme:
            return "it is not an address, which begins with https:// or http://"
        if scheme not in _PORTS or not host:
            return f"only http and https pages are opened, not {scheme}:"
        if parts.username or parts.password:
            return "the address contains a user or a password"
        known = self._verdicts.get((host, port))
        if known is None:
            known = await self._check_host(host, port)
            if len(self._verdicts) < MAX_CHECKED_HOSTS:
                self._verdicts[host, port] = known
        return known

    async def _check_host(self, host: str, port: int) -> str:
        try:
            await self._guard.resolve(host, port)
        except HttpError as error:
            return f"{error}; `tools.private_addresses` opens single ones (host:port)"
        except (OSError, UnicodeError) as error:
            return f"{host} has no address: {error}"
        return ""


@asynccontextmanager
async def open_address_proxy(guard: AddressGuard) -> AsyncIterator[int]:
    """Serves until the end of the block; yields its port on 127.0.0.1."""

    async def serve(client: SocketStream) -> None:
        async with client:
            try:
                await _serve(client, guard)
            except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # one side ended the connection
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError):
                pass  # not a request

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def _serve(client: SocketStream, guard: AddressGuard) -> None:
    if not _is_own_process(client.extra(SocketAttribute.remote_port)):
        return
    head, rest = await _read_head(client)
    method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    tunnel = method == "CONNECT"
    parts = urlsplit(f"//{target}" if tunnel else target)
    port = parts.port or (443 if tunnel else 80)
    if not parts.hostname or not (tunnel or parts.scheme in ("http", "ws")):
        await _refuse(client, "400 Bad Request", "not an address")
        return
    try:
        server = await _connect(guard, parts.hostname, port)
    except (HttpError, UnicodeError) as error:
        await _refuse(client, "403 Forbidden", str(error))
        return
    except (OSError, TimeoutError) as error:
        await _refuse(client, "502 Bad Gateway", str(error) or "no answer in time")
        return
    async with server:
        if tunnel:
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n" + b"")
            if rest:
                await server.send(rest)
        else:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            await server.send(_forwarded_head(head, method, path) + rest)
        await _relay(client, server)


async def _connect(guard: AddressGuard, host: str, port: int) -> SocketStream:
    """Raises `HttpError` for a refused address and `OSError`."""
    failure: OSError = OSError(f"{host} has no address")
    with anyio.fail_after(CONNECT_TIMEOUT_S):
        for address in await guard.resolve(host, port):
            try:
                return await anyio.connect_tcp(address, port)
            except OSError as error:
                failure = error
    raise failure


async def _read_head(client: SocketStream) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEAD_BYTES:
            raise ValueError("the head of the request is too long")
        data += await client.receive()
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _forwarded_head(head: bytes, method: str, path: str) -> bytes:
    """One request for each connection: the next may be for another host."""
    kept = [
        line
        for line in head.split(b"\r\n")[1:]
        if not line.lower().startswith(_DROPPED_HEADERS) and line
    ]
    first = f"{method} {path} HTTP/1.1".encode("latin-1")
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


async def _relay(client: SocketStream, server: SocketStream) -> None:
    async with anyio.create_task_group() as group:

        async def copy(source: SocketStream, target: SocketStream) -> None:
            try:
                while True:
                    await target.send(await source.receive())
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            group.cancel_scope.cancel()

        group.start_soon(copy, client, server)
        group.start_soon(copy, server, client)


async def _refuse(client: SocketStream, status: str, why: str) -> None:
    body = f"refused: {why}".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    await client.send(f"{head}Connection: close\r\n\r\n".encode() + body)


def _is_own_process(port: int) -> bool:
    """Return whether the connection from this port is of our own user; true where that is not
    known."""
    try:
        lines = _CONNECTIONS_FILE.read_text().splitlines()[1:]
    except OSError:
        return True
    wanted = f"0100007F:{port:04X}"
    owners = {fields[7] for line in lines if (fields := line.split())[1] == wanted}
    return not owners or str(os.geteuid()) in owners
