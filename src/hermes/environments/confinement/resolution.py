"""Looks up the paths of a verdict just before its command starts, where the command will run.

A path that now leads elsewhere than when it was judged refuses the command. This module is also
sent to other machines (`remote.launcher`), so it imports nothing but `os` and `stat`.
"""

import os
import stat

from hermes.environments.confinement.verdict_rules import VerdictRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.core.actions import Profile

NAME_SERVICES = (
    "/run/nscd/socket",
    "/var/run/nscd/socket",
    "/var/lib/sss/pipes/*",
    "/run/systemd/userdb/*",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/dbus/system_bus_socket.nss",
)
"""Unix sockets that answer who a user is and where a host is; every command may ask them."""


class LeadsElsewhere(Exception):
    """A path that was judged leads to another place now. The message is for people."""


def rules_for(profile: "Profile", folder: str, protected: tuple[str, ...] = ()) -> VerdictRules:
    """The profile with its paths looked up. Raises `LeadsElsewhere`.

    `protected` are beginnings of paths that no command may change, whatever its verdict.
    """
    rules = VerdictRules()
    rules.protected = protected
    judged = [os.path.normpath(path) for path in profile.writable]
    for path in judged:
        _add_path(rules, real_of(path, judged))
    for path in profile.needs:
        _add_path(rules, os.path.realpath(path))
    for path in _repositories(profile, folder):
        if profile.repository_settings:
            _add_path(rules, path)
        else:
            rules.repositories += (path,)
    rules.templates = tuple(real_of(os.path.normpath(path), []) for path in profile.templates)
    rules.beside = tuple(os.path.realpath(path) for path in profile.beside)
    rules.optional = tuple(_real_pattern(each) for each in profile.optional if _is_there(each))
    rules.network = profile.network != "none"
    rules.ports = profile.ports
    rules.sockets = (*NAME_SERVICES, *map(_real_pattern, profile.sockets))
    rules.interfaces = "interfaces" in profile.special
    rules.raw_sockets = "raw-sockets" in profile.special
    rules.device_control = "devices" in profile.special
    rules.network_control = "network-settings" in profile.special
    rules.audit_control = "audit" in profile.special
    rules.listens = "listens" in profile.special
    rules.sees_processes = "processes" in profile.special
    rules.may_attach = "attach" in profile.special
    rules.may_signal, rules.hard_links = profile.may_signal, profile.hard_links
    return rules


def _repositories(profile: "Profile", folder: str) -> list[str]:
    if not profile.repository:
        return []
    judged = [os.path.normpath(path) for path in profile.repositories]
    folders = [real_of(path, judged) for path in judged] or [os.path.realpath(folder)]
    files = profile.repository == "files"
    return [path for each in folders for path in repository_of(each, files=files)]


def real_of(path: str, judged: list[str]) -> str:
    """Raises `LeadsElsewhere` when the path leads to a place that was not judged."""
    real = os.path.realpath(path)
    if real == path or any(real == each or real.startswith(f"{each}/") for each in judged):
        return real
    raise LeadsElsewhere(
        f"not run: {path} leads to {real}, which the verdict does not cover. Name the real path"
    )


def outside(path: str, writable: tuple[str, ...]) -> str:
    """Why a file must not be written under a verdict, in words; empty when it may be."""
    judged = [os.path.normpath(each) for each in writable]
    try:
        real = real_of(os.path.normpath(path), judged)
    except LeadsElsewhere as error:
        return str(error)
    if any(real == each or real.startswith(f"{each}/") for each in judged):
        return ""
    return f"not written: {real} is outside of what was judged"


def _is_there(pattern: str) -> bool:
    """A file that is not there would have been made, which its program does not do without."""
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
    # Landlock knows no exception below a folder; the supervisor, which reads `exact`, does.
    holds_protected = any(path.startswith(f"{real.rstrip('/')}/") for path in rules.protected)
    if stat.S_ISDIR(mode) and not holds_protected:
        rules.trees += (real,)
    elif mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
        rules.files += (real,)
    rules.exact += (real,)


def repository_of(folder: str, *, files: bool) -> list[str]:
    """The folders that git keeps its records in, from this folder upwards; with `files`, all."""
    place, above = folder, ""
    while place != above:
        found = os.path.join(place, ".git")  # noqa: PTH118 - pathlib costs the launcher 8 ms
        if os.path.islink(found):  # noqa: PTH114
            break
        if os.path.isdir(found):  # noqa: PTH112
            return [place if files else found]
        if os.path.isfile(found):  # noqa: PTH113
            return [*_linked_records(found), *([place] if files else [])]
        above, place = place, os.path.dirname(place)  # noqa: PTH120
    return []


def _linked_records(link: str) -> list[str]:
    """Of a worktree whose `.git` is a file: believed only if the repository points back at it."""
    try:
        own = _joined(os.path.dirname(link), _text(link)[len("gitdir:") :])  # noqa: PTH120
        back = os.path.realpath(_text(f"{own}/gitdir"))
        common = _joined(own, _text(f"{own}/commondir"))
    except (OSError, ValueError):
        return []
    holds = os.path.dirname(os.path.dirname(own)) == common  # noqa: PTH120
    if back != link or not holds or not common.endswith("/.git"):
        return []
    return [common]


def _joined(folder: str, path: str) -> str:
    return os.path.realpath(os.path.join(folder, path.strip()))  # noqa: PTH118


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read().strip()
