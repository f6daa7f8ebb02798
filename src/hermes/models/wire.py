"""One thin HTTP client for all models: kept alive, bounded in time and in memory.

Three waits are told apart: for a connection, for the first piece of an answer, and between
pieces. A stream that only sends signs of life is given as long as a first piece, not for ever.
"""

import re
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache
from typing import Any

import anyio
import httpx2

from hermes.core.errors import ModelError, ModelTimedOut, SettingsError, Unreachable
from hermes.models.failures import Peer, malformed, missing_key, refusal, unusable_key
from hermes.models.open import Opening
from hermes.models.payload import encode
from hermes.models.sse import LARGEST, AnswerParser

CONNECT = 10.0
GRACE = 2.0
"""Seconds for the end of a stream whose answer is already whole."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Never reached through a proxy, whatever the environment says of one."""
KEEP = 120.0
"""Seconds an idle connection is kept: a tool may run that long between two calls."""


class Wire:
    """The road to one model."""

    def __init__(self, opening: Opening, path: str, headers: dict[str, str]) -> None:
        provider = opening.target.provider
        base = provider.base_url.rstrip("/")
        self.peer = _peer(opening, base)
        self._url = httpx2.URL(base + path)
        self._headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": "hermes",
            **headers,
            **provider.headers,
        }
        self._key, self._needs_key = opening.key, bool(provider.key_variable)
        self._first = opening.settings.first_token_timeout
        self._gap = opening.settings.timeout
        self._client = opening.connections.share(base, lambda: _client(base))

    async def ask(self, body: dict[str, Any]) -> bytes:
        """The whole answer to a request that is not streamed."""
        until = anyio.current_time() + self._first
        response = await self._send(body)
        pieces, size = [], 0
        async with aclosing(self._pieces(response, lambda: until)) as read:
            async for piece in read:
                size += len(piece)
                if size > LARGEST:
                    raise malformed(self.peer, f"sent more than {LARGEST:,} bytes")
                pieces.append(piece)
        return self._whole(b"".join(pieces))

    async def events(
        self, body: dict[str, Any], settled: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        """The data of each event. Once the answer is `settled`, a stream that ends badly is fine:
        nothing of value can be lost any more. A server that does not stream is understood too.
        """
        clock, parser = _Clock(self._first, self._gap, settled), AnswerParser()
        response = await self._send(body)
        try:
            async with aclosing(self._pieces(response, clock.deadline)) as read:
                async for piece in read:
                    clock.piece()
                    for data in parser.feed(piece):
                        if not clock.over:
                            clock.event(last=data == b"[DONE]")
                            yield data
        except ModelError:
            if not settled() and not clock.over:
                raise
        for data in parser.flush() if not clock.over else ():
            yield self._whole(data)

    async def _send(self, body: dict[str, Any]) -> httpx2.Response:
        if self._needs_key and not self._key:
            raise missing_key(self.peer)
        if not (self._key.isascii() and self._key.isprintable()):
            raise unusable_key(self.peer)
        request = httpx2.Request("POST", self._url, headers=self._headers, content=encode(body))
        try:
            with anyio.fail_after(self._first):
                response = await self._client.send(request, stream=True)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._lost(error, begun=False) from error
        if response.status_code != 200:
            raise await self._refused(response)
        return response

    async def _refused(self, response: httpx2.Response) -> ModelError:
        body = b""
        try:
            until = anyio.current_time() + GRACE
            async with aclosing(self._pieces(response, lambda: until)) as read:
                async for piece in read:
                    body += piece
                    if len(body) > 65_536:
                        break
        except ModelError:
            pass  # the status says enough
        headers = {name.lower(): value for name, value in response.headers.items()}
        return refusal(self.peer, response.status_code, headers, body)

    async def _pieces(
        self, response: httpx2.Response, deadline: Callable[[], float]
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(response.aiter_bytes()) as pieces:
                while True:
                    with anyio.CancelScope(deadline=deadline()) as scope:
                        piece = await anext(pieces, None)
                    if scope.cancelled_caught:
                        raise self._late(begun=True)
                    if piece is None:
                        return
                    yield piece
        except httpx2.HTTPError as error:
            raise self._lost(error, begun=True) from error
        finally:
            await response.aclose()

    def _whole(self, body: bytes) -> bytes:
        start = body.lstrip()[:1]
        if start == b"<":
            raise malformed(self.peer, "sent a web page instead of an answer", body)
        if not start:
            raise malformed(self.peer, "sent an empty answer")
        return body

    def _late(self, *, begun: bool) -> ModelTimedOut:
        what = "stopped in the middle of its answer" if begun else "did not answer in time"
        return ModelTimedOut(f"{self.peer.title} {what} ({self.peer.url})")

    def _lost(self, error: Exception, *, begun: bool) -> ModelError:
        peer = self.peer
        if isinstance(error, httpx2.ConnectTimeout):
            return Unreachable(f"no connection to {peer.url} within {CONNECT:g} s. {peer.hint}")
        if isinstance(error, TimeoutError | httpx2.TimeoutException):
            return self._late(begun=begun)
        if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
            reason = peer.clean(str(error)) or type(error).__name__
            hint = peer.hint or "Is the address right, and the network up?"
            if "CERTIFICATE" in reason:
                hint = "Name the file of the authority that signed it in SSL_CERT_FILE."
            return Unreachable(f"cannot reach {peer.title} at {peer.url}: {reason}. {hint}")
        what = "in the middle of its answer" if begun else "without an answer"
        return malformed(peer, f"closed the connection {what} ({peer.clean(str(error))})")


class _Clock:
    """Until when to wait for the next piece. Time that a slow reader takes is not waiting."""

    def __init__(self, first: float, gap: float, settled: Callable[[], bool]) -> None:
        self._first, self._gap, self._settled = first, gap, settled
        self._since = anyio.current_time()
        self._waited = 0.0
        self._silent = True
        self.over = False

    def deadline(self) -> float:
        if not self._silent:
            self._since = anyio.current_time()
        if self.over or self._settled():
            return self._since + GRACE - self._waited
        whole = self._first - self._waited
        return self._since + (whole if self._silent else min(self._gap, whole))

    def piece(self) -> None:
        if not self._silent:
            self._waited += anyio.current_time() - self._since

    def event(self, *, last: bool) -> None:
        self._waited, self._silent, self.over = 0.0, False, last


def _client(base: str) -> httpx2.AsyncClient:
    # Loading the certificates costs more than several calls; a plain address needs none of them.
    tls = _trusted() if base.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.AsyncClient(
            verify=tls,
            trust_env=httpx2.URL(base).host not in LOOPBACK,
            timeout=httpx2.Timeout(connect=CONNECT, read=None, write=60.0, pool=None),
            limits=httpx2.Limits(max_keepalive_connections=32, keepalive_expiry=KEEP),
        )
    except (ValueError, ImportError) as error:
        raise SettingsError(f"the proxy set for this process cannot be used: {error}") from error


@cache
def _trusted() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _peer(opening: Opening, base: str) -> Peer:
    provider = opening.target.provider
    secrets = (opening.key, *provider.headers.values(), *re.findall(r"//([^/@]*)@", base))
    return Peer(
        title=provider.title or provider.name,
        reference=opening.target.reference,
        url=re.sub(r"//[^/@]*@", "//", base).partition("?")[0],
        key_variable=provider.key_variable,
        hint=provider.hint,
        secrets=tuple(secret for secret in secrets if len(secret) >= 8),
    )
