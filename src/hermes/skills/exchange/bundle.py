"""A skill as it travels: its files, what it may do, what proves it, and who says so."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from hermes.core.messages import Value
from hermes.skills.exchange.archive import Refused, below, digest_of_entries, pack, unpack
from hermes.skills.exchange.sealing import Check, Seal, Sealed, opened, seal
from hermes.skills.format.skill_text import LONGEST_NAME, NAME
from hermes.skills.scanner.finding import Entry

FORMAT = 1
SIGNATURE, HISTORY, SKILL, EVIDENCE = "signature.json", "history.json", "skill", "evidence"
MANIFEST = "manifest.json"
SUFFIX = ".skill"
LIFE = timedelta(days=365)


class Past(Value, kw_only=True, frozen=True):
    """One earlier version, as its publisher tells it."""

    digest: str
    reason: str = ""
    at: datetime | None = None


class Manifest(Value, kw_only=True, frozen=True):
    format: int = FORMAT
    name: str
    version: int
    publisher: str
    digest: str
    """Of the skill's own files."""
    parents: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    evidence: str
    """The root of what proves it: a digest of the same kind."""
    history: str
    made: datetime
    expires: datetime


class Bundle(Value, kw_only=True, frozen=True):
    manifest: Manifest
    key: str
    skill: tuple[Entry, ...]
    evidence: tuple[Entry, ...] = ()
    past: tuple[Past, ...] = ()


class Goods(Value, kw_only=True, frozen=True):
    """What a publisher hands over to be packed."""

    name: str
    version: int
    publisher: str
    skill: tuple[Entry, ...]
    evidence: tuple[Entry, ...] = ()
    past: tuple[Past, ...] = ()
    capabilities: tuple[str, ...] = ()
    life: timedelta = LIFE


def make_bundle(goods: Goods, by: Seal, *, now: datetime | None = None) -> bytes:
    made = (now or datetime.now(UTC)).replace(microsecond=0)
    history = Entry(path=HISTORY, data=msgspec.json.encode(goods.past))
    manifest = Manifest(
        name=goods.name,
        version=goods.version,
        publisher=goods.publisher,
        digest=digest_of_entries(goods.skill),
        parents=tuple(past.digest for past in goods.past),
        capabilities=goods.capabilities,
        evidence=digest_of_entries(goods.evidence),
        history=digest_of_entries([history]),
        made=made,
        expires=made + goods.life,
    )
    sealed = seal("manifest", manifest, by)
    vouched = msgspec.json.encode({"key": sealed.key, "signature": sealed.signature})
    return pack(
        [
            *_under(SKILL, goods.skill),
            *_under(EVIDENCE, goods.evidence),
            history,
            Entry(path=MANIFEST, data=sealed.body.encode()),
            Entry(path=SIGNATURE, data=vouched),
        ]
    )


def read_bundle(data: bytes, check: Check, *, now: datetime | None = None) -> Bundle:
    """Everything that can be checked without knowing the publisher. Raises `Refused`."""
    entries = {entry.path: entry for entry in unpack(data)}
    for wanted in (MANIFEST, SIGNATURE, HISTORY):
        if wanted not in entries:
            raise Refused(f"the bundle has no {wanted}")
    extra = [
        path
        for path in entries
        if path not in (MANIFEST, SIGNATURE, HISTORY)
        and not path.startswith((f"{SKILL}/", f"{EVIDENCE}/"))
    ]
    if extra:
        raise Refused(f"the bundle holds {extra[0]!r}, which belongs to no part of it")
    sealed = _signature(entries[SIGNATURE], entries[MANIFEST])
    manifest = opened(sealed, "manifest", Manifest, check)
    skill, evidence = below(list(entries.values()), SKILL), below(list(entries.values()), EVIDENCE)
    _agree(manifest, skill, evidence, entries[HISTORY], now or datetime.now(UTC))
    try:
        past = msgspec.json.decode(entries[HISTORY].data, type=tuple[Past, ...])
    except msgspec.DecodeError as error:
        raise Refused(f"the bundle's history cannot be read: {error}") from error
    return Bundle(
        manifest=manifest,
        key=sealed.key,
        skill=tuple(skill),
        evidence=tuple(evidence),
        past=past,
    )


def _signature(signature: Entry, manifest: Entry) -> Sealed:
    try:
        found = msgspec.json.decode(signature.data, type=dict[str, str])
        return Sealed(
            kind="manifest",
            body=manifest.data.decode(),
            key=found["key"],
            signature=found["signature"],
        )
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError) as error:
        raise Refused(f"the bundle's signature cannot be read: {error}") from error


def _agree(
    manifest: Manifest,
    skill: Sequence[Entry],
    evidence: Sequence[Entry],
    history: Entry,
    now: datetime,
) -> None:
    if manifest.format != FORMAT:
        raise Refused(f"a bundle of format {manifest.format}: a later Hermes can read it")
    if not NAME.fullmatch(manifest.name) or len(manifest.name) > LONGEST_NAME:
        raise Refused(f"{manifest.name!r} is no name of a skill")
    if manifest.digest != digest_of_entries(skill):
        raise Refused("the skill's files are not those that were signed")
    if manifest.evidence != digest_of_entries(evidence):
        raise Refused("the evidence is not that which was signed")
    if manifest.history != digest_of_entries([history]):
        raise Refused("the history is not that which was signed")
    if now >= manifest.expires:
        raise Refused(f"the bundle expired on {manifest.expires:%Y-%m-%d}; ask for a newer one")
    if manifest.made > now + timedelta(days=1):
        raise Refused(
            f"the bundle says that it was made on {manifest.made:%Y-%m-%d}, still to come"
        )
    if manifest.version < 1:
        raise Refused("versions begin with 1")


def _under(folder: str, entries: Sequence[Entry]) -> list[Entry]:
    return [
        Entry(path=f"{folder}/{each.path}", data=each.data, executable=each.executable)
        for each in entries
    ]
