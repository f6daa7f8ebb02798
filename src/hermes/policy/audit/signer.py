"""Signs checkpoints over the journal's hash chain, with a key of this or of another process.

A checkpoint contains the digest of the event before it and the digest of the previous checkpoint.
The head, kept outside the journal, contains the digest of the newest checkpoint, so that a cut-off
tail is detected. A watch signs in a process that ends afterwards: the library would take 9 MB of
memory in the watch as long as it runs.
"""

import hashlib
import os
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.operations import CheckpointSigned
from hermes.policy.audit.head import AuditHead

AUDIT_RUN = "audit"
"""The run id of checkpoints, which belong to no conversation."""
NO_PREVIOUS_DIGEST = "0" * 64
"""The previous digest of the first checkpoint."""


class SigningKey(Protocol):
    """A private key, here or in another process; `public` is the public key of 32 bytes."""

    public: bytes

    def sign_bare(self, message: bytes) -> str:
        """The signature of these bytes in hex."""


class AuditSigner:
    """Signs with the key of one home."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.public = key.public

    def sign(
        self,
        seq: int,
        digest: str,
        *,
        after: CheckpointSigned | None = None,
        at: datetime | None = None,
    ) -> CheckpointSigned:
        unsigned = CheckpointSigned(
            run=AUDIT_RUN,
            seq=seq,
            digest=digest,
            at=at or datetime.now(UTC),
            previous=checkpoint_digest(after) if after else NO_PREVIOUS_DIGEST,
            key=key_fingerprint(self.public),
            signature="",
        )
        signature = self._key.sign_bare(checkpoint_message(unsigned))
        return msgspec.structs.replace(unsigned, signature=signature)

    def sign_head(self, seq: int, digest: str) -> AuditHead:
        """`seq` and `digest` of the newest checkpoint in the journal."""
        key = key_fingerprint(self.public)
        unsigned = AuditHead(seq=seq, digest=digest, at=datetime.now(UTC), key=key)
        return msgspec.structs.replace(
            unsigned, signature=self._key.sign_bare(head_message(unsigned))
        )


def checkpoint_digest(checkpoint: CheckpointSigned) -> str:
    message = checkpoint_message(checkpoint)
    return hashlib.sha256(message + checkpoint.signature.encode()).hexdigest()


def key_fingerprint(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:16]


def checkpoint_message(signed: CheckpointSigned) -> bytes:
    parts = (signed.seq, signed.digest, signed.at, signed.previous, signed.key)
    return msgspec.json.encode(("hermes audit checkpoint 1", *parts))


def head_message(head: AuditHead) -> bytes:
    # Another first element, so that a head cannot be used as a checkpoint.
    return msgspec.json.encode(("hermes audit head 1", head.seq, head.digest, head.at, head.key))


SIGNING_PROCESS_TIMEOUT_S = 30.0
"""Seconds for the start of the process, and for each signature."""
_PROCESS_PROGRAM = """
import sys
home, *folders = sys.argv[1:]
sys.path += folders
from hermes.policy.audit.audit_key import serve_signatures
serve_signatures(home)
"""


class SigningProcess:
    """The audit key of a home, in a process of its own. All methods block.

    Raises the same errors as `open_audit_key`, and `StoreError` when the process ends early or does
    not answer.
    """

    def __init__(self, home: Path) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(SIGNING_PROCESS_TIMEOUT_S)
        self._answers = self._socket.makefile("r", encoding="utf-8", errors="surrogateescape")
        # Without `site` and the variables of this process: it starts faster and takes less memory.
        argv = [sys.executable, "-I", "-S", "-c", _PROCESS_PROGRAM, str(home), *_import_folders()]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    argv,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={},
                    start_new_session=True,
                )
            except OSError:
                self._close_socket()
                raise
        try:
            self.public = bytes.fromhex(self._read_answer())
        except BaseException:
            self.close()
            raise

    def sign_bare(self, message: bytes) -> str:
        with suppress(OSError):  # reading says why
            self._socket.sendall(message.hex().encode() + b"\n")
        return self._read_answer()

    def close(self) -> None:
        self._close_socket()
        self._process.kill()  # it has nothing to finish
        self._process.wait()

    def _close_socket(self) -> None:
        self._answers.close()
        self._socket.close()

    def _read_answer(self) -> str:
        try:
            kind, _, text = self._answers.readline().rstrip("\n").partition(" ")
        except TimeoutError:
            kind, text = "", f"it did not answer within {SIGNING_PROCESS_TIMEOUT_S:g} seconds"
        except OSError as error:
            kind, text = "", error.strerror or ""
        match kind:
            case "ok":
                return text
            case "settings":
                raise SettingsError(text)
            case "system":
                raise OSError(int(text), os.strerror(int(text)))
            case _:
                raise StoreError(f"the process that signs failed: {text or 'it has ended'}")


def _import_folders() -> list[str]:
    """Where the packages that the process needs are, however this process found them."""
    specs = [find_spec(name) for name in ("hermes", "cryptography")]
    return [str(Path(spec.origin).parents[1]) for spec in specs if spec and spec.origin]
