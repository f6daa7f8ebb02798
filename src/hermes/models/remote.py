"""Talks to a model over HTTP: server-sent events, timeouts, and the two dialects.

Lines may end in LF, CRLF or CR and may be cut anywhere, also within a character; comments and pings
only keep the connection open. Only the data matters: both dialects write the kind of event into it.
"""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import anyio
import httpx2

from hermes.core.errors import (
    MalformedReply,
    ModelError,
    ModelTimedOut,
    ProviderUnreachable,
    SettingsError,
)
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec
from hermes.models.catalog import ModelTarget
from hermes.models.message_format import encode_json, pair_calls_with_results
from hermes.models.open import ModelContext
from hermes.models.provider_errors import (
    ProviderEndpoint,
    error_from_response,
    malformed_reply,
    missing_key_error,
    unusable_key_error,
)
from hermes.plumbing.http_client import PermanentHttpError, build_http_client

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Bytes of one event. A server that never ends a line must not fill our memory."""


MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Bytes of an answer that is not streamed."""
MAX_STREAM_BYTES = 256 * 1024 * 1024
"""Bytes of a whole stream, of which the text is a fiftieth."""


class AnswerParser:
    """Events, or one text from a server that does not stream: the first byte tells which."""

    def __init__(self) -> None:
        self._events: SseParser | None = None
        self._body = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        if self._events is None and not self._body:
            start = chunk.lstrip()[:1]
            if start and start not in b"{[<":
                self._events = SseParser()
        self._size += len(chunk)
        limit = MAX_ANSWER_BYTES if self._events is None else MAX_STREAM_BYTES
        if self._size > limit:
            raise MalformedReply(f"the answer has more than {limit:,} bytes")
        if self._events is not None:
            return self._events.feed(chunk)
        self._body += chunk
        return []

    def flush(self) -> list[bytes]:
        """Return what the end of the answer completed; an empty answer is one empty text."""
        return [bytes(self._body)] if self._events is None else self._events.flush()


class SseParser:
    def __init__(self) -> None:
        self._size = 0
        self._chunks: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._ping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that this chunk completed."""
        self._size += len(chunk)
        if self._size > MAX_EVENT_BYTES:
            raise MalformedReply(f"the answer has an event of more than {MAX_EVENT_BYTES:,} bytes")
        self._chunks.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk:
            return []
        text = b"".join(self._chunks)
        held = b"\r" if text.endswith(b"\r") else b""  # its LF may still be on the way
        if b"\r" in text:
            text = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._chunks = [rest + held]
        events = [event for line in lines if (event := self._parse_line(line)) is not None]
        self._size = len(self._chunks[0]) + self._held
        return events

    def flush(self) -> list[bytes]:
        """Return what the end of the stream left unfinished: some servers omit the last empty
        line."""
        last = b"".join(self._chunks).rstrip(b"\r")
        self._chunks = []
        ends = [self._parse_line(last) if last else None, self._parse_line(b"")]
        return [event for event in ends if event is not None]

    def _parse_line(self, line: bytes) -> bytes | None:
        if not line:
            data, ping = b"\n".join(self._data), self._ping
            self._data, self._held, self._ping = [], 0, False
            return data if data and not ping else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._held += len(line)
        elif name == b"event":
            self._ping = value.strip() == b"ping"
        return None


CONNECT_TIMEOUT_S = 10.0
STREAM_END_GRACE_S = 2.0
"""Seconds for the end of a stream whose answer is already whole."""
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Never reached through a proxy, whatever the environment says."""
KEEP_ALIVE_S = 120.0
"""Seconds an idle connection is kept: a tool may run that long between two calls."""


