"""Builds the confinement profile of an action from its effects.

It depends on the effects only. A rule or a person may have allowed something that has no limits (a
script, a service); such a command is unrestricted, and the profile says why.
"""

import posixpath
import re
from collections.abc import Iterable
from functools import cache
from typing import Literal

from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.policy.actions.action_effects import ActionEffects, ActionStep
from hermes.policy.actions.root_launcher import root_launcher_profile
from hermes.policy.actions.unnamed_reads import (
    granted_reads,
    local_programs,
    names_process_file,
    refused_reads,
)
from hermes.policy.commands import tables
from hermes.policy.commands.effects import READING_EFFECTS, word_set
from hermes.policy.programs import resource_access
from hermes.policy.programs.client_commands import PSQL_CLIENTS

RepositoryAccess = Literal["", "records", "files"]
_UNBOUNDED_EFFECTS = ("self-change", "wipe", "fork-bomb", "exec-dynamic", "unknown", "privilege")
"""Effects that no set of paths and ports describes, worst first."""
_NETWORK_EFFECTS = frozenset({"network-local", "network-read", "network-out"})
_CHANGE_EFFECTS = frozenset({"write", "delete", "irreversible"})
_SIGNAL_PROGRAMS = frozenset({"kill", "pkill", "killall", "killall5", "skill", "snice", "renice"})
_UNKNOWN_PART = re.compile(r"[…*?\[]")
_URL = re.compile(r"\b(https?|wss?|ftp|redis|postgres(?:ql)?|mysql|amqp)://(?:[^/@\s]*@)?([^/\s]*)")
_HOST_PORT = re.compile(r"(?:^|[\s=@])(?:[\w.-]+|\[[\da-f:]+\]):(\d{1,5})(?:$|[/\s])")
_CONNECT_TO = re.compile(r"--connect-to[ =]\S*:(\d{1,5})(?=\s|$)")
_DEFAULT_PORTS = {
    "http": 80,
    "https": 443,
    "ws": 80,
    "wss": 443,
    "ftp": 21,
    "redis": 6379,
    "postgres": 5432,
    "postgresql": 5432,
    "mysql": 3306,
    "amqp": 5672,
}
_NO_CHANGES: tuple[tuple[str, ...], tuple[str, ...], RepositoryAccess] = ((), (), "")
_PROCESS_NAME_OPTION = re.compile(r"-[A-Za-z0-9]*p[A-Za-z0-9]*|--processes|--programs?")
_FOLLOW_REDIRECT_OPTIONS = frozenset({"-L", "--location", "--location-trusted", "--follow", "-F"})
_WEB_PORTS = frozenset({80, 443})
_GIT_RECORD_VERBS = word_set("add commit fetch branch tag notes gc worktree stash")
"""Verbs of git that change only the repository data."""
_GIT_SETTING_VERBS = word_set(
    "config init clone remote submodule lfs flow maintenance sparse-checkout subtree bisect"
)
"""Verbs of git that change the configuration."""
_GIT_REMOTE_VERBS = word_set(
    "fetch pull clone push ls-remote submodule lfs remote archive send-pack"
)
"""Verbs of git that may connect to another host."""
MAX_FILE_BYTES = 2 << 30
"""How large a file may become that a command writes without having been asked about."""


def build_profile(effects: ActionEffects) -> ConfinementProfile:
    if (by_launcher := root_launcher_profile(effects)) is not None:
        return by_launcher
    parts, changes = [_step_profile(step) for step in effects.steps], not effects.is_read_only
    for part in parts:
        if part.unrestricted:
            return ConfinementProfile(
                changes=changes, unrestricted=part.unrestricted, peers=part.peers
            )
    return ConfinementProfile(
        changes=changes,
        writable=_merged(part.writable for part in parts),
        templates=_merged(part.templates for part in parts),
        beside=_merged(part.beside for part in parts),
        needs=_merged(part.needs for part in parts),
        repository=max((part.repository for part in parts), key=("", "records", "files").index)
        if parts
        else "",
        repositories=_merged(part.repositories for part in parts),
        repository_settings=any(part.repository_settings for part in parts),
        network=max((part.network for part in parts), key=("none", "ports", "any").index)
        if parts
        else "none",
        ports=_merged_ports(parts),
        sockets=_merged(part.sockets for part in parts),
        connecting=_connecting_programs(effects.steps, parts),
        special=_special_access(effects, parts),
        optional=_merged(part.optional for part in parts),
        hidden=_hidden_files(effects),
        refused_reads=(unnamed := refused_reads(effects)),
        granted_reads=granted_reads(effects, _needed_credentials) if unnamed else (),
        own_secrets="secret-read" in effects.effects or _runs_ourselves(effects),
        judged_at=effects.files.judged_at,
        judged_files=effects.files.names,
        judged_folders=effects.files.folders,
        may_make_judged=effects.files.made_by_command,
        other_repositories=effects.files.other_repositories,
        read_only_databases=reads_databases_only(effects),
        may_signal=any(part.may_signal for part in parts),
        max_file_bytes=MAX_FILE_BYTES,
        protected=effects.protected,
        peers=_merged(part.peers for part in parts),
        gains_privileges=next((p.gains_privileges for p in parts if p.gains_privileges), ""),
    )


