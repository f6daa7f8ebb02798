"""Hides files with secrets from confined commands, in a mount namespace of their own.

A hidden file keeps its owner, mode and times, and is empty; a file of account passwords keeps its
lines without the password hashes, so that `chage`, `passwd -S` and `sudo` answer as usual. This
module is sent to other hosts (`remote.session`).
"""

import ctypes
import os
import re

from hermes.environments.confinement import kernel

CLONE_NEW_MOUNTS, MOUNT_BIND, MOUNT_RECURSIVE, MOUNT_SLAVE = 0x20000, 0x1000, 0x4000, 1 << 19
MOUNT_ATTRIBUTES, UMOUNT_DETACH, AT_FDCWD = 2 | 4 | 8, 2, -100
"""No set-user-ID programs, devices or programs on it."""
OPEN_TREE_CLONE, AT_EMPTY_PATH, MOVE_MOUNT_EMPTY_PATH = 1, 0x1000, 4
FSOPEN_CLOSE_ON_EXEC, FSCONFIG_STRING, FSCONFIG_CREATE = 1, 1, 6
MAX_ACCOUNT_FILE_BYTES = 1 << 20
ACCOUNT_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
_PASSWORD_HASH = re.compile(rb"^([^:\n]+):[^:\n!*][^:\n]*", re.M)
_LOCKED_HASH = re.compile(rb"^([^:\n]+:[!*]+)[^:\n]+", re.M)


def find_hidden_files(patterns: "tuple[str, ...]", granted: "tuple[str, ...]") -> "tuple[str, ...]":
    """The files of these patterns, without those in `granted` folders, which may be replaced.

    `~` stands for each home folder; a `*` in the name of a file for any characters.
    """
    found = []
    for pattern in patterns:
        found += [] if pattern.startswith("~/") else _matching_files(pattern)
    inner = [pattern[2:] for pattern in patterns if pattern.startswith("~/")]
    for home in _home_folders() if inner else []:
        names = _names_in(home)
        for path in inner:
            found += _matching_files(f"{home}/{path}") if path.partition("/")[0] in names else []
    real = [os.path.realpath(path) for path in dict.fromkeys(found)]
    return tuple(
        path
        for path in dict.fromkeys(real)
        if not any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in granted)
    )


def _home_folders() -> "list[str]":
    own = os.path.expanduser("~")  # noqa: PTH111 - pathlib costs the launcher 8 ms
    return list(dict.fromkeys(["/root", own, *(f"/home/{name}" for name in _names_in("/home"))]))


def _names_in(folder: str) -> "list[str]":
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _matching_files(pattern: str) -> "list[str]":
    folder, _, name = pattern.rpartition("/")
    if "*" not in name:
        return [pattern] if os.path.isfile(pattern) else []  # noqa: PTH113
    form = re.compile(re.escape(name).replace(r"\*", ".*"), re.S)
    paths = [f"{folder}/{each}" for each in _names_in(folder) if form.fullmatch(each)]
    return [each for each in paths if not each.endswith(".pub") and os.path.isfile(each)]  # noqa: PTH113


