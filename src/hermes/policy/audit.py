"""Signed checkpoints over the journal's hash chain: the proof that no one rewrote the past.

A checkpoint says: at this moment, the event with this number carried this digest. Each names the
digest of the checkpoint before it, so that none can be left out. Whoever holds the public key can
verify; only the holder of `audit.key` can sign. Loaded only when something is signed or verified,
because the library behind it takes 60 ms.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hermes.core.errors import SettingsError
from hermes.core.messages import Value

KEY_FILE, PUBLIC_FILE = "audit.key", "audit.pub"
FIRST = "0" * 64
"""Stands before the first checkpoint."""


class Checkpoint(Value, kw_only=True, frozen=True):
    seq: int
    digest: str
    """Hex, of the event with that number: the head of the chain at that moment."""
    at: datetime
    previous: str = FIRST
    """`digest_of` the checkpoint before this one."""
    key: str
    """Fingerprint of the public key."""
    signature: str = ""


class Signer:
    """Holds the private key of one home."""

    def __init__(self, private: bytes) -> None:
        """Raises `SettingsError` when it is no key."""
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(private)
        except ValueError as error:
            raise SettingsError(f"the audit key is damaged: {error}") from error
        self.public = self._key.public_key().public_bytes_raw()

    def sign(
        self, seq: int, digest: str, *, after: Checkpoint | None = None, at: datetime | None = None
    ) -> Checkpoint:
        unsigned = Checkpoint(
            seq=seq,
            digest=digest,
            at=at or datetime.now(UTC),
            previous=digest_of(after) if after else FIRST,
            key=fingerprint_of(self.public),
        )
        signature = self._key.sign(_message(unsigned)).hex()
        return msgspec.structs.replace(unsigned, signature=signature)


def verify(checkpoint: Checkpoint, public: bytes) -> bool:
    """Whether the holder of that key signed exactly this."""
    if checkpoint.key != fingerprint_of(public):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        key.verify(bytes.fromhex(checkpoint.signature), _message(checkpoint))
    except (ValueError, InvalidSignature):
        return False
    return True


def verify_chain(
    checkpoints: Iterable[Checkpoint], public: bytes, digest_at: Callable[[int], str | None]
) -> Iterator[str]:
    """Everything that is wrong. `digest_at` gives the digest of an event, None if it is gone."""
    before: Checkpoint | None = None
    for checkpoint in checkpoints:
        name = f"the checkpoint at event {checkpoint.seq}"
        if not verify(checkpoint, public):
            yield f"{name} was not signed with this key"
        if checkpoint.previous != (digest_of(before) if before else FIRST):
            yield f"{name} does not follow the one before it: one was removed, added or moved"
        if before is not None and checkpoint.seq < before.seq:
            yield f"{name} comes after one at event {before.seq}"
        found = digest_at(checkpoint.seq)
        if found is None:
            yield f"{name}: that event is gone, the journal was cut off"
        elif found != checkpoint.digest:
            yield f"{name}: an event up to it was changed, removed or moved"
        before = checkpoint


def digest_of(checkpoint: Checkpoint) -> str:
    return hashlib.sha256(_message(checkpoint) + checkpoint.signature.encode()).hexdigest()


def fingerprint_of(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]


def open_signer(home: Path) -> Signer:
    """The signer of a home; its key is made the first time. Raises `SettingsError`."""
    file = home / KEY_FILE
    try:
        return Signer(_read_key(file))
    except FileNotFoundError:
        signer = Signer(_make_key(file))
        (home / PUBLIC_FILE).write_text(signer.public.hex() + "\n")
        return signer


def read_public(home: Path) -> bytes:
    """The public key of a home. Raises `SettingsError` when there is none."""
    try:
        return bytes.fromhex((home / PUBLIC_FILE).read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"no public audit key in {home}: {error}") from error


def _read_key(file: Path) -> bytes:
    status = file.stat()
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{file} can be read by others: chmod 600 {file}")
    try:
        return bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"the audit key {file} cannot be read: {error}") from error


def _make_key(file: Path) -> bytes:
    """Written whole and then put in its place: of two processes, one wins and both see its key."""
    private = os.urandom(32)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{KEY_FILE}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(private.hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, file)
    except FileExistsError:
        return _read_key(file)
    finally:
        Path(temporary).unlink()
    return private


def _message(checkpoint: Checkpoint) -> bytes:
    parts = (
        "hermes audit checkpoint 1",
        checkpoint.seq,
        checkpoint.digest,
        checkpoint.at,
        checkpoint.previous,
        checkpoint.key,
    )
    return msgspec.json.encode(parts)
