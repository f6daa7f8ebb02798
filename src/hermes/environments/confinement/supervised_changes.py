"""Decides on file changes of a confined command, and makes those on exact paths."""

import ctypes
import os
import stat
from errno import EACCES, EEXIST, ENOENT, ENOSYS, ENOTEMPTY, EPERM

from hermes.environments.confinement import kernel, verdict_paths
from hermes.environments.confinement.call_supervisor import NotifiedCall, OwnedTerminals, signed_int
from hermes.environments.confinement.messages import WRITABLE_DEVICES, VerdictRules

NON_FILE_PREFIXES = ("pipe:[", "socket:[", "anon_inode:", "/memfd:")
SHELL_STATE_PREFIX = "/memfd:hermes "
"""The state of the shell, which a program could open by `/proc`; only the shell writes it."""
_SHARED_DEVICES = frozenset(f"/dev/{name}" for name in WRITABLE_DEVICES)
AT_NO_FOLLOW, AT_EMPTY_PATH, AT_REMOVE_FOLDER = 0x100, 0x1000, 0x200
GRANT_BY_KERNEL, GRANT_BY_SUPERVISOR = "inside", "brokered"


class ChangeRefused(Exception):
    """The change is outside of the verdict; `path` is what it would have changed."""

    def __init__(self, path: str, why: str = "", error: int = EACCES, kind: str = "write") -> None:
        super().__init__(path)
        self.path, self.why, self.error, self.kind = path, why, error, kind


