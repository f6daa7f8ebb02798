"""Reads files, and replaces them in one step: a reader sees the old text or the new, never half.

Only for files of this machine; an environment elsewhere has its own way. The functions block:
call them in a thread.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import ToolError

_FULL = {errno.ENOSPC, errno.EDQUOT}


def read_bytes(path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
    with _told("read", path):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe or a terminal might never end
            raise ToolError(f"cannot read {path}: it is {_kind(path)}, not a file")
        with path.open("rb") as file:
            file.seek(max(0, offset))
            return file.read(-1 if limit is None else max(0, limit))


def write_bytes(path: Path, data: bytes) -> None:
    """Keeps the mode and the owner of what it replaces, and writes through symlinks. Other hard
    links keep the old text."""
    with _told("write", path):
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        before = _before(target)
        temporary = target.with_name(f".hermes-{secrets.token_hex(6)}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                if before is not None:
                    _dress(file.fileno(), before)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)


def _before(target: Path) -> os.stat_result | None:
    try:
        before = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"cannot write {target}: it is {_kind(target)}, not a file")
    return before


def _dress(descriptor: int, before: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # only root may give a file away
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot; the text itself is safe
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or pipe"


@contextlib.contextmanager
def _told(verb: str, path: Path) -> Iterator[None]:
    """Whatever the system refuses, in words for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"cannot {verb} {path}: there is no such file") from error
    except ValueError as error:
        raise ToolError(f"cannot {verb} {str(path)!r}: {error}") from error
    except OSError as error:
        reason = "disk full: free some space first" if error.errno in _FULL else error.strerror
        raise ToolError(f"cannot {verb} {path}: {reason}") from error
