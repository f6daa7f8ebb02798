"""Replaces a file in one step, in a folder that is reached without following a symlink.

The path was judged as it stands, and a folder of it may be replaced by a link at any time. This
module is also sent to other machines (`remote.launcher`), so it imports nothing but `os` and
`stat`.
"""

import os
import stat


def replace_file(path: str, data: bytes) -> None:
    """Makes missing folders; keeps the mode and the owner of what it replaces.

    Raises `OSError` for a symlink anywhere on the path, and for what is not a plain file.
    """
    parent, _, name = path.rpartition("/")
    folder = _open_folder(parent)
    try:
        _replace(folder, name, data)
    finally:
        os.close(folder)


def _open_folder(path: str) -> int:
    """A descriptor of the folder, which is made if need be; no component may be a symlink."""
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open("/", flags)
    for name in filter(None, path.split("/")):
        try:
            _make_folder(name, folder)
            inner = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _make_folder(name: str, parent: int) -> None:
    if _status(name, parent) is None:
        try:
            os.mkdir(name, dir_fd=parent)
        except FileExistsError:
            return  # another process created it meanwhile


def _status(name: str, folder: int) -> "os.stat_result | None":
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _replace(folder: int, name: str, data: bytes) -> None:
    before = _status(name, folder)
    if before is not None and not stat.S_ISREG(before.st_mode):
        kind = "a folder" if stat.S_ISDIR(before.st_mode) else "a link, device or pipe"
        raise OSError(22, f"it is {kind}, not a file")
    temporary = f".hermes-{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _dress(file.fileno(), before)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _remove(temporary, folder)
        raise
    _sync_folder(folder)


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _dress(descriptor: int, before: os.stat_result) -> None:
    _give(descriptor, before)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _give(descriptor: int, before: os.stat_result) -> None:
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except PermissionError:
        return  # only root may give a file away


def _sync_folder(folder: int) -> None:
    try:
        readable = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
    except OSError:
        return  # some file systems cannot; the text itself is safe
