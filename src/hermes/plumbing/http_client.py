"""The HTTP client: limits on time and size, no redirects unless asked for, clear errors.

httpx2 is imported with the first request, because most commands send none. Nothing is shared
between requests except the loaded certificates.
"""

import json
import os
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import anyio
import msgspec

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 10
_UNUSED_LIBRARIES = ("h2", "trio")
_CREDENTIAL_HEADERS = frozenset({"authorization", "cookie", "private-token", "x-api-key"})
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


class HttpError(Exception):
    """The request got no usable answer."""

    may_have_arrived = False
    """Whether the other side may have acted on the request."""


class TemporaryHttpError(HttpError):
    """A retry may succeed."""


class HttpUnreachable(TemporaryHttpError):
    """There is no connection; nothing was sent."""


class HttpTimedOut(TemporaryHttpError):
    may_have_arrived = True


class HttpConnectionLost(TemporaryHttpError):
    """The connection failed after the request was sent, or its answer is not HTTP."""

    may_have_arrived = True


class PermanentHttpError(HttpError):
    """A retry fails, too: the address, a header or the proxy is invalid."""


class HttpAnswerTooLarge(PermanentHttpError):
    may_have_arrived = True


class HttpAnswer(msgspec.Struct, frozen=True):
    status: int
    reason: str
    body: bytes = b""
    location: str = ""
    """The whole address of a redirect that was not followed; empty without one."""
    content_type: str = ""
    retry_after: str = ""
    """What the answer says about a retry: seconds or a date."""
    url: str = ""
    """The address that answered, after redirects."""

    @property
    def error_text(self) -> str:
        """What the server says about an error: the message in its JSON, or its whole text."""
        text = self.body.decode("utf-8", "replace")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(data, dict):
            return text
        keys = ("error", "message", "detail")
        found = next((data[key] for key in keys if data.get(key)), text)
        return found if isinstance(found, str) else json.dumps(found)


class GuardsConnections(Protocol):
    """Checks the addresses of connections, and raises `HttpError` for those it refuses."""

    def wrap(self, network: Any) -> Any:
        """A network backend of httpcore2 that connects through this one."""


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    timeout_s: float
    """For each step: to connect, to write, and to read the next bytes."""
    total_timeout_s: float | None = None
    """For the whole request with its answer."""
    max_answer_bytes: int = 0
    """A larger answer is an error, also when it is larger only after it was unpacked; 0: the body
    is not read."""
    max_redirects: int = 0
    """Redirects to any host that are followed; only with a guard, which checks each."""


async def send_http_request(
    method: str,
    url: str,
    limits: HttpLimits,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    same_host_redirects: bool = False,
    proxies: bool = True,
    guard: GuardsConnections | None = None,
) -> HttpAnswer:
    """Send one request over a new connection; any status is an answer. Raises `HttpError`.

    `same_host_redirects`: follow redirects that keep scheme, host and port. `proxies`: use those
    that the environment names. `guard`: checks every address, without proxies, and follows
    redirects within the limits; keys are only sent to the first host.
    """
    import httpx2  # noqa: PLC0415 - only for requests

    try:
        with anyio.fail_after(limits.total_timeout_s):
            request = httpx2.Request(
                method,
                url,
                headers={"accept-encoding": "identity", **(headers or {})},
                content=body,
            )
            timeout = httpx2.Timeout(limits.timeout_s)
            async with build_http_client(
                url, timeout=timeout, proxies=proxies and guard is None, guard=guard
            ) as client:
                if guard is not None and limits.max_redirects:
                    return await _follow_redirects(client, request, limits)
                for _ in range(MAX_REDIRECTS if same_host_redirects else 0):
                    answer = await _exchange(client, request, limits)
                    target = httpx2.URL(answer.location or url)
                    if not answer.location or _origin(target) != _origin(request.url):
                        return answer
                    request = httpx2.Request(method, target, headers=request.headers)
                return await _exchange(client, request, limits)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError, ValueError) as error:
        _raise_http_error(error, limits)


def build_http_client(
    url: str,
    *,
    timeout: "httpx2.Timeout | float",
    proxies: bool = True,
    limits: "httpx2.Limits | None" = None,
    guard: GuardsConnections | None = None,
) -> "httpx2.AsyncClient":
    """Raises `PermanentHttpError` when a proxy of the environment cannot be used."""
    import httpx2  # noqa: PLC0415 - only for requests

    # Loading the certificates takes longer than several calls; a plain HTTP address needs none.
    secure = url.startswith("https:") or guard is not None  # a redirect may lead to TLS
    tls = _tls_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with _without_unused_libraries():
            client = httpx2.AsyncClient(
                verify=tls, trust_env=proxies, timeout=timeout, limits=limits or httpx2.Limits()
            )
        if guard is not None:
            transport: Any = client._transport
            network = transport._pool._network_backend
            transport._pool._network_backend = guard.wrap(network)
        return client
    except (ValueError, ImportError) as error:
        message = f"the proxy set for this process cannot be used: {error}"
        raise PermanentHttpError(message) from error


