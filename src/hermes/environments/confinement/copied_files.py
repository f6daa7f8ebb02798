"""Copies folders with owners and times, and finds what differs between a copy and its original.

Imports only the standard library.
"""

import os
import stat
import time
from collections.abc import Iterator

NOT_OUR_USERS = (1, 22, 75)
"""Errors for an owner that a user namespace does not know, or may not set."""
PIECE_BYTES = 1 << 20
QUIET_TRIES, QUIET_PAUSE_S = 12, 0.05
CLOCK_STEP_NS = 20_000_000
"""Two writes within one step of the kernel's clock leave the same time."""
BUSY = 16
MAX_CHANGED_PATHS = 20_000


def copy_attributes(source: str, target: str) -> None:
    found = os.lstat(source)
    try:
        os.chown(target, found.st_uid, found.st_gid, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NOT_OUR_USERS:
            raise
    if not stat.S_ISLNK(found.st_mode):
        os.chmod(target, stat.S_IMODE(found.st_mode))  # noqa: PTH101 - pathlib is slow to import
    times = (found.st_atime_ns, found.st_mtime_ns)
    os.utime(target, ns=times, follow_symlinks=False)


def copy_tree(
    source: str, target: str, *, only_folders: bool = False, left_out: tuple[str, ...] = ()
) -> None:
    """Fills the folder `target` with one file system. Sockets, devices and files with process ids
    are left out."""
    device = os.lstat(source).st_dev
    try:
        entries = list(os.scandir(source))
    except PermissionError:
        if not only_folders:
            raise
        entries = []  # a folder that the caller cannot read
    for entry in entries:
        inside = f"{target}/{entry.name}"
        found = entry.stat(follow_symlinks=False)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            os.makedirs(inside, exist_ok=True)  # noqa: PTH103 - see above
            if found.st_dev == device and entry.path not in left_out:
                copy_tree(entry.path, inside, only_folders=only_folders, left_out=left_out)
        elif only_folders or found.st_dev != device:
            continue
        elif stat.S_ISLNK(mode):
            os.symlink(os.readlink(entry.path), inside)  # noqa: PTH115, PTH211 - see above
        elif stat.S_ISFIFO(mode):
            os.mkfifo(inside)
        elif stat.S_ISREG(mode) and not entry.name.endswith(".pid"):
            _copy_file(entry.path, inside)
        else:
            continue
        copy_attributes(entry.path, inside)
    copy_attributes(source, target)


def copy_quiet_tree(source: str, target: str) -> None:
    """The same at a moment in which nothing is written there, so that the files fit together.
    Raises `OSError` when there is no such moment."""
    for _ in range(QUIET_TRIES):
        before = file_stamps(source)
        newest = max((each[3] for each in before), default=0)
        if time.time_ns() - newest > CLOCK_STEP_NS:
            copy_tree(source, target)
            if file_stamps(source) == before:
                return
            _empty_folder(target)
        time.sleep(QUIET_PAUSE_S)
    raise OSError(BUSY, "it is written all the time")


def file_stamps(folder: str) -> list[tuple[str, int, int, int]]:
    """Path, inode, size and time of every file."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                seen = os.lstat(f"{place}/{name}")
            except FileNotFoundError:
                continue
            found.append((f"{place}/{name}", seen.st_ino, seen.st_size, seen.st_mtime_ns))
    return sorted(found)


def _empty_folder(folder: str) -> None:
    for place, folders, names in os.walk(folder, topdown=False):
        for name in names:
            os.unlink(f"{place}/{name}")  # noqa: PTH108 - see above
        for name in folders:
            path = f"{place}/{name}"
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)  # noqa: PTH106, PTH108, PTH114


def _copy_file(source: str, target: str) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(reading)
        if found.st_blocks * 512 < found.st_size:  # sparse: must not need more space in the copy
            _copy_data_ranges(reading, writing, found.st_size)
            return
        while os.sendfile(writing, reading, None, PIECE_BYTES):
            continue
    finally:
        os.close(reading)
        os.close(writing)


def _copy_data_ranges(reading: int, writing: int, size: int) -> None:
    at = 0
    while at < size:
        try:
            at = os.lseek(reading, at, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(reading, at, os.SEEK_HOLE)
        os.lseek(writing, at, os.SEEK_SET)
        os.lseek(reading, at, os.SEEK_SET)
        while at < end:
            piece = os.read(reading, min(PIECE_BYTES, end - at))
            if not piece:
                break
            os.write(writing, piece)
            at += len(piece)
    os.ftruncate(writing, size)


def changed_paths(layers: "list[tuple[str, int, int]]") -> list[str]:
    """`layers` as in `CopiedRoot`; a path that begins with `=` is a copy of a whole folder."""
    found: list[str] = []
    for path, changed, original in layers:
        whole = path.startswith("=")
        top = path.lstrip("=").rstrip("/")
        paths = _differences(changed, original, "")
        found += [f"{top}/{each}" for each in paths]
        if whole:
            found += [f"{top}/{each}" for each in _missing(changed, original)]
        if len(found) > MAX_CHANGED_PATHS:
            break
    return sorted(found)[:MAX_CHANGED_PATHS]


def _differences(changed: int, original: int, folder: str) -> Iterator[str]:
    for name in _names(changed, folder):
        path = f"{folder}{name}"
        here, there = _describe(changed, path), _describe(original, path)
        if here is None:
            continue
        if stat.S_ISCHR(here.st_mode) and here.st_rdev == 0:  # the overlay's mark for "removed"
            if there is not None:
                yield path
            continue
        is_folder = stat.S_ISDIR(here.st_mode)
        if there is None or _attributes(here, is_folder) != _attributes(there, is_folder):
            yield path
        if is_folder:
            yield from _differences(changed, original, f"{path}/")
            if _replaces_original(changed, path):
                yield from _missing(changed, original, f"{path}/")


def _replaces_original(top: int, path: str) -> bool:
    """Return whether the overlay shows nothing of the original folder: it was removed and made
    again."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=top)
    try:
        for name in ("user.overlay.opaque", "trusted.overlay.opaque"):
            try:
                if os.getxattr(fd, name) == b"y":
                    return True
            except OSError:
                continue
        return False
    finally:
        os.close(fd)


def _missing(changed: int, original: int, folder: str = "") -> Iterator[str]:
    for name in _names(original, folder):
        path = f"{folder}{name}"
        there = _describe(original, path)
        if there is None or stat.S_IFMT(there.st_mode) not in (stat.S_IFDIR, stat.S_IFREG):
            continue
        if _describe(changed, path) is None and not name.endswith(".pid"):
            yield path
        elif stat.S_ISDIR(there.st_mode):
            yield from _missing(changed, original, f"{path}/")


def _names(top: int, folder: str) -> list[str]:
    try:
        fd = os.open(f"./{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
    except OSError:
        return []
    try:
        return sorted(os.listdir(fd))  # noqa: PTH208 - see above
    finally:
        os.close(fd)


def _describe(top: int, path: str) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=top, follow_symlinks=False)
    except OSError:
        return None


def _attributes(found: os.stat_result, is_folder: bool) -> tuple[int, ...]:
    """A file whose time and size did not change was only opened."""
    common = (found.st_mode, found.st_uid, found.st_gid)
    return common if is_folder else (*common, found.st_size, found.st_mtime_ns)
