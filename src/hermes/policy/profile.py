"""From what a command was judged to do, to what the kernel lets it do, and whether it can.

Pure: everything it depends on is in the deed. A rule or a person may have allowed something that
has no bounds (a script, a service); such a command is unrestricted, and the profile says why.
"""

import posixpath
import re
from collections.abc import Iterable
from typing import Literal

from hermes.core.actions import KernelSupport, Profile
from hermes.policy import reach
from hermes.policy.action import INTERPRETERS
from hermes.policy.commands import tables
from hermes.policy.commands.values import PLAIN, word_set
from hermes.policy.deed import Deed, Step

Repository = Literal["", "records", "files"]
_UNBOUNDED = ("self-change", "wipe", "fork-bomb", "exec-dynamic", "unknown", "privilege")
"""Effects that no set of paths and ports describes, the gravest first."""
_NETWORK = frozenset({"network-local", "network-read", "network-out"})
_CHANGES = frozenset({"write", "delete", "irreversible"})
_SIGNALS = frozenset({"kill", "pkill", "killall", "killall5", "skill", "snice", "renice"})
_UNKNOWN_PART = re.compile(r"[…*?\[]")
_URL = re.compile(r"\b(https?|wss?|ftp|redis|postgres(?:ql)?|mysql|amqp)://(?:[^/@\s]*@)?([^/\s]*)")
_HOST_PORT = re.compile(r"(?:^|[\s=@])(?:[\w.-]+|\[[\da-f:]+\]):(\d{1,5})(?:$|[/\s])")
_CONNECT_TO = re.compile(r"--connect-to[ =]\S*:(\d{1,5})(?=\s|$)")
_SCHEMES = {
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
_NOTHING: tuple[tuple[str, ...], tuple[str, ...], Repository] = ((), (), "")
_NAMES_PROCESSES = re.compile(r"-[A-Za-z0-9]*p[A-Za-z0-9]*|--processes|--programs?")
_OF_A_PROCESS = re.compile(r"/proc/(?!self\b|thread-self\b|sys\b|net\b)[^/a-z]")
_OTHER_HOST = re.compile(r"-H|--host\b")
_FOLLOWS = frozenset({"-L", "--location", "--location-trusted", "--follow", "-F"})
_GIT_RECORDS = word_set("add commit fetch branch tag notes gc worktree stash")
"""Verbs of git that change only its records."""
_GIT_SETTINGS = word_set(
    "config init clone remote submodule lfs flow maintenance sparse-checkout subtree bisect"
)
"""Verbs of git whose purpose is, or involves, a change of the configuration."""
_GIT_REMOTE = word_set("fetch pull clone push ls-remote submodule lfs remote archive send-pack")
"""Verbs of git that may speak to another host."""
SIGNAL_VERSION, DEVICE_VERSION, TRUNCATE_VERSION = 6, 5, 3
"""Versions of Landlock that brought a right."""


def profile_of(deed: Deed, *, asked: bool = False) -> Profile:
    """`asked`: a person has to say yes first, and sees what is changed."""
    parts = [_step(step) for step in deed.steps]
    for part in parts:
        if part.unrestricted:
            return Profile(unrestricted=part.unrestricted, peers=part.peers)
    return Profile(
        writable=_all(part.writable for part in parts),
        templates=_all(part.templates for part in parts),
        beside=_all(part.beside for part in parts),
        needs=_all(part.needs for part in parts),
        repository=max((part.repository for part in parts), key=("", "records", "files").index)
        if parts
        else "",
        repositories=_all(part.repositories for part in parts),
        repository_settings=any(part.repository_settings for part in parts),
        network=max((part.network for part in parts), key=("none", "ports", "any").index)
        if parts
        else "none",
        ports=_ports(parts),
        sockets=_all(part.sockets for part in parts),
        special=_special(deed, parts),
        optional=_all(part.optional for part in parts),
        may_signal=any(part.may_signal for part in parts),
        hard_links=asked,
        peers=_all(part.peers for part in parts),
        gains_privileges=next((p.gains_privileges for p in parts if p.gains_privileges), ""),
    )


def _special(deed: Deed, parts: list[Profile]) -> tuple[str, ...]:
    """Landlock would hide other processes, so that a command which looks into them is held without
    it: only programs that run no code of files may stand beside it. Else it sees only its own."""
    found = _all(part.special for part in parts)
    programs = {posixpath.basename(step.program) for step in deed.steps if step.program}
    if programs <= reach.PROCESSES.union(tables.lists()["runs_no_files"]):
        return found
    return tuple(each for each in found if each not in ("processes", "attach"))


def _all(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))


