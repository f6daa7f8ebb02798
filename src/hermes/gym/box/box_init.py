"""The process that makes a box and stands at its door.

It is outside of the hosts' processes and files, so nothing inside can see or end it, and it can
step in: to run a command, to look at a file, to ask over the host's own network. Hermes asks it
over a line; when the line ends, so does the box. Imports only what a bare Python has.
"""

import _socket
import gc
import importlib
import marshal
import os
import random
import resource
import select
import signal

from hermes.environments.confinement import kernel, messages
from hermes.environments.confinement.namespaces import (
    CLONE_NEW_IPC,
    CLONE_NEW_MOUNTS,
    CLONE_NEW_NETWORK,
    CLONE_NEW_PROCESSES,
    CLONE_NEW_USERS,
    CLONE_NEW_UTS,
)
from hermes.gym.box import host_requests, host_setup, supervisor
from hermes.gym.box.backend import BoxPlan, HostPlan, host_plan_from_fields
from hermes.gym.box.host_setup import enter_host_root

LINK_FD = 3
ID_MAP_REQUEST = b"?"
"""Says that its user namespace waits for its map of user numbers."""


def main() -> None:
    os.umask(0o022)
    link = _socket.socket(fileno=LINK_FD)
    os.set_inheritable(LINK_FD, False)
    plan, programs = _receive_plan(link)
    if plan.tls:
        for name in ("ssl", "encodings.idna"):  # host names are encoded with the second
            importlib.import_module(name)
    try:
        os.setsid()
        kernel.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive Hermes
        _limit_resources(plan)
        kernel.system_call("unshare", CLONE_NEW_USERS | CLONE_NEW_NETWORK)
        messages.send_message(link, ID_MAP_REQUEST)
        messages.receive_message(link)
        os.setgid(0)
        os.setuid(0)
        kernel.prctl(4, 1)  # PR_SET_DUMPABLE: a change of user closed /proc/PID/ns, even to us
        host_setup.bring_up_interface("lo")
        hosts = [
            _start_host(plan, host_plan_from_fields(fields), programs) for fields in plan.hosts
        ]
        host_setup.connect_hosts([(host.plan.name, host.plan.address, host.pid) for host in hosts])
    except OSError as error:
        messages.send_message(link, messages.ANSWER_FAILED + str(error).encode())
        os._exit(1)
    messages.send_message(link, messages.ANSWER_OK + marshal.dumps([host.pid for host in hosts]))
    _serve_requests(link, hosts)


def _receive_plan(link: _socket.socket) -> tuple[BoxPlan, tuple[tuple[str, bytes], ...]]:
    """Too long for one message: it comes as an open file."""
    _, files = messages.receive_message(link)
    with open(files[0], "rb") as file:  # noqa: PTH123 - pathlib is slow to import
        fields, programs = marshal.loads(file.read())
    plan = BoxPlan()
    vars(plan).update(fields)
    return plan, programs


def _limit_resources(plan: BoxPlan) -> None:
    """Counted over the whole user namespace: what a bomb of forks can reach."""
    resource.setrlimit(resource.RLIMIT_NPROC, (plan.processes, plan.processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class RunningHost:
    """A host that lives."""

    def __init__(self, plan: HostPlan, pid: int, supervisor_socket: _socket.socket) -> None:
        self.plan = plan
        self.pid = pid
        self.supervisor_socket = supervisor_socket
        """To its supervisor: nobody inside can speak on it."""


def _start_host(
    plan: BoxPlan, host: HostPlan, programs: tuple[tuple[str, bytes], ...]
) -> RunningHost:
    """The first process is born into its namespaces by a short-lived parent."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    told, tell = os.pipe()
    mother = os.fork()
    if mother == 0:
        try:
            kernel.system_call(
                "unshare",
                CLONE_NEW_MOUNTS
                | CLONE_NEW_UTS
                | CLONE_NEW_IPC
                | CLONE_NEW_PROCESSES
                | CLONE_NEW_NETWORK,
            )
            first = os.fork()
            if first:
                os.write(tell, b"%d\n" % first)
                os._exit(0)
            ours.close()
            host_setup.bring_up_interface("lo")
            enter_host_root(plan, host, programs)
            os.write(tell, b"ok\n")
            os.close(tell)
            supervisor.run_supervisor(theirs, host)
        except OSError as error:
            os.write(tell, b"!" + str(error).encode())
        finally:
            os._exit(1)
    os.close(tell)
    theirs.close()
    said = b""
    while not _first_process_id(said) and (piece := os.read(told, 4096)):
        said += piece
    os.close(told)
    os.waitpid(mother, 0)
    pid = _first_process_id(said)
    if not pid:
        raise OSError(
            said.partition(b"!")[2].decode("utf-8", "replace") or "the host did not start"
        )
    return RunningHost(host, pid, ours)


def _first_process_id(said: bytes) -> int:
    """Its number once it lives, else 0. The mother's word may come after the child's."""
    lines = said.split(b"\n")
    return next((int(line) for line in lines if line.isdigit()), 0) if b"ok" in lines else 0


def _serve_requests(link: _socket.socket, hosts: list[RunningHost]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    traffic: list[int] = []
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    while True:
        poll.poll()
        data, files = messages.receive_message(link)
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
                host_requests.handle_request(request, hosts, files[0])
            finally:
                os._exit(0)
        if request["do"] == "traffic":
            traffic.append(child)
        for fd in files:
            os.close(fd)
    for host in hosts:
        _kill_process(host.pid)
    for pid in traffic:
        _kill_process(pid)
    os._exit(0)


def _kill_process(pid: int) -> None:
    """The first process takes all others of its namespace with it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


REAP_INTERVAL_MS = 1000
"""Milliseconds after which the dead are looked for, if nobody asks for the living."""


def run_forkserver() -> None:
    link = _socket.socket(fileno=LINK_FD)
    os.set_inheritable(LINK_FD, False)
    os.setsid()
    gc.disable()
    gc.freeze()  # what a collector writes to is copied in every child
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    while True:
        ready = poll.poll(REAP_INTERVAL_MS)
        _reap_children()
        if not ready:
            continue
        data, files = messages.receive_message(link)
        if not data:
            os._exit(0)
        try:
            _fork_box_init(link, files)
        except OSError as error:
            messages.send_message(link, messages.ANSWER_FAILED + str(error).encode())
        for fd in files:
            os.close(fd)


def _fork_box_init(link: _socket.socket, files: list[int]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            link.close()
            line, complaints = files
            os.dup2(complaints, 2)
            if line != LINK_FD:
                os.dup2(line, LINK_FD)
                os.close(line)
            os.close(complaints)
            random.seed()
            main()
        finally:
            os._exit(1)
    process = os.pidfd_open(pid)
    try:
        messages.send_message(link, messages.ANSWER_OK + b"%d" % pid, (process,))
    finally:
        os.close(process)


def _reap_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return
