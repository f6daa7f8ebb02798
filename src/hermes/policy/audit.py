"""Signed checkpoints over the journal's hash chain: the proof that no one rewrote the past.

A checkpoint says: the event right before me carried this digest. Each names the digest of the
checkpoint before it. The head, kept outside the journal, says the same of the newest checkpoint
itself, so that a cut-off tail is seen. Whoever holds the public key can verify; only the holder of
`audit.key` can sign. Loaded only when something is signed or verified: the library behind it
takes 20 ms.
"""

import hashlib
from datetime import UTC, datetime

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.events.audit import CheckpointSigned
from hermes.policy.audit_head import Head
from hermes.policy.signatures import KeyPair, verify_bare

RUN = "audit"
"""Checkpoints belong to no conversation."""
FIRST = "0" * 64
"""Stands before the first checkpoint."""


class Signer:
    """Holds the private key of one home."""

    def __init__(self, private: bytes) -> None:
        """Raises `SettingsError` when it is no key."""
        try:
            self._key = KeyPair(private)
        except SettingsError as error:
            raise SettingsError(f"the audit key is damaged: {error}") from error
        self.public = self._key.public

    def sign(
        self,
        seq: int,
        digest: str,
        *,
        after: CheckpointSigned | None = None,
        at: datetime | None = None,
    ) -> CheckpointSigned:
        unsigned = CheckpointSigned(
            run=RUN,
            seq=seq,
            digest=digest,
            at=at or datetime.now(UTC),
            previous=digest_of(after) if after else FIRST,
            key=fingerprint_of(self.public),
            signature="",
        )
        signature = self._key.sign_bare(_checkpoint_message(unsigned))
        return msgspec.structs.replace(unsigned, signature=signature)

    def sign_head(self, seq: int, digest: str) -> Head:
        """`seq` and `digest` of the newest checkpoint as it stands in the journal."""
        key = fingerprint_of(self.public)
        unsigned = Head(seq=seq, digest=digest, at=datetime.now(UTC), key=key)
        return msgspec.structs.replace(
            unsigned, signature=self._key.sign_bare(_head_message(unsigned))
        )


def verify(signed: CheckpointSigned | Head, public: bytes) -> bool:
    """Whether the holder of that key signed exactly this."""
    if signed.key != fingerprint_of(public):
        return False
    message = _head_message(signed) if isinstance(signed, Head) else _checkpoint_message(signed)
    return verify_bare(public, signed.signature, message)


def digest_of(checkpoint: CheckpointSigned) -> str:
    message = _checkpoint_message(checkpoint)
    return hashlib.sha256(message + checkpoint.signature.encode()).hexdigest()


def fingerprint_of(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]


def _checkpoint_message(signed: CheckpointSigned) -> bytes:
    parts = (signed.seq, signed.digest, signed.at, signed.previous, signed.key)
    return msgspec.json.encode(("hermes audit checkpoint 1", *parts))


def _head_message(head: Head) -> bytes:
    # Another first word: a head can never be passed off as a checkpoint.
    return msgspec.json.encode(("hermes audit head 1", head.seq, head.digest, head.at, head.key))
