"""Fetches an index or a bundle from a folder or over HTTP, and no more bytes than asked for."""

from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import anyio

from hermes.skills.exchange.archive import MOST_BYTES, Refused
from hermes.skills.exchange.index import INDEX, LARGEST, PLACE

TIMEOUT = 30.0


class _SameSite(HTTPRedirectHandler):
    """A redirect to another host, or to a weaker scheme, is an answer we did not ask for."""

    def redirect_request(  # type: ignore[no-untyped-def]
        self, req, fp, code, msg, headers, newurl
    ) -> Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            raise Refused(
                f"{before.netloc} sends us on to {newurl}: not followed; name it yourself"
            )
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        return found if isinstance(found, Request) else None


def is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def is_git(source: str) -> bool:
    return source.startswith(("git+", "git@", "ssh://")) or source.rstrip("/").endswith(".git")


async def fetch(source: str, *, limit: int = MOST_BYTES) -> bytes:
    """Raises `Refused` with what went wrong."""
    if is_address(source):
        return await anyio.to_thread.run_sync(_get, source, limit)
    try:
        path = anyio.Path(source)
        if (await path.stat()).st_size > limit:
            raise Refused(f"{source} has more than {limit:,} bytes")
        return await path.read_bytes()
    except OSError as error:
        raise Refused(f"{source} cannot be read: {error.strerror}") from error


async def fetch_index(base: str) -> bytes:
    """From the address or folder that a publisher gave out."""
    return await fetch(beside(base, INDEX), limit=LARGEST)


def beside(base: str, name: str) -> str:
    base = base.rstrip("/").removesuffix(f"/{INDEX}").removesuffix(f"/{PLACE}")
    return f"{base}/{PLACE}/{name}"


def _get(url: str, limit: int) -> bytes:
    opener = build_opener(_SameSite())
    request = Request(url, headers={"User-Agent": "hermes-skills"})
    try:
        with opener.open(request, timeout=TIMEOUT) as reply:
            data: bytes = reply.read(limit + 1)
    except HTTPError as error:
        error.close()
        raise Refused(f"{url} could not be fetched: {error.code} {error.reason}") from None
    except (URLError, OSError, ValueError) as error:
        raise Refused(f"{url} could not be fetched: {getattr(error, 'reason', error)}") from error
    if len(data) > limit:
        raise Refused(f"{url} has more than {limit:,} bytes")
    return data