def approved_profile(profile: ConfinementProfile) -> ConfinementProfile:
    """The profile of a command that a person approves first, who sees what it reads and changes."""
    if profile.unrestricted:
        return profile
    return replace(
        profile,
        refused_reads=(),
        granted_reads=(),
        judged_files=(),
        judged_folders=(),
        connecting=(),
        hard_links=True,
        setuid_files=True,
        max_file_bytes=0,
    )


def _connecting_programs(
    steps: Iterable[ActionStep], parts: Iterable[ConfinementProfile]
) -> tuple[str, ...]:
    """The programs that connect, and those that start them; none if bash itself connects."""
    found: dict[str, None] = {}
    for step, part in zip(steps, parts, strict=True):
        if part.network != "none" or part.sockets:
            if not step.program:
                return ()
            found.update(dict.fromkeys(map(posixpath.basename, local_programs(step))))
    return tuple(found)


@cache
def profile_without_steps() -> ConfinementProfile:
    """Return what a command may do that runs no program."""
    listed = tables.path_lists()
    return ConfinementProfile(hidden=(*listed["hidden_accounts"], *listed["hidden_credentials"]))


def _hidden_files(effects: ActionEffects) -> tuple[str, ...]:
    """A program sees only the credentials that it logs in with."""
    if "secret-read" in effects.effects:
        return ()
    listed = tables.path_lists()
    needed = frozenset().union(*map(_needed_credentials, effects.steps))
    credentials = (file for file in listed["hidden_credentials"] if file not in needed)
    return (*listed["hidden_accounts"], *credentials)


def _needed_credentials(step: ActionStep) -> frozenset[str]:
    program = _remote_wrapper(step) or posixpath.basename(step.program)
    if program == "git" and git_verb(step) not in _GIT_REMOTE_VERBS:
        return frozenset()
    return resource_access.credentials_of(program, step.argv[1:])


def _remote_wrapper(step: ActionStep) -> str:
    return next((each for each in step.via if each in resource_access.REMOTE_WRAPPERS), "")


def reads_databases_only(effects: ActionEffects) -> bool:
    """Return whether it has queries for PostgreSQL, and none that was judged to change
    something."""
    queries = [step for step in effects.steps if posixpath.basename(step.program) in PSQL_CLIENTS]
    pooled = any(_POOLER.search(word) for step in queries for word in step.argv[1:])
    return bool(queries) and not pooled and all(step.is_read_only for step in queries)


_POOLER = re.compile(r"\b6432\b|\bpgbouncer\b")
"""The pooler refuses sessions with options for the server."""


def _runs_ourselves(effects: ActionEffects) -> bool:
    return any(posixpath.basename(step.program) in _OWN_COMMANDS for step in effects.steps)


_OWN_COMMANDS = ("hermes", "hermes-cli")


def _special_access(effects: ActionEffects, parts: list[ConfinementProfile]) -> tuple[str, ...]:
    """A command that inspects other processes is confined without Landlock, which would hide them:
    only if all its programs run no code from files. Otherwise it sees only its own processes."""
    found = _merged(part.special for part in parts)
    programs = {posixpath.basename(step.program) for step in effects.steps if step.program}
    if programs <= resource_access.PROCESS_INSPECTORS.union(tables.path_lists()["runs_no_files"]):
        return found
    return tuple(each for each in found if each not in ("processes", "attach"))


def _merged(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))


def _merged_ports(parts: list[ConfinementProfile]) -> tuple[int, ...]:
    if any(part.network == "any" for part in parts):
        return ()
    return tuple(sorted({port for part in parts for port in part.ports}))


