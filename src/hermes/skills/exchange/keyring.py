"""Publishers known to this home: pinned keys, revocations, versions seen, skills installed."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import field
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.plumbing.files import write_atomically
from hermes.skills.exchange.bundle import BundleManifest, SkillBundle
from hermes.skills.exchange.signed_statements import (
    ExchangeError,
    KeyRotation,
    RevocationList,
    SignedStatement,
    TeamFacts,
    VerifySignature,
    open_statement,
    shorten_key,
)

KEYRING_FILE = "keyring.json"
MAX_TEAM_FACTS = 5_000


class SeenIndex(Value, kw_only=True, frozen=True):
    """The latest index seen of a publisher: an older one is refused."""

    number: int
    digest: str
    made: datetime


class KnownPublisher(Value, kw_only=True, frozen=True):
    name: str
    key: str
    former: tuple[str, ...] = ()
    ended: dict[str, datetime] = {}
    """By former key: when it was replaced. What it signed before stays valid."""
    pinned: datetime = field(default_factory=lambda: datetime.now(UTC))
    versions: dict[str, tuple[int, str]] = {}
    """By skill: the highest version that was seen, and its digest."""
    taken_back: tuple[str, ...] = ()
    """Digests of its own skills that it revoked."""
    issuer: bool = False
    """The user decided that its revocations also apply to keys and bundles of others."""
    list_number: int = 0
    facts_number: int = 0
    index: SeenIndex | None = None
    address: str = ""
    """Where its index is fetched, when subscribed."""
    said: tuple[SignedStatement, ...] = ()
    """Its key rotations and its latest revocation list, to be republished."""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key, *self.former)


class InstalledSkill(Value, kw_only=True, frozen=True):
    """Where a skill of this home came from."""

    publisher: str
    key: str
    version: int
    digest: str
    """As it was signed; after a merge the digest of the folder differs."""
    fallen: str = ""
    """Why it was demoted, if it was; the user may have it validated again."""


class KeyringState(Value, kw_only=True, frozen=True):
    publishers: dict[str, KnownPublisher] = {}
    revoked_keys: tuple[str, ...] = ()
    revoked_digests: tuple[str, ...] = ()
    installed: dict[str, InstalledSkill] = {}
    """By skill folder."""

    def find_revoked_skills(self) -> dict[str, str]:
        """Installed skills that were revoked and are not demoted yet, with the reason."""
        found = {folder: self._revocation_reason(skill) for folder, skill in self.installed.items()}
        return {folder: why for folder, why in found.items() if why}

    def _revocation_reason(self, skill: InstalledSkill) -> str:
        if skill.fallen:
            return ""
        if skill.key in self.revoked_keys:
            key = shorten_key(skill.key)
            return f"key {key} of {skill.publisher}, which signed it, was revoked"
        publisher = self.publishers.get(skill.publisher)
        own = publisher.taken_back if publisher else ()
        if skill.digest in (*self.revoked_digests, *own):
            return f"version {skill.version} of {skill.publisher} was revoked"
        return ""


class Keyring:
    """Stored in a file of the home; every change replaces the file atomically."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / KEYRING_FILE
        self.state = self._read()
        self._unpinned_indexes: dict[str, SeenIndex] = {}

    def find(self, name: str) -> KnownPublisher:
        """Raises `ExchangeError` naming the known publishers."""
        if name in self.state.publishers:
            return self.state.publishers[name]
        known = ", ".join(sorted(self.state.publishers)) or "none yet"
        raise ExchangeError(f"no publisher {name!r} is known here; known: {known}")

    def pin(self, name: str, key: str, address: str = "") -> KnownPublisher:
        """Pins the first key of a publisher; a different key is refused later."""
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
        holder = next((p for p in self.state.publishers.values() if key in p.keys), None)
        if holder is not None and holder.name != name:
            raise ExchangeError(
                f"key {shorten_key(key)} is {holder.name!r} here, and cannot be {name!r} too"
            )

    def check_key(self, key: str) -> None:
        if len(key) != 64 or any(letter not in "0123456789abcdef" for letter in key):
            raise ExchangeError(f"{key[:80]!r} is not a public key: it needs 64 hexadecimal digits")
        if key in self.state.revoked_keys:
            raise ExchangeError(
                f"key {shorten_key(key)} was revoked; nothing that it signed is accepted"
            )

    def check_bundle(self, bundle: SkillBundle) -> KnownPublisher | None:
        """Changes nothing; None for a new publisher.

        Raises `ExchangeError` for a wrong key, an old version or a revocation.
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
        """Pins its publisher, and records the version and the folder."""
        manifest = bundle.manifest
        publisher = self.state.publishers.get(manifest.publisher)
        if publisher is None or bundle.key not in publisher.former:
            publisher = self.pin(manifest.publisher, bundle.key)
        versions = {**publisher.versions, manifest.name: (manifest.version, manifest.digest)}
        self._save_publisher(replace(publisher, versions=versions))
        if folder:
            installed = InstalledSkill(
                publisher=manifest.publisher,
                key=bundle.key,
                version=manifest.version,
                digest=manifest.digest,
            )
            self._record_installed(folder, installed)

    def mark_revoked(self, folder: str, why: str) -> None:
        """Records that the skill was demoted, so that it happens only once."""
        self._record_installed(folder, replace(self.state.installed[folder], fallen=why))

    def _record_installed(self, folder: str, skill: InstalledSkill) -> None:
        self._write(replace(self.state, installed={**self.state.installed, folder: skill}))

    def rotate(self, statement: SignedStatement, check: VerifySignature) -> KnownPublisher | None:
        """Accepts a new key signed by the old one; None when it is known already."""
        rotation = open_statement(statement, "rotation", KeyRotation, check)
        publisher = self.find(rotation.publisher)
        if rotation.new == publisher.key or statement.key in publisher.former:
            return None
        self.check_key(statement.key)
        self.check_key(rotation.new)
        if statement.key != publisher.key:
            raise ExchangeError(
                f"the change of key of {publisher.name!r} is signed by "
                f"{shorten_key(statement.key)}, and only {shorten_key(publisher.key)} may do so"
            )
        changed = replace(
            publisher,
            key=rotation.new,
            former=(*publisher.former, publisher.key),
            ended={**publisher.ended, publisher.key: rotation.at},
            said=(*publisher.said, statement),
        )
        self._save_publisher(changed)
        return changed

    def apply_revocations(
        self, statement: SignedStatement, check: VerifySignature
    ) -> RevocationList | None:
        """Applies the list of a publisher; None when a later one is known."""
        listed = open_statement(statement, "revocations", RevocationList, check)
        publisher = self.find(listed.publisher)
        if statement.key != publisher.key:
            raise ExchangeError(_wrong_key_message(publisher, statement.key))
        if listed.number <= publisher.list_number:
            return None
        changed = replace(
            publisher,
            list_number=listed.number,
            said=(*(each for each in publisher.said if each.kind != statement.kind), statement),
        )
        if publisher.issuer:
            self._save_publisher(changed)
            self.revoke(keys=listed.keys, digests=listed.digests)
        else:
            digests = tuple(sorted({*publisher.taken_back, *listed.digests}))
            self._save_publisher(replace(changed, taken_back=digests))
            self.revoke(keys=tuple(set(listed.keys) & set(publisher.keys)))
        return listed

    def open_facts(self, statement: SignedStatement, check: VerifySignature) -> TeamFacts | None:
        """Return None when it is known already. Raises `ExchangeError` for an unknown publisher."""
        facts = open_statement(statement, "facts", TeamFacts, check)
        publisher = self.find(facts.publisher)
        self.check_key(statement.key)
        if statement.key != publisher.key:
            signer = shorten_key(statement.key)
            raise ExchangeError(f"facts of {facts.publisher!r} are signed by {signer}: not its key")
        if len(facts.statements) > MAX_TEAM_FACTS:
            raise ExchangeError(
                f"{len(facts.statements):,} facts at once are refused; at most {MAX_TEAM_FACTS:,}"
            )
        return facts if facts.number > publisher.facts_number else None

    def set_issuer(self, name: str, issuer: bool = True) -> None:
        """From now on; its list is applied again at the next fetch."""
        self._save_publisher(replace(self.find(name), issuer=issuer, list_number=0))

    def check_index(self, name: str, key: str, index: SeenIndex) -> None:
        """Raises `ExchangeError` for an index older than the last one; records a newer one."""
        publisher = self.state.publishers.get(name)
        seen = publisher.index if publisher is not None else self._unpinned_indexes.get(key)
        if seen is not None and index.number < seen.number:
            raise ExchangeError(
                f"index {index.number} of {name!r} is older than {seen.number} of "
                f"{seen.made:%Y-%m-%d}, which was seen already: an old index is being served"
            )
        if seen is not None and index.number == seen.number and index.digest != seen.digest:
            raise ExchangeError(
                f"two different indexes of {name!r} have the number {index.number}: refused; a "
                "publisher with two homes needs two names"
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
        self.find(name)
        remaining = {n: each for n, each in self.state.publishers.items() if n != name}
        self._write(replace(self.state, publishers=remaining))

    def _save_publisher(self, publisher: KnownPublisher) -> None:
        publishers = {**self.state.publishers, publisher.name: publisher}
        self._write(replace(self.state, publishers=publishers))

    def _read(self) -> KeyringState:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=KeyringState)
        except FileNotFoundError:
            return KeyringState()
        except msgspec.DecodeError as error:
            raise ExchangeError(
                f"{self._file} is damaged ({error}); nothing is trusted until it is repaired"
            ) from error

    def _write(self, known: KeyringState) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        data = msgspec.json.format(msgspec.json.encode(known), indent=1)
        write_atomically(self._file, data)
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
            "changes a skill must give it a new version"
        )


def _check_former_key(publisher: KnownPublisher, bundle: SkillBundle) -> None:
    """Only what a key signed before it was replaced stays valid.

    The signer wrote the date itself: against a stolen key only its revocation helps.
    """
    ended = publisher.ended.get(bundle.key)
    if ended is None or bundle.manifest.made >= ended.replace(microsecond=0):
        raise ExchangeError(_wrong_key_message(publisher, bundle.key))


def _wrong_key_message(publisher: KnownPublisher, key: str) -> str:
    known, used = shorten_key(publisher.key), shorten_key(key)
    if key in publisher.former:
        return f"key {used} of {publisher.name!r} was replaced by {known}"
    return (
        f"{publisher.name!r} is known here by key {known}, and this is signed by {used}: refused. "
        "If the key really changed, the index has a statement about it signed by the old key"
    )
