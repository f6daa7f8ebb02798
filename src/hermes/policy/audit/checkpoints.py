"""Verifies checkpoints over the journal's hash chain, which prove that it is unchanged."""

from collections.abc import Iterable

from hermes.core.errors import SettingsError
from hermes.core.events.operations import CheckpointSigned
from hermes.core.messages import Value
from hermes.policy.audit.head import AuditHead
from hermes.policy.audit.signer import (
    NO_PREVIOUS_DIGEST,
    checkpoint_digest,
    checkpoint_message,
    head_message,
    key_fingerprint,
)
from hermes.policy.signing import verify_bare_signature


def verify_signed_record(signed: CheckpointSigned | AuditHead, public: bytes) -> bool:
    """Return whether the signature is valid for this key."""
    if signed.key != key_fingerprint(public):
        return False
    message = head_message(signed) if isinstance(signed, AuditHead) else checkpoint_message(signed)
    return verify_bare_signature(public, signed.signature, message)


MAX_LISTED_PROBLEMS = 20
"""Problems that are listed individually."""


class AuditFindings(Value, kw_only=True, frozen=True):
    checkpoints: int = 0
    signed: int = 0
    """The last event that is covered by a signature; 0 for none."""
    last: int = 0
    key: str = ""
    """The fingerprint of the key that was used."""
    problems: tuple[str, ...] = ()
    """Proof that something was changed, removed, moved or cut off."""
    doubts: tuple[str, ...] = ()
    """What cannot be verified, and why."""

    @property
    def unsigned(self) -> int:
        """Events after the last signature: chained, but not signed yet."""
        return max(0, self.last - self.signed)


class AuditInspection:
    """Checks all events in order (`add_event`); `findings` returns the result."""

    def __init__(self, public: bytes | None, head: AuditHead | None) -> None:
        if public is not None and len(public) != 32:
            raise SettingsError("a public audit key has 32 bytes")
        self._public = public
        self._head = head
        self._problems: list[str] = []
        self._count = self._signed = 0
        self._before = (0, "")
        self._last: CheckpointSigned | None = None
        self._head_found: str | None = None
        self._foreign: dict[str, int] = {}

    def add_event(self, seq: int, digest: str, event: object) -> None:
        if self._head is not None and seq == self._head.seq:
            self._head_found = digest
        if isinstance(event, CheckpointSigned):
            self._count += 1
            if len(self._problems) < MAX_LISTED_PROBLEMS:
                self._problems += self._check(seq, event)
            self._last = event
        self._before = (seq, digest)

    def findings(self) -> AuditFindings:
        key = "" if self._public is None else key_fingerprint(self._public)
        of_head = list(self._check_head())
        problems = [*self._problems, *of_head, *self._foreign_key_problems()]
        covered = self._signed
        if self._head is not None and not of_head:
            covered = max(covered, self._head.seq)
        return AuditFindings(
            checkpoints=self._count,
            signed=covered if self._public is not None else 0,
            last=self._before[0],
            key=key,
            problems=tuple(problems),
            doubts=tuple(self._doubts()),
        )

    def _check(self, seq: int, event: CheckpointSigned) -> Iterable[str]:
        name = f"event {seq}, a signed checkpoint"
        if self._public is not None:
            if event.key != key_fingerprint(self._public):
                self._foreign[event.key] = self._foreign.get(event.key, 0) + 1
            elif not verify_signed_record(event, self._public):
                yield f"{name}: its signature does not fit, it was changed or forged"
                return
        if event.previous != (checkpoint_digest(self._last) if self._last else NO_PREVIOUS_DIGEST):
            yield f"{name}: it does not follow the checkpoint before it; one was removed or added"
        first = self._signed + 1
        if event.seq != self._before[0]:
            yield f"{name}: it was signed as event {event.seq + 1}; events were removed or moved"
        elif event.digest != self._before[1]:
            yield (
                f"{name}: among events {first} to {event.seq} one was changed, removed, added or "
                "moved after this was signed"
            )
        elif event.key not in self._foreign:
            self._signed = seq - 1

    def _check_head(self) -> Iterable[str]:
        head = self._head
        if head is None or self._public is None:
            return
        if head.key != key_fingerprint(self._public):
            yield f"the audit head was signed with another key ({head.key})"
        elif not verify_signed_record(head, self._public):
            yield "the signature of the audit head does not fit: it was changed or forged"
        elif self._head_found is None:
            gone = f"events {self._before[0] + 1} to {head.seq} are gone"
            yield f"the journal was cut off: it ends at event {self._before[0]}, {gone}"
        elif self._head_found != head.digest:
            yield (
                f"event {head.seq} is not the checkpoint that the audit head names: something up "
                "to it was changed, removed or moved"
            )

    def _foreign_key_problems(self) -> Iterable[str]:
        for key, count in self._foreign.items():
            yield f"{count} checkpoints were signed with another key ({key})"

    def _doubts(self) -> Iterable[str]:
        if self._public is None:
            yield "there is no public key to verify signatures with"
        if self._count == 0:
            yield "nothing in it is signed: whoever can write the file could have changed it"
        if self._head is None:
            yield (
                "there is no audit head: that its end was cut off, or that checkpoints were "
                "removed with it, cannot be excluded"
            )
