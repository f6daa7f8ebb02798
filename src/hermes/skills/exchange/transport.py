"""Fetches an index or a bundle from a folder or over HTTP, and no more bytes than asked for."""

from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import anyio

from hermes.skills.exchange.archive import MAX_BUNDLE_BYTES, ExchangeError
from hermes.skills.exchange.index import INDEX_FILE, INDEX_FOLDER, MAX_INDEX_BYTES

FETCH_TIMEOUT_S = 30.0


class _SameHostRedirects(HTTPRedirectHandler):
    """Refuses redirects to another host or scheme."""

    def redirect_request(  # type: ignore[no-untyped-def]
        self, req, fp, code, msg, headers, newurl
    ) -> Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            raise ExchangeError(
                f"{before.netloc} redirects to {newurl}: not followed; use that address directly"
            )
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        return found if isinstance(found, Request) else None


def is_http_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def is_git_source(source: str) -> bool:
    return source.startswith(("git+", "git@", "ssh://")) or source.rstrip("/").endswith(".git")


async def fetch_bytes(source: str, *, max_bytes: int = MAX_BUNDLE_BYTES) -> bytes:
    """Raises `ExchangeError` with the reason."""
    if is_http_url(source):
        return await anyio.to_thread.run_sync(_http_get, source, max_bytes)
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


def _http_get(url: str, limit: int) -> bytes:
    opener = build_opener(_SameHostRedirects())
    request = Request(url, headers={"User-Agent": "hermes-skills"})
    try:
        with opener.open(request, timeout=FETCH_TIMEOUT_S) as reply:
            data: bytes = reply.read(limit + 1)
    except HTTPError as error:
        error.close()
        raise ExchangeError(f"{url} could not be fetched: {error.code} {error.reason}") from None
    except (URLError, OSError, ValueError) as error:
        raise ExchangeError(
            f"{url} could not be fetched: {getattr(error, 'reason', error)}"
        ) from error
    if len(data) > limit:
        raise ExchangeError(f"{url} has more than {limit:,} bytes")
    return data