class SupervisedChanges:
    def __init__(self, rules: VerdictRules, terminals: OwnedTerminals) -> None:
        self._rules, self._terminals = rules, terminals
        self._files = {*rules.files, *_SHARED_DEVICES}
        self._made: set[str] = set()
        self._caller = ""

    def decide(self, name: str, call: NotifiedCall) -> None:
        """Answers the call. Raises `ChangeRefused`, or `OSError` to be passed on to the caller."""
        self._caller = call.program() if self._rules.templates else ""
        if name in ("open", "openat", "creat"):
            self._open(name, call)
        elif name in _TWO_PATH_CALLS:
            self._two_paths(name, call)
        elif name in _ATTRIBUTE_CALLS:
            self._attributes(name, call)
        else:
            self._entry(name, call)

    def covers(self, real: str) -> bool:
        return real.startswith(NON_FILE_PREFIXES) or bool(self._grant(real))

    def _grant(self, real: str, *, making_folder: bool = False) -> str:
        """Return who makes a change of this path: the kernel or the supervisor; empty if
        refused."""
        if real.startswith(self._rules.protected):
            return ""
        return self._granted(real, making_folder=making_folder)

    def _granted(self, real: str, *, making_folder: bool) -> str:
        rules = self._rules
        if real in self._files or real.startswith("/dev/pts/"):
            return GRANT_BY_KERNEL
        if real in rules.exact:
            return GRANT_BY_SUPERVISOR
        if any(real == tree or real.startswith(f"{tree}/") for tree in rules.trees):
            return GRANT_BY_KERNEL
        if any(real.startswith(f"{path}/") for path in rules.exact):
            return GRANT_BY_SUPERVISOR
        if making_folder and any(path.startswith(f"{real}/") for path in rules.exact):
            return GRANT_BY_SUPERVISOR
        if self._in_repository(real):
            setting = verdict_paths.is_repository_setting(real, self._made, rebases=rules.rebases)
            return "" if setting else GRANT_BY_SUPERVISOR
        if self._is_unique(real):
            return GRANT_BY_SUPERVISOR
        if any(real.startswith(f"{made}/") for made in self._made):
            return GRANT_BY_SUPERVISOR
        if os.path.dirname(real) in rules.beside:  # noqa: PTH120
            return GRANT_BY_SUPERVISOR if real in self._made or not os.path.lexists(real) else ""
        return ""

    def _is_shared_device(self, real: str) -> bool:
        """Every command may write to it, but its mode and owner hold for all of the machine."""
        shared = real in _SHARED_DEVICES or real.startswith("/dev/pts/")
        return shared and real not in self._rules.files and not self._terminals.owns(real)

    def _is_unique(self, real: str) -> bool:
        """A new file of mktemp, or one that it created."""
        form = next((each for each in self._rules.templates if _matches_template(real, each)), "")
        return bool(form) and (
            real in self._made or (self._caller == "mktemp" and not os.path.lexists(real))
        )

    def _in_repository(self, real: str) -> bool:
        return any(real.startswith(f"{path}/") for path in self._rules.repositories)

    def _single(self, real: str, status: os.stat_result) -> None:
        """Refuses a file with hard links: it would also change where nothing was granted."""
        several = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
        if several and not self._rules.hard_links and real not in self._made:
            raise ChangeRefused(real, "it is a hard link: the file has further names")

    def _open(self, name: str, call: NotifiedCall) -> None:
        folder, argument = (0, 1) if name == "openat" else (None, 0)
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        if name != "creat":
            flags = signed_int(call.arguments[argument + 1])
        mode = call.arguments[argument + (1 if name == "creat" else 2)] & 0o7777
        follow = not flags & os.O_NOFOLLOW and flags & (os.O_CREAT | os.O_EXCL) != (
            os.O_CREAT | os.O_EXCL
        )
        real = call.real(folder, argument, follow=follow)
        status = _status(real)
        if _has_no_name(real):
            return call.proceed()
        if self._terminals.open(call, real, flags):
            return None
        if not flags & os.O_CREAT and status is None:
            return self._missing(call)
        grant = self._grant(real)
        if status is not None and flags & os.O_EXCL and flags & os.O_CREAT:
            raise FileExistsError(EEXIST, "")
        if not grant:
            return self._outside(call, real)
        if status is not None:
            self._single(real, status)
        elif flags & os.O_CREAT:
            self._refuse_setuid(real, mode)
        if grant == GRANT_BY_KERNEL or (status is not None and not stat.S_ISREG(status.st_mode)):
            return call.proceed()
        _check_same_user(call, real)
        with _FolderEntry(real) as at:
            fd = os.open(at.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at.folder)
        try:
            self._made |= {real} if status is None else set()
            call.give(fd, close_on_exec=bool(flags & os.O_CLOEXEC))
        finally:
            os.close(fd)
        return None

    def _outside(self, call: NotifiedCall, real: str) -> None:
        """If not even the folder exists, the caller gets that error."""
        if not os.path.isdir(os.path.dirname(real)):  # noqa: PTH112, PTH120
            return self._missing(call)
        raise ChangeRefused(real)

    def _missing(self, call: NotifiedCall) -> None:
        """The caller gets the error of the kernel. Without Landlock it gets to the files of
        containers by the root of their processes, and those may be missing only here."""
        if self._rules.sees_processes:
            raise FileNotFoundError(ENOENT, "")
        call.proceed()

    def _entry(self, name: str, call: NotifiedCall) -> None:
        """mkdir, mknod, symlink, unlink, rmdir, truncate: one name in one folder."""
        folder, argument = _ENTRY_CALLS[name]
        real = call.real(folder, argument, follow=name == "truncate")
        making = name in _CREATING_CALLS
        if (
            name in ("mknod", "mknodat")
            and stat.S_IFMT(call.arguments[argument + 1]) in _DEVICE_KINDS
        ):
            raise ChangeRefused(real, "it would be a device", EPERM)
        exists = os.path.lexists(real)
        if making and exists:
            raise FileExistsError(EEXIST, "")
        if not making and not exists:
            return self._missing(call)
        grant = self._grant(real, making_folder=name in ("mkdir", "mkdirat"))
        if _removes_folder(name, call) and os.path.isdir(real) and os.listdir(real):  # noqa: PTH112, PTH208
            raise OSError(ENOTEMPTY, "")
        link = name in ("symlink", "symlinkat")
        if not grant or (link and self._may_hold_settings(real)):
            return self._outside(call, real)
        if name == "truncate":
            self._single(real, os.lstat(real))
        elif name in ("mknod", "mknodat"):
            self._refuse_setuid(real, call.arguments[argument + 1])
        if grant == GRANT_BY_KERNEL:
            return call.proceed()
        _check_same_user(call, real)
        with _FolderEntry(real) as at:
            _carry_out(name, call, at)
        self._made |= {real} if making else set()
        return call.answer()

    def _two_paths(self, name: str, call: NotifiedCall) -> None:
        """rename and link: both paths must be granted, or a file could be moved out."""
        old_folder, old_argument, new_folder, new_argument = _TWO_PATH_CALLS[name]
        linking = name in ("link", "linkat")
        follow = linking and bool(name == "linkat" and call.arguments[4] & 0x400)
        old = call.real(old_folder, old_argument, follow=follow)
        new = call.real(new_folder, new_argument, follow=False)
        if not os.path.lexists(old):
            return self._missing(call)
        if self._in_repository(new) and verdict_paths.is_config_update(old, new) and not linking:
            return self._configure(call, old, new)
        grants = []
        for path in (old, new):
            grants.append(self._grant(path))
            if not grants[-1] or (os.path.isdir(old) and self._may_hold_settings(path)):  # noqa: PTH112
                raise ChangeRefused(path)
            if any(each.startswith(f"{path}/") for each in self._rules.protected):
                raise ChangeRefused(path, "it holds files that no command may change")
        if linking:
            self._single(old, os.lstat(old))
        if GRANT_BY_SUPERVISOR not in grants:
            return call.proceed()
        _check_same_user(call, old)
        with _FolderEntry(old) as source, _FolderEntry(new) as target:
            if linking:
                os.link(
                    source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder
                )
            else:
                flags = call.arguments[4] if name == "renameat2" else 0
                old_name, new_name = os.fsencode(source.name), os.fsencode(target.name)
                words = (source.folder, old_name, target.folder, new_name)
                kernel.system_call("renameat2", *words, flags & 0xFFFFFFFF)
        self._made.add(new)
        return call.answer()

    def _refuse_setuid(self, real: str, mode: int) -> None:
        """Unpacked or copied, such a file would give its owner's rights to every user."""
        if mode & (stat.S_ISUID | stat.S_ISGID) and not self._rules.setuid_files:
            raise ChangeRefused(real, "it would run with the rights of its owner", EPERM)

    def _may_hold_settings(self, path: str) -> bool:
        return self._in_repository(path) and verdict_paths.may_hold_repository_settings(path)

    def _configure(self, call: NotifiedCall, old: str, new: str) -> None:
        _check_same_user(call, new)
        with _FolderEntry(old) as at:
            if not verdict_paths.replace_config(at.name, at.folder):
                raise ChangeRefused(new, "it would change more than upstream branches")
        return call.answer()

    def _attributes(self, name: str, call: NotifiedCall) -> None:
        """Mode, owner, times and extended attributes, which Landlock does not cover."""
        form = _ATTRIBUTE_CALLS[name]
        fd = _attribute_file(call, form)
        try:
            real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            nameless = real.startswith(NON_FILE_PREFIXES) or real.endswith(" (deleted)")
            if not nameless:
                if not self._grant(real) or self._is_shared_device(real):
                    raise ChangeRefused(real, error=EPERM, kind=form.kind)
                status = os.fstat(fd)
                self._single(real, status)
                if form.kind == "mode" and stat.S_ISREG(status.st_mode):
                    self._refuse_setuid(real, call.arguments[form.first])
            if name in _CALLS_WITH_OLDER_FORM:
                raise OSError(ENOSYS, "")
            _check_same_user(call, real)
            form.carry_out(call, fd)
        finally:
            os.close(fd)
        call.answer()


