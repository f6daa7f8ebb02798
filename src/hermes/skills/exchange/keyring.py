"""What a home remembers of publishers, of their keys, and of what it took in from them."""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import field
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.exchange.archive import ExchangeError
from hermes.skills.exchange.bundle import BundleManifest, SkillBundle
from hermes.skills.exchange.signed_statements import (
    KeyRotation,
    RevocationList,
    SignedStatement,
    VerifySignature,
    open_statement,
    shorten_key,
)


class SeenIndex(Value, kw_only=True, frozen=True):
    """The latest index of a publisher that was looked at: nothing older is believed again."""

    number: int
    digest: str
    made: datetime


class KnownPublisher(Value, kw_only=True, frozen=True):
    name: str
    key: str
    former: tuple[str, ...] = ()
    ended: dict[str, datetime] = {}
    """By former key: when another took its place. What it signed before stays valid."""
    pinned: datetime = field(default_factory=lambda: datetime.now(UTC))
    versions: dict[str, tuple[int, str]] = {}
    """By skill: the highest version that was seen, and its digest."""
    taken_back: tuple[str, ...] = ()
    """Digests of its own that it revoked."""
    issuer: bool = False
    """A person here decided that its revocations also count for keys and bundles of others."""
    list_number: int = 0
    facts_number: int = 0
    index: SeenIndex | None = None
    address: str = ""
    """Where its index is looked up, when it was subscribed to."""
    said: tuple[SignedStatement, ...] = ()
    """Its changes of key and its latest list of revocations, to be passed on."""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key, *self.former)


class InstalledSkill(Value, kw_only=True, frozen=True):
    """Where a skill of this home came from."""

    publisher: str
    key: str
    version: int
    digest: str
    """As it was signed; merged with ours it may lie here with another."""
    fallen: str = ""
    """Why it lost its state, once it has: a person may prove it again after that."""


class KeyringState(Value, kw_only=True, frozen=True):
    publishers: dict[str, KnownPublisher] = {}
    revoked_keys: tuple[str, ...] = ()
    revoked_digests: tuple[str, ...] = ()
    installed: dict[str, InstalledSkill] = {}
    """By the folder of the skill."""

    def find_revoked_skills(self) -> dict[str, str]:
        """Skills here that came from what was revoked, and why; each until it has fallen."""
        found = {folder: self._revocation_reason(one) for folder, one in self.installed.items()}
        return {folder: why for folder, why in found.items() if why}

    def _revocation_reason(self, one: InstalledSkill) -> str:
        if one.fallen:
            return ""
        if one.key in self.revoked_keys:
            return f"key {shorten_key(one.key)} of {one.publisher}, which signed it, was revoked"
        publisher = self.publishers.get(one.publisher)
        own = publisher.taken_back if publisher else ()
        if one.digest in (*self.revoked_digests, *own):
            return f"version {one.version} of {one.publisher} was revoked"
        return ""


KEYRING_FILE = "keyring.json"