def _step_profile(step: ActionStep) -> ConfinementProfile:
    program = posixpath.basename(step.program)
    if carrier := _remote_wrapper(step):  # its effects are on the other host
        return _access_profile(carrier, step)
    if reason := _unbounded_reason(program, step):
        return ConfinementProfile(unrestricted=reason)
    part = _access_profile(program, step)
    changed = step.effects & _CHANGE_EFFECTS and _changed_paths(step, program)
    if isinstance(changed, str):
        return ConfinementProfile(unrestricted=changed)
    writable, beside, repository = changed or _NO_CHANGES
    network, ports = part.network, part.ports
    if step.effects & _NETWORK_EFFECTS and network == "none":
        ports = named_ports(step)
        network = "ports" if ports else "any"
    unique = program == "mktemp"
    return ConfinementProfile(
        writable=() if unique else writable,
        templates=writable if unique else (),
        beside=(*beside, *part.beside),
        needs=(*part.needs, *_sqlite_lock_files(program, step)),
        repository=repository,
        repositories=step.repositories if repository else (),
        repository_settings=bool(repository) and git_verb(step) in _GIT_SETTING_VERBS,
        network=network,
        ports=ports,
        sockets=part.sockets,
        special=part.special,
        optional=(
            *resource_access.OPTIONAL_PATHS.get(program, ()),
            *_skipped_requests(program, step),
            *_sqlite_databases(program, step),
        ),
        may_signal=part.may_signal
        or ("service-change" in step.effects and program in _SIGNAL_PROGRAMS),
        peers=part.peers,
        gains_privileges=part.gains_privileges,
    )


def _unbounded_reason(program: str, step: ActionStep) -> str:
    for effect in _UNBOUNDED_EFFECTS:
        if effect in step.effects:
            return _effect_reason(step, effect)
    if "service-change" in step.effects and program not in _SIGNAL_PROGRAMS:
        return _effect_reason(step, "service-change")
    return ""


def _effect_reason(step: ActionStep, effect: str) -> str:
    reason = next((line for line in step.why if line.startswith(f"{effect}:")), effect)
    return f"the kernel cannot limit it ({reason})"


def _access_profile(program: str, step: ActionStep) -> ConfinementProfile:
    found = resource_access.access_of(program)
    if resource_access.works_offline(program, step.argv[1:]):
        found = resource_access.ResourceAccess()
    special = [
        name
        for name, programs in (
            ("interfaces", resource_access.INTERFACE_PROGRAMS),
            ("raw-sockets", resource_access.RAW_SOCKET_PROGRAMS),
            ("devices", resource_access.DEVICE_PROGRAMS),
            ("network-settings", resource_access.NETWORK_SETTING_PROGRAMS),
            ("processes", resource_access.PROCESS_INSPECTORS),
            ("listens", resource_access.LISTENING_PROGRAMS),
            ("attach", resource_access.PROCESS_TRACERS),
            ("audit", resource_access.AUDIT_PROGRAMS),
        )
        if program in programs
    ]
    if program == "ip" and "xfrm" in step.argv[1:3]:
        special.append("network-settings")
    if "processes" not in special and _sees_processes(program, step):
        special.append("processes")
    if found is resource_access.SYSTEMD_ACCESS and resource_access.is_on_remote_host(
        program, step.argv[1:]
    ):
        found = found._replace(
            network=True, sockets=found.sockets + resource_access.REMOTE_HOST_ACCESS.sockets
        )
    if program == "git" and git_verb(step) in _GIT_REMOTE_VERBS:
        found = resource_access.REMOTE_HOST_ACCESS
    peers = [found.peer] if found.peer else []
    peers += ["the drivers of devices"] if "devices" in special else []
    peers += ["the network settings of the kernel"] if "network-settings" in special else []
    peers += ["the audit system of the kernel"] if "audit" in special else []
    peers += ["the process it attaches to"] if "attach" in special else []
    java = program in resource_access.JAVA_TOOLS
    raised = (program, *step.via)
    return ConfinementProfile(
        needs=found.needs,
        # A Java tool contacts the JVM by a file and a signal; the JVM answers on a socket.
        beside=("/tmp",) if java or program == "systemd-analyze" else (),
        may_signal=java,
        network="any" if found.network or {"raw-sockets", "listens"} & {*special} else "none",
        sockets=_sockets(found, step) if found.peer else ("/tmp/.java_pid*",) if java else (),
        special=tuple(special),
        peers=tuple(peers),
        gains_privileges=next(
            (each for each in raised if each in resource_access.PRIVILEGE_PROGRAMS), ""
        ),
    )


def _sockets(found: resource_access.ResourceAccess, step: ActionStep) -> tuple[str, ...]:
    return (*found.sockets, *_named_sockets(step))


