"""The HTTP server: it listens, and loads what reads and writes connections with the first one."""

import asyncio
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from hermes.plumbing.http_service import HttpService

if TYPE_CHECKING:
    import ssl

    from hermes.plumbing.http_connections import ConnectionAcceptor

LISTEN_BACKLOG = 1024
LIBRARIES = ("hypercorn", "h11", "starlette")
"""Loaded with the first connection; that they are installed is checked before."""


class HttpListenError(Exception):
    """The server cannot listen at this address; the text says why."""


async def serve_http(
    service: HttpService,
    host: str,
    port: int,
    *,
    ready: Callable[[int], None],
    tls: "ssl.SSLContext | None" = None,
) -> None:
    """Serve until cancelled, then let requests end. `ready` gets the port once it listens.

    Raises `HttpListenError`.
    """
    if missing := [name for name in LIBRARIES if find_spec(name) is None]:
        raise HttpListenError(f"not installed: {', '.join(missing)}; install Hermes again")
    acceptor: ConnectionAcceptor | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal acceptor
        if acceptor is None:
            from hermes.plumbing.http_connections import (  # noqa: PLC0415 - 7 MB, often unused
                ConnectionAcceptor,
            )

            acceptor = ConnectionAcceptor(service)
        await acceptor.serve(reader, writer)

    try:
        server = await asyncio.start_server(
            serve,
            host,
            port,
            backlog=LISTEN_BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=service.limits.request_timeout_s if tls else None,
        )
    except (OSError, OverflowError) as error:
        code = getattr(error, "errno", None) or 0
        reason = os.strerror(code) if code > 0 else str(error)
        raise HttpListenError(reason) from error
    try:
        ready(server.sockets[0].getsockname()[1])
        await anyio.sleep_forever()
    finally:
        server.close()
        if acceptor is not None:
            with anyio.CancelScope(shield=True):
                await acceptor.stop()