def _ports(parts: list[Profile]) -> tuple[int, ...]:
    if any(part.network == "any" for part in parts):
        return ()
    return tuple(sorted({port for part in parts for port in part.ports}))


def _step(step: Step) -> Profile:
    program = posixpath.basename(step.program)
    carrier = next((each for each in step.via if each in reach.ELSEWHERE), "")
    if carrier:  # what it does, it does there
        return _reaching(carrier, step)
    if reason := _unbounded(program, step):
        return Profile(unrestricted=reason)
    part = _reaching(program, step)
    changed = step.effects & _CHANGES and _changed(step, program)
    if isinstance(changed, str):
        return Profile(unrestricted=changed)
    writable, beside, repository = changed or _NOTHING
    network, ports = part.network, part.ports
    if step.effects & _NETWORK and network == "none":
        ports = ports_of(step)
        network = "ports" if ports else "any"
    unique = program == "mktemp"
    return Profile(
        writable=() if unique else writable,
        templates=writable if unique else (),
        beside=(*beside, *part.beside),
        needs=(*part.needs, *_database_files(program, step)),
        repository=repository,
        repositories=step.repositories if repository else (),
        repository_settings=bool(repository) and git_verb(step) in _GIT_SETTINGS,
        network=network,
        ports=ports,
        sockets=part.sockets,
        special=part.special,
        optional=(*reach.OPTIONAL.get(program, ()), *_databases(program, step)),
        may_signal=part.may_signal or ("service-change" in step.effects and program in _SIGNALS),
        peers=part.peers,
        gains_privileges=part.gains_privileges,
    )


def _unbounded(program: str, step: Step) -> str:
    for effect in _UNBOUNDED:
        if effect in step.effects:
            return _why(step, effect)
    if "service-change" in step.effects and program not in _SIGNALS:
        return _why(step, "service-change")
    return ""


def _why(step: Step, effect: str) -> str:
    reason = next((line for line in step.why if line.startswith(f"{effect}:")), effect)
    return f"it has no bounds that the kernel could hold ({reason})"


def _reaching(program: str, step: Step) -> Profile:
    found = reach.reach_of(program)
    special = [
        name
        for name, programs in (
            ("interfaces", reach.INTERFACES),
            ("raw-sockets", reach.RAW_SOCKETS),
            ("devices", reach.DEVICES),
            ("network-settings", reach.NETWORK_SETTINGS),
            ("processes", reach.PROCESSES),
            ("listens", reach.LISTENS),
            ("attach", reach.ATTACHES),
            ("audit", reach.AUDIT),
        )
        if program in programs
    ]
    if program == "ip" and "xfrm" in step.argv[1:3]:
        special.append("network-settings")
    if "processes" not in special and _sees_processes(program, step):
        special.append("processes")
    if found is reach.SYSTEMD and any(_OTHER_HOST.match(word) for word in step.argv[1:]):
        found = found._replace(network=True, sockets=found.sockets + reach.REMOTE_HOST.sockets)
    if program == "git" and git_verb(step) in _GIT_REMOTE:
        found = reach.REMOTE_HOST
    peers = [found.peer] if found.peer else []
    peers += ["the drivers of devices"] if "devices" in special else []
    peers += ["the network settings of the kernel"] if "network-settings" in special else []
    peers += ["the audit system of the kernel"] if "audit" in special else []
    peers += ["the process it attaches to"] if "attach" in special else []
    java = program in reach.JAVA_TOOLS
    raised = (program, *step.via)
    return Profile(
        needs=found.needs,
        # A Java tool asks the machine by a file and a signal, and is answered on a socket.
        beside=("/tmp",) if java or program == "systemd-analyze" else (),
        may_signal=java,
        network="any" if found.network or {"raw-sockets", "listens"} & {*special} else "none",
        sockets=_sockets(found, step) if found.peer else ("/tmp/.java_pid*",) if java else (),
        special=tuple(special),
        peers=tuple(peers),
        gains_privileges=next((each for each in raised if each in reach.GAINS_PRIVILEGES), ""),
    )