@contextmanager
def _without_unused_libraries() -> Iterator[None]:
    """Hide from httpcore2 what it loads where it is installed: no HTTP/2 is spoken here and nothing
    runs on trio, but loading trio takes a quarter of the time of one question."""
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in _UNUSED_LIBRARIES if modules.setdefault(name, None) is None]
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]


@cache
def _tls_context() -> ssl.SSLContext:
    import httpx2  # noqa: PLC0415 - only for requests

    return httpx2.create_ssl_context()


async def _follow_redirects(
    client: "httpx2.AsyncClient", request: "httpx2.Request", limits: HttpLimits
) -> HttpAnswer:
    """Each target is checked when its socket is opened."""
    import httpx2  # noqa: PLC0415 - only for requests

    for _ in range(limits.max_redirects):
        answer = await _exchange(client, request, limits)
        if not answer.location:
            return answer
        target = httpx2.URL(answer.location)
        if target.scheme not in ("http", "https"):
            raise PermanentHttpError(f"it redirects to a {target.scheme}: address, not a page")
        if target.userinfo:
            raise PermanentHttpError("it redirects to an address with a user or a password")
        headers = request.headers.copy()
        del headers["host"]
        if _origin(target) != _origin(request.url):
            for name in _CREDENTIAL_HEADERS & {each.lower() for each in headers}:
                del headers[name]
        request = httpx2.Request("GET", target, headers=headers)
    answer = await _exchange(client, request, limits)
    if answer.location:
        raise PermanentHttpError(f"it redirects more than {limits.max_redirects} times")
    return answer


async def _exchange(
    client: "httpx2.AsyncClient", request: "httpx2.Request", limits: HttpLimits
) -> HttpAnswer:
    response = await client.send(request, stream=True)
    try:
        target = response.headers.get("location", "")
        location = ""
        if target and response.status_code in REDIRECT_STATUSES:
            location = str(request.url.join(target))
        body = b""
        if limits.max_answer_bytes and not location:
            async with aclosing(response.aiter_raw()) as chunks:
                body = await _read_limited(chunks, limits.max_answer_bytes)
            packed = response.headers.get("content-encoding", "").strip().lower()
            if packed in ("gzip", "x-gzip", "deflate"):
                body = _unpack_limited(body, limits.max_answer_bytes)
            elif packed and packed != "identity":
                message = f"the answer is packed as {packed[:40]!r}, which nobody asked for"
                raise PermanentHttpError(message)
        return HttpAnswer(
            response.status_code,
            response.reason_phrase,
            body,
            location,
            content_type=response.headers.get("content-type", ""),
            retry_after=response.headers.get("retry-after", ""),
            url=str(request.url),
        )
    finally:
        await response.aclose()


async def _read_limited(chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > max_bytes:
            raise HttpAnswerTooLarge(f"the answer has more than {max_bytes:,} bytes")
    return bytes(body)


def _unpack_limited(body: bytes, max_bytes: int) -> bytes:
    """No packed answer was asked for; one that comes anyway is unpacked up to the limit."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise PermanentHttpError(f"the answer cannot be unpacked: {error}") from error
    if len(plain) > max_bytes:
        raise HttpAnswerTooLarge(f"the unpacked answer has more than {max_bytes:,} bytes")
    if not unpacker.eof:
        raise PermanentHttpError("the packed answer is incomplete")
    return plain


def _origin(url: "httpx2.URL") -> tuple[str, bytes]:
    return url.scheme, url.netloc


def _raise_http_error(error: Exception, limits: HttpLimits) -> NoReturn:
    import httpx2  # noqa: PLC0415 - only for requests

    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        raise HttpUnreachable(f"no connection within {limits.timeout_s:g} s") from error
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        total = isinstance(error, TimeoutError) and limits.total_timeout_s
        raise HttpTimedOut(f"no answer within {total or limits.timeout_s:g} s") from error
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        raise HttpUnreachable(_reason(error)) from error
    invalid = (
        httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError | ValueError
    )
    if isinstance(error, invalid):
        raise PermanentHttpError(f"the address or a header is invalid: {error}") from error
    message = f"the connection failed: {type(error).__name__}: {_reason(error)}"
    raise HttpConnectionLost(message) from error


def _reason(error: BaseException) -> str:
    """The text of the operating system, where there is one: httpx2 only says that it failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, ssl.SSLError):
            return _tls_problem(cause)
        if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _tls_problem(error: ssl.SSLError) -> str:
    """Its number is that of the library: for the operating system it means something else."""
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "it does not speak TLS at this port; is its address http:// instead of https://?"
    words = getattr(error, "verify_message", "") or (error.reason or "no reason was given")
    return f"TLS failed: {words.replace('_', ' ').lower()}"
