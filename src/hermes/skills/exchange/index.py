"""What a publisher offers, as one signed file that any web server can hand out."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hermes.core.messages import Value
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
    """Beside the index."""
    size: int
    description: str = ""


class PublisherIndex(Value, kw_only=True, frozen=True):
    publisher: str
    number: int
    """Each index has a higher one than the one before."""
    made: datetime
    skills: tuple[SkillOffer, ...] = ()


class SignedIndexFile(Value, kw_only=True, frozen=True):
    """The file itself: the index, and statements that stand on their own signatures."""

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
    unfinished = target.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(listing), indent=1))
    unfinished.replace(target)
    return target


def parse_index_file(data: bytes) -> SignedIndexFile:
    """Raises `Refused`. Nothing of it is believed yet."""
    if len(data) > MAX_INDEX_BYTES:
        raise ExchangeError(f"an index of {len(data):,} bytes is refused")
    try:
        return msgspec.json.decode(data, type=SignedIndexFile)
    except msgspec.DecodeError as error:
        raise ExchangeError(f"this is no index of skills: {error}") from error


def verify_index(
    listing: SignedIndexFile, check: VerifySignature, expected: str = ""
) -> PublisherIndex:
    """Raises `Refused` when another key than the expected one signed it."""
    if expected and listing.index.key != expected:
        raise ExchangeError(
            f"the index is signed by {shorten_key(listing.index.key)}, and {shorten_key(expected)} is known"
        )
    index = open_statement(listing.index, "index", PublisherIndex, check)
    for offer in index.skills:
        if "/" in offer.file or offer.file.startswith(".") or "\\" in offer.file:
            raise ExchangeError(f"the index names a file elsewhere: {offer.file!r}")
    return index


def summarize_index(listing: SignedIndexFile, index: PublisherIndex) -> SeenIndex:
    digest = hashlib.sha256(listing.index.body.encode()).hexdigest()
    return SeenIndex(number=index.number, digest=digest, made=index.made)


def check_index_age(
    index: PublisherIndex, *, warn_days: int, max_days: int, now: datetime | None = None
) -> str:
    """A warning about its age, or nothing. Raises `Refused` for one too old, or still to come.

    Whoever keeps handing out an old index keeps its readers from what was revoked since.
    """
    now = now or datetime.now(UTC)
    if index.made > now + timedelta(days=1):
        raise ExchangeError(f"the index says it was made on {index.made:%Y-%m-%d}, still to come")
    days = (now - index.made).days
    told = f"the index of {index.publisher!r} is {days} days old"
    if max_days and days > max_days:
        raise ExchangeError(
            f"{told}, more than {max_days} (skills.index_most_days): refused; its publisher has "
            "to publish again"
        )
    if warn_days and days > warn_days:
        return f"{told}: what was revoked since then is not known here"
    return ""
