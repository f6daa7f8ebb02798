"""Chooses the walls that this machine can give, and opens a sandbox behind them, or says why not.

The first that stands is used:

- bubblewrap: namespaces made by a program that many eyes have read, and that some kernels trust
  where they do not trust us. First choice of an ordinary user, where it is installed.
- namespaces: the same, made by us. First choice of root: only here can the owner of a working
  folder be translated, so that the sandbox need not stay user 0 (see `identity`).
- landlock: no namespaces at all (inside many containers). Landlock and a stricter filter on
  system calls have to do; the kernel must know how to keep signals in (version 6, Linux 6.12).
  Programs then get no sockets at all, no /proc of their own, and, unless they run as a user that
  owns nothing else, may not change mode, owner or times of a file by its name.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.environments.confinement import bubblewrap, cgroups, grants, identity, landlock
from hermes.environments.confinement.cgroups import Cgroup
from hermes.environments.confinement.line import Line, launcher_argv
from hermes.environments.confinement.mounts import NO_TRANSLATION
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.walls import FIRST_CGROUP

PACKAGE = str(Path(__file__).parent)


def order() -> tuple[str, ...]:
    """The kinds of walls, best first, for who we are."""
    if identity.is_root():
        return ("namespaces", "bubblewrap", "landlock")
    return ("bubblewrap", "namespaces", "landlock")


class Wish(Value, kw_only=True, frozen=True):
    """What a sandbox should be, whatever it is made of."""

    scratch: str
    """A folder made for it alone; its subfolders hold home, shell state and the like."""
    writable: tuple[str, ...] = ()
    """Folders of others, as they are called in reality."""
    readable: tuple[str, ...] = ()
    network: bool = False
    memory: int = 0
    processes: int = 0
    cpu_seconds: int = 0
    file_size: int = 0
    total_size: int = 0


class Opened(Value, frozen=True):
    """How it was done: enough to open the same again."""

    line: Line
    plan: Plan


async def open_sandbox(wish: Wish, cgroup: Cgroup, walls: Sequence[str]) -> Opened:
    """Raises `PlaceFailed` with what is missing and how to get it."""
    reasons = []
    user = identity.stranger() if identity.is_root() else -1
    for kind in walls:
        problem = missing(kind) or _exposed(wish)
        for uid in (user, -1) if user >= 0 else (-1,):
            if problem and NO_TRANSLATION not in problem:
                break
            problem = _unbounded(wish, kind, uid, cgroup)
            if not problem:
                plan = _plan(wish, kind, uid, cgroup)
                line, problem = await reopen(plan, cgroup)
                if not problem:
                    return Opened(line, plan)
        reasons.append(f"with {kind}: {problem}")
    raise PlaceFailed(f"no sandbox can be made here. {'; '.join(reasons)}. {ADVICE}")


ADVICE = (
    "Allow user namespaces (sysctl user.max_user_namespaces, or "
    "kernel.apparmor_restrict_unprivileged_userns=0), or install bubblewrap, or run Linux 6.12 "
    "with Landlock switched on; or choose another terminal.backend, such as docker"
)


def missing(kind: str) -> str:
    """What can be told without trying."""
    if kind not in order():
        return "there is no such kind of walls"
    if kind == "bubblewrap" and bubblewrap.program() is None:
        return "bwrap is not installed (apt install bubblewrap)"
    if kind == "landlock" and landlock.version() < landlock.VERSION_WITH_SCOPES:
        return f"the kernel has Landlock {landlock.version() or 'not at all'}, 6 is needed"
    return ""


def _exposed(wish: Wish) -> str:
    if wish.network and landlock.version() < landlock.VERSION_WITH_SCOPES:
        return (
            "with terminal.network, only Landlock 6 (Linux 6.12) keeps the abstract sockets of "
            "other programs out of reach"
        )
    return ""


def _unbounded(wish: Wish, kind: str, uid: int, cgroup: Cgroup) -> str:
    """The limit on processes does not bind user 0; see `identity`."""
    if uid >= 0:
        if kind != "namespaces" and wish.writable:
            return f"{NO_TRANSLATION}: only namespaces of our own can"
        return ""
    if identity.is_root() and not identity.is_mapped() and not cgroup.processes:
        return (
            "root's processes cannot be limited here: no cgroup can be made for them. Start "
            "Hermes as an ordinary user, or without a working folder of your own"
        )
    return ""


def _plan(wish: Wish, kind: str, uid: int, cgroup: Cgroup) -> Plan:
    plan = Plan()
    plan.walls = kind
    plan.uid = plan.gid = uid
    plan.own_user_namespace = not identity.is_root()
    system = grants.system(network=wish.network)
    plan.links = system.links
    plan.writable = (wish.scratch, *wish.writable)
    plan.readable = tuple(dict.fromkeys((*system.paths, *wish.readable)))
    _give(wish.scratch, uid)
    if uid >= 0:
        plan.owners = identity.foreign_owners(wish.writable, uid)
    who = (os.getuid(), os.getgid()) if uid < 0 else (uid, uid)
    plan.files = grants.identity_files(*who, f"{wish.scratch}/home")
    if kind != "landlock":
        plan.files += system.files
        copied = {path for path, _ in system.files}
        plan.readable = tuple(path for path in plan.readable if path not in copied)
    plan.network = wish.network
    plan.cgroups = len(cgroup.folders) if kind == "bubblewrap" else 0
    plan.counted_memory = cgroup.memory
    plan.memory, plan.processes = wish.memory, wish.processes
    plan.cpu_seconds, plan.file_size = wish.cpu_seconds, wish.file_size
    plan.total_size, plan.opened_ns = wish.total_size, time.time_ns()
    return plan


def _give(scratch: str, uid: int) -> None:
    """Before anything ran there: afterwards root must not follow a path that others can bend."""
    if identity.is_root():
        owner = max(uid, 0)
        for folder in (scratch, *(str(each) for each in Path(scratch).iterdir())):
            os.chown(folder, owner, owner, follow_symlinks=False)


async def reopen(plan: Plan, cgroup: Cgroup) -> tuple[Line, str]:
    """A new launcher with the same plan, and what went wrong (then the line is closed)."""
    files: list[int] = []
    argv = launcher_argv()
    try:
        if plan.walls == "bubblewrap":
            files = [os.open(entry, os.O_WRONLY) for entry in cgroup.entries]
            argv = bubblewrap.argv(plan, argv, PACKAGE, FIRST_CGROUP + len(files))
            files += bubblewrap.contents(plan)
        line = Line(argv, files)
    finally:
        for fd in files:
            os.close(fd)
    try:
        if plan.walls != "bubblewrap":
            await cgroups.join(cgroup, line.pid)
        problem = await line.open(plan)
    except BaseException:
        await line.close()
        raise
    if problem:
        await line.close()
    return line, problem