class Keyring:
    """Kept in a file of the home; every change is written whole, and then put in its place."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / KEYRING_FILE
        self.state = self._read()
        self._unpinned_indexes: dict[str, SeenIndex] = {}

    def find(self, name: str) -> KnownPublisher:
        """Raises `Refused` naming those that are known."""
        if name in self.state.publishers:
            return self.state.publishers[name]
        there = ", ".join(sorted(self.state.publishers)) or "nobody yet"
        raise ExchangeError(f"no publisher {name!r} is known here; known: {there}")

    def pin(self, name: str, key: str, address: str = "") -> KnownPublisher:
        """The first key of a publisher; another one later is refused."""
        self.check_key(key)
        self._check_unique_name(name, key)
        publisher = self.state.publishers.get(name)
        if publisher is None:
            seen = self._unpinned_indexes.get(key)
            publisher = KnownPublisher(name=name, key=key, address=address, index=seen)
        elif publisher.key != key:
            raise ExchangeError(_wrong_key_message(publisher, key))
        elif address:
            publisher = replace(publisher, address=address)
        self._save_publisher(publisher)
        return publisher

    def _check_unique_name(self, name: str, key: str) -> None:
        held = next((p for p in self.state.publishers.values() if key in p.keys), None)
        if held is not None and held.name != name:
            raise ExchangeError(
                f"key {shorten_key(key)} is {held.name!r} here, and cannot be {name!r} too"
            )

    def check_key(self, key: str) -> None:
        if len(key) != 64 or any(letter not in "0123456789abcdef" for letter in key):
            raise ExchangeError(f"{key[:80]!r} is no public key: 64 hexadecimal digits")
        if key in self.state.revoked_keys:
            raise ExchangeError(
                f"key {shorten_key(key)} was revoked; nothing that it signed is taken in"
            )

    def check_bundle(self, bundle: SkillBundle) -> KnownPublisher | None:
        """Changes nothing; None for a publisher who is new here.

        Raises `Refused` for a wrong key, an old version, a revocation.
        """
        manifest = bundle.manifest
        self.check_key(bundle.key)
        known = self.state.publishers.get(manifest.publisher)
        own = known.taken_back if known is not None else ()
        if manifest.digest in (*self.state.revoked_digests, *own):
            raise ExchangeError(
                f"{manifest.name} {manifest.digest[:12]} was revoked by its publisher or here"
            )
        self._check_unique_name(manifest.publisher, bundle.key)
        if known is not None and known.key != bundle.key:
            _check_former_key(known, bundle)
        if known is not None and manifest.name in known.versions:
            _check_version(manifest, *known.versions[manifest.name])
        return known

    def record_bundle(self, bundle: SkillBundle, folder: str = "") -> None:
        """Pins its publisher, remembers the version, and as which skill it lies here."""
        manifest = bundle.manifest
        publisher = self.state.publishers.get(manifest.publisher)
        if publisher is None or bundle.key not in publisher.former:
            publisher = self.pin(manifest.publisher, bundle.key)
        versions = {**publisher.versions, manifest.name: (manifest.version, manifest.digest)}
        self._save_publisher(replace(publisher, versions=versions))
        if folder:
            one = InstalledSkill(
                publisher=manifest.publisher,
                key=bundle.key,
                version=manifest.version,
                digest=manifest.digest,
            )
            self._record_installed(folder, one)

    def mark_revoked(self, folder: str, why: str) -> None:
        """It lost its state over what was revoked; that is not done a second time."""
        self._record_installed(folder, replace(self.state.installed[folder], fallen=why))

    def _record_installed(self, folder: str, one: InstalledSkill) -> None:
        self._write(replace(self.state, installed={**self.state.installed, folder: one}))

    def rotate(self, sealed: SignedStatement, check: VerifySignature) -> KnownPublisher | None:
        """A new key in the words of the old one; None when it was known already."""
        rotation = open_statement(sealed, "rotation", KeyRotation, check)
        publisher = self.find(rotation.publisher)
        if rotation.new == publisher.key or sealed.key in publisher.former:
            return None
        self.check_key(sealed.key)
        self.check_key(rotation.new)
        if sealed.key != publisher.key:
            raise ExchangeError(
                f"the change of key of {publisher.name!r} is signed by {shorten_key(sealed.key)}, and "
                f"only {shorten_key(publisher.key)} may do so"
            )
        changed = replace(
            publisher,
            key=rotation.new,
            former=(*publisher.former, publisher.key),
            ended={**publisher.ended, publisher.key: rotation.at},
            said=(*publisher.said, sealed),
        )
        self._save_publisher(changed)
        return changed

    def apply_revocations(
        self, sealed: SignedStatement, check: VerifySignature
    ) -> RevocationList | None:
        """A publisher's list; None when a later one was seen already."""
        listed = open_statement(sealed, "revocations", RevocationList, check)
        publisher = self.find(listed.publisher)
        if sealed.key != publisher.key:
            raise ExchangeError(_wrong_key_message(publisher, sealed.key))
        if listed.number <= publisher.list_number:
            return None
        changed = replace(
            publisher,
            list_number=listed.number,
            said=(*(each for each in publisher.said if each.kind != sealed.kind), sealed),
        )
        if publisher.issuer:
            self._save_publisher(changed)
            self.revoke(keys=listed.keys, digests=listed.digests)
        else:
            digests = tuple(sorted({*publisher.taken_back, *listed.digests}))
            self._save_publisher(replace(changed, taken_back=digests))
            self.revoke(keys=tuple(set(listed.keys) & set(publisher.keys)))
        return listed

    def set_issuer(self, name: str, issuer: bool = True) -> None:
        """From now on; its list is read again in that light the next time it is seen."""
        self._save_publisher(replace(self.find(name), issuer=issuer, list_number=0))

    def check_index(self, name: str, key: str, index: SeenIndex) -> None:
        """Raises `Refused` for one that is older than what was seen, and remembers a newer one."""
        publisher = self.state.publishers.get(name)
        seen = publisher.index if publisher is not None else self._unpinned_indexes.get(key)
        if seen is not None and index.number < seen.number:
            raise ExchangeError(
                f"index {index.number} of {name!r} is older than {seen.number} of "
                f"{seen.made:%Y-%m-%d}, which was seen already: somebody hands out the past"
            )
        if seen is not None and index.number == seen.number and index.digest != seen.digest:
            raise ExchangeError(
                f"two different indexes of {name!r} have the number {index.number}: refused; a "
                "publisher who works in two places needs two names"
            )
        if publisher is None:
            self._unpinned_indexes[key] = index
        elif index != seen:
            self._save_publisher(replace(publisher, index=index))

    def revoke(self, *, keys: tuple[str, ...] = (), digests: tuple[str, ...] = ()) -> None:
        known = self.state
        self._write(
            replace(
                known,
                revoked_keys=tuple(sorted({*known.revoked_keys, *keys})),
                revoked_digests=tuple(sorted({*known.revoked_digests, *digests})),
            )
        )

    def record_facts_number(self, name: str, number: int) -> None:
        self._save_publisher(replace(self.find(name), facts_number=number))

    def forget(self, name: str) -> None:
        left = {n: each for n, each in self.state.publishers.items() if n != self.find(name).name}
        self._write(replace(self.state, publishers=left))

    def _save_publisher(self, publisher: KnownPublisher) -> None:
        people = {**self.state.publishers, publisher.name: publisher}
        self._write(replace(self.state, publishers=people))

    def _read(self) -> KeyringState:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=KeyringState)
        except FileNotFoundError:
            return KeyringState()
        except msgspec.DecodeError as error:
            raise ExchangeError(
                f"{self._file} is damaged ({error}); nothing is trusted until it is mended"
            ) from error

    def _write(self, known: KeyringState) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=f".{KEYRING_FILE}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(known), indent=1))
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(self._file)
        self.state = known


