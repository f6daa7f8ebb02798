"""Resolves the paths of a verdict just before its command starts, where the command will run.

If a path leads elsewhere than when it was judged, the command is refused. Also decides which files
of a git repository are settings. This module is sent to other hosts (`remote.session`), so it sets
`TYPE_CHECKING` itself instead of importing `typing`.
"""

import os
import re
import stat

from hermes.environments.confinement.hidden_files import find_hidden_files
from hermes.environments.confinement.messages import VerdictRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.core.actions import ConfinementProfile


NAME_SERVICE_SOCKETS = (
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/var/lib/sss/pipes/*",
    "/run/systemd/userdb/*",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/dbus/system_bus_socket.nss",
)
"""Unix sockets of name services for users and hosts; every command may use them."""


_SQLITE_FILE_ENDINGS = ("-wal", "-shm")
_SQLITE_HEADER = b"SQLite format 3\0"
_FOLDERS_OF_RUN_FILES = re.compile(
    r"/(?:[^/]*\.d|s?bin|cron[^/]*|hooks|autostart|init|profile|systemd)/"
)
"""Folders whose files are run or loaded whatever their names end in."""


class PathTargetChanged(Exception):
    """A judged path leads to another file now. The message is for people."""


def resolve_rules(
    profile: "ConfinementProfile", folder: str, protected: tuple[str, ...] = ()
) -> VerdictRules:
    """The profile with resolved paths. Raises `PathTargetChanged`.

    `protected` are path prefixes that no command may change, whatever its verdict.
    """
    rules = VerdictRules()
    rules.protected = protected + tuple(os.path.realpath(path) for path in profile.protected)
    judged = [os.path.normpath(path) for path in profile.writable]
    for path in judged:
        _add_path(rules, resolve_judged_path(path, judged))
    for path in filter(_is_needed_file, profile.needs):
        _add_path(rules, os.path.realpath(path))
    for path in _repository_folders(profile, folder):
        if profile.repository_settings:
            _add_path(rules, path)
        else:
            rules.repositories += (path,)
    rules.rebases = profile.repository == "files"
    rules.templates = tuple(
        resolve_judged_path(os.path.normpath(path), []) for path in profile.templates
    )
    rules.beside = tuple(os.path.realpath(path) for path in profile.beside)
    rules.optional = tuple(
        _real_pattern(each) for each in profile.optional if _pattern_exists(each)
    )
    rules.network = profile.network != "none"
    rules.ports = profile.ports
    rules.sockets = (*NAME_SERVICE_SOCKETS, *map(_real_pattern, profile.sockets))
    rules.interfaces = "interfaces" in profile.special
    rules.raw_sockets = "raw-sockets" in profile.special
    rules.device_control = "devices" in profile.special
    rules.network_control = "network-settings" in profile.special
    rules.audit_control = "audit" in profile.special
    rules.listens = "listens" in profile.special
    rules.sees_processes = "processes" in profile.special
    rules.may_attach = "attach" in profile.special
    rules.may_signal, rules.hard_links = profile.may_signal, profile.hard_links
    rules.setuid_files, rules.max_file_bytes = profile.setuid_files, profile.max_file_bytes
    changed = (*rules.trees, *rules.exact, *rules.beside, *rules.repositories)
    rules.hidden = find_hidden_files(profile.hidden, changed)
    rules.refused_reads = profile.refused_reads
    rules.granted_reads = profile.granted_reads
    rules.judged_at, rules.judged_files = profile.judged_at, profile.judged_files
    rules.judged_folders, rules.may_make_judged = profile.judged_folders, profile.may_make_judged
    rules.other_repositories = profile.other_repositories
    return rules


def find_connecting_files(names: tuple[str, ...], folders: list[str]) -> tuple[str, ...]:
    """The files of these programs in the folders of PATH; none if one of them cannot be told from
    others: a script runs as its interpreter, and snap starts all its programs."""
    found: dict[str, None] = {}
    for name in names:
        paths = (f"{each}/{name}" for each in folders)
        files = [os.path.realpath(path) for path in filter(_is_executable, paths)]
        if not files or any(file.endswith("/snap") or not _is_machine_code(file) for file in files):
            return ()
        found.update(dict.fromkeys(files))
    return tuple(found)


def _is_executable(path: str) -> bool:
    return path.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def _is_machine_code(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _is_needed_file(path: str) -> bool:
    """Not a link that any user could have made, and beside a SQLite database only its own files."""
    folder = os.path.dirname(path)  # noqa: PTH120 - pathlib costs the launcher 8 ms
    database = path.endswith(_SQLITE_FILE_ENDINGS)
    try:
        shared = database or os.stat(folder).st_mode & stat.S_IWOTH  # noqa: PTH116
    except OSError:
        return False
    if shared and os.path.islink(path):  # noqa: PTH114
        return False
    return not database or (
        _is_sqlite_database(path[: -len(_SQLITE_FILE_ENDINGS[0])])
        and not _FOLDERS_OF_RUN_FILES.search(f"{os.path.realpath(folder)}/")
    )


def _is_sqlite_database(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(fd, len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError:
        return False
    finally:
        os.close(fd)


def _repository_folders(profile: "ConfinementProfile", folder: str) -> list[str]:
    if not profile.repository:
        return []
    judged = [os.path.normpath(path) for path in profile.repositories]
    folders = [resolve_judged_path(path, judged) for path in judged] or [os.path.realpath(folder)]
    files = profile.repository == "files"
    return [path for each in folders for path in find_repository_folders(each, files=files)]


def resolve_judged_path(path: str, judged: list[str]) -> str:
    """Raises `PathTargetChanged` when the path leads to one that was not judged."""
    real = os.path.realpath(path)
    if real == path or any(real == each or real.startswith(f"{each}/") for each in judged):
        return real
    raise PathTargetChanged(
        f"not run: {path} leads to {real}, which the verdict does not cover. Name the real path"
    )


def outside_reason(path: str, writable: tuple[str, ...]) -> str:
    """Return why a file must not be written under a verdict; empty when it may be."""
    judged = [os.path.normpath(each) for each in writable]
    try:
        real = resolve_judged_path(os.path.normpath(path), judged)
    except PathTargetChanged as error:
        return str(error)
    if any(real == each or real.startswith(f"{each}/") for each in judged):
        return ""
    return f"not written: {real} is outside of what was judged"


def _pattern_exists(pattern: str) -> bool:
    """A missing file would be created, and the program does not work without that."""
    return "*" in pattern or os.path.exists(pattern)  # noqa: PTH110


def _real_pattern(path: str) -> str:
    """The folders of a pattern may be links (/var/run); the name may hold a `*`."""
    head, _, name = path.rpartition("/")
    return (
        path
        if "*" in head or not path.startswith("/")
        else f"{os.path.realpath(head or '/').rstrip('/')}/{name}"
    )


def _add_path(rules: VerdictRules, real: str) -> None:
    try:
        mode = os.lstat(real).st_mode
    except OSError:
        mode = 0
    # Landlock has no exceptions below a folder; the supervisor, which uses `exact`, has.
    holds_protected = any(path.startswith(f"{real.rstrip('/')}/") for path in rules.protected)
    if stat.S_ISDIR(mode) and not holds_protected:
        rules.trees += (real,)
    elif mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
        rules.files += (real,)
    rules.exact += (real,)


def find_repository_folders(folder: str, *, files: bool) -> list[str]:
    """The git folders of the repository around this folder; with `files`, its working tree too."""
    current, above = folder, ""
    while current != above:
        found = os.path.join(current, ".git")  # noqa: PTH118 - pathlib costs the launcher 8 ms
        if os.path.islink(found):  # noqa: PTH114
            break
        if os.path.isdir(found):  # noqa: PTH112
            return [current if files else found]
        if os.path.isfile(found):  # noqa: PTH113
            return [*_linked_records(found), *([current] if files else [])]
        above, current = current, os.path.dirname(current)  # noqa: PTH120
    return []


def _linked_records(link: str) -> list[str]:
    """For a worktree whose `.git` is a file: trusted only if the repository points back at it."""
    try:
        own = _joined(os.path.dirname(link), _read_text(link)[len("gitdir:") :])  # noqa: PTH120
        back = os.path.realpath(_read_text(f"{own}/gitdir"))
        common = _joined(own, _read_text(f"{own}/commondir"))
    except (OSError, ValueError):
        return []
    holds = os.path.dirname(os.path.dirname(own)) == common  # noqa: PTH120
    if back != link or not holds or not common.endswith("/.git"):
        return []
    return [common]


def _joined(folder: str, path: str) -> str:
    return os.path.realpath(os.path.join(folder, path.strip()))  # noqa: PTH118


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read().strip()


_SETTING_NAMES = frozenset({"config", "config.worktree", "config.worktree.lock", "hooks"})
_LINK_NAMES = frozenset({"commondir", "gitdir"})
"""Files that name the other folders of a repository. A new worktree gets its own."""
_CONTENT_FOLDERS = frozenset({"objects", "refs", "logs", "rr-cache", "lfs"})
_NESTED_REPOSITORY_FOLDERS = frozenset({"modules", "worktrees"})
_BORROWED = ("info/alternates", "info/http-alternates")
"""Files below `objects` that name other folders of objects."""
_STEPS = ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo")
"""Commands of a rebase, run when it goes on."""
MAX_CONFIG_BYTES = 1 << 20
_SECTION = re.compile(rb"[ \t]*\[")
_BRANCH = re.compile(rb'\[branch "[\w./-]+"\]')
_UPSTREAM = re.compile(rb"\t(?:remote = [\w.-]+|merge = refs/[\w./-]+|rebase = true)")


def is_repository_setting(path: str, made: set[str], *, rebases: bool = False) -> bool:
    """`made` are the files that the same command created; with `rebases` it may plan a rebase."""
    if not rebases and path.endswith(_STEPS):
        return True
    return any(_is_setting_below(inside, path, made) for inside in _names_in_repositories(path))


def _is_setting_below(inside: list[str], path: str, made: set[str]) -> bool:
    if not inside:  # the folder of the repository itself, or a file that leads to it
        return True
    nested = inside[0] in _NESTED_REPOSITORY_FOLDERS
    for current, name in enumerate(inside if nested else inside[:1]):
        if name in _CONTENT_FOLDERS:
            return name == "objects" and "/".join(inside[current + 1 :]) in _BORROWED
        if name in _SETTING_NAMES or inside[current : current + 2] == ["info", "attributes"]:
            return True
        if name in _LINK_NAMES:
            return not nested or (path not in made and os.path.lexists(path))
    return False


def may_hold_repository_settings(path: str) -> bool:
    """Return whether moving a folder or link to or from here could change settings."""
    return any(
        len(inside) < 2 or inside[0] not in _CONTENT_FOLDERS or inside == ["objects", "info"]
        for inside in _names_in_repositories(path)
    )


def _names_in_repositories(path: str) -> list[list[str]]:
    """The path components below each `.git` folder in the path."""
    names = path.split("/")
    return [names[current + 1 :] for current, name in enumerate(names) if name == ".git"]


def is_config_update(old: str, new: str) -> bool:
    """Return whether a rename is the one by which git replaces its configuration."""
    return new.endswith("/.git/config") and old == f"{new}.lock"


def replace_config(lock: str, folder: int) -> bool:
    """Replace `config` in an open folder by its lock file, if only upstream branches differ.

    The content is copied: the command may still hold the lock file open.
    """
    before, after = _read_config("config", folder), _read_config(lock, folder)
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


def _read_config(name: str, folder: int) -> bytes | None:
    """Return None for a file that is too large to be compared."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        content = os.read(fd, MAX_CONFIG_BYTES + 1)
    finally:
        os.close(fd)
    return content if len(content) <= MAX_CONFIG_BYTES else None


def only_upstreams_differ(before: bytes, after: bytes) -> bool:
    return _lines_without_upstreams(before) == _lines_without_upstreams(after)


def _lines_without_upstreams(content: bytes) -> list[bytes]:
    """The lines without the branch sections that only set the upstream."""
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
