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

_NO_SPACE_ERRORS = {errno.ENOSPC, errno.EDQUOT}


def read_bytes(path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
    with _translate_errors("read", path):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe or a terminal might never end
            raise ToolError(f"cannot read {path}: it is {_file_kind(path)}, not a file")
        with path.open("rb") as file:
            file.seek(max(0, offset))
            return file.read(-1 if limit is None else max(0, limit))


def real_path(path: Path) -> Path:
    """Raises `ToolError` for a path that changes while it is looked up."""
    with _translate_errors("look up", path):
        return Path(os.path.realpath(path))


def write_bytes(path: Path, data: bytes, *, follow: bool = True) -> None:
    """Keeps the mode and the owner of what it replaces, and writes through symlinks. Other hard
    links keep the old text.

    Without `follow`, a symlink anywhere on the path is an error: the path was judged as it stands,
    and a folder of it may be replaced by a link at any time.
    """
    with _translate_errors("write", path):
        target = Path(os.path.realpath(path)) if follow else path
        folder = _open_folder(target.parent)
        try:
            _replace_file(folder, target, data)
        finally:
            os.close(folder)


def _open_folder(path: Path) -> int:
    """A descriptor of the folder, which is made if need be; no component may be a symlink."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open("/", flags)
    for name in path.parts[1:]:
        try:
            with contextlib.suppress(FileExistsError):
                if not _exists_in(name, folder):
                    os.mkdir(name, dir_fd=folder)
            inner = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _exists_in(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _replace_file(folder: int, target: Path, data: bytes) -> None:
    before = _stat_target(target, folder)
    temporary = f".hermes-{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _copy_mode_and_owner(file.fileno(), before)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    with contextlib.suppress(OSError):  # some file systems cannot; the text itself is safe
        readable = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)


def _stat_target(target: Path, folder: int) -> os.stat_result | None:
    try:
        before = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(before.st_mode):
        raise ToolError(f"cannot write {target}: it is {_file_kind(target)}, not a file")
    return before


def _copy_mode_and_owner(descriptor: int, before: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # only root may give a file away
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _file_kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or pipe"


@contextlib.contextmanager
def _translate_errors(verb: str, path: Path) -> Iterator[None]:
    """Whatever the system refuses, in words for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"cannot {verb} {path}: there is no such file") from error
    except ValueError as error:
        raise ToolError(f"cannot {verb} {str(path)!r}: {error}") from error
    except OSError as error:
        reason = (
            "disk full: free some space first"
            if error.errno in _NO_SPACE_ERRORS
            else error.strerror
        )
        raise ToolError(f"cannot {verb} {path}: {reason}") from error
