"""Decides which unix sockets the commands of a sandbox may connect to.

A folder that is granted to a sandbox is also used outside, and a service may listen on a socket
in it. No mount option, and no Landlock rule of today, keeps a process from connecting there. So
the system-call filter hands each connection to this supervisor: it makes those to sockets in
places that belong to the sandbox alone, and refuses the others.

The supervisor is the parent of the launcher, and with it an ancestor of every command: Yama lets a
process look at the calls of its descendants only.
"""

import _socket
import os
import select

from hermes.environments.confinement import privileges, seccomp, signals, wire
from hermes.environments.confinement.connection_supervisor import ConnectionSupervisor
from hermes.environments.confinement.notified_call import NotifiedCall
from hermes.environments.confinement.plan import Plan

PRIVATE_FOLDERS = ("/tmp", "/dev/shm")
"""File systems of the sandbox alone. Another that is mounted below them is another device."""


class SandboxSupervisor(ConnectionSupervisor):
    abstract_sockets = True

    def __init__(self, listener: int, plan: Plan, launcher: int, ended: int) -> None:
        super().__init__(listener)
        self._launcher, self._ended = launcher, ended
        self._scratch = plan.writable[0] if plan.writable else ""
        self._devices = {os.stat(folder).st_dev for folder in PRIVATE_FOLDERS}  # noqa: PTH116
        self._poll.register(ended, select.POLLIN)

    def decide(self, call: NotifiedCall) -> None:
        self.connect(call)

    def may_reach(self, real: str, status: os.stat_result) -> bool:
        own = bool(self._scratch) and real.startswith(f"{self._scratch}/")
        return own or status.st_dev in self._devices

    def woken(self, fd: int) -> None:
        signals.forget(fd)
        if self._launcher in signals.reap():
            os._exit(0)  # the first process of a namespace takes all others with it


def install_supervised(plan: Plan) -> None:
    """Installs the filter of the plan. Returns in a child process, which its caller supervises.

    Where the kernel gives no listener (another one is installed already), no unix sockets can be
    made at all.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    launcher = os.fork()
    if launcher:
        theirs.close()
        _supervise(ours, plan, launcher)
    ours.close()
    privileges.die_with_parent()
    privileges.adopt_orphans()
    listener = -1
    try:
        listener = seccomp.install_with_listener(_program(plan, connections="supervised"))
    except OSError:
        seccomp.install(_program(plan, connections="none"))
    wire.send(theirs, wire.OK, (listener,) if listener >= 0 else ())
    theirs.close()
    if listener >= 0:
        os.close(listener)


def install_alone(plan: Plan) -> None:
    """Installs the filter of a plan without namespaces: no unix sockets."""
    seccomp.install(_program(plan, connections="none"))


def _program(plan: Plan, *, connections: str) -> bytes:
    rules = seccomp.refusals(
        network=plan.network,
        connections=connections,
        namespaces=plan.walls != "landlock",
        own_user=plan.uid >= 0,
        counted_memory=plan.counted_memory or not plan.memory,
    )
    return seccomp.program(rules)


def _supervise(link: _socket.socket, plan: Plan, launcher: int) -> None:
    """Never returns. It keeps nothing open but the listener."""
    try:
        ended = signals.children_as_descriptor()
        _, files = wire.receive(link)
        keep = {ended, *files}
        for fd in range(max(keep) + 64):
            if fd not in keep:
                _close(fd)
        if files and not signals.reap():
            SandboxSupervisor(files[0], plan, launcher, ended).serve()
        os.waitpid(launcher, 0)
    finally:
        os._exit(0)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return
