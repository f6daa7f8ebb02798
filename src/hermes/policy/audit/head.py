"""Stores the signed head of the audit log outside the journal, to detect a cut-off tail."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value

HEAD_FILE_NAME = "audit.head"


class AuditHead(Value, kw_only=True, frozen=True):
    """The newest checkpoint: its position and digest in the journal."""

    seq: int
    digest: str
    at: datetime
    key: str
    signature: str = ""


def head_file(home: Path, journal: str) -> Path:
    """One file for each journal of a home; the default journal has the plain name."""
    if journal == str(home / "journal.db"):
        return home / HEAD_FILE_NAME
    return home / f"audit-{sha256(journal.encode()).hexdigest()[:8]}.head"


def read_head(file: Path) -> AuditHead | None:
    """None when there is no such file. Raises `SettingsError` when it is not a head."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=AuditHead)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"the audit head {file} cannot be read: {error}") from error


def write_head(file: Path, head: AuditHead) -> None:
    """Replaces the file atomically. Of several processes, the newest checkpoint wins."""
    with _file_lock(file):
        try:
            kept = read_head(file)
        except SettingsError:
            kept = None  # damaged: replaced, or verification would always fail
        if kept is None or kept.seq <= head.seq:
            _replace_file(file, msgspec.json.encode(head) + b"\n")


@contextmanager
def _file_lock(file: Path) -> Iterator[None]:
    descriptor = os.open(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace_file(file: Path, data: bytes) -> None:
    descriptor, partial = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(partial).replace(file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
