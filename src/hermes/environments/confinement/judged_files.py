"""Refuses files that changed after the command was judged, and on which its verdict depends.

Git runs programs that the configuration of a repository names, make runs what is in a Makefile. The
policy looked at such files, or saw that there were none. Another command may have made or replaced
them since. The supervisor opens such a file itself, looks at what it opened, and hands it over: the
caller has no other way to it. This module is sent to other hosts (`remote.session`).
"""

import os
import stat

from hermes.environments.confinement.call_supervisor import NotifiedCall, caller_view
from hermes.environments.confinement.messages import VerdictRules

REPOSITORY_SETTINGS = ("config", "config.worktree", "commondir")
REASON_CHANGED = "it changed after the command was judged"


class JudgedFiles:
    """The files by patterns, and what was at their folders when the command was judged."""

    def __init__(self, rules: VerdictRules) -> None:
        self._judged_at = rules.judged_at
        self._names = frozenset(name for name in rules.judged_files if "*" not in name)
        self._ends = tuple(name[1:] for name in rules.judged_files if name.startswith("*"))
        others = [name for name in rules.judged_files if "*" in name and not name.startswith("*")]
        self._parts = [(name.partition("*")[0], name.partition("*")[2]) for name in others]
        self._folders = {path: (device, node) for path, device, node in rules.judged_folders}
        self._other_repositories = rules.other_repositories

    def match(self, path: str) -> bool:
        """Return whether the verdict may depend on the file, by its name or that of its folder."""
        folder, _, name = path.rpartition("/")
        if self._fits(name):
            return True
        return self._fits(f"{folder.rpartition('/')[2]}/{name}")

    def _fits(self, name: str) -> bool:
        if name in self._names or name.endswith(self._ends):
            return True
        return any(name.startswith(begin) and name.endswith(end) for begin, end in self._parts)

    def open(self, call: NotifiedCall, folder: "int | None", text: str, flags: int) -> "int | None":
        """The file as the caller would open it; None if that is for the kernel to do.

        Raises `OSError` for the caller.
        """
        if os.stat(f"/proc/{call.pid}").st_uid != os.geteuid():  # noqa: PTH116
            return None
        path = caller_view(call.pid, folder, text)
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)

    def changed(self, fd: int, path: str) -> bool:
        """Return whether the opened file, or a folder or link on the way to it, is new."""
        if os.fstat(fd).st_ctime_ns > self._judged_at:
            return True
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        if not self._other_repositories and self._is_of_other_repository(real):
            return True
        return any(self._is_new(each) for each in (*_folders_above(path), *_folders_above(real)))

    def _is_of_other_repository(self, real: str) -> bool:
        """Return whether it is a setting of a repository that was not looked at."""
        folder, _, name = real.rpartition("/")
        if name not in REPOSITORY_SETTINGS or not os.path.exists(f"{folder}/HEAD"):  # noqa: PTH110
            return False
        return not any(self._folders.get(each, (0, 0)) != (0, 0) for each in _records_above(folder))

    def _is_new(self, path: str) -> bool:
        try:
            status = os.lstat(path)
        except OSError:
            return False
        known = self._folders.get(path)
        if known is not None:
            return known != (status.st_dev, status.st_ino)
        # A link keeps its time, the time of a folder changes with each file in it.
        return stat.S_ISLNK(status.st_mode) and status.st_ctime_ns > self._judged_at


def _records_above(folder: str) -> "list[str]":
    """The folder with the data of a repository, and that of the one it is a part of."""
    outer, inside, _ = folder.partition("/.git/")  # submodules and linked work trees
    return [folder, f"{outer}/.git"] if inside else [folder]


def _folders_above(path: str) -> "list[str]":
    parts = os.path.normpath(path).split("/")
    return ["/".join(parts[:at]) for at in range(2, len(parts) + 1)]