def _matches_template(path: str, template: str) -> bool:
    """Return whether the path is the template with letters and digits for its last run of X."""
    head, _, tail = template.rpartition("X")
    start = len(head.rstrip("X"))
    unique = path[start : len(path) - len(tail)]
    known = path[:start] == template[:start] and path.endswith(tail)
    return known and len(path) == len(template) and unique.isalnum()


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _check_same_user(call: NotifiedCall, path: str) -> None:
    """The supervisor acts with its own rights, so the caller must be the same user."""
    status = call.status()
    if int(status[b"Uid"].split()[3]) != os.geteuid():
        raise ChangeRefused(path, "another user than that of the command would change it")
    os.umask(int(status.get(b"Umask", b"022"), 8))


class _FolderEntry:
    """A name in an open folder, which was checked to be the one that was decided on."""

    def __init__(self, real: str) -> None:
        self._path, _, self.name = real.rpartition("/")
        self.folder = -1

    def __enter__(self) -> "_FolderEntry":
        wanted = self._path or "/"
        self.folder = os.open(wanted, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if os.readlink(f"/proc/self/fd/{self.folder}") != wanted:  # noqa: PTH115
            self.__exit__()
            raise ChangeRefused(f"{self._path}/{self.name}", "it leads somewhere else now")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)


