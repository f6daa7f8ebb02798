"""A signed checkpoint proves what the journal's end was; only the key can make one."""

import os
import signal
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import SettingsError, StoreError
from hermes.core.events import decode_event, encode_event
from hermes.core.events.operations import CheckpointSigned
from hermes.policy.audit.audit_key import open_audit_key, read_own_public_key, read_public_key
from hermes.policy.audit.checkpoints import AuditInspection, verify_signed_record
from hermes.policy.audit.head import AuditHead, head_file, read_head, write_head
from hermes.policy.audit.signer import (
    NO_PREVIOUS_DIGEST,
    AuditSigner,
    SigningProcess,
    checkpoint_digest,
)
from hermes.policy.signing import SigningKeyPair

SIGNER = AuditSigner(SigningKeyPair(bytes(range(32))))
AT = datetime(2026, 3, 2, tzinfo=UTC)


def chain(count: int = 3, signer: AuditSigner = SIGNER) -> list[tuple[int, str, object]]:
    """Two events and a checkpoint, again and again."""
    made: list[tuple[int, str, object]] = []
    last: CheckpointSigned | None = None
    for number in range(count):
        first = 3 * number + 1
        made += [(first, f"{first:064x}", None), (first + 1, f"{first + 1:064x}", None)]
        last = signer.sign(first + 1, f"{first + 1:064x}", after=last, at=AT)
        made.append((first + 2, f"{first + 2:064x}", last))
    return made


def inspect(
    rows: list[tuple[int, str, object]],
    head: AuditHead | None,
    public: bytes | None = SIGNER.public,
) -> AuditInspection:
    inspection = AuditInspection(public, head)
    for row in rows:
        inspection.add_event(*row)
    return inspection


HEAD = SIGNER.sign_head(9, f"{9:064x}")


def test_what_was_signed_verifies() -> None:
    found = inspect(chain(), HEAD).findings()
    assert (found.problems, found.doubts) == ((), ())
    assert (found.checkpoints, found.signed, found.unsigned) == (3, 9, 0)


def test_what_came_after_the_last_signature_is_counted() -> None:
    found = inspect([*chain(), (10, "aa", None), (11, "bb", None)], HEAD).findings()
    assert (found.problems, found.unsigned) == ((), 2)


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 11},
        {"digest": "0" * 64},
        {"at": AT + timedelta(seconds=1)},
        {"previous": "1" * 64},
        {"key": "0" * 16},
        {"signature": "00" * 64},
        {"signature": "not hex"},
        {"signature": ""},
    ],
    ids=str,
)
def test_any_change_of_a_checkpoint_is_seen(change: dict[str, object]) -> None:
    checkpoint = SIGNER.sign(10, "a" * 64, at=AT)
    assert verify_signed_record(checkpoint, SIGNER.public)
    assert not verify_signed_record(msgspec.structs.replace(checkpoint, **change), SIGNER.public)


def test_a_head_is_no_checkpoint_and_a_checkpoint_no_head() -> None:
    head = SIGNER.sign_head(10, "a" * 64)
    fields = {name: getattr(head, name) for name in ("seq", "digest", "at", "key", "signature")}
    passed_off = CheckpointSigned(run="audit", previous=NO_PREVIOUS_DIGEST, **fields)
    assert verify_signed_record(head, SIGNER.public)
    assert not verify_signed_record(passed_off, SIGNER.public)


def test_another_key_proves_nothing() -> None:
    other = AuditSigner(SigningKeyPair(bytes(32)))
    assert not verify_signed_record(other.sign(10, "a" * 64), SIGNER.public)
    found = inspect(chain(signer=other), other.sign_head(9, f"{9:064x}")).findings()
    assert "3 checkpoints were signed with another key" in found.problems[-1]
    assert found.signed == 0


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_journal_that_ends_before_its_head_was_cut_off(cut: int) -> None:
    found = inspect(chain()[:-cut], HEAD).findings()
    assert f"it ends at event {9 - cut}" in found.problems[-1]


def test_a_changed_event_is_located_between_two_signatures() -> None:
    rows = chain()
    for at in range(4, 9):  # whoever changes an event computes all later digests anew
        rows[at] = (rows[at][0], f"{at:064x}f", rows[at][2])
    (first, *_) = inspect(rows, HEAD).findings().problems
    assert "event 6" in first
    assert "among events 3 to 5" in first


def test_without_a_head_or_a_key_it_is_not_called_fine() -> None:
    assert "no audit head" in inspect(chain(), None).findings().doubts[0]
    assert "no public key" in inspect(chain(), HEAD, public=None).findings().doubts[0]
    assert "nothing in it is signed" in inspect([], HEAD).findings().doubts[0]


