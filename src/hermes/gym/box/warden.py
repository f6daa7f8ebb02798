"""The process that makes a box and stands at its door.

It is outside of the hosts' processes and files, so nothing inside can see or end it, and it can
step in: to run a command, to look at a file, to ask over the host's own network. Hermes asks it
over a line; when the line ends, so does the box. Imports only what a bare Python has.
"""

import _socket
import importlib
import marshal
import os
import resource
import select
import signal

from hermes.environments.confinement import kernel, wire
from hermes.environments.confinement.namespaces import (
    NEW_MOUNTS,
    NEW_NAMES,
    NEW_NETWORK,
    NEW_PROCESSES,
    NEW_QUEUES,
    NEW_USERS,
)
from hermes.gym.box import deeds, network, supervisor
from hermes.gym.box.house import move_in
from hermes.gym.box.plan import BoxPlan, HostPlan, host_plan

LINE = 3
READY = b"?"
"""Says that its user namespace waits for its map of user numbers."""


def main() -> None:
    os.umask(0o022)
    link = _socket.socket(fileno=LINE)
    os.set_inheritable(LINE, False)
    plan, programs = _letter(link)
    if plan.tls:
        for name in ("ssl", "encodings.idna"):  # host names are encoded with the second
            importlib.import_module(name)
    try:
        os.setsid()
        kernel.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive Hermes
        _bound(plan)
        kernel.call("unshare", NEW_USERS | NEW_NETWORK)
        wire.send(link, READY)
        wire.receive(link)
        os.setgid(0)
        os.setuid(0)
        kernel.prctl(4, 1)  # PR_SET_DUMPABLE: a change of user closed /proc/PID/ns, even to us
        network.up("lo")
        hosts = [_open_host(plan, host_plan(fields), programs) for fields in plan.hosts]
        network.join([(host.plan.name, host.plan.address, host.pid) for host in hosts])
    except OSError as error:
        wire.send(link, wire.FAILED + str(error).encode())
        os._exit(1)
    wire.send(link, wire.OK + marshal.dumps([host.pid for host in hosts]))
    _serve(link, hosts)


def _letter(link: _socket.socket) -> tuple[BoxPlan, tuple[tuple[str, bytes], ...]]:
    """Too long for one message: it comes as an open file."""
    _, files = wire.receive(link)
    with open(files[0], "rb") as file:  # noqa: PTH123 - pathlib is slow to import
        fields, programs = marshal.loads(file.read())
    plan = BoxPlan()
    vars(plan).update(fields)
    return plan, programs


def _bound(plan: BoxPlan) -> None:
    """Counted over the whole user namespace: what a bomb of forks can reach."""
    resource.setrlimit(resource.RLIMIT_NPROC, (plan.processes, plan.processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class OpenHost:
    """A host that lives."""

    def __init__(self, plan: HostPlan, pid: int, line: _socket.socket) -> None:
        self.plan = plan
        self.pid = pid
        self.line = line
        """To its supervisor: nobody inside can speak on it."""


def _open_host(plan: BoxPlan, host: HostPlan, programs: tuple[tuple[str, bytes], ...]) -> OpenHost:
    """The first process is born into its namespaces by a short-lived parent."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    told, tell = os.pipe()
    mother = os.fork()
    if mother == 0:
        try:
            kernel.call(
                "unshare", NEW_MOUNTS | NEW_NAMES | NEW_QUEUES | NEW_PROCESSES | NEW_NETWORK
            )
            first = os.fork()
            if first:
                os.write(tell, b"%d\n" % first)
                os._exit(0)
            ours.close()
            network.up("lo")
            move_in(plan, host, programs)
            os.write(tell, b"ok\n")
            os.close(tell)
            supervisor.live(theirs, host)
        except OSError as error:
            os.write(tell, b"!" + str(error).encode())
        finally:
            os._exit(1)
    os.close(tell)
    theirs.close()
    said = b""
    while not _born(said) and (piece := os.read(told, 4096)):
        said += piece
    os.close(told)
    os.waitpid(mother, 0)
    pid = _born(said)
    if not pid:
        raise OSError(
            said.partition(b"!")[2].decode("utf-8", "replace") or "the host did not start"
        )
    return OpenHost(host, pid, ours)


def _born(said: bytes) -> int:
    """Its number once it lives, else 0. The mother's word may come after the child's."""
    lines = said.split(b"\n")
    return next((int(line) for line in lines if line.isdigit()), 0) if b"ok" in lines else 0


def _serve(link: _socket.socket, hosts: list[OpenHost]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    traffic: list[int] = []
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    while True:
        poll.poll()
        data, files = wire.receive(link)
        if not data:
            break
        request: dict[str, object] = marshal.loads(data)
        try:
            child = os.fork()
        except OSError:  # a bomb of forks inside took all there are
            os.write(files[0], marshal.dumps({"error": "no process can be started any more"}))
            child = -1
        if child == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                link.close()
                deeds.do(request, hosts, files[0])
            finally:
                os._exit(0)
        if request["do"] == "traffic":
            traffic.append(child)
        for fd in files:
            os.close(fd)
    for host in hosts:
        _end(host.pid)
    for pid in traffic:
        _end(pid)
    os._exit(0)


def _end(pid: int) -> None:
    """The first process takes all others of its namespace with it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