def _sockets(found: reach.Reach, step: Step) -> tuple[str, ...]:
    return (*found.sockets, *_named_sockets(step))


def _sees_processes(program: str, step: Step) -> bool:
    """`ss -p`, `ps e`, and files of /proc that only show themselves to who may look inside."""
    words = step.argv[1:]
    if program in ("ss", "netstat"):
        return any(_NAMES_PROCESSES.fullmatch(word) for word in words)
    if program == "ps":
        return any(word.isalpha() and "e" in word for word in words[:1])
    return any(_OF_A_PROCESS.match(path) for path in step.paths)


def _named_sockets(step: Step) -> tuple[str, ...]:
    """Sockets that the words of the command name: `-H unix:///x`, `-S /x`, `-h /folder`."""
    found = []
    for word in step.argv[1:]:
        path = word.rpartition("unix://")[2] if "unix://" in word else word.rpartition("=")[2]
        if path.startswith("/") and path != "/" and not _UNKNOWN_PART.search(path):
            found += [posixpath.normpath(path), f"{posixpath.normpath(path)}/.s.*"]
    return tuple(found)


def _changed(step: Step, program: str) -> tuple[tuple[str, ...], tuple[str, ...], Repository] | str:
    """Paths, folders for temporary files, and the repository; in words why there are no bounds."""
    repository = _repository(program, step)
    if not step.changes:
        if repository:
            return (), (), repository
        if reach.reach_of(program) is reach.DATABASE:  # what it changes is behind the socket
            return _NOTHING
        if step.effects & {"write", "delete"}:
            return f"nothing says where {program or 'it'} writes"
        return (), (), ""
    paths = []
    for path in step.changes:
        fixed = _fixed(path)
        if not fixed:
            return f"what it changes is only known at run time ({path})"
        paths.append(fixed)
    derived = program in reach.MAKES_FILES_BESIDE
    beside = tuple(posixpath.dirname(path) or "/" for path in paths) if derived else ()
    return tuple(paths), beside, repository


def _repository(program: str, step: Step) -> Repository:
    if program != "git" or not step.repositories or not step.effects <= PLAIN | {"write"}:
        return ""
    return "records" if git_verb(step) in _GIT_RECORDS else "files"


def git_verb(step: Step) -> str:
    words = iter(step.argv[1:])
    for word in words:
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"):
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""


def _fixed(path: str) -> str:
    """The path, or the folder above its first unknown part; empty when that bounds nothing."""
    unknown = _UNKNOWN_PART.search(path)
    if unknown is None:
        return path if path.startswith("/") and path != "/" else ""
    folder = path[: unknown.start()].rpartition("/")[0]
    return folder if folder.startswith("/") and folder.count("/") >= 1 else ""


def _databases(program: str, step: Step) -> tuple[str, ...]:
    """A reader of SQLite opens a database for writing, and reads it if that is refused."""
    return step.paths if program in ("sqlite3", "sqlite", "litecli") else ()


