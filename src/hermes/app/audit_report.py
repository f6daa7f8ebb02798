"""Is the audit log what was written? Journal or export, key and head joined into one answer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.errors import SettingsError, StoreError
from hermes.core.messages import Value
from hermes.memory.exported import verify_lines
from hermes.memory.opening import Place, exists, shown, verify
from hermes.memory.verification import Report, See
from hermes.policy.audit_check import Findings, Inspection
from hermes.policy.audit_head import Head

STEP = 5_000
"""Events between two signs of life."""

Progress = Callable[[int], None]


class Proof(Value, kw_only=True, frozen=True):
    """What verification is held against."""

    public: bytes | None = None
    head: Head | None = None
    faults: tuple[str, ...] = ()
    """What is wrong with key or head themselves."""
    doubts: tuple[str, ...] = ()
    """Why they prove less than they seem to."""


class AuditReport(Value, kw_only=True, frozen=True):
    of: str
    status: Literal["verified", "tampered", "unproven"]
    events: int = 0
    checkpoints: int = 0
    signed_to: int = 0
    """The last event that a signature covers."""
    unsigned: int = 0
    """Events after it: chained, not yet signed."""
    purged: int = 0
    key: str = ""
    first_broken: int | None = None
    problems: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def verify_journal(journal: Place, proof: Proof, progress: Progress | None = None) -> AuditReport:
    """Raises `StoreError` when it cannot look."""
    if not exists(journal) and proof.head is not None:
        gone = f"the journal {journal} is gone; {proof.head.seq} events were signed in it"
        return AuditReport(of=shown(journal), status="tampered", problems=(gone, *proof.faults))
    inspection = Inspection(proof.public, proof.head)
    report = verify(journal, see=_watched(inspection, progress))
    return _joined(report, inspection, proof)


def verify_export(file: Path, proof: Proof, progress: Progress | None = None) -> AuditReport:
    """Raises `StoreError` when it cannot look."""
    inspection = Inspection(proof.public, proof.head)
    report = verify_lines(_lines(file), name=str(file), see=_watched(inspection, progress))
    return _joined(report, inspection, proof)


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise StoreError(f"cannot read {file}: {error.strerror}") from error


def _watched(inspection: Inspection, progress: Progress | None) -> See:
    def see(seq: int, digest: bytes, event: object) -> None:
        inspection.see(seq, digest.hex(), event)
        if progress is not None and seq % STEP == 0:
            progress(seq)

    return see


def _joined(report: Report, inspection: Inspection, proof: Proof) -> AuditReport:
    found: Findings = inspection.findings()
    # A walk that was given up in the middle did not come as far as the head.
    signed = found.problems if found.last >= report.last else ()
    problems = (*report.problems, *signed, *proof.faults)
    doubts = () if problems else (*found.doubts, *proof.doubts)
    return AuditReport(
        of=report.path,
        status="tampered" if problems else "unproven" if doubts else "verified",
        events=report.events,
        checkpoints=found.checkpoints,
        signed_to=0 if problems else found.signed,
        unsigned=0 if problems else found.unsigned,
        purged=report.purged,
        key=found.key,
        first_broken=report.first_broken,
        problems=problems,
        doubts=doubts,
    )


def proof_of_home(home: Path, head_at: Path) -> Proof:
    """What a home knows about itself. Raises `SettingsError` when its key cannot be used."""
    from hermes.policy.audit_key import KEY_FILE, PUBLIC_FILE, own_public

    public, wrong = own_public(home)
    faults = [wrong] if wrong and public is not None else []
    head, trouble = _head(head_at)
    alone = public is not None and not (home / KEY_FILE).exists()
    doubt = (
        f"{home / KEY_FILE} is missing: {PUBLIC_FILE} lies beside the journal and could have been "
        "replaced with it; verify with a public key that is kept elsewhere (--key FILE)"
    )
    return Proof(
        public=public,
        head=head,
        faults=tuple([*faults, *trouble]),
        doubts=(doubt,) if alone else (),
    )


def proof_of_files(key: Path | None, head_at: Path | None) -> Proof:
    """What an auditor brought along."""
    from hermes.policy.audit_key import read_public

    head, trouble = (None, []) if head_at is None else _head(head_at)
    public = None if key is None else read_public(key)
    return Proof(public=public, head=head, faults=tuple(trouble))


def _head(file: Path) -> tuple[Head | None, list[str]]:
    from hermes.policy.audit_head import read_head

    try:
        return read_head(file), []
    except SettingsError as error:
        return None, [str(error)]
