"""Refuses to open files with secrets for reading, where the judge did not know all names.

The arguments of a program may come from a file, a wildcard or a search through folders. For such a
command the filter passes each opening for reading to the supervisor, which resolves the path and
compares it with the patterns of the policy. The kernel then opens the path on its own, so a program
that changes it in between gets past this check. That protects programs that open what they are
given; a program of unknown code is not allowed to run without an approval. This module is sent to
other hosts (`remote.session`).
"""

import ctypes
import os
import stat
from errno import EACCES

from hermes.environments.confinement import kernel
from hermes.environments.confinement.call_supervisor import (
    AT_FDCWD,
    MAX_PATH_BYTES,
    NotifiedCall,
    caller_view,
    signed_int,
)
from hermes.environments.confinement.installed_programs import (
    MAX_PROGRAM_NAME_CHARS,
    SYSTEM_FOLDERS,
    SystemFileCache,
    is_installed_program,
)
from hermes.environments.confinement.judged_files import REASON_CHANGED, JudgedFiles
from hermes.environments.confinement.messages import VerdictRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.environments.confinement.supervised_changes import (
        SupervisedChanges as CoveredChanges,
    )

RESOLVE_NO_MAGIC_LINKS, OPENAT2_NUMBER = 2, 437
"""`openat2` has the same number on every architecture."""
PAGE_BYTES = 4096
USUAL_PATH_BYTES = 256
"""Bytes that are read first of a path; more only if it is longer."""
MAX_LINKS = 40
MAX_KNOWN_FOLDERS = 4096
_LOCALE_PARTS = (
    "ADDRESS COLLATE CTYPE IDENTIFICATION MEASUREMENT MESSAGES MONETARY NAME NUMERIC PAPER "
    "TELEPHONE TIME MESSAGES/SYS_LC_MESSAGES"
)
_LIBRARY_FOLDERS = (f"/lib/{os.uname().machine}-linux-gnu", "/lib64")
USUAL_FILES = (
    *("/etc/ld.so.cache", "/usr/share/locale/locale.alias", "/usr/lib/locale/locale-archive"),
    f"/usr/lib/{os.uname().machine}-linux-gnu/gconv/gconv-modules.cache",
    *(
        f"{folder}/{name}"
        for folder in _LIBRARY_FOLDERS
        for name in ("libc.so.6", "libtinfo.so.6", "libselinux.so.1", "libpcre2-8.so.0")
    ),
    *(
        f"/usr/lib/locale/{folder}/LC_{part}"
        for folder in ("C.UTF-8", "C.utf8")
        for part in _LOCALE_PARTS.split()
    ),
)
"""Files that nearly every program opens."""
VIRTUAL_ENVIRONMENT_FOLDERS = ("bin/", "lib/", "lib64/", "share/", "include/")


class ReadRefused(Exception):
    """The verdict does not cover reading the file."""

    def __init__(self, path: str, why: str = "", kind: str = "read") -> None:
        super().__init__(path)
        self.path, self.error, self.why, self.kind = path, EACCES, why, kind