def _carry_out(name: str, call: NotifiedCall, at: _FolderEntry) -> None:
    _, argument = _ENTRY_CALLS[name]
    words = call.arguments[argument + 1 :]
    if name in ("mkdir", "mkdirat"):
        os.mkdir(at.name, words[0] & 0o7777, dir_fd=at.folder)
    elif name in ("symlink", "symlinkat"):
        os.symlink(call.text(0), at.name, dir_fd=at.folder)
    elif _removes_folder(name, call):
        os.rmdir(at.name, dir_fd=at.folder)
    elif name in ("unlink", "unlinkat"):
        os.unlink(at.name, dir_fd=at.folder)
    elif name == "truncate":
        fd = os.open(at.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at.folder)
        try:
            os.ftruncate(fd, ctypes.c_int64(words[0]).value)
        finally:
            os.close(fd)
    elif stat.S_IFMT(words[0]) in (0, stat.S_IFREG, stat.S_IFIFO):
        os.mknod(at.name, words[0] & 0o177777, dir_fd=at.folder)
    else:
        raise PermissionError(EPERM, "")


def _removes_folder(name: str, call: NotifiedCall) -> bool:
    return name == "rmdir" or (name == "unlinkat" and bool(call.arguments[2] & AT_REMOVE_FOLDER))


class _AttributeCall:
    """The arguments of a call that name a file: by descriptor, or by path and folder."""

    def __init__(
        self,
        kind: str,
        *,
        file: int | None = None,
        folder: int | None = None,
        path: int | None = None,
        first: int = 1,
        flags: int | None = None,
        follow: bool = True,
        removes: bool = False,
    ) -> None:
        self.removes = removes
        self.kind, self.file, self.folder, self.path = kind, file, folder, path
        self.first, self.flags, self.follow = first, flags, follow

    def carry_out(self, call: NotifiedCall, fd: int) -> None:
        name, words = f"/proc/self/fd/{fd}", call.arguments[self.first :]
        if self.kind == "mode":
            os.chmod(name, words[0] & 0o7777)  # noqa: PTH101
        elif self.kind == "owner":
            owner, group = signed_int(words[0]), signed_int(words[1])
            if kernel.libc().fchownat(fd, b"", owner, group, AT_EMPTY_PATH):
                raise OSError(ctypes.get_errno(), "")
        elif self.kind == "times":
            times = call.memory(words[0], 32) if words[0] else None
            if kernel.libc().utimensat(-100, name.encode(), times, 0):
                raise OSError(ctypes.get_errno(), "")
        elif self.removes:
            os.removexattr(name, call.text(self.first))
        else:
            value = call.memory(words[1], words[2]) if words[2] else b""
            os.setxattr(name, call.text(self.first), value, signed_int(words[3]))


