"""Holds the events of a journal, or of an export, against what was signed about them."""

from collections.abc import Iterable

from hermes.core.errors import SettingsError
from hermes.core.events.audit import CheckpointSigned
from hermes.core.messages import Value
from hermes.policy.audit import FIRST, digest_of, fingerprint_of, verify
from hermes.policy.audit_head import Head

SHOWN = 20
"""Problems that are listed one by one."""


class Findings(Value, kw_only=True, frozen=True):
    checkpoints: int = 0
    signed: int = 0
    """The last event that a signature covers, 0 when none does."""
    last: int = 0
    key: str = ""
    """Fingerprint of the key that was held against it."""
    problems: tuple[str, ...] = ()
    """Proof that something was changed, removed, moved or cut off."""
    doubts: tuple[str, ...] = ()
    """What cannot be proven either way, and why."""

    @property
    def unsigned(self) -> int:
        """Events that came after the last signature: chained, not yet signed."""
        return max(0, self.last - self.signed)


class Inspection:
    """Shown every event in order with `see`; `findings` says what came of it."""

    def __init__(self, public: bytes | None, head: Head | None) -> None:
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

    def see(self, seq: int, digest: str, event: object) -> None:
        if self._head is not None and seq == self._head.seq:
            self._head_found = digest
        if isinstance(event, CheckpointSigned):
            self._count += 1
            if len(self._problems) < SHOWN:
                self._problems += self._check(seq, event)
            self._last = event
        self._before = (seq, digest)

    def findings(self) -> Findings:
        key = "" if self._public is None else fingerprint_of(self._public)
        of_head = list(self._check_head())
        problems = [*self._problems, *of_head, *self._foreigners()]
        covered = self._signed
        if self._head is not None and not of_head:
            covered = max(covered, self._head.seq)
        return Findings(
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
            if event.key != fingerprint_of(self._public):
                self._foreign[event.key] = self._foreign.get(event.key, 0) + 1
            elif not verify(event, self._public):
                yield f"{name}: its signature does not fit, it was changed or forged"
                return
        if event.previous != (digest_of(self._last) if self._last else FIRST):
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
        if head.key != fingerprint_of(self._public):
            yield f"the audit head was signed with another key ({head.key})"
        elif not verify(head, self._public):
            yield "the signature of the audit head does not fit: it was changed or forged"
        elif self._head_found is None:
            gone = f"events {self._before[0] + 1} to {head.seq} are gone"
            yield f"the journal was cut off: it ends at event {self._before[0]}, {gone}"
        elif self._head_found != head.digest:
            yield (
                f"event {head.seq} is not the checkpoint that the audit head names: something up "
                "to it was changed, removed or moved"
            )

    def _foreigners(self) -> Iterable[str]:
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
