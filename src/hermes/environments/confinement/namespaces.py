"""Namespaces: own processes, network, mounts, names and queues, apart from those of the host."""

import os

from hermes.environments.confinement import kernel, mounts
from hermes.environments.confinement.plan import Plan

NEW_MOUNTS, NEW_CGROUPS, NEW_NAMES, NEW_QUEUES = 0x20000, 0x02000000, 0x04000000, 0x08000000
NEW_USERS, NEW_PROCESSES, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000


def enter(plan: Plan) -> None:
    """Leave the host: the caller's next child is the first process of a world of its own."""
    flags = NEW_MOUNTS | NEW_CGROUPS | NEW_NAMES | NEW_QUEUES | NEW_PROCESSES
    if not plan.network:
        flags |= NEW_NETWORK
    if not plan.own_user_namespace:
        kernel.call("unshare", flags)
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.call("unshare", flags | NEW_USERS)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def furnish(plan: Plan, maps: dict[tuple[int, int], int]) -> None:
    """Called by that first process: a root folder and a name of its own."""
    mounts.new_root(plan, maps)
    kernel.call("sethostname", b"sandbox", 7)


def translations(plan: Plan) -> dict[tuple[int, int], int]:
    """A user namespace for each foreign owner, through which its files become those of `uid`."""
    owners = {(uid, gid) for _, uid, gid in plan.owners}
    return {(uid, gid): _translation(uid, gid, plan) for uid, gid in owners}


def _translation(uid: int, gid: int, plan: Plan) -> int:
    """A user namespace lives as long as its descriptor: the process that made it may go."""
    ready, made = os.pipe()
    go, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernel.call("unshare", NEW_USERS)
            os.write(made, b"+")
        finally:
            os.close(made)
            os.close(done)
            os.read(go, 1)
            os._exit(0)
    os.close(made)
    try:
        if os.read(ready, 1) != b"+":
            raise OSError("no user namespace could be made to translate the owner of a folder")
        _write(f"/proc/{child}/uid_map", f"{uid} {plan.uid} 1")
        _write(f"/proc/{child}/gid_map", f"{gid} {plan.gid} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (ready, go, done):
            os.close(fd)
        os.waitpid(child, 0)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