def _sees_processes(program: str, step: ActionStep) -> bool:
    """`ss -p`, `ps e`, and files of /proc that need the right to inspect a process."""
    words = step.argv[1:]
    if program in ("ss", "netstat"):
        return any(_PROCESS_NAME_OPTION.fullmatch(word) for word in words)
    if program == "ps":
        return any(word.isalpha() and "e" in word for word in words[:1])
    return names_process_file(step)


def _named_sockets(step: ActionStep) -> tuple[str, ...]:
    """Sockets named in the arguments: `-H unix:///x`, `-S /x`, `-h /folder`."""
    found = []
    for word in step.argv[1:]:
        path = word.rpartition("unix://")[2] if "unix://" in word else word.rpartition("=")[2]
        if path.startswith("/") and path != "/" and not _UNKNOWN_PART.search(path):
            found += [posixpath.normpath(path), f"{posixpath.normpath(path)}/.s.*"]
    return tuple(found)


def _changed_paths(
    step: ActionStep, program: str
) -> tuple[tuple[str, ...], tuple[str, ...], RepositoryAccess] | str:
    """Paths, folders for temporary files, and the repository; or why there are no limits."""
    repository = _repository(program, step)
    if not step.changes:
        if repository:
            return (), (), repository
        if (
            resource_access.access_of(program) is resource_access.DATABASE_ACCESS
        ):  # it changes what is behind the socket
            return _NO_CHANGES
        if step.effects & {"write", "delete"}:
            return f"nothing says where {program or 'it'} writes"
        return (), (), ""
    paths = []
    for path in step.changes:
        fixed = _known_part(path)
        if not fixed:
            return f"what it changes is only known at run time ({path})"
        paths.append(fixed)
    derived = program in resource_access.TEMPORARY_FILE_WRITERS
    beside = tuple(posixpath.dirname(path) or "/" for path in paths) if derived else ()
    return tuple(paths), beside, repository


def _repository(program: str, step: ActionStep) -> RepositoryAccess:
    if program != "git" or not step.repositories or not step.effects <= READING_EFFECTS | {"write"}:
        return ""
    return "records" if git_verb(step) in _GIT_RECORD_VERBS else "files"


def git_verb(step: ActionStep) -> str:
    words = iter(step.argv[1:])
    for word in words:
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"):
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""


def _known_part(path: str) -> str:
    """The path, or the folder above its first unknown part; empty when that is too wide."""
    unknown = _UNKNOWN_PART.search(path)
    if unknown is None:
        return path if path.startswith("/") and path != "/" else ""
    folder = path[: unknown.start()].rpartition("/")[0]
    return folder if folder.startswith("/") and folder.count("/") >= 1 else ""


def _skipped_requests(program: str, step: ActionStep) -> tuple[str, ...]:
    """Such programs ask for new versions of themselves on the side."""
    offline = resource_access.works_offline(program, step.argv[1:])
    return (resource_access.NETWORK_USE,) if offline else ()


def _sqlite_databases(program: str, step: ActionStep) -> tuple[str, ...]:
    """A reader of SQLite opens a database for writing, and for reading if that is refused."""
    return step.paths if program in ("sqlite3", "sqlite", "litecli") else ()


def _sqlite_lock_files(program: str, step: ActionStep) -> tuple[str, ...]:
    """The lock files beside the database."""
    return tuple(
        f"{path}{end}" for path in _sqlite_databases(program, step) for end in ("-wal", "-shm")
    )


def named_ports(step: ActionStep) -> tuple[int, ...]:
    """The TCP ports named in the arguments; empty when it could be any.

    A redirect may lead to the usual ports of web servers, not to any other server behind the one
    that was asked.
    """
    follows = posixpath.basename(step.program) in ("wget", "wget2")
    found: set[int] = set()
    for word in step.argv[1:]:
        for scheme, address in _URL.findall(word):
            port = address.rpartition(":")[2]
            found.add(int(port) if port.isdigit() else _DEFAULT_PORTS[scheme])
        if "://" not in word:
            found |= {int(port) for port in _HOST_PORT.findall(word)}
    found |= {int(port) for port in _CONNECT_TO.findall(" ".join(step.argv))}
    for path in step.paths:
        if path.startswith(("/dev/tcp/", "/dev/udp/")) and path.rpartition("/")[2].isdigit():
            found.add(int(path.rpartition("/")[2]))
    if found and (follows or _FOLLOW_REDIRECT_OPTIONS.intersection(step.flags)):
        found |= _WEB_PORTS
    return tuple(sorted(port for port in found if 0 < port < 65_536))