class ModelHttpClient:
    """The HTTP client of one model."""

    def __init__(self, context: ModelContext, path: str, headers: dict[str, str]) -> None:
        provider = context.target.provider
        base = provider.base_url.rstrip("/")
        self.peer = _provider_endpoint(context, base)
        self._url = httpx2.URL(base + path)
        self._headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": "hermes",
            **headers,
            **provider.headers,
        }
        self._key, self._needs_key = context.key, bool(provider.key_variable)
        self._first = context.settings.first_token_timeout
        self._gap = context.settings.timeout
        self._client = context.connections.share(base, lambda: _build_client(base))

    async def post(self, body: dict[str, Any]) -> bytes:
        """The whole answer to a request that is not streamed."""
        until = anyio.current_time() + self._first
        response = await self._send(body)
        chunks, size = [], 0
        async with aclosing(self._chunks(response, lambda: until)) as read:
            async for chunk in read:
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise malformed_reply(self.peer, f"sent more than {MAX_ANSWER_BYTES:,} bytes")
                chunks.append(chunk)
        return self._check_complete(b"".join(chunks))

    async def stream_events(
        self, body: dict[str, Any], settled: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        """The data of each event. Once the answer is `settled`, an abrupt end of the stream is
        accepted: nothing is missing. A server that does not stream works as well."""
        clock, parser = _ReadDeadline(self._first, self._gap, settled), AnswerParser()
        response = await self._send(body)
        try:
            async with aclosing(self._chunks(response, clock.deadline)) as read:
                async for chunk in read:
                    clock.chunk()
                    for data in parser.feed(chunk):
                        if not clock.over:
                            clock.event(last=data == b"[DONE]")
                            yield data
        except ModelError:
            if not settled() and not clock.over:
                raise
        for data in parser.flush() if not clock.over else ():
            yield self._check_complete(data)

    async def _send(self, body: dict[str, Any]) -> httpx2.Response:
        if self._needs_key and not self._key:
            raise missing_key_error(self.peer)
        if not (self._key.isascii() and self._key.isprintable()):
            raise unusable_key_error(self.peer)
        request = httpx2.Request(
            "POST", self._url, headers=self._headers, content=encode_json(body)
        )
        try:
            with anyio.fail_after(self._first):
                response = await self._client.send(request, stream=True)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._connection_error(error, begun=False) from error
        if response.status_code != 200:
            raise await self._response_error(response)
        return response

    async def _response_error(self, response: httpx2.Response) -> ModelError:
        body = b""
        try:
            until = anyio.current_time() + STREAM_END_GRACE_S
            async with aclosing(self._chunks(response, lambda: until)) as read:
                async for chunk in read:
                    body += chunk
                    if len(body) > 65_536:
                        break
        except ModelError:
            pass  # the status is enough
        headers = {name.lower(): value for name, value in response.headers.items()}
        return error_from_response(self.peer, response.status_code, headers, body)

    async def _chunks(
        self, response: httpx2.Response, deadline: Callable[[], float]
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(response.aiter_bytes()) as chunks:
                while True:
                    with anyio.CancelScope(deadline=deadline()) as scope:
                        chunk = await anext(chunks, None)
                    if scope.cancelled_caught:
                        raise self._timeout_error(begun=True)
                    if chunk is None:
                        return
                    yield chunk
        except httpx2.HTTPError as error:
            raise self._connection_error(error, begun=True) from error
        finally:
            await response.aclose()

    def _check_complete(self, body: bytes) -> bytes:
        start = body.lstrip()[:1]
        if start == b"<":
            raise malformed_reply(self.peer, "sent a web page instead of an answer", body)
        if not start:
            raise malformed_reply(self.peer, "sent an empty answer")
        return body

    def _timeout_error(self, *, begun: bool) -> ModelTimedOut:
        what = "stopped in the middle of its answer" if begun else "did not answer in time"
        return ModelTimedOut(f"{self.peer.title} {what} ({self.peer.url})")

    def _connection_error(self, error: Exception, *, begun: bool) -> ModelError:
        peer = self.peer
        if isinstance(error, httpx2.ConnectTimeout):
            return ProviderUnreachable(
                f"no connection to {peer.url} within {CONNECT_TIMEOUT_S:g} s. {peer.hint}"
            )
        if isinstance(error, TimeoutError | httpx2.TimeoutException):
            return self._timeout_error(begun=begun)
        if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
            reason = peer.redact(str(error)) or type(error).__name__
            hint = peer.hint or "Is the address right, and the network up?"
            if "CERTIFICATE" in reason:
                hint = "Name the file of the authority that signed it in SSL_CERT_FILE."
            return ProviderUnreachable(f"cannot reach {peer.title} at {peer.url}: {reason}. {hint}")
        what = "in the middle of its answer" if begun else "without an answer"
        return malformed_reply(peer, f"closed the connection {what} ({peer.redact(str(error))})")


class _ReadDeadline:
    """The deadline for the next chunk. Time that a slow reader takes does not count."""

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
            return self._since + STREAM_END_GRACE_S - self._waited
        remaining = self._first - self._waited
        return self._since + (remaining if self._silent else min(self._gap, remaining))

    def chunk(self) -> None:
        if not self._silent:
            self._waited += anyio.current_time() - self._since

    def event(self, *, last: bool) -> None:
        self._waited, self._silent, self.over = 0.0, False, last


def _build_client(base: str) -> httpx2.AsyncClient:
    try:
        return build_http_client(
            base,
            proxies=httpx2.URL(base).host not in LOOPBACK_HOSTS,
            timeout=httpx2.Timeout(connect=CONNECT_TIMEOUT_S, read=None, write=60.0, pool=None),
            limits=httpx2.Limits(max_keepalive_connections=32, keepalive_expiry=KEEP_ALIVE_S),
        )
    except PermanentHttpError as error:
        raise SettingsError(str(error)) from error


def _provider_endpoint(context: ModelContext, base: str) -> ProviderEndpoint:
    provider = context.target.provider
    secrets = (context.key, *provider.headers.values(), *re.findall(r"//([^/@]*)@", base))
    return ProviderEndpoint(
        title=provider.title or provider.name,
        reference=context.target.reference,
        url=re.sub(r"//[^/@]*@", "//", base).partition("?")[0],
        key_variable=provider.key_variable,
        hint=provider.hint,
        secrets=tuple(secret for secret in secrets if len(secret) >= 8),
    )


class ReplyParser(Protocol):
    """An answer while it is received."""

    def feed(self, data: bytes) -> CompletionDelta | None:
        """Process the next event, or a whole answer. `ValueError`: not what the dialect
        promises."""

    def settled(self) -> bool:
        """True once the answer of the model is complete."""

    def completion(self) -> Completion:
        """The answer. Raises `MalformedReply` when it was cut off."""


class ModelDialect(Protocol):
    """How to build a request, and how to read the answer."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> dict[str, Any]: ...
    def reply(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> ReplyParser: ...


class RemoteModel:
    """A `Model` that also `StreamsText` and, by its card, `SeesPictures`."""

    def __init__(self, target: ModelTarget, client: ModelHttpClient, dialect: ModelDialect) -> None:
        self.name = target.reference
        self.window = target.window
        self.sees_pictures = target.card.vision
        self._client = client
        self._dialect = dialect

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        messages = pair_calls_with_results(messages)
        reply = self._dialect.reply(messages, tools)
        self._feed(
            reply, await self._client.post(self._dialect.request(messages, tools, stream=False))
        )
        return reply.completion()

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[CompletionDelta | Completion, None]:
        messages = pair_calls_with_results(messages)
        reply = self._dialect.reply(messages, tools)
        request = self._dialect.request(messages, tools, stream=True)
        async with aclosing(self._client.stream_events(request, reply.settled)) as events:
            async for data in events:
                delta = self._feed(reply, data)
                if delta is not None:
                    yield delta
        yield reply.completion()

    def _feed(self, reply: ReplyParser, data: bytes) -> CompletionDelta | None:
        try:
            return reply.feed(data)
        except ValueError as error:
            what = f"sent something that is not its dialect ({error})"
            raise malformed_reply(self._client.peer, what, data) from error
