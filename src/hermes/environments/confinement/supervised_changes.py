"""Decides on changes of files for a confined command, and carries out those on exact paths."""

import ctypes
import os
import stat
from errno import EACCES, EEXIST, ENOSYS, ENOTEMPTY, EPERM

from hermes.environments.confinement import kernel, repository_settings
from hermes.environments.confinement.notified_call import NotifiedCall, signed
from hermes.environments.confinement.terminals import Terminals
from hermes.environments.confinement.verdict_rules import DEVICES, VerdictRules

NOT_A_FILE = ("pipe:[", "socket:[", "anon_inode:", "/memfd:")
NO_FOLLOW, EMPTY_PATH, REMOVE_FOLDER = 0x100, 0x1000, 0x200
INSIDE, BROKERED = "inside", "brokered"


class Refused(Exception):
    """The change is outside of the verdict; `path` is what it would have changed."""

    def __init__(self, path: str, why: str = "", error: int = EACCES, kind: str = "write") -> None:
        super().__init__(path)
        self.path, self.why, self.error, self.kind = path, why, error, kind


class Changes:
    def __init__(self, rules: VerdictRules, terminals: Terminals) -> None:
        self._rules, self._terminals = rules, terminals
        self._files = {*rules.files, *(f"/dev/{name}" for name in DEVICES)}
        self._made: set[str] = set()
        self._caller = ""

    def decide(self, name: str, call: NotifiedCall) -> None:
        """Answers the call. Raises `Refused`, or `OSError` to be passed on to the caller."""
        self._caller = call.program() if self._rules.templates else ""
        if name in ("open", "openat", "creat"):
            self._open(name, call)
        elif name in _TWO_PATHS:
            self._two_paths(name, call)
        elif name in _ATTRIBUTES:
            self._attributes(name, call)
        else:
            self._entry(name, call)

    def _grant(self, real: str, *, making_folder: bool = False) -> str:
        """Who carries a change of this path out: the kernel, or we; empty when neither may."""
        if real.startswith(self._rules.protected):
            return ""
        return self._granted(real, making_folder=making_folder)

    def _granted(self, real: str, *, making_folder: bool) -> str:
        rules = self._rules
        if real in self._files or real.startswith("/dev/pts/"):
            return INSIDE
        if real in rules.exact:
            return BROKERED
        if any(real == tree or real.startswith(f"{tree}/") for tree in rules.trees):
            return INSIDE
        if any(real.startswith(f"{path}/") for path in rules.exact):
            return BROKERED
        if making_folder and any(path.startswith(f"{real}/") for path in rules.exact):
            return BROKERED
        if self._in_repository(real):
            return "" if repository_settings.is_setting(real, self._made) else BROKERED
        if self._is_unique(real):
            return BROKERED
        if any(real.startswith(f"{made}/") for made in self._made):
            return BROKERED
        if os.path.dirname(real) in rules.beside:  # noqa: PTH120
            return BROKERED if real in self._made or not os.path.lexists(real) else ""
        return ""

    def _is_unique(self, real: str) -> bool:
        """A new file of mktemp, or one that it has made."""
        form = next((each for each in self._rules.templates if _has_form(real, each)), "")
        return bool(form) and (
            real in self._made or (self._caller == "mktemp" and not os.path.lexists(real))
        )

    def _in_repository(self, real: str) -> bool:
        return any(real.startswith(f"{path}/") for path in self._rules.repositories)

    def _single(self, real: str, status: os.stat_result) -> None:
        """A file with a second name is also changed there, where nothing was granted."""
        several = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
        if several and not self._rules.hard_links and real not in self._made:
            raise Refused(real, "it is a hard link: the file has further names")

    def _open(self, name: str, call: NotifiedCall) -> None:
        folder, place = (0, 1) if name == "openat" else (None, 0)
        flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
        if name != "creat":
            flags = signed(call.arguments[place + 1])
        mode = call.arguments[place + (1 if name == "creat" else 2)] & 0o7777
        follow = not flags & os.O_NOFOLLOW and flags & (os.O_CREAT | os.O_EXCL) != (
            os.O_CREAT | os.O_EXCL
        )
        real = call.real(folder, place, follow=follow)
        status = _status(real)
        if real.startswith(NOT_A_FILE) or "/fd/pipe:[" in real or "/fd/socket:[" in real:
            return call.proceed()
        if self._terminals.open(call, real, flags):
            return None
        if not flags & os.O_CREAT and status is None:
            return call.proceed()  # there is no such file, and none would be made
        grant = self._grant(real)
        if status is not None and flags & os.O_EXCL and flags & os.O_CREAT:
            raise FileExistsError(EEXIST, "")
        if not grant:
            return self._outside(call, real)
        if status is not None:
            self._single(real, status)
        if grant == INSIDE or (status is not None and not stat.S_ISREG(status.st_mode)):
            return call.proceed()
        _as_caller(call, real)
        with _Place(real) as at:
            fd = os.open(at.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at.folder)
        try:
            self._made |= {real} if status is None else set()
            call.give(fd, close_on_exec=bool(flags & os.O_CLOEXEC))
        finally:
            os.close(fd)
        return None

    def _outside(self, call: NotifiedCall, real: str) -> None:
        """Where there is not even a folder, the caller should hear just that."""
        if not os.path.isdir(os.path.dirname(real)):  # noqa: PTH112, PTH120
            return call.proceed()
        raise Refused(real)

    def _entry(self, name: str, call: NotifiedCall) -> None:
        """mkdir, mknod, symlink, unlink, rmdir, truncate: one name in one folder."""
        folder, place = _ENTRIES[name]
        real = call.real(folder, place, follow=name == "truncate")
        making = name in _MAKING
        if name in ("mknod", "mknodat") and stat.S_IFMT(call.arguments[place + 1]) in _DEVICES:
            raise Refused(real, "it would be a device", EPERM)
        exists = os.path.lexists(real)
        if making and exists:
            raise FileExistsError(EEXIST, "")
        if not making and not exists:
            return call.proceed()
        grant = self._grant(real, making_folder=name in ("mkdir", "mkdirat"))
        if _removes_folder(name, call) and os.path.isdir(real) and os.listdir(real):  # noqa: PTH112, PTH208
            raise OSError(ENOTEMPTY, "")
        link = name in ("symlink", "symlinkat")
        if not grant or (link and self._may_hold_settings(real)):
            return self._outside(call, real)
        if name == "truncate":
            self._single(real, os.lstat(real))
        if grant == INSIDE:
            return call.proceed()
        _as_caller(call, real)
        with _Place(real) as at:
            _carry_out(name, call, at)
        self._made |= {real} if making else set()
        return call.answer()

    def _two_paths(self, name: str, call: NotifiedCall) -> None:
        """rename and link: both ends must be granted, or a file could be carried away."""
        old_folder, old_place, new_folder, new_place = _TWO_PATHS[name]
        linking = name in ("link", "linkat")
        follow = linking and bool(name == "linkat" and call.arguments[4] & 0x400)
        old = call.real(old_folder, old_place, follow=follow)
        new = call.real(new_folder, new_place, follow=False)
        if not os.path.lexists(old):
            return call.proceed()
        if self._in_repository(new) and repository_settings.is_update(old, new) and not linking:
            return self._configure(call, old, new)
        grants = []
        for path in (old, new):
            grants.append(self._grant(path))
            if not grants[-1] or (os.path.isdir(old) and self._may_hold_settings(path)):  # noqa: PTH112
                raise Refused(path)
        if linking:
            self._single(old, os.lstat(old))
        if BROKERED not in grants:
            return call.proceed()
        _as_caller(call, old)
        with _Place(old) as source, _Place(new) as target:
            if linking:
                os.link(
                    source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder
                )
            else:
                flags = call.arguments[4] if name == "renameat2" else 0
                old_name, new_name = os.fsencode(source.name), os.fsencode(target.name)
                words = (source.folder, old_name, target.folder, new_name)
                kernel.call("renameat2", *words, flags & 0xFFFFFFFF)
        self._made.add(new)
        return call.answer()

    def _may_hold_settings(self, path: str) -> bool:
        return self._in_repository(path) and repository_settings.may_hold_settings(path)

    def _configure(self, call: NotifiedCall, old: str, new: str) -> None:
        _as_caller(call, new)
        with _Place(old) as at:
            if not repository_settings.put_into_place(at.name, at.folder):
                raise Refused(new, "it would change more than upstream branches")
        return call.answer()

    def _attributes(self, name: str, call: NotifiedCall) -> None:
        """Mode, owner, times and extended attributes, which Landlock does not guard."""
        form = _ATTRIBUTES[name]
        fd = _attribute_file(call, form)
        try:
            real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            nameless = real.startswith(NOT_A_FILE) or real.endswith(" (deleted)")
            if not nameless:
                if not self._grant(real):
                    raise Refused(real, error=EPERM, kind=form.kind)
                self._single(real, os.fstat(fd))
            if name in _OLDER_CALL_KNOWN:
                raise OSError(ENOSYS, "")
            _as_caller(call, real)
            form.carry_out(call, fd)
        finally:
            os.close(fd)
        call.answer()