class _PathResolution(ctypes.Structure):
    """struct open_how"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("flags", "mode", "resolve")]


class _MemoryRange(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def matches_pattern(path: str, pattern: str) -> bool:
    """`*` stands for any characters. Not `fnmatch`: importing it takes 10 ms."""
    first, *parts = pattern.split("*")
    if not parts:
        return path == pattern
    if not path.startswith(first):
        return False
    position = len(first)
    for part in parts[:-1]:
        position = path.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return path.endswith(parts[-1]) and len(path) - position >= len(parts[-1])


def _matches_any(path: str, patterns: "list[str]") -> bool:
    for each in patterns:  # noqa: SIM110 - a generator takes longer than most of the patterns
        if matches_pattern(path, each):
            return True
    return False


class SecretPatterns:
    """Patterns of paths: `*` stands for any characters, also slashes; `!` marks an exception, whose
    end after the last slash is for the name alone; `!!` marks names that are no exception.

    What depends on the folder alone is remembered for each folder. Regular expressions would take
    10 ms to compile.
    """

    def __init__(self, patterns: "tuple[str, ...]") -> None:
        secret = [each for each in patterns if not each.startswith("!")]
        exceptions = [each[1:] for each in patterns if each.startswith("!")]
        self._private = [each[1:] for each in exceptions if each.startswith("!")]
        self._public = [each for each in exceptions if not each.startswith("!")]
        self._below = [each for each in secret if each.endswith("*")]
        self._placed = [each for each in secret if not _name_in_any_folder(each)]
        names = [name for name in map(_name_in_any_folder, secret) if name]
        self._names = frozenset(each for each in names if "*" not in each)
        self._ends = tuple(each[1:] for each in names if each.rfind("*") == 0)
        others = [each for each in names if each.rfind("*") > 0]
        self._starts = tuple(each.partition("*")[0] for each in others if each[0] != "*")
        self._started = [each for each in others if each[0] != "*"]
        self._inner = [each for each in others if each[0] == "*"]
        self._folders: dict[str, tuple[bool, list[str]]] = {}
        self.system_files = SystemFileCache()

    def prepare_usual_files(self) -> None:
        for name in ("/etc/x", "/dev/x", "/proc/x"):
            self.match(name)
        for path in USUAL_FILES:
            real = os.path.realpath(path)
            if not self.match(real) and not self.match(path):
                self.system_files.add(path, real)

    def match(self, path: str) -> bool:
        if "/.env/" in path:
            path = _without_environment_name(path)
        folder, _, name = path.rpartition("/")
        whole, placed = self._folders.get(folder) or self._remember(folder)
        secret = (
            whole
            or name in self._names
            or name.endswith(self._ends)
            or _matches_any(name, self._inner)
            or (name.startswith(self._starts) and _matches_any(name, self._started))
            or _matches_any(path, placed)
        )
        return secret and not self._is_public(path, name)

    def _is_public(self, path: str, name: str) -> bool:
        if _matches_any(name, self._private):
            return False
        return any(
            matches_pattern(name, each.rpartition("/")[2]) and matches_pattern(path, each)
            for each in self._public
        )

    def _remember(self, folder: str) -> "tuple[bool, list[str]]":
        if len(self._folders) >= MAX_KNOWN_FOLDERS:
            self._folders.clear()
        whole = _matches_any(f"{folder}/", self._below)
        heads = [(each.rpartition("/")[0], each) for each in self._placed]
        placed = [
            each
            for head, each in heads
            if matches_pattern(folder, head) or matches_pattern(folder, f"{head}/*")
        ]
        self._folders[folder] = whole, placed
        return whole, placed


def _without_environment_name(path: str) -> str:
    """The name of a virtual environment makes nothing in it secret, but also nothing public."""
    head, _, inside = path.partition("/.env/")
    if inside.startswith(VIRTUAL_ENVIRONMENT_FOLDERS) or inside == "pyvenv.cfg":
        return f"{head}/env/{inside}"
    return path


_PREPARED_PATTERNS: "dict[tuple[str, ...], SecretPatterns]" = {}


def prepare_patterns(patterns: "tuple[str, ...]") -> SecretPatterns:
    """Called in the fork server as well: the supervisors of the next commands start with them."""
    found = _PREPARED_PATTERNS.get(patterns)
    if found is None:
        found = _PREPARED_PATTERNS[patterns] = SecretPatterns(patterns)
        found.prepare_usual_files()
    return found


def _name_in_any_folder(pattern: str) -> str:
    """The pattern for the name of a file; empty when the pattern names a folder as well."""
    if pattern.startswith("*/"):
        return "" if "/" in pattern[2:] else pattern[2:]
    return pattern if pattern.startswith("*") and "/" not in pattern else ""


def rehearse_checks() -> None:
    """Called in a supervisor that waits for its command."""
    for patterns in _PREPARED_PATTERNS:
        rules = VerdictRules()
        rules.refused_reads = patterns
        ReadCheck(rules).rehearse()


class ReadCheck:
    """Decides on openings for reading. `hidden` files have stand-ins, which may be read."""

    def __init__(self, rules: VerdictRules, changes: "CoveredChanges | None" = None) -> None:
        self._secrets = prepare_patterns(rules.refused_reads)
        self._judged = JudgedFiles(rules) if rules.judged_files else None
        self._changes = changes if rules.may_make_judged else None
        self._granted: dict[str, list[str]] = {}
        for each in rules.granted_reads:
            program, _, pattern = each.partition(":")
            self._granted.setdefault(program[:MAX_PROGRAM_NAME_CHARS], []).append(pattern)
        self._hidden = frozenset(rules.hidden)
        self._changed = changed_paths(rules)
        self._system_files = self._secrets.system_files
        if changes_system_folders(rules):
            self._system_files = SystemFileCache(max_known=0)
        self._buffer = ctypes.create_string_buffer(MAX_PATH_BYTES)
        self._local = _MemoryRange(ctypes.addressof(self._buffer), MAX_PATH_BYTES)
        self._remote = (_MemoryRange * 2)()
        self._read_memory = kernel.libc()["process_vm_readv"]
        self._read_arguments = ctypes.byref(self._local), 1, ctypes.byref(self._remote)
        how = _PathResolution(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_MAGIC_LINKS)
        self._system_call, self._how = (
            kernel.libc()["syscall"],
            (
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            ),
        )

    def decide(self, name: str, call: NotifiedCall) -> None:
        """Answers the call. Raises `ReadRefused`."""
        if name in ("execve", "execveat"):
            return self._decide_start(name, call)
        folder, argument = (call.arguments[0], 1) if name == "openat" else (None, 0)
        text = self._text(call.pid, call.arguments[argument])
        if text not in self._system_files.known:
            secret, real = self._resolve(call.pid, folder, os.fsdecode(text))
            if secret and not self._is_granted(call, folder, os.fsdecode(text), real):
                raise ReadRefused(real)
            if self._judged is not None and self._gives_judged(call, folder, text, argument, real):
                return None
        return call.proceed()

    def _decide_start(self, name: str, call: NotifiedCall) -> None:
        """Answers the start of a program: a hook may be machine code, which nothing opens to read.

        The kernel looks the path up again, but only a program that may change it could use that.
        Raises `ReadRefused`.
        """
        folder, argument = (call.arguments[0], 1) if name == "execveat" else (None, 0)
        text = os.fsdecode(self._text(call.pid, call.arguments[argument]))
        path = _absolute_path(call.pid, folder, text)
        if self._judged is not None and self._is_changed(call, folder, text, path):
            raise ReadRefused(path, REASON_CHANGED, kind="run")
        call.proceed()

    def _is_changed(self, call: NotifiedCall, folder: "int | None", text: str, path: str) -> bool:
        judged, real = self._judged, self._real_path(path, call.pid)
        if judged is None or not (judged.match(real) or judged.match(text)):
            return False
        if self._changes is not None and self._changes.covers(real):
            return False
        try:
            fd = judged.open(call, folder, text, os.O_PATH)
        except OSError:  # the kernel tells the caller why it cannot be started
            return False
        if fd is None:
            return False
        try:
            return judged.changed(fd, path)
        finally:
            os.close(fd)

    def _gives_judged(
        self, call: NotifiedCall, folder: "int | None", text: bytes, argument: int, real: str
    ) -> bool:
        """Return whether it answered the call with a file on which the verdict depends."""
        judged, name = self._judged, os.fsdecode(text)
        if judged is None or not (judged.match(real) or judged.match(name)):
            return False
        if self._changes is not None and self._changes.covers(real):
            return False  # the command itself may have made it
        flags = signed_int(call.arguments[argument + 1])
        fd = judged.open(call, folder, name, flags)
        if fd is None:
            return False
        try:
            if judged.changed(fd, _absolute_path(call.pid, folder, name)):
                raise ReadRefused(real, REASON_CHANGED)
            if os.readlink(f"/proc/self/fd/{fd}") in self._hidden:  # noqa: PTH115
                return False  # the caller has a stand-in
            os.set_blocking(fd, not flags & os.O_NONBLOCK)
            call.give(fd, close_on_exec=bool(flags & os.O_CLOEXEC))
        finally:
            os.close(fd)
        return True

    def rehearse(self) -> None:
        """Resolves a path of this process, as a fork needs more time for that at first."""
        path = ctypes.create_string_buffer(b"/etc/ld.so.cache")
        text = self._text(os.getpid(), ctypes.addressof(path))
        self._resolve(os.getpid(), AT_FDCWD, os.fsdecode(text))

    def _resolve(self, pid: int, folder: "int | None", text: str) -> "tuple[bool, str]":
        """Return whether it is a file with secrets, and its real path."""
        path = _absolute_path(pid, folder, text)
        real = self._real_path(path, pid)
        secret = (
            real in self._hidden
            or self._secrets.match(real)
            or (path != real and self._secrets.match(_plain(path)))
        )
        if not secret and text.startswith(SYSTEM_FOLDERS):
            self._system_files.add(text, real)
        return secret, real

    def _text(self, pid: int, address: int) -> bytes:
        """The path at this address of the process, without the zero at its end."""
        first = self._remote[0]
        first.start = address
        first.size = min(PAGE_BYTES - address % PAGE_BYTES, USUAL_PATH_BYTES)
        size: int = self._read_memory(pid, *self._read_arguments, 1, 0)
        text: bytes = self._buffer.value
        return text if len(text) < size else self._long_text(pid, address)

    def _long_text(self, pid: int, address: int) -> bytes:
        """A path that is long or continues on the next page, which may be missing."""
        first = PAGE_BYTES - address % PAGE_BYTES
        self._remote[0].size = first
        self._remote[1].start, self._remote[1].size = address + first, MAX_PATH_BYTES - first
        ranges = 2 if first < MAX_PATH_BYTES else 1
        size: int = self._read_memory(pid, *self._read_arguments, ranges, 0)
        data = self._buffer.raw[:size] if size > 0 else _read_memory_file(pid, address)
        return data.partition(b"\0")[0]

    def _real_path(self, path: str, pid: int) -> str:
        """With resolved links; the path itself when there is no such file. A block device is
        below /dev, also if it has another name."""
        fd: int = self._system_call(OPENAT2_NUMBER, AT_FDCWD, os.fsencode(path), *self._how)
        if fd < 0:  # perhaps only missing here: `/proc/self` is another process for the caller
            return resolve_links(path, pid).removesuffix(" (deleted)")
        try:
            real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            if stat.S_ISBLK(os.fstat(fd).st_mode) and not real.startswith("/dev/"):
                return f"/dev/block{real}"  # whatever its name is
            return real
        finally:
            os.close(fd)

    def _is_granted(self, call: NotifiedCall, folder: "int | None", text: str, real: str) -> bool:
        name = call.program()
        patterns = self._granted.get(name, [])
        if patterns and not is_installed_program(call.pid, name, self._changed):
            patterns = []
        patterns = self._granted.get("*", []) + patterns
        if real in self._hidden:  # wide patterns do not cover what the verdict hides
            view = caller_view(call.pid, folder, text)
            return real in patterns or _is_stand_in(view, call.pid, real)
        return _matches_any(real, patterns)


def changed_paths(rules: VerdictRules) -> "tuple[str, ...]":
    return (*rules.trees, *rules.exact, *rules.repositories, *rules.templates, *rules.beside)


def changes_system_folders(rules: VerdictRules) -> bool:
    changed = changed_paths(rules)
    return any(
        path.startswith(SYSTEM_FOLDERS)
        or any(folder.startswith(f"{path.rstrip('/')}/") for folder in SYSTEM_FOLDERS)
        for path in changed
    )


def _read_memory_file(pid: int, address: int) -> bytes:
    """For containers that forbid the call. Raises `OSError` without access."""
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, MAX_PATH_BYTES, address)
    finally:
        os.close(fd)


def _absolute_path(pid: int, folder: "int | None", text: str) -> str:
    if text.startswith("/"):
        return text
    start = AT_FDCWD if folder is None else signed_int(folder)
    link = f"/proc/{pid}/cwd" if start == AT_FDCWD else f"/proc/{pid}/fd/{start}"
    try:
        base = os.readlink(link)  # noqa: PTH115
    except OSError:
        return text
    return f"{link if base.endswith(' (deleted)') else base}/{text}"


def _plain(path: str) -> str:
    return os.path.normpath(path) if "/." in path or "//" in path else path


def _is_stand_in(view: str, pid: int, path: str) -> bool:
    """Return whether the process has a stand-in for the path, and gets to it and not to the file.

    Another process has no stand-ins: its root folder leads to the file.
    """
    try:
        outside, inside = os.stat(path), os.stat(f"/proc/{pid}/root{path}")  # noqa: PTH116
        reached = os.stat(view)  # noqa: PTH116
    except OSError:
        return False
    return os.path.samestat(reached, inside) and not os.path.samestat(outside, inside)


def resolve_links(path: str, pid: int) -> str:
    """As the process resolves it: `/proc/self` is the process. A missing part ends the links."""
    left, current, links = path.split("/")[::-1], "", 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            current = current.rpartition("/")[0]
            continue
        current = f"{current}/{name}"
        if current == "/proc/self":
            current = f"/proc/{pid}"
        elif current == "/proc/thread-self":
            current = f"/proc/{pid}/task/{pid}"
        else:
            try:
                target = os.readlink(current)  # noqa: PTH115
            except OSError:
                continue
            links += 1
            if links > MAX_LINKS or (current.startswith("/proc/") and target[0] != "/"):
                return f"{current}/{target}"
            current = "" if target.startswith("/") else current.rpartition("/")[0]
            left += target.split("/")[::-1]
    return current or "/"
