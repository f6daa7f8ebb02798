"""Whom this home knows: the first key of each publisher, its successors, what was taken back."""

import os
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.bundle import Bundle, Manifest
from hermes.skills.exchange.known import Installed, Known, Publisher, SeenIndex
from hermes.skills.exchange.sealing import Check, Sealed, opened, short
from hermes.skills.exchange.statements import Revocations, Rotation

FILE = "keyring.json"


class Keyring:
    """Kept in a file of the home; every change is written whole, and then put in its place."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self.known = self._read()
        self._glimpsed: dict[str, SeenIndex] = {}

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
            seen = self._glimpsed.get(key)
            publisher = Publisher(name=name, key=key, address=address, index=seen)
        elif publisher.key != key:
            raise Refused(_other_key(publisher, key))
        elif address:
            publisher = replace(publisher, address=address)
        self._put(publisher)
        return publisher

    def _one_name(self, name: str, key: str) -> None:
        held = next((p for p in self.known.publishers.values() if key in p.keys), None)
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
        known = self.known.publishers.get(manifest.publisher)
        own = known.taken_back if known is not None else ()
        if manifest.digest in (*self.known.revoked_digests, *own):
            raise Refused(
                f"{manifest.name} {manifest.digest[:12]} was revoked by its publisher or here"
            )
        self._one_name(manifest.publisher, bundle.key)
        if known is not None and known.key != bundle.key:
            _check_former(known, bundle)
        if known is not None and manifest.name in known.versions:
            _only_up(manifest, *known.versions[manifest.name])
        return known

    def accept(self, bundle: Bundle, folder: str = "") -> None:
        """Pins its publisher, remembers the version, and as which skill it lies here."""
        manifest = bundle.manifest
        publisher = self.known.publishers.get(manifest.publisher)
        if publisher is None or bundle.key not in publisher.former:
            publisher = self.pin(manifest.publisher, bundle.key)
        versions = {**publisher.versions, manifest.name: (manifest.version, manifest.digest)}
        self._put(replace(publisher, versions=versions))
        if folder:
            one = Installed(
                publisher=manifest.publisher,
                key=bundle.key,
                version=manifest.version,
                digest=manifest.digest,
            )
            self._install(folder, one)

    def fell(self, folder: str, why: str) -> None:
        """It lost its state over what was revoked; that is not done a second time."""
        self._install(folder, replace(self.known.installed[folder], fallen=why))

    def _install(self, folder: str, one: Installed) -> None:
        self._write(replace(self.known, installed={**self.known.installed, folder: one}))

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
        changed = replace(
            publisher,
            key=rotation.new,
            former=(*publisher.former, publisher.key),
            ended={**publisher.ended, publisher.key: rotation.at},
            said=(*publisher.said, sealed),
        )
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
        changed = replace(
            publisher,
            list_number=listed.number,
            said=(*(each for each in publisher.said if each.kind != sealed.kind), sealed),
        )
        if publisher.issuer:
            self._put(changed)
            self.revoke(keys=listed.keys, digests=listed.digests)
        else:
            digests = tuple(sorted({*publisher.taken_back, *listed.digests}))
            self._put(replace(changed, taken_back=digests))
            self.revoke(keys=tuple(set(listed.keys) & set(publisher.keys)))
        return listed

    def make_issuer(self, name: str, issuer: bool = True) -> None:
        """From now on; its list is read again in that light the next time it is seen."""
        self._put(replace(self.find(name), issuer=issuer, list_number=0))

    def check_index(self, name: str, key: str, index: SeenIndex) -> None:
        """Raises `Refused` for one that is older than what was seen, and remembers a newer one."""
        publisher = self.known.publishers.get(name)
        seen = publisher.index if publisher is not None else self._glimpsed.get(key)
        if seen is not None and index.number < seen.number:
            raise Refused(
                f"index {index.number} of {name!r} is older than {seen.number} of "
                f"{seen.made:%Y-%m-%d}, which was seen already: somebody hands out the past"
            )
        if seen is not None and index.number == seen.number and index.digest != seen.digest:
            raise Refused(
                f"two different indexes of {name!r} have the number {index.number}: refused; a "
                "publisher who works in two places needs two names"
            )
        if publisher is None:
            self._glimpsed[key] = index
        elif index != seen:
            self._put(replace(publisher, index=index))

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


def _check_former(publisher: Publisher, bundle: Bundle) -> None:
    """What a key signed before another took its place stays valid, and nothing after that.

    The time is what the signer wrote: against a stolen key only its revocation helps.
    """
    ended = publisher.ended.get(bundle.key)
    if ended is None or bundle.manifest.made >= ended.replace(microsecond=0):
        raise Refused(_other_key(publisher, bundle.key))


def _other_key(publisher: Publisher, key: str) -> str:
    if key in publisher.former:
        return f"key {short(key)} of {publisher.name!r} was replaced by {short(publisher.key)}"
    return (
        f"{publisher.name!r} is known here by key {short(publisher.key)}, and this is signed by "
        f"{short(key)}: refused. If the key really changed, its publisher has a statement signed "
        "by the old one; the index carries it"
    )