def _has_form(path: str, template: str) -> bool:
    """Whether the path is the template with letters and digits for its last row of X."""
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


def _as_caller(call: NotifiedCall, path: str) -> None:
    """We act with our own rights and the caller's umask: so it must be the same user."""
    status = call.status()
    if int(status[b"Uid"].split()[3]) != os.geteuid():
        raise Refused(path, "another user than that of the command would change it")
    os.umask(int(status.get(b"Umask", b"022"), 8))


class _Place:
    """A folder, opened and seen to be the one that was decided on, and a name in it."""

    def __init__(self, real: str) -> None:
        self._path, _, self.name = real.rpartition("/")
        self.folder = -1

    def __enter__(self) -> "_Place":
        wanted = self._path or "/"
        self.folder = os.open(wanted, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if os.readlink(f"/proc/self/fd/{self.folder}") != wanted:  # noqa: PTH115
            self.__exit__()
            raise Refused(f"{self._path}/{self.name}", "it leads somewhere else now")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)


def _carry_out(name: str, call: NotifiedCall, at: _Place) -> None:
    _, place = _ENTRIES[name]
    words = call.arguments[place + 1 :]
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
    return name == "rmdir" or (name == "unlinkat" and bool(call.arguments[2] & REMOVE_FOLDER))


class _Attribute:
    """Where the arguments of a call stand: a file by descriptor, or a path with its folder."""

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
            owner, group = signed(words[0]), signed(words[1])
            if kernel.libc().fchownat(fd, b"", owner, group, EMPTY_PATH):
                raise OSError(ctypes.get_errno(), "")
        elif self.kind == "times":
            times = call.memory(words[0], 32) if words[0] else None
            if kernel.libc().utimensat(-100, name.encode(), times, 0):
                raise OSError(ctypes.get_errno(), "")
        elif self.removes:
            os.removexattr(name, call.text(self.first))
        else:
            value = call.memory(words[1], words[2]) if words[2] else b""
            os.setxattr(name, call.text(self.first), value, signed(words[3]))


