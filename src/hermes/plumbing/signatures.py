"""Signatures of HTTP bodies: HMAC-SHA256 with a shared secret, over the bytes as they were sent.

There are two forms: of the body alone, as GitHub and WhatsApp sign, and of a time and the body, as
we sign, so that a recorded request is of no use later. Both are compared in constant time.
"""

import hashlib
import hmac

SIGNATURE_PREFIX = "sha256="
BODY_SIGNATURE_HEADER = "X-Hub-Signature-256"
TIMED_SIGNATURE_HEADER = "X-Hermes-Signature"
TIME_HEADER = "X-Hermes-Timestamp"
MAX_CLOCK_DIFFERENCE_S = 300.0


def sign_body(secret: str, body: bytes) -> str:
    return SIGNATURE_PREFIX + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def sign_timed_body(secret: str, stamp: str, body: bytes) -> str:
    """`stamp`: seconds since 1970, as text."""
    return sign_body(secret, stamp.encode("utf-8", "surrogateescape") + b"." + body)


def body_signature_matches(secret: str, body: bytes, signature: str) -> bool:
    """False as well where there is no secret: nothing can be signed then."""
    return bool(secret) and _same(sign_body(secret, body), signature)


def timed_signature_matches(secret: str, stamp: str, body: bytes, signature: str) -> bool:
    """Return whether the signature is right; the time is checked with `is_current`."""
    return bool(secret) and _same(sign_timed_body(secret, stamp, body), signature)


def is_current(stamp: str, now_s: float) -> bool:
    """Return whether a request was signed within a few minutes of now."""
    if not (stamp.isascii() and stamp.isdigit()) or len(stamp) > 12:
        return False
    return abs(int(stamp) - now_s) <= MAX_CLOCK_DIFFERENCE_S


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))