def _attribute_file(call: NotifiedCall, form: _AttributeCall) -> int:
    """The open file, so that its path no longer matters."""
    flags = signed_int(call.arguments[form.flags]) if form.flags is not None else 0
    no_path = form.path is None or call.arguments[form.path] == 0
    if form.file is not None and no_path:
        return call.descriptor(form.file)
    if form.path is None:
        raise PermissionError(EPERM, "")
    follow = form.follow and not flags & AT_NO_FOLLOW
    real = call.real(form.folder, form.path, follow=follow)
    return os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)


def _has_no_name(real: str) -> bool:
    """Pipes, sockets and memory. Raises `ChangeRefused` for the state of the shell."""
    if real.startswith(SHELL_STATE_PREFIX):
        raise ChangeRefused("the state of the shell")
    return real.startswith(NON_FILE_PREFIXES) or "/fd/pipe:[" in real or "/fd/socket:[" in real


_DEVICE_KINDS = (stat.S_IFCHR, stat.S_IFBLK)
_CREATING_CALLS = frozenset({"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"})
_ENTRY_CALLS: dict[str, tuple[int | None, int]] = {
    "mkdir": (None, 0),
    "mkdirat": (0, 1),
    "mknod": (None, 0),
    "mknodat": (0, 1),
    "symlink": (None, 1),
    "symlinkat": (1, 2),
    "unlink": (None, 0),
    "rmdir": (None, 0),
    "unlinkat": (0, 1),
    "truncate": (None, 0),
}
"""The argument that names the folder to start from, and the one that points to the path."""
_TWO_PATH_CALLS: dict[str, tuple[int | None, int, int | None, int]] = {
    "rename": (None, 0, None, 1),
    "renameat": (0, 1, 2, 3),
    "renameat2": (0, 1, 2, 3),
    "link": (None, 0, None, 1),
    "linkat": (0, 1, 2, 3),
}
_ATTRIBUTE_CALLS = {
    "chmod": _AttributeCall("mode", path=0),
    "fchmod": _AttributeCall("mode", file=0),
    "fchmodat": _AttributeCall("mode", folder=0, path=1, first=2),
    "fchmodat2": _AttributeCall("mode", folder=0, path=1, first=2, flags=3),
    "chown": _AttributeCall("owner", path=0),
    "lchown": _AttributeCall("owner", path=0, follow=False),
    "fchown": _AttributeCall("owner", file=0),
    "fchownat": _AttributeCall("owner", folder=0, path=1, first=2, flags=4),
    "utimensat": _AttributeCall("times", file=0, folder=0, path=1, first=2, flags=3),
    "setxattr": _AttributeCall("attributes", path=0),
    "lsetxattr": _AttributeCall("attributes", path=0, follow=False),
    "fsetxattr": _AttributeCall("attributes", file=0),
    "setxattrat": _AttributeCall("attributes", folder=0, path=1, flags=2),
    "removexattr": _AttributeCall("attributes", path=0, removes=True),
    "lremovexattr": _AttributeCall("attributes", path=0, follow=False, removes=True),
    "fremovexattr": _AttributeCall("attributes", file=0, removes=True),
    "removexattrat": _AttributeCall("attributes", folder=0, path=1, flags=2),
    "file_setattr": _AttributeCall("flags", folder=0, path=1, flags=4),
    "utime": _AttributeCall("times", path=0),
    "utimes": _AttributeCall("times", path=0),
    "futimesat": _AttributeCall("times", folder=0, path=1),
}
_CALLS_WITH_OLDER_FORM = frozenset(
    {"setxattrat", "removexattrat", "file_setattr", "utime", "utimes", "futimesat"}
)
"""Calls that are answered with ENOSYS: programs then use another call."""
