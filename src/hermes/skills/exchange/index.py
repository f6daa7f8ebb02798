"""The index of a publisher: one signed file that lists its skills, for any web server."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hermes.core.messages import Value
from hermes.plumbing.files import PUBLIC_MODE, write_atomically
from hermes.skills.exchange.archive import ExchangeError
from hermes.skills.exchange.keyring import SeenIndex
from hermes.skills.exchange.signed_statements import (
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
