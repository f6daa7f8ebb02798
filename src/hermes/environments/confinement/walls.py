"""Puts the calling process behind the walls of a plan, in the order in which they must go up.

Each wall takes away what is needed to build the ones before it: namespaces need capabilities,
dropping those needs the right to, and the filter on system calls forbids nearly all of it.
"""

import os

from hermes.environments.confinement import landlock, limits, namespaces, privileges
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.sandbox_supervisor import install_alone, install_supervised

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
HARMLESS = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")
"""What of /proc is readable where it shows the processes of the host."""


FIRST_CGROUP = 4
"""Descriptors of cgroups to join, if any, come after the line to Hermes."""


def go_behind(plan: Plan) -> None:
    """Returns inside. Raises `OSError` saying which wall the kernel refused."""
    if plan.walls not in ("namespaces", "bubblewrap", "landlock"):
        raise OSError(f"no such walls: {plan.walls}")
    for fd in range(FIRST_CGROUP, FIRST_CGROUP + plan.cgroups):
        os.write(fd, b"0")  # the writer's own number, in whatever namespace
        os.close(fd)
    if plan.walls == "namespaces":
        _leave_the_host(plan)
    if os.getsid(0) != os.getpid():
        os.setsid()
    if plan.walls == "landlock":
        privileges.adopt_orphans()
    privileges.drop(plan.uid, plan.gid)
    if plan.walls == "namespaces":
        privileges.die_with_parent()  # becoming another user made the kernel forget it
    if plan.walls != "landlock" and landlock.version():
        behind_landlock(plan)
    (install_alone if plan.walls == "landlock" else install_supervised)(plan)


def _leave_the_host(plan: Plan) -> None:
    """The one that stays outside lives as long as the one inside, and the other way round."""
    maps = namespaces.translations(plan)
    namespaces.enter(plan)
    inside = os.fork()
    if inside:
        os.closerange(0, 4096)
        _, status = os.waitpid(inside, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    namespaces.furnish(plan, maps)
    for fd in maps.values():
        os.close(fd)


def behind_landlock(plan: Plan, terminal: str = "") -> None:
    """Without namespaces each command gets this wall for itself: the launcher and the keepers
    stay before it, where no command can send them a signal."""
    alone = plan.walls == "landlock"
    scopes = 0
    if landlock.version() >= landlock.VERSION_WITH_SCOPES:
        scopes = landlock.ABSTRACT_SOCKETS | (landlock.SIGNALS if alone else 0)
    grants = landlock.Grants(network=plan.network, scopes=scopes)
    for path in plan.readable:
        grants.readable(path)
    for path in plan.writable:
        grants.writable(path)
    for name in DEVICES:
        grants.device(f"/dev/{name}")
    if alone:
        for name in HARMLESS:
            grants.readable(f"/proc/{name}")
        if terminal:
            grants.device(terminal)
    else:
        # All that can be seen was granted; of the host's own tree this grants nothing.
        grants.readable("/")
        for path in ("/dev/pts", "/dev/shm", "/tmp"):
            grants.writable(path)
    grants.restrict()


def processes_outside(plan: Plan) -> int:
    """How many of the user's processes the kernel will count beside ours."""
    if plan.uid >= 0 or plan.walls != "landlock":
        return 0
    return limits.tasks_of(os.getuid())
