"""Which programs and files are those of the system: only root installed them, and can change them.

This module is sent to other hosts (`remote.session`).
"""

import os
import stat

from hermes.environments.confinement.call_supervisor import MAX_PATH_BYTES

MAX_KNOWN_FILES = 4096
SYSTEM_FOLDERS = (
    *("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/share/locale/"),
    "/etc/ld.so.cache",
)
"""Where programs find libraries and translations when they start."""
PROGRAM_FOLDERS = (
    *("/usr/local/bin", "/usr/bin", "/bin", "/usr/lib/git-core", "/snap/bin"),
    *("/usr/local/sbin", "/usr/sbin", "/sbin"),
)
SYSTEM_PROGRAM_FOLDERS = (
    *("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/", "/snap/", "/nix/store/"),
)
"""Where programs are installed for all users."""
INTERPRETER_FLAGS = ("-E", "-Es", "-I", "-O", "-P", "-T", "-s", "-sE", "-u", "-w")
"""Options in the first line of a script that have no value."""
ROOT_HOME = "/root"
MAX_PROGRAM_NAME_CHARS = 15
"""The kernel cuts the names of programs to this length."""


class SystemFileCache:
    """Paths below `SYSTEM_FOLDERS` that lead to no secret, and that only root can lead elsewhere.

    Every program opens a dozen of them when it starts; they are resolved once.
    """

    def __init__(self, max_known: int = MAX_KNOWN_FILES) -> None:
        self.known: set[bytes] = set()
        self._max_known, self._folders = max_known, {"": True}

    def add(self, path: str, real: str) -> None:
        inside = path.startswith(SYSTEM_FOLDERS) and real.startswith(SYSTEM_FOLDERS)
        if (
            inside
            and "/.." not in path
            and len(self.known) < self._max_known
            and self.belongs_to_root(path.rpartition("/")[0])
            and self.belongs_to_root(real.rpartition("/")[0])
        ):
            self.known.add(os.fsencode(path))

    def belongs_to_root(self, folder: str) -> bool:
        """Return whether only root can change entries of this folder, and of all above it."""
        found = self._folders.get(folder)
        if found is None:
            found = self.belongs_to_root(folder.rpartition("/")[0])
            try:
                status = os.stat(folder)  # noqa: PTH116 - pathlib costs 8 ms
                found = found and status.st_uid == 0 and not status.st_mode & 0o022
            except FileNotFoundError:
                pass  # who could make it is decided by the folder above
            except OSError:
                found = False
            self._folders[folder] = found
        return found


def is_installed_program(pid: int, name: str, changed: "tuple[str, ...]") -> bool:
    """Return whether a process of this name runs a program of the system, not a copy of another
    one.

    A process may choose its name. The file that it runs, or the script if that file is an
    interpreter, has to be installed under this name where the command changes nothing.
    """
    try:
        file = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
        status = os.stat(f"/proc/{pid}/exe")  # noqa: PTH116
        of_system = _is_of_system(file, status, changed)
        installed = (f"{folder}/{name}" for folder in PROGRAM_FOLDERS)
        named = _has_name(file, name) or any(os.path.realpath(each) == file for each in installed)
        if of_system and named:
            return True
        if not of_system and not is_interpreter_of_root(file, status, changed):
            return False
        script = _script_of(pid)
        return _has_name(script, name) and _is_of_system(
            os.path.realpath(script),
            os.stat(script),  # noqa: PTH116
            changed,
        )
    except OSError:
        return False


def _script_of(pid: int) -> str:
    """The script that an interpreter was started for."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
        words = os.fsdecode(file.read(MAX_PATH_BYTES)).split("\0")[1:3]
    if words[:1] and words[0] in INTERPRETER_FLAGS:
        del words[0]
    return words[0] if words and words[0].startswith("/") else ""


def _has_name(file: str, name: str) -> bool:
    return file.rpartition("/")[2][:MAX_PROGRAM_NAME_CHARS] == name


def _is_of_system(file: str, status: os.stat_result, changed: "tuple[str, ...]") -> bool:
    return (
        file.startswith(SYSTEM_PROGRAM_FOLDERS)
        and status.st_uid == os.stat("/usr").st_uid  # noqa: PTH116
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and not any(f"{file}/".startswith(f"{path.rstrip('/')}/") for path in changed)
    )


def is_interpreter_of_root(file: str, status: os.stat_result, changed: "tuple[str, ...]") -> bool:
    """Return whether root installed it in a hidden folder of its home, as pyenv and nvm do.

    Only root can change it and the folders above, and the command does not.
    """
    home = ROOT_HOME + "/."
    return (
        file.startswith(home)
        and status.st_uid == 0
        and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        and SystemFileCache().belongs_to_root(file.rpartition("/")[0])
        and not any(f"{file}/".startswith(f"{path.rstrip('/')}/") for path in changed)
    )


TRANSPARENT_PROGRAMS = ("bash", "dash", "sh", "busybox", "zsh", "ksh", "timeout")
"""Programs that start only what the judged text says, in its own words."""
MAX_GENERATIONS = 16


class ConnectingPrograms:
    """The processes that may use the network because the verdict names their program.

    A helper that such a program starts may, too (`git-remote-https`). Between it and the shell of
    the command only transparent and other such programs may stand: another one of the command
    could otherwise start `curl` with words of its own.
    """

    def __init__(self, files: "tuple[str, ...]") -> None:
        self._files = frozenset(files)

    def includes(self, pid: int, leader: int) -> bool:
        """`leader` is the process of the whole command."""
        if not self._files:
            return True
        named = False
        for _ in range(MAX_GENERATIONS):
            file = _program_file(pid)
            if file in self._files:
                named = True
            elif named and file.rpartition("/")[2] not in TRANSPARENT_PROGRAMS:
                return False
            if pid == leader:
                return named
            pid = parent_and_session(pid)[0]
            if pid <= 1:
                break
        # A parent has ended: usual only after the end of the whole command, in the background.
        return named and not os.path.exists(f"/proc/{leader}")  # noqa: PTH110


def _program_file(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:
        return ""


def parent_and_session(pid: int) -> "tuple[int, int]":
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
            return int(fields[1]), int(fields[3])
    except (OSError, IndexError, ValueError):
        return 0, 0
