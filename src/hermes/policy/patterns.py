"""Words with `*` and folders with all below them, compiled once and matched thousands of times."""

import re
from fnmatch import translate
from pathlib import PurePosixPath

from hermes.policy import schema
from hermes.policy.schema import words

_GLOB = re.compile(r"[*?\[{…]")
_SETTLED = re.compile(r"[^*?\[\]{}…]")
_TRUSTED = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/snap/bin"}
)


_NOBODYS = frozenset({"", "/", "/tmp", "/var/tmp"})
"""Folders that are never what the work is about, even when somebody starts there."""


class Globs:
    """Names to compare with; most have no `*` and are looked up in a set."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._exact = frozenset(name for name in names if not _GLOB.search(name))
        globs = [translate(name) for name in names if name not in self._exact]
        self._pattern = re.compile("|".join(globs)) if globs else None

    def fits(self, text: str) -> bool:
        if text in self._exact:
            return True
        return self._pattern is not None and self._pattern.match(text) is not None


def program_fits(program: str, programs: Globs, *, every: bool) -> bool:
    """By name, or by path for a pattern with a slash.

    A rule that loosens takes `/x/ls` for `ls` only where the system keeps its programs: anybody
    can write a file of that name somewhere else.
    """
    if programs.fits(program):
        return True
    folder, _, name = program.rpartition("/")
    if not folder or (every and folder not in _TRUSTED):
        return False
    return programs.fits(name)


class PathPatterns:
    """`~` is the home of the user; `.` the folder the work is about."""

    def __init__(self, match: schema.PathMatch, home: str) -> None:
        under = tuple(_absolute(folder, home) for folder in words(match.under))
        self._under = tuple(folder for folder in under if folder != ".")
        self._workspace = len(self._under) < len(under)
        self._exactly = frozenset(_absolute(path, home) for path in words(match.exactly))
        self._like = Globs(tuple(_absolute(path, home) for path in words(match.like)))

    def fit(self, paths: tuple[str, ...], workspace: str, *, every: bool) -> bool:
        folders = self._under
        if self._workspace and workspace not in _NOBODYS:
            folders = (*folders, workspace)
        if every:
            return bool(paths) and all(self._covers(path, folders) for path in paths)
        return any(self._touches(path, folders) for path in paths)

    def _covers(self, path: str, folders: tuple[str, ...]) -> bool:
        """A folder does not cover itself: leave to clear it is not leave to remove it."""
        found = _GLOB.search(path)
        if found is None:
            return self._named(path) or any(_inside(path, folder) for folder in folders)
        head = path[: path.rfind("/", 0, found.start())]
        name = path[len(head) + 1 :].partition("/")[0]
        if "…" in path or ".." in path or not path.startswith("/"):
            return False  # who knows where that leads
        if any(_inside(head, folder) for folder in folders):
            return True
        return _SETTLED.search(name) is not None and head in folders  # /tmp/*.log, not /tmp/*

    def _touches(self, path: str, folders: tuple[str, ...]) -> bool:
        found = _GLOB.search(path)
        if found is None:
            return self._named(path) or any(_within(path, folder) for folder in folders)
        known = path[: found.start()]
        places = (*folders, *self._exactly)
        return self._named(path) or any(
            place.startswith(known) or _within(known, place) for place in places
        )

    def _named(self, path: str) -> bool:
        return path in self._exactly or self._like.fits(path)


def _inside(path: str, folder: str) -> bool:
    return path.startswith("/" if folder == "/" else f"{folder}/")


def _within(path: str, folder: str) -> bool:
    return path == folder or _inside(path, folder)


def _absolute(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return str(PurePosixPath(path))
