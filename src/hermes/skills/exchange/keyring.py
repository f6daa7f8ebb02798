"""Whom this home knows: the first key of each publisher, its successors, what was taken back."""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import field
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.bundle import Bundle, Manifest
from hermes.skills.exchange.sealing import Check, Sealed, opened, short

FILE = "keyring.json"


class Rotation(Value, kw_only=True, frozen=True):
    """Said by the old key: from now on the other one speaks for this publisher."""

    publisher: str
    new: str
    at: datetime


class Revocations(Value, kw_only=True, frozen=True):
    """Everything a publisher has taken back; each list is longer than the one before."""

    publisher: str
    number: int
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    reason: str = ""


class Publisher(Value, kw_only=True, frozen=True):
    name: str
    key: str
    former: tuple[str, ...] = ()
    pinned: datetime = field(default_factory=lambda: datetime.now(UTC))
    versions: dict[str, tuple[int, str]] = {}
    """By skill: the highest version that was seen, and its digest."""
    list_number: int = 0
    facts_number: int = 0
    address: str = ""
    """Where its index is looked up, when it was subscribed to."""


class Known(Value, kw_only=True, frozen=True):
    publishers: dict[str, Publisher] = {}
    revoked_keys: tuple[str, ...] = ()
    revoked_digests: tuple[str, ...] = ()


class Keyring:
    """Kept in a file of the home; every change is written whole, and then put in its place."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self.known = self._read()

    def find(self, name: str) -> Publisher:
        """Raises `Refused` naming those that are known."""
        if name in self.known.publishers:
            return self.known.publishers[name]
        there = ", ".join(sorted(self.known.publishers)) or "nobody yet"
        raise Refused(f"no publisher {name!r} is known here; known: {there}")

    def pin(self, name: str, key: str, address: str = "") -> Publisher:
        """The first key of a publisher; another one later is refused."""
        self.check_key(key)
        self._one_name(name, key)
        publisher = self.known.publishers.get(name)
        if publisher is None:
            publisher = Publisher(name=name, key=key, address=address)
        elif publisher.key != key:
            raise Refused(_other_key(publisher, key))
        elif address:
            publisher = replace(publisher, address=address)
        self._put(publisher)
        return publisher

    def _one_name(self, name: str, key: str) -> None:
        held = next((p for p in self.known.publishers.values() if key in (p.key, *p.former)), None)
        if held is not None and held.name != name:
            raise Refused(f"key {short(key)} is {held.name!r} here, and cannot be {name!r} too")

    def check_key(self, key: str) -> None:
        if len(key) != 64 or any(letter not in "0123456789abcdef" for letter in key):
            raise Refused(f"{key[:80]!r} is no public key: 64 hexadecimal digits")
        if key in self.known.revoked_keys:
            raise Refused(f"key {short(key)} was revoked; nothing that it signed is taken in")

    def admit(self, bundle: Bundle) -> Publisher | None:
        """Changes nothing; None for a publisher who is new here.

        Raises `Refused` for a wrong key, an old version, a revocation.
        """
        manifest = bundle.manifest
        self.check_key(bundle.key)
        if manifest.digest in self.known.revoked_digests:
            raise Refused(
                f"{manifest.name} {manifest.digest[:12]} was revoked by its publisher or here"
            )
        self._one_name(manifest.publisher, bundle.key)
        known = self.known.publishers.get(manifest.publisher)
        if known is not None and known.key != bundle.key:
            raise Refused(_other_key(known, bundle.key))
        if known is not None and manifest.name in known.versions:
            _only_up(manifest, *known.versions[manifest.name])
        return known

    def accept(self, bundle: Bundle) -> None:
        """Pins its publisher, and remembers the version."""
        manifest = bundle.manifest
        publisher = self.pin(manifest.publisher, bundle.key)
        versions = {**publisher.versions, manifest.name: (manifest.version, manifest.digest)}
        self._put(replace(publisher, versions=versions))

    def rotate(self, sealed: Sealed, check: Check) -> Publisher | None:
        """A new key in the words of the old one; None when it was known already."""
        rotation = opened(sealed, "rotation", Rotation, check)
        publisher = self.find(rotation.publisher)
        if rotation.new == publisher.key or sealed.key in publisher.former:
            return None
        self.check_key(sealed.key)
        self.check_key(rotation.new)
        if sealed.key != publisher.key:
            raise Refused(
                f"the change of key of {publisher.name!r} is signed by {short(sealed.key)}, and "
                f"only {short(publisher.key)} may do so"
            )
        changed = replace(publisher, key=rotation.new, former=(*publisher.former, publisher.key))
        self._put(changed)
        return changed

    def take_back(self, sealed: Sealed, check: Check) -> Revocations | None:
        """A publisher's list; None when a later one was seen already."""
        listed = opened(sealed, "revocations", Revocations, check)
        publisher = self.find(listed.publisher)
        if sealed.key != publisher.key:
            raise Refused(_other_key(publisher, sealed.key))
        if listed.number <= publisher.list_number:
            return None
        own = {publisher.key, *publisher.former}
        self.revoke(keys=tuple(set(listed.keys) & own), digests=listed.digests)
        self._put(replace(self.find(listed.publisher), list_number=listed.number))
        return listed

    def revoke(self, *, keys: tuple[str, ...] = (), digests: tuple[str, ...] = ()) -> None:
        known = self.known
        self._write(
            replace(
                known,
                revoked_keys=tuple(sorted({*known.revoked_keys, *keys})),
                revoked_digests=tuple(sorted({*known.revoked_digests, *digests})),
            )
        )

    def facts_seen(self, name: str, number: int) -> None:
        self._put(replace(self.find(name), facts_number=number))

    def forget(self, name: str) -> None:
        left = {n: each for n, each in self.known.publishers.items() if n != self.find(name).name}
        self._write(replace(self.known, publishers=left))

    def _put(self, publisher: Publisher) -> None:
        people = {**self.known.publishers, publisher.name: publisher}
        self._write(replace(self.known, publishers=people))

    def _read(self) -> Known:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Known)
        except FileNotFoundError:
            return Known()
        except msgspec.DecodeError as error:
            raise Refused(
                f"{self._file} is damaged ({error}); nothing is trusted until it is mended"
            ) from error

    def _write(self, known: Known) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=f".{FILE}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(known), indent=1))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(self._file)
        self.known = known


def _only_up(manifest: Manifest, version: int, digest: str) -> None:
    if manifest.version < version:
        raise Refused(
            f"{manifest.name} version {manifest.version} is older than {version}, which was seen "
            "already: versions only go up"
        )
    if manifest.version == version and manifest.digest != digest:
        raise Refused(
            f"{manifest.name} version {version} was seen with other content: a publisher who "
            "changes a skill gives it a new version"
        )


def _other_key(publisher: Publisher, key: str) -> str:
    if key in publisher.former:
        return f"key {short(key)} of {publisher.name!r} was replaced by {short(publisher.key)}"
    return (
        f"{publisher.name!r} is known here by key {short(publisher.key)}, and this is signed by "
        f"{short(key)}: refused. If the key really changed, its publisher has a statement signed "
        "by the old one; the index carries it"
    )
