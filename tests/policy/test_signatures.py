"""What a key vouches for in one place counts in no other."""

from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pytest

from hermes.core.errors import SettingsError
from hermes.core.events.operations import CheckpointSigned
from hermes.policy.audit.checkpoints import verify_signed_record
from hermes.policy.audit.head import AuditHead
from hermes.policy.audit.signer import NO_PREVIOUS_DIGEST, AuditSigner, key_fingerprint
from hermes.policy.signing import (
    SigningKeyPair,
    domain_message,
    read_or_create_key,
    verify_bare_signature,
    verify_signature,
)

PRIVATE = bytes(range(32))
PAIR = SigningKeyPair(PRIVATE)
DOMAINS = ("exchange.manifest", "exchange.index", "exchange.facts", "exchange.revocations")


def test_a_signature_holds_for_its_domain_its_message_and_its_key() -> None:
    signed = PAIR.sign("exchange.index", b"hello")
    assert verify_signature(PAIR.public, signed, "exchange.index", b"hello")
    assert not verify_signature(PAIR.public, signed, "exchange.index", b"hellp")
    assert not verify_signature(
        SigningKeyPair(bytes(32)).public, signed, "exchange.index", b"hello"
    )
    assert not verify_signature(PAIR.public, "zz", "exchange.index", b"hello")
    assert not verify_signature(b"short", signed, "exchange.index", b"hello")


@pytest.mark.parametrize(("one", "other"), list(permutations(DOMAINS, 2)))
def test_a_signature_for_one_domain_is_none_for_another(one: str, other: str) -> None:
    assert not verify_signature(PAIR.public, PAIR.sign(one, b"x"), other, b"x")


def test_where_a_domain_ends_cannot_be_shifted() -> None:
    signed = PAIR.sign("exchange", b".index\0x")
    assert not verify_signature(PAIR.public, signed, "exchange.index", b"x")
    for bad in ("", "a\0b"):
        with pytest.raises(SettingsError, match="no domain"):
            domain_message(bad, b"x")


def test_a_signature_of_the_audit_log_is_none_of_the_exchange_and_none_the_other_way() -> None:
    signer = AuditSigner(PAIR)
    assert signer.public == PAIR.public
    checkpoint = signer.sign(7, "a" * 64)
    head = signer.sign_head(7, "a" * 64)
    for signature in (checkpoint.signature, head.signature):
        for domain in DOMAINS:
            for message in (b"", b'["hermes audit checkpoint 1",7]'):
                assert not verify_signature(PAIR.public, signature, domain, message)
    key = key_fingerprint(PAIR.public)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    forged = PAIR.sign("exchange.manifest", b'["hermes audit head 1",7]')
    claim = CheckpointSigned(
        run="audit",
        seq=7,
        digest="a" * 64,
        at=at,
        previous=NO_PREVIOUS_DIGEST,
        key=key,
        signature=forged,
    )
    assert not verify_signed_record(claim, PAIR.public)
    assert not verify_signed_record(
        AuditHead(seq=7, digest="a" * 64, at=at, key=key, signature=forged), PAIR.public
    )


def test_the_audit_log_keeps_its_format() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    signed = AuditSigner(PAIR).sign(3, "b" * 64, at=at)
    key = key_fingerprint(PAIR.public)
    message = (
        f'["hermes audit checkpoint 1",3,"{"b" * 64}","2026-01-02T03:04:05Z","{"0" * 64}","{key}"]'
    )
    assert verify_bare_signature(PAIR.public, signed.signature, message.encode())


def test_a_key_is_made_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "exchange" / "signing.key"
    made = read_or_create_key(file)
    assert read_or_create_key(file) == made
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_or_create_key(file)