def _attribute_file(call: NotifiedCall, form: _Attribute) -> int:
    """The file itself, held open: what its path leads to no longer matters."""
    flags = signed(call.arguments[form.flags]) if form.flags is not None else 0
    no_path = form.path is None or call.arguments[form.path] == 0
    if form.file is not None and no_path:
        return call.descriptor(form.file)
    if form.path is None:
        raise PermissionError(EPERM, "")
    follow = form.follow and not flags & NO_FOLLOW
    real = call.real(form.folder, form.path, follow=follow)
    return os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)


_DEVICES = (stat.S_IFCHR, stat.S_IFBLK)
_MAKING = frozenset({"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"})
_ENTRIES: dict[str, tuple[int | None, int]] = {
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
_TWO_PATHS: dict[str, tuple[int | None, int, int | None, int]] = {
    "rename": (None, 0, None, 1),
    "renameat": (0, 1, 2, 3),
    "renameat2": (0, 1, 2, 3),
    "link": (None, 0, None, 1),
    "linkat": (0, 1, 2, 3),
}
_ATTRIBUTES = {
    "chmod": _Attribute("mode", path=0),
    "fchmod": _Attribute("mode", file=0),
    "fchmodat": _Attribute("mode", folder=0, path=1, first=2),
    "fchmodat2": _Attribute("mode", folder=0, path=1, first=2, flags=3),
    "chown": _Attribute("owner", path=0),
    "lchown": _Attribute("owner", path=0, follow=False),
    "fchown": _Attribute("owner", file=0),
    "fchownat": _Attribute("owner", folder=0, path=1, first=2, flags=4),
    "utimensat": _Attribute("times", file=0, folder=0, path=1, first=2, flags=3),
    "setxattr": _Attribute("attributes", path=0),
    "lsetxattr": _Attribute("attributes", path=0, follow=False),
    "fsetxattr": _Attribute("attributes", file=0),
    "setxattrat": _Attribute("attributes", folder=0, path=1, flags=2),
    "removexattr": _Attribute("attributes", path=0, removes=True),
    "lremovexattr": _Attribute("attributes", path=0, follow=False, removes=True),
    "fremovexattr": _Attribute("attributes", file=0, removes=True),
    "removexattrat": _Attribute("attributes", folder=0, path=1, flags=2),
    "file_setattr": _Attribute("flags", folder=0, path=1, flags=4),
    "utime": _Attribute("times", path=0),
    "utimes": _Attribute("times", path=0),
    "futimesat": _Attribute("times", folder=0, path=1),
}
_OLDER_CALL_KNOWN = frozenset(
    {"setxattrat", "removexattrat", "file_setattr", "utime", "utimes", "futimesat"}
)
"""Calls that are not carried out: programs then use another one for the same."""