class StandIns:
    """Stand-ins for hidden files, on a file system without a name that only this process has."""

    def __init__(self, *, copies_mounts: bool = True) -> None:
        """`copies_mounts`: each file may be mounted on its own, if the kernel can (Linux 6.15)."""
        self._tmpfs = -1
        self._may_copy, self._copies_mounts = copies_mounts, False
        self._is_own = False
        """Whether no other process uses the same mount, which can be put in place only once."""
        self._ready: dict[str, tuple[tuple[int, int, int], str]] = {}
        """The state of a file and the name of its stand-in."""

    def prepare(self) -> None:
        """Called ahead of time: makes those that nearly every command needs."""
        try:
            context = kernel.system_call("fsopen", b"tmpfs", FSOPEN_CLOSE_ON_EXEC)
            # Without a limit it has no size, and `df` does not list it.
            kernel.system_call("fsconfig", context, FSCONFIG_STRING, b"size", b"0", 0)
            kernel.system_call("fsconfig", context, FSCONFIG_CREATE, None, None, 0)
            flags = MOUNT_ATTRIBUTES
            self._tmpfs = kernel.system_call("fsmount", context, FSOPEN_CLOSE_ON_EXEC, flags)
            os.close(context)
            for path in ACCOUNT_FILES:
                self._make(path)
        except OSError:
            return  # `hide` gets the same error
        if self._may_copy:
            self._copies_mounts = self._try_copy()

    def _try_copy(self) -> bool:
        try:
            os.close(self._copied_mount(b"", AT_EMPTY_PATH))
        except OSError:
            return False
        return True

    def rehearse(self) -> None:
        """Called in a process that will become a command, ahead of time."""
        kernel.libc().unshare(0)
        if not self._copies_mounts:
            return self._take()
        for name in filter(None, map(self._make, ACCOUNT_FILES)):
            os.close(self._copied_mount(name.encode(), 0))
        return None

    def hide(self, paths: "tuple[str, ...]") -> bool:
        """Put a stand-in over each file. Raises `OSError` when one stays visible.

        Where a container forbids to mount at all, the files stay as they are: returns False.
        """
        library = kernel.libc()
        if library.unshare(CLONE_NEW_MOUNTS) or library.mount(
            b"none", b"/", None, MOUNT_RECURSIVE | MOUNT_SLAVE, None
        ):
            return False
        if not self._copies_mounts:
            self._take()
        if self._tmpfs < 0:
            return False
        names = [(path, name) for path in paths if (name := self._make(path))]
        if self._copies_mounts:
            self._attach(names)
        else:
            self._bind(names, paths)
        return True

    def _attach(self, names: "list[tuple[str, str]]") -> None:
        """Nothing is unmounted: the kernel would wait until no processor looks up a path."""
        for path, name in names:
            fd = self._copied_mount(name.encode(), 0)
            try:
                to = os.fsencode(path)
                kernel.system_call("move_mount", fd, b"", AT_FDCWD, to, MOVE_MOUNT_EMPTY_PATH)
            except OSError:
                if os.path.lexists(path):  # a file of a process may be gone
                    raise
            finally:
                os.close(fd)

    def _copied_mount(self, name: bytes, flags: int) -> int:
        flags |= OPEN_TREE_CLONE | os.O_CLOEXEC
        return kernel.system_call("open_tree", self._tmpfs, name, flags)

    def _take(self) -> None:
        """Before Linux 6.15 a mount is put in place as a whole: each process needs its own."""
        if not self._is_own:
            self._is_own, self._tmpfs, self._ready = True, -1, {}
            self.prepare()

    def _bind(self, names: "list[tuple[str, str]]", paths: "tuple[str, ...]") -> None:
        library = kernel.libc()
        # Covered for a moment, and in our mount namespace only.
        base = next(
            each
            for each in ("/tmp", "/usr", "/etc", "/dev", "/")
            if each == "/" or not any(path.startswith(f"{each}/") for path in paths)
        )
        kernel.system_call(
            "move_mount", self._tmpfs, b"", AT_FDCWD, base.encode(), MOVE_MOUNT_EMPTY_PATH
        )
        try:
            for path, name in names:
                source = f"{base}/{name}".encode()
                failed = library.mount(source, os.fsencode(path), None, MOUNT_BIND, None)
                if failed and os.path.lexists(path):
                    raise OSError(ctypes.get_errno(), f"cannot hide {path}")
        finally:
            library.umount2(base.encode(), UMOUNT_DETACH)
            os.close(self._tmpfs)

    def _make(self, path: str) -> str:
        """The name of the stand-in; empty when there is no such file."""
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return ""
        state = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._ready.get(path)
        if known and known[0] == state:
            return known[1]
        # Commands share the file system: one that ran before may have made it already.
        name = f"{status.st_dev}.{status.st_ino}.{status.st_mtime_ns}.{status.st_ctime_ns}"
        if not _exists(name, self._tmpfs):
            content = without_hashes(path) if path in ACCOUNT_FILES else b""
            unfinished = f"{name}.{os.getpid()}"
            make_stand_in(unfinished, self._tmpfs, status, content)
            os.rename(unfinished, name, src_dir_fd=self._tmpfs, dst_dir_fd=self._tmpfs)
        self._ready[path] = state, name
        return name


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def without_hashes(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(fd, MAX_ACCOUNT_FILE_BYTES)
    finally:
        os.close(fd)
    return _LOCKED_HASH.sub(rb"\1", _PASSWORD_HASH.sub(rb"\1:hidden", content))


def _give_to(fd: int, status: os.stat_result) -> None:
    """In a user namespace without that user or group the stand-in keeps ours."""
    try:
        os.fchown(fd, status.st_uid, status.st_gid)
    except OSError:
        return


def make_stand_in(name: str, folder: int, status: os.stat_result, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        if content:
            os.write(fd, content)
        if status.st_uid or status.st_gid:
            _give_to(fd, status)
        if status.st_mode & 0o7777 != 0o600:
            os.fchmod(fd, status.st_mode & 0o7777)
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
    finally:
        os.close(fd)
