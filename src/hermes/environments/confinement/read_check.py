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
from errno import EACCES, ELOOP, ENOSYS

from hermes.environments.confinement import kernel
from hermes.environments.confinement.call_supervisor import (
    AT_FDCWD,
    MAX_PATH_BYTES,
    NotifiedCall,
    signed_int,
)
from hermes.environments.confinement.messages import VerdictRules

RESOLVE_NO_MAGIC_LINKS = 2
PAGE_BYTES = 4096
MAX_LINKS = 40
MAX_KNOWN_FOLDERS = 4096
USUAL_FILES = tuple(
    f"{folder}/{os.uname().machine}-linux-gnu{name}"
    for folder in ("/lib", "/usr/lib")
    for name in ("/libc.so.6", "/gconv/gconv-modules.cache")
)
MAX_PROGRAM_NAME_CHARS = 15
"""The kernel cuts the names of programs to this length."""


class ReadRefused(Exception):
    """The verdict does not cover reading the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path, self.error = path, EACCES


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
    return any(matches_pattern(path, each) for each in patterns)


class SecretPatterns:
    """Patterns of paths: `*` stands for any characters, also slashes; `!` marks an exception.

    What depends on the folder alone is remembered for each folder. Regular expressions would take
    10 ms to compile.
    """

    def __init__(self, patterns: "tuple[str, ...]") -> None:
        secret = [each for each in patterns if not each.startswith("!")]
        self._public = [each[1:] for each in patterns if each.startswith("!")]
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

    def prepare_usual_folders(self) -> None:
        """Those from which nearly every program opens a file."""
        for name in ("/etc/x", "/dev/x", "/proc/x", *map(os.path.realpath, USUAL_FILES)):
            self.match(name)

    def match(self, path: str) -> bool:
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
        return secret and not _matches_any(path, self._public)

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


_PREPARED_PATTERNS: "dict[tuple[str, ...], SecretPatterns]" = {}


def prepare_patterns(patterns: "tuple[str, ...]") -> SecretPatterns:
    """Called in the fork server as well: the supervisors of the next commands start with them."""
    found = _PREPARED_PATTERNS.get(patterns)
    if found is None:
        found = _PREPARED_PATTERNS[patterns] = SecretPatterns(patterns)
        found.prepare_usual_folders()
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

    def __init__(self, rules: VerdictRules) -> None:
        self._secrets = prepare_patterns(rules.refused_reads)
        self._granted: dict[str, list[str]] = {}
        for each in rules.granted_reads:
            program, _, pattern = each.partition(":")
            self._granted.setdefault(program[:MAX_PROGRAM_NAME_CHARS], []).append(pattern)
        self._hidden = frozenset(rules.hidden)
        self._buffer = ctypes.create_string_buffer(MAX_PATH_BYTES)
        self._local = _MemoryRange(ctypes.addressof(self._buffer), MAX_PATH_BYTES)
        self._remote = (_MemoryRange * 2)()
        self._how = _PathResolution(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_MAGIC_LINKS)

    def decide(self, name: str, call: NotifiedCall) -> None:
        """Answers the call. Raises `ReadRefused`."""
        folder, argument = (call.arguments[0], 1) if name == "openat" else (None, 0)
        secret, real = self._resolve(call.pid, folder, call.arguments[argument])
        if secret and not self._is_granted(call, real):
            raise ReadRefused(real)
        call.proceed()

    def rehearse(self) -> None:
        """Resolves a path of this process, as a fork needs more time for that at first."""
        path = ctypes.create_string_buffer(b"/etc/ld.so.cache")
        self._resolve(os.getpid(), AT_FDCWD, ctypes.addressof(path))

    def _resolve(self, pid: int, folder: "int | None", address: int) -> "tuple[bool, str]":
        """Whether it is a file with secrets, and its real path."""
        path = _absolute_path(pid, folder, self._text(pid, address))
        real = self._real_path(path, pid)
        secret = self._secrets.match(real) or (path != real and self._secrets.match(_plain(path)))
        return secret, real

    def _text(self, pid: int, address: int) -> str:
        first = PAGE_BYTES - address % PAGE_BYTES
        self._remote[0].start, self._remote[0].size = address, first
        self._remote[1].start, self._remote[1].size = address + first, MAX_PATH_BYTES - first
        ranges = 2 if first < MAX_PATH_BYTES else 1
        size = kernel.libc().process_vm_readv(
            pid, ctypes.byref(self._local), 1, self._remote, ranges, 0
        )
        data = self._buffer.raw[:size] if size > 0 else _read_memory_file(pid, address)
        return os.fsdecode(data.partition(b"\0")[0])

    def _real_path(self, path: str, pid: int) -> str:
        """With resolved links; the path itself when there is no such file."""
        try:
            fd = kernel.system_call(
                "openat2", AT_FDCWD, os.fsencode(path), ctypes.byref(self._how), 24
            )
        except OSError as error:
            return resolve_links(path, pid) if error.errno in (ELOOP, ENOSYS) else path
        try:
            return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        finally:
            os.close(fd)

    def _is_granted(self, call: NotifiedCall, real: str) -> bool:
        patterns = self._granted.get("*", []) + self._granted.get(call.program(), [])
        if real in self._hidden:  # wide patterns do not cover what the verdict hides
            return real in patterns or _has_stand_in(call.pid, real)
        return _matches_any(real, patterns)


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


def _has_stand_in(pid: int, path: str) -> bool:
    try:
        outside, inside = os.stat(path), os.stat(f"/proc/{pid}/root{path}")  # noqa: PTH116
    except OSError:
        return False
    return (outside.st_dev, outside.st_ino) != (inside.st_dev, inside.st_ino)


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
