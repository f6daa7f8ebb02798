"""Verifies the audit log, as a journal or an export, against the signing key and the last head."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.errors import SettingsError, StoreError
from hermes.core.messages import Value
from hermes.memory.journal.verification import (
    EventVisitor,
    VerificationReport,
    verify,
    verify_export_lines,
)
from hermes.memory.store import StoreLocation, display_location, store_exists
from hermes.policy.audit.checkpoints import AuditFindings, AuditInspection
from hermes.policy.audit.head import AuditHead

PROGRESS_STEP_EVENTS = 5_000
"""Events between two progress reports."""

ProgressCallback = Callable[[int], None]


class AuditProof(Value, kw_only=True, frozen=True):
    """The key and the head that the log is verified against."""

    public: bytes | None = None
    head: AuditHead | None = None
    faults: tuple[str, ...] = ()
    """Problems of the key or the head themselves."""
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


def verify_journal(
    journal: StoreLocation, proof: AuditProof, progress: ProgressCallback | None = None
) -> AuditReport:
    """Raises `StoreError` when the journal cannot be read."""
    if not store_exists(journal) and proof.head is not None:
        gone = f"the journal {journal} is gone; {proof.head.seq} events were signed in it"
        return AuditReport(
            of=display_location(journal), status="tampered", problems=(gone, *proof.faults)
        )
    inspection = AuditInspection(proof.public, proof.head)
    report = verify(journal, visitor=_with_progress(inspection, progress))
    return _build_report(report, inspection, proof)


def verify_export(
    file: Path, proof: AuditProof, progress: ProgressCallback | None = None
) -> AuditReport:
    """Raises `StoreError` when the export cannot be read."""
    inspection = AuditInspection(proof.public, proof.head)
    report = verify_export_lines(
        _read_lines(file), name=str(file), visitor=_with_progress(inspection, progress)
    )
    return _build_report(report, inspection, proof)


def _read_lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise StoreError(f"cannot read {file}: {error.strerror}") from error


def _with_progress(inspection: AuditInspection, progress: ProgressCallback | None) -> EventVisitor:
    def see(seq: int, digest: bytes, event: object) -> None:
        inspection.add_event(seq, digest.hex(), event)
        if progress is not None and seq % PROGRESS_STEP_EVENTS == 0:
            progress(seq)

    return see


def _build_report(
    report: VerificationReport, inspection: AuditInspection, proof: AuditProof
) -> AuditReport:
    found: AuditFindings = inspection.findings()
    # A verification that stopped early did not reach the head.
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


def proof_of_home(home: Path, head_at: Path) -> AuditProof:
    """Return what a home knows about itself. Raises `SettingsError` when its key cannot be used."""
    from hermes.policy.audit.audit_key import (
        KEY_FILE_NAME,
        PUBLIC_KEY_FILE_NAME,
        read_own_public_key,
    )

    public, wrong = read_own_public_key(home)
    faults = [wrong] if wrong and public is not None else []
    head, problems = _read_head_file(head_at)
    alone = public is not None and not (home / KEY_FILE_NAME).exists()
    doubt = (
        f"{home / KEY_FILE_NAME} is missing: {PUBLIC_KEY_FILE_NAME} lies beside the journal and "
        "could have been replaced with it; verify with a public key that is kept elsewhere (--key "
        "FILE)"
    )
    return AuditProof(
        public=public,
        head=head,
        faults=tuple([*faults, *problems]),
        doubts=(doubt,) if alone else (),
    )


def proof_of_files(key: Path | None, head_at: Path | None) -> AuditProof:
    """The key and head that an auditor provides."""
    from hermes.policy.audit.audit_key import read_public_key

    head, problems = (None, []) if head_at is None else _read_head_file(head_at)
    public = None if key is None else read_public_key(key)
    return AuditProof(public=public, head=head, faults=tuple(problems))


def _read_head_file(file: Path) -> tuple[AuditHead | None, list[str]]:
    from hermes.policy.audit.head import read_head

    try:
        return read_head(file), []
    except SettingsError as error:
        return None, [str(error)]
