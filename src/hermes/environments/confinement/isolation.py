"""Isolates the launcher of a sandbox, and supervises its connections to unix sockets.

A folder that is granted to a sandbox is also used outside, and a service may listen on a socket
in it. No mount option and no current Landlock rule keeps a process from connecting to it. So the
system-call filter passes each connection to the supervisor: it connects to sockets in folders that
belong to the sandbox alone, and refuses the others.

The supervisor is the parent of the launcher, and so an ancestor of every command: Yama lets a
process inspect only its descendants.
"""

import _socket
import os
import select

from hermes.environments.confinement import (
    landlock,
    limits,
    messages,
    namespaces,
    process_control,
    seccomp,
)
from hermes.environments.confinement.call_supervisor import ConnectionSupervisor, NotifiedCall
from hermes.environments.confinement.messages import SandboxPlan

PRIVATE_FOLDERS = ("/tmp", "/dev/shm")
"""File systems of the sandbox alone. A file system mounted below them is another device."""


class SandboxSupervisor(ConnectionSupervisor):
    abstract_sockets = True

    def __init__(self, listener: int, plan: SandboxPlan, launcher: int, ended: int) -> None:
        super().__init__(listener)
        self._launcher, self._ended = launcher, ended
        self._scratch = plan.writable[0] if plan.writable else ""
        self._devices = {os.stat(folder).st_dev for folder in PRIVATE_FOLDERS}  # noqa: PTH116
        self._poll.register(ended, select.POLLIN)

    def decide(self, call: NotifiedCall) -> None:
        self.connect(call)

    def may_reach(self, call: NotifiedCall, real: str, status: os.stat_result) -> bool:
        own = bool(self._scratch) and real.startswith(f"{self._scratch}/")
        return own or status.st_dev in self._devices

    def handle_ready(self, fd: int) -> None:
        process_control.drain_signals(fd)
        if self._launcher in process_control.reap_children():
            os._exit(0)  # ends all processes of the namespace


def install_supervised(plan: SandboxPlan) -> None:
    """Installs the filter of the plan. Returns in a child process, which the parent supervises.

    Where the kernel gives no listener (another one is installed already), unix sockets are
    refused.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    launcher = os.fork()
    if launcher:
        theirs.close()
        _supervise_sandbox(ours, plan, launcher)
    ours.close()
    process_control.die_with_parent()
    process_control.adopt_orphans()
    listener = -1
    try:
        listener = seccomp.install_filter_with_listener(
            _filter_program(plan, connections="supervised")
        )
    except OSError:
        seccomp.install_filter(_filter_program(plan, connections="none"))
    messages.send_message(theirs, messages.ANSWER_OK, (listener,) if listener >= 0 else ())
    theirs.close()
    if listener >= 0:
        os.close(listener)


def install_unsupervised(plan: SandboxPlan) -> None:
    """Installs the filter of a plan without namespaces: no unix sockets."""
    seccomp.install_filter(_filter_program(plan, connections="none"))


def _filter_program(plan: SandboxPlan, *, connections: str) -> bytes:
    rules = seccomp.build_refusals(
        network=plan.network,
        connections=connections,
        namespaces=plan.isolation != "landlock",
        own_user=plan.uid >= 0,
        counted_memory=plan.counted_memory or not plan.memory,
    )
    return seccomp.compile_filter(rules)


def _supervise_sandbox(link: _socket.socket, plan: SandboxPlan, launcher: int) -> None:
    """Never returns. Keeps nothing open but the listener."""
    try:
        ended = process_control.open_child_descriptor()
        _, files = messages.receive_message(link)
        keep = {ended, *files}
        for fd in range(max(keep) + 64):
            if fd not in keep:
                _close_quietly(fd)
        if files and not process_control.reap_children():
            SandboxSupervisor(files[0], plan, launcher, ended).serve()
        os.waitpid(launcher, 0)
    finally:
        os._exit(0)


def _close_quietly(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return


READABLE_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
READABLE_PROC_FILES = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")
"""Readable files of /proc where it shows the processes of the host."""


FIRST_CGROUP_DESCRIPTOR = 4
"""Descriptors of cgroups to join, if any, follow the socket to Hermes."""


def apply_isolation(plan: SandboxPlan) -> None:
    """Isolates the calling process. Raises `OSError` naming the step that the kernel refused."""
    if plan.isolation not in ("namespaces", "bubblewrap", "landlock"):
        raise OSError(f"unknown kind of isolation: {plan.isolation}")
    for fd in range(FIRST_CGROUP_DESCRIPTOR, FIRST_CGROUP_DESCRIPTOR + plan.cgroups):
        os.write(fd, b"0")  # stands for the writer, in any namespace
        os.close(fd)
    if plan.isolation == "namespaces":
        _enter_namespaces(plan)
    if os.getsid(0) != os.getpid():
        os.setsid()
    if plan.isolation == "landlock":
        process_control.adopt_orphans()
    process_control.drop_privileges(plan.uid, plan.gid)
    if plan.isolation == "namespaces":
        process_control.die_with_parent()  # the change of user reset it
    if plan.isolation != "landlock" and landlock.landlock_version():
        apply_landlock(plan)
    (install_unsupervised if plan.isolation == "landlock" else install_supervised)(plan)


def _enter_namespaces(plan: SandboxPlan) -> None:
    """The process outside and the process inside end together."""
    maps = namespaces.open_owner_mappings(plan)
    namespaces.enter_namespaces(plan)
    inside = os.fork()
    if inside:
        os.closerange(0, 4096)
        _, status = os.waitpid(inside, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    namespaces.set_up_root(plan, maps)
    for fd in maps.values():
        os.close(fd)


def apply_landlock(plan: SandboxPlan, terminal: str = "") -> None:
    """Without namespaces this is applied to each command, not to the launcher and the
    supervisors: so no command can send them a signal."""
    alone = plan.isolation == "landlock"
    scopes = 0
    if landlock.landlock_version() >= landlock.VERSION_WITH_SCOPES:
        scopes = landlock.SCOPE_ABSTRACT_SOCKETS | (landlock.SCOPE_SIGNALS if alone else 0)
    grants = landlock.LandlockRuleset(network=plan.network, scopes=scopes)
    for path in plan.readable:
        grants.readable(path)
    for path in plan.writable:
        grants.writable(path)
    for name in READABLE_DEVICES:
        grants.device(f"/dev/{name}")
    if alone:
        for name in READABLE_PROC_FILES:
            grants.readable(f"/proc/{name}")
        if terminal:
            grants.device(terminal)
    else:
        # Everything visible was granted; this grants nothing of the host.
        grants.readable("/")
        for path in ("/dev/pts", "/dev/shm", "/tmp"):
            grants.writable(path)
    grants.restrict()


def count_outside_processes(plan: SandboxPlan) -> int:
    """Return how many other processes of the user the kernel counts for the limit."""
    if plan.uid >= 0 or plan.isolation != "landlock":
        return 0
    return limits.count_user_threads(os.getuid())
