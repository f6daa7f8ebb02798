"""What a publisher offers, as one signed file that any web server can hand out."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hermes.core.messages import Value
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.known import SeenIndex
from hermes.skills.exchange.sealing import Check, Seal, Sealed, opened, seal, short

PLACE = ".well-known/skills"
INDEX = "index.json"
LARGEST = 4 << 20


class Offer(Value, kw_only=True, frozen=True):
    name: str
    version: int
    digest: str
    file: str
    """Beside the index."""
    size: int
    description: str = ""


class Index(Value, kw_only=True, frozen=True):
    publisher: str
    number: int
    """Each index has a higher one than the one before."""
    made: datetime
    skills: tuple[Offer, ...] = ()


class Listing(Value, kw_only=True, frozen=True):
    """The file itself: the index, and statements that stand on their own signatures."""

    index: Sealed
    statements: tuple[Sealed, ...] = ()
    """Changes of key, revocations, facts."""


def write_listing(folder: Path, index: Index, statements: Sequence[Sealed], by: Seal) -> Path:
    target = folder / PLACE / INDEX
    target.parent.mkdir(parents=True, exist_ok=True)
    listing = Listing(index=seal("index", index, by), statements=tuple(statements))
    unfinished = target.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(listing), indent=1))
    unfinished.replace(target)
    return target


def read_listing(data: bytes) -> Listing:
    """Raises `Refused`. Nothing of it is believed yet."""
    if len(data) > LARGEST:
        raise Refused(f"an index of {len(data):,} bytes is refused")
    try:
        return msgspec.json.decode(data, type=Listing)
    except msgspec.DecodeError as error:
        raise Refused(f"this is no index of skills: {error}") from error


def open_index(listing: Listing, check: Check, expected: str = "") -> Index:
    """Raises `Refused` when another key than the expected one signed it."""
    if expected and listing.index.key != expected:
        raise Refused(
            f"the index is signed by {short(listing.index.key)}, and {short(expected)} is known"
        )
    index = opened(listing.index, "index", Index, check)
    for offer in index.skills:
        if "/" in offer.file or offer.file.startswith(".") or "\\" in offer.file:
            raise Refused(f"the index names a file elsewhere: {offer.file!r}")
    return index


def seen_index(listing: Listing, index: Index) -> SeenIndex:
    digest = hashlib.sha256(listing.index.body.encode()).hexdigest()
    return SeenIndex(number=index.number, digest=digest, made=index.made)


def grown_old(index: Index, *, warn_days: int, most_days: int, now: datetime | None = None) -> str:
    """A warning about its age, or nothing. Raises `Refused` for one too old, or still to come.

    Whoever keeps handing out an old index keeps its readers from what was revoked since.
    """
    now = now or datetime.now(UTC)
    if index.made > now + timedelta(days=1):
        raise Refused(f"the index says it was made on {index.made:%Y-%m-%d}, still to come")
    days = (now - index.made).days
    told = f"the index of {index.publisher!r} is {days} days old"
    if most_days and days > most_days:
        raise Refused(
            f"{told}, more than {most_days} (skills.index_most_days): refused; its publisher has "
            "to publish again"
        )
    if warn_days and days > warn_days:
        return f"{told}: what was revoked since then is not known here"
    return ""