def test_a_checkpoint_survives_the_journal() -> None:
    checkpoint = SIGNER.sign(10, "a" * 64, at=AT)
    again = decode_event(checkpoint.kind, encode_event(checkpoint))
    assert isinstance(again, CheckpointSigned)
    assert verify_signed_record(again, SIGNER.public)
    assert checkpoint_digest(again) == checkpoint_digest(checkpoint)


def test_the_key_is_made_once_and_for_nobody_else(tmp_path: Path) -> None:
    key = open_audit_key(tmp_path)
    assert stat.S_IMODE((tmp_path / "audit.key").stat().st_mode) == 0o600
    assert open_audit_key(tmp_path).public == key.public == read_public_key(tmp_path / "audit.pub")
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    open_audit_key(tmp_path)
    (tmp_path / "audit.key").chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        open_audit_key(tmp_path)


@pytest.mark.parametrize("content", ["", "zz", "00" * 31])
def test_a_damaged_key_is_told_and_never_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "audit.key"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(SettingsError, match="audit key"):
        open_audit_key(tmp_path)
    assert file.read_text() == content


@pytest.mark.parametrize("content", [None, "zz", "00" * 31])
def test_without_a_public_key_nothing_is_verified(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "audit.pub").write_text(content)
    with pytest.raises(SettingsError, match="no public audit key"):
        read_public_key(tmp_path / "audit.pub")
    public, wrong = read_own_public_key(tmp_path)
    assert public is None
    assert "no public audit key" in wrong


def test_the_private_key_knows_its_public_half(tmp_path: Path) -> None:
    key = open_audit_key(tmp_path)
    (tmp_path / "audit.pub").write_text(SigningKeyPair(bytes(32)).public.hex())
    public, wrong = read_own_public_key(tmp_path)
    assert public == key.public
    assert "it was replaced" in wrong


@pytest.mark.command
def test_a_process_signs_with_the_same_key_and_leaves_no_process(tmp_path: Path) -> None:
    before = child_processes()
    process = SigningProcess(tmp_path)
    try:
        assert process.public == read_public_key(tmp_path / "audit.pub")
        checkpoint = AuditSigner(process).sign(10, "a" * 64, at=AT)
        assert process.sign_bare(b"\n") == open_audit_key(tmp_path).sign_bare(b"\n")
    finally:
        process.close()
    assert checkpoint == AuditSigner(open_audit_key(tmp_path)).sign(10, "a" * 64, at=AT)
    assert child_processes() == before


@pytest.mark.command
def test_a_process_refuses_a_key_with_the_same_words(tmp_path: Path) -> None:
    for home, content, mode in (("open", "00" * 32, 0o644), ("damaged\nhome", "zz", 0o600)):
        file = tmp_path / home / "audit.key"
        file.parent.mkdir()
        file.write_text(content)
        file.chmod(mode)
        with pytest.raises(SettingsError) as here:
            open_audit_key(file.parent)
        with pytest.raises(SettingsError) as elsewhere:
            SigningProcess(file.parent)
        assert str(elsewhere.value) == str(here.value).replace("\n", " ")


@pytest.mark.command
def test_a_process_reports_a_home_that_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(NotADirectoryError):
        SigningProcess(tmp_path / "home")


@pytest.mark.command
def test_a_process_that_dies_is_reported(tmp_path: Path) -> None:
    before = child_processes()
    process = SigningProcess(tmp_path)
    try:
        (child,) = child_processes() - before
        os.kill(child, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(StoreError, match="the process that signs failed"):
                process.sign_bare(b"message")
    finally:
        process.close()


def child_processes() -> set[int]:
    """Those of this thread, zombies too: other tests of this process may have left some."""
    file = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return set(map(int, file.read_text().split()))


def test_the_newest_head_wins_whoever_comes_last(tmp_path: Path) -> None:
    file = tmp_path / "audit.head"
    for seq in (5, 9, 7):
        write_head(file, SIGNER.sign_head(seq, "a" * 64))
    kept = read_head(file)
    assert kept is not None
    assert kept.seq == 9


def test_a_damaged_head_is_told(tmp_path: Path) -> None:
    file = tmp_path / "audit.head"
    file.write_text("{")
    with pytest.raises(SettingsError, match="audit head"):
        read_head(file)


def test_each_journal_of_a_home_has_a_head_of_its_own(tmp_path: Path) -> None:
    usual = head_file(tmp_path, str(tmp_path / "journal.db"))
    assert usual.name == "audit.head"
    assert head_file(tmp_path, "/elsewhere.db") not in (usual, head_file(tmp_path, "/other.db"))
