"""Stores the signed head of the audit log outside the journal, to detect a cut-off tail."""

from datetime import datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.plumbing.files import FileLock, write_atomically

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
    """Return None when there is no such file. Raises `SettingsError` when it is not a head."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=AuditHead)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"the audit head {file} cannot be read: {error}") from error


def write_head(file: Path, head: AuditHead) -> None:
    """Replaces the file atomically. Of several processes, the newest checkpoint wins."""
    with FileLock(file.with_name(f".{file.name}.lock")):
        try:
            kept = read_head(file)
        except SettingsError:
            kept = None  # damaged: replaced, or verification would always fail
        if kept is None or kept.seq <= head.seq:
            write_atomically(file, msgspec.json.encode(head) + b"\n")
