"""Signatures of bodies: which times and which signatures count."""

from hermes.plumbing.signatures import (
    body_signature_matches,
    is_current,
    sign_body,
    sign_timed_body,
    timed_signature_matches,
)


def test_a_time_counts_within_five_minutes_of_now() -> None:
    assert is_current("1000", 1300.0)
    assert is_current("1300", 1000.0)
    assert not is_current("1000", 1301.0)
    assert not is_current("1301", 1000.0)


def test_what_is_no_time_does_not_count() -> None:
    for stamp in ("", "-1000", "1000.0", " 1000", "١٠٠٠", "1" * 13, "nan"):
        assert not is_current(stamp, 1000.0), stamp


def test_a_signature_counts_for_its_secret_time_and_body_alone() -> None:
    signature = sign_timed_body("s", "1000", b"body")
    assert timed_signature_matches("s", "1000", b"body", signature)
    assert not timed_signature_matches("t", "1000", b"body", signature)
    assert not timed_signature_matches("s", "1001", b"body", signature)
    assert not timed_signature_matches("s", "1000", b"Body", signature)
    assert not body_signature_matches("s", b"body", signature)
    assert body_signature_matches("s", b"body", sign_body("s", b"body"))


def test_without_a_secret_nothing_is_signed() -> None:
    assert not body_signature_matches("", b"body", sign_body("", b"body"))
    assert not timed_signature_matches("", "1", b"body", sign_timed_body("", "1", b"body"))
    assert not body_signature_matches("s", b"body", "ß\udcff")
