"""What in a git repository decides which programs git runs: its configuration and its hooks.

A command that may change a repository may not change these. One exception keeps ordinary work
going: git notes in the configuration which remote branch a new branch follows.
"""

import os
import re
import stat

_SETTINGS = frozenset({"config", "config.worktree", "config.worktree.lock", "hooks"})
_LINKS = frozenset({"commondir", "gitdir"})
"""Files that say where the rest of a repository is. A new worktree gets its own."""
_CONTENT = frozenset({"objects", "refs", "logs", "rr-cache", "lfs"})
_OF_OTHERS = frozenset({"modules", "worktrees"})
LARGEST_CONFIG_BYTES = 1 << 20
_SECTION = re.compile(rb"[ \t]*\[")
_BRANCH = re.compile(rb'\[branch "[\w./-]+"\]')
_UPSTREAM = re.compile(rb"\t(?:remote = [\w.-]+|merge = refs/[\w./-]+|rebase = true)")


def is_setting(path: str, made: set[str]) -> bool:
    """`made` are the files that the same command has made."""
    return any(_is_setting(inside, path, made) for inside in _inside(path))


def _is_setting(inside: list[str], path: str, made: set[str]) -> bool:
    if not inside:  # the folder of the repository itself, or a file that leads to it
        return True
    nested = inside[0] in _OF_OTHERS
    for place, name in enumerate(inside if nested else inside[:1]):
        if name in _CONTENT:
            return False
        if name in _SETTINGS or inside[place : place + 2] == ["info", "attributes"]:
            return True
        if name in _LINKS:
            return not nested or (path not in made and os.path.lexists(path))
    return False


def may_hold_settings(path: str) -> bool:
    """Whether a folder or link put here, or moved from here, could bring other settings."""
    return any(not inside or inside[0] not in _CONTENT for inside in _inside(path))


def _inside(path: str) -> list[list[str]]:
    """The names below each folder of a repository that the path leads through."""
    names = path.split("/")
    return [names[place + 1 :] for place, name in enumerate(names) if name == ".git"]


def is_update(old: str, new: str) -> bool:
    """Whether a rename is git's way to put a new configuration into place."""
    return new.endswith("/.git/config") and old == f"{new}.lock"


def put_into_place(lock: str, folder: int) -> bool:
    """Replace `config` in an open folder by its lock file, if only upstream branches differ.

    The content is copied: the command may still hold the lock file open.
    """
    before, after = _content("config", folder), _content(lock, folder)
    if before is None or after is None or not only_upstreams_differ(before, after):
        return False
    mode = stat.S_IMODE(os.stat("config", dir_fd=folder, follow_symlinks=False).st_mode)
    copy = f"config.{os.getpid()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(copy, flags, mode, dir_fd=folder)
    try:
        os.write(fd, after)
    finally:
        os.close(fd)
    os.rename(copy, "config", src_dir_fd=folder, dst_dir_fd=folder)
    os.unlink(lock, dir_fd=folder)
    return True


def _content(name: str, folder: int) -> bytes | None:
    """None for a file that is too large to be compared."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        content = os.read(fd, LARGEST_CONFIG_BYTES + 1)
    finally:
        os.close(fd)
    return content if len(content) <= LARGEST_CONFIG_BYTES else None


def only_upstreams_differ(before: bytes, after: bytes) -> bool:
    return _without_upstreams(before) == _without_upstreams(after)


def _without_upstreams(content: bytes) -> list[bytes]:
    """The lines, but for sections of branches in which nothing but the upstream stands."""
    sections: list[list[bytes]] = [[]]
    for line in content.splitlines():
        if _SECTION.match(line):
            sections.append([])
        sections[-1].append(line)
    return [line for section in sections if not _is_upstream(section) for line in section]


def _is_upstream(section: list[bytes]) -> bool:
    if not section or not _BRANCH.fullmatch(section[0]):
        return False
    return all(_UPSTREAM.fullmatch(line) for line in section[1:])