def _check_version(manifest: BundleManifest, version: int, digest: str) -> None:
    if manifest.version < version:
        raise ExchangeError(
            f"{manifest.name} version {manifest.version} is older than {version}, which was seen "
            "already: versions only go up"
        )
    if manifest.version == version and manifest.digest != digest:
        raise ExchangeError(
            f"{manifest.name} version {version} was seen with other content: a publisher who "
            "changes a skill gives it a new version"
        )


def _check_former_key(publisher: KnownPublisher, bundle: SkillBundle) -> None:
    """What a key signed before another took its place stays valid, and nothing after that.

    The time is what the signer wrote: against a stolen key only its revocation helps.
    """
    ended = publisher.ended.get(bundle.key)
    if ended is None or bundle.manifest.made >= ended.replace(microsecond=0):
        raise ExchangeError(_wrong_key_message(publisher, bundle.key))


def _wrong_key_message(publisher: KnownPublisher, key: str) -> str:
    if key in publisher.former:
        return f"key {shorten_key(key)} of {publisher.name!r} was replaced by {shorten_key(publisher.key)}"
    return (
        f"{publisher.name!r} is known here by key {shorten_key(publisher.key)}, and this is signed by "
        f"{shorten_key(key)}: refused. If the key really changed, its publisher has a statement signed "
        "by the old one; the index carries it"
    )
