"""Each event carries a digest over all events before it: an edit, a hole or a swap is seen.

digest = H(digest before ‖ H(body) ‖ kind, run, at). Only the hash of the body goes in, so the text
of a deleted run can leave the store: its hash stays in its place and the chain still holds.

Whoever can write the file can also compute a new chain, and a cut-off tail leaves a shorter chain
that is whole. Only signed checkpoints (`sealing`) and a head kept elsewhere find that.
"""

from hashlib import sha256

import msgspec

GENESIS = bytes(32)
"""Stands before the first event."""


def hash_text(text: bytes) -> bytes:
    return sha256(text).digest()


def link(before: bytes, body_hash: bytes, kind: str, run: str, at: int) -> bytes:
    head = msgspec.json.encode((kind, run, at))  # says where each part ends
    return sha256(before + body_hash + head).digest()
