"""Fetches an index or a bundle from a folder or over HTTP, and no more bytes than asked for."""

from urllib.parse import urlsplit

import anyio

from hermes.plumbing.http_client import (
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    send_http_request,
)
from hermes.skills.exchange.archive import MAX_BUNDLE_BYTES, ExchangeError
from hermes.skills.exchange.index import INDEX_FILE, INDEX_FOLDER, MAX_INDEX_BYTES

FETCH_TIMEOUT_S = 30.0


def is_http_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def is_git_source(source: str) -> bool:
    return source.startswith(("git+", "git@", "ssh://")) or source.rstrip("/").endswith(".git")


async def fetch_bytes(source: str, *, max_bytes: int = MAX_BUNDLE_BYTES) -> bytes:
    """Raises `ExchangeError` with the reason."""
    if is_http_url(source):
        return await _http_get(source, max_bytes)
    try:
        path = anyio.Path(source)
        if (await path.stat()).st_size > max_bytes:
            raise ExchangeError(f"{source} has more than {max_bytes:,} bytes")
        return await path.read_bytes()
    except OSError as error:
        raise ExchangeError(f"{source} cannot be read: {error.strerror}") from error


async def fetch_index(base: str) -> bytes:
    """From the address or folder of a publisher."""
    return await fetch_bytes(build_published_address(base, INDEX_FILE), max_bytes=MAX_INDEX_BYTES)


def build_published_address(base: str, name: str) -> str:
    base = base.rstrip("/").removesuffix(f"/{INDEX_FILE}").removesuffix(f"/{INDEX_FOLDER}")
    return f"{base}/{INDEX_FOLDER}/{name}"


async def _http_get(url: str, max_bytes: int) -> bytes:
    limits = HttpLimits(timeout_s=FETCH_TIMEOUT_S, max_answer_bytes=max_bytes)
    headers = {"User-Agent": "hermes-skills"}
    try:
        answer = await send_http_request(
            "GET", url, limits, headers=headers, same_host_redirects=True
        )
    except HttpAnswerTooLarge:
        raise ExchangeError(f"{url} has more than {max_bytes:,} bytes") from None
    except HttpError as error:
        raise ExchangeError(f"{url} could not be fetched: {error}") from error
    if answer.location:
        raise ExchangeError(
            f"{urlsplit(url).netloc} redirects to {answer.location}: not followed; "
            "use that address directly"
        )
    if answer.status >= 300:
        raise ExchangeError(f"{url} could not be fetched: {answer.status} {answer.reason}")
    return answer.body
