"""The index of a publisher: one signed file that lists its skills, for any web server or folder."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import msgspec

from hermes.core.messages import Value
from hermes.plumbing.files import PUBLIC_MODE, write_atomically
from hermes.plumbing.http_client import (
    HttpAnswerTooLarge,
    HttpError,
    HttpLimits,
    send_http_request,
)
from hermes.skills.exchange.bundle import MAX_BUNDLE_BYTES
from hermes.skills.exchange.keyring import SeenIndex
from hermes.skills.exchange.signed_statements import (
    ExchangeError,
    SignedStatement,
    StatementSigner,
    VerifySignature,
    open_statement,
    shorten_key,
    sign_statement,
)

INDEX_FOLDER = ".well-known/skills"
INDEX_FILE = "index.json"
MAX_INDEX_BYTES = 4 << 20
FETCH_TIMEOUT_S = 30.0


class SkillOffer(Value, kw_only=True, frozen=True):
    name: str
    version: int
    digest: str
    file: str
    """In the folder of the index."""
    size: int
    description: str = ""


class PublisherIndex(Value, kw_only=True, frozen=True):
    publisher: str
    number: int
    """Higher than in every earlier index."""
    made: datetime
    skills: tuple[SkillOffer, ...] = ()


class SignedIndexFile(Value, kw_only=True, frozen=True):
    """The file: the index, and statements with their own signatures."""

    index: SignedStatement
    statements: tuple[SignedStatement, ...] = ()
    """Changes of key, revocations, facts."""


def write_index_file(
    folder: Path,
    index: PublisherIndex,
    statements: Sequence[SignedStatement],
    signer: StatementSigner,
) -> Path:
    target = folder / INDEX_FOLDER / INDEX_FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    listing = SignedIndexFile(
        index=sign_statement("index", index, signer), statements=tuple(statements)
    )
    data = msgspec.json.format(msgspec.json.encode(listing), indent=1)
    write_atomically(target, data, mode=PUBLIC_MODE)
    return target


def parse_index_file(data: bytes) -> SignedIndexFile:
    """Raises `ExchangeError`. The signature is not verified yet."""
    if len(data) > MAX_INDEX_BYTES:
        raise ExchangeError(f"an index of {len(data):,} bytes is refused")
    try:
        return msgspec.json.decode(data, type=SignedIndexFile)
    except msgspec.DecodeError as error:
        raise ExchangeError(f"this is not an index of skills: {error}") from error


def verify_index(
    listing: SignedIndexFile, check: VerifySignature, expected: str = ""
) -> PublisherIndex:
    """Raises `ExchangeError` when it is not signed by the expected key."""
    if expected and listing.index.key != expected:
        raise ExchangeError(
            f"the index is signed by {shorten_key(listing.index.key)}, "
            f"and {shorten_key(expected)} is known"
        )
    index = open_statement(listing.index, "index", PublisherIndex, check)
    for offer in index.skills:
        if "/" in offer.file or offer.file.startswith(".") or "\\" in offer.file:
            raise ExchangeError(f"the index names a file outside its folder: {offer.file!r}")
    return index


def summarize_index(listing: SignedIndexFile, index: PublisherIndex) -> SeenIndex:
    digest = hashlib.sha256(listing.index.body.encode()).hexdigest()
    return SeenIndex(number=index.number, digest=digest, made=index.made)


def check_index_age(
    index: PublisherIndex, *, warn_days: int, max_days: int, now: datetime | None = None
) -> str:
    """A warning about its age, or "". Raises `ExchangeError` when it is too old or in the future.

    An old index hides what was revoked since.
    """
    now = now or datetime.now(UTC)
    if index.made > now + timedelta(days=1):
        raise ExchangeError(f"the index is dated {index.made:%Y-%m-%d}, which is in the future")
    days = (now - index.made).days
    age = f"the index of {index.publisher!r} is {days} days old"
    if max_days and days > max_days:
        raise ExchangeError(
            f"{age}, more than {max_days} (skills.index_most_days): refused; its publisher has "
            "to publish again"
        )
    if warn_days and days > warn_days:
        return f"{age}: what was revoked since then is not known here"
    return ""


def is_http_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def is_git_source(source: str) -> bool:
    return source.startswith(("git+", "git@", "ssh://")) or source.rstrip("/").endswith(".git")


async def fetch_bytes(source: str, *, max_bytes: int = MAX_BUNDLE_BYTES) -> bytes:
    """Of a file or over HTTP, and no more than asked for. Raises `ExchangeError`."""
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
    agent = {"User-Agent": "hermes-skills"}
    try:
        answer = await send_http_request(
            "GET", url, limits, headers=agent, same_host_redirects=True
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