def _database_files(program: str, step: Step) -> tuple[str, ...]:
    """It takes part in the locks, which are files beside the database."""
    return tuple(f"{path}{end}" for path in _databases(program, step) for end in ("-wal", "-shm"))


def ports_of(step: Step) -> tuple[int, ...]:
    """The TCP ports that the words of a command name; empty when it could be any."""
    if _FOLLOWS.intersection(step.flags) or posixpath.basename(step.program) in ("wget", "wget2"):
        return ()
    found: set[int] = set()
    for word in step.argv[1:]:
        for scheme, place in _URL.findall(word):
            port = place.rpartition(":")[2]
            found.add(int(port) if port.isdigit() else _SCHEMES[scheme])
        if "://" not in word:
            found |= {int(port) for port in _HOST_PORT.findall(word)}
    found |= {int(port) for port in _CONNECT_TO.findall(" ".join(step.argv))}
    for path in step.paths:
        if path.startswith(("/dev/tcp/", "/dev/udp/")) and path.rpartition("/")[2].isdigit():
            found.add(int(path.rpartition("/")[2]))
    return tuple(sorted(port for port in found if 0 < port < 65_536))


Enforced = Literal["yes", "partly", "no"]


def enforcement_of(profile: Profile, kernel: KernelSupport) -> tuple[Enforced, str]:
    """Whether this kernel can hold a command to the profile, and what it cannot hold."""
    if profile.unrestricted:
        return "no", profile.unrestricted
    if obstacle := obstacle_to(profile, kernel):
        return "no", obstacle
    gaps = [f"{peer} can change things on its behalf" for peer in profile.peers]
    gaps += _network_gaps(profile)
    if kernel.landlock < SIGNAL_VERSION and not profile.may_signal:
        gaps.append("some ways to send a signal (Landlock 6 is needed)")
    if kernel.landlock < DEVICE_VERSION:
        gaps.append("control of devices (Landlock 5 is needed)")
    return ("partly" if gaps else "yes"), "; ".join(gaps)


def _network_gaps(profile: Profile) -> list[str]:
    """The kernel's rules name TCP ports, and neither hosts nor datagrams."""
    datagrams = "UDP datagrams to any host"
    if profile.network == "any":
        return [f"TCP connections to any host and port, {datagrams}"]
    if profile.network == "ports":
        ports = ", ".join(map(str, profile.ports))
        return [f"which host it connects to on TCP port {ports}, {datagrams}"]
    return [datagrams] if "interfaces" in profile.special else []


def obstacle_to(profile: Profile, kernel: KernelSupport) -> str:
    """Why the kernel cannot confine it at all, though it has bounds; empty when it can."""
    if kernel.reason:
        return kernel.reason
    if "processes" in profile.special and not kernel.root:
        return "what it asks about other processes is hidden from a confined command"
    if profile.gains_privileges and not kernel.root:
        return (
            f"{profile.gains_privileges} has to gain rights, which no confined command of an "
            "ordinary user can"
        )
    return ""


_INTERPRETED = re.compile(r"[$`]|\b(?:export|declare|read|printf -v|source|eval)\b")
_CONFIGURED = frozenset(
    [
        "git",
        "make",
        "gmake",
        "npm",
        "yarn",
        "pnpm",
        "cargo",
        "go",
        "terraform",
        "tofu",
        "ansible",
        "pip",
        "pip3",
        "mvn",
        "gradle",
    ]
)


def rests_on(deed: Deed) -> str:
    """What, besides the program tables, the verdict depends on; empty when nothing."""
    if _INTERPRETED.search(deed.command):
        return "variables and expansions of the shell"
    for step in deed.steps:
        program = posixpath.basename(step.program)
        if program in _CONFIGURED:
            return f"the configuration that {program} finds where it runs"
        if program.rstrip("0123456789.") in INTERPRETERS - {"sed", "awk", "psql", "redis-cli"}:
            return f"what {program} loads when it starts"
    return ""
