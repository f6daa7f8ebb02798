"""Box init: the process that starts the hosts of a box and carries out requests in them.

It runs outside of the hosts' namespaces, so no process of a host can see or kill it, and it can
enter them: to run a command, to read a file, to connect over the host's network. Hermes sends
requests over a socket; when the socket closes, the box ends. `run_forkserver` is a process that
forks such processes quickly. Imports only the standard library.
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
import time
from typing import Protocol

from hermes.environments.boxes import (
    copied_hosts,
    host_requests,
    host_setup,
    machine_root,
    supervisor,
)
from hermes.environments.boxes.backend import BoxPlan, HostPlan, host_plan_from_fields
from hermes.environments.boxes.copied_hosts import CopiedLayers
from hermes.environments.boxes.host_setup import enter_host_root
from hermes.environments.boxes.oracle_view import split_oracle_view
from hermes.environments.confinement import kernel, messages, process_control
from hermes.environments.confinement.limits import find_descendants, find_largest_process
from hermes.environments.confinement.namespaces import (
    CLONE_NEW_IPC,
    CLONE_NEW_MOUNTS,
    CLONE_NEW_NETWORK,
    CLONE_NEW_PROCESSES,
    CLONE_NEW_USERS,
    CLONE_NEW_UTS,
)

LINK_FD = 3
ID_MAP_REQUEST = b"?"
"""Sent to Hermes: the user namespace waits for its map of user ids."""
FIRST_OUTER_UID, UID_COUNT = 1_700_000_000, 65_536
"""Where the user ids of a box made by root lie outside of it: used by no real user."""


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
        _limit_memory(plan)
        hosts = _open_hosts(plan, programs, link)
        host_setup.connect_hosts([(host.plan.name, host.plan.address, host.pid) for host in hosts])
    except OSError as error:
        messages.send_message(link, messages.ANSWER_FAILED + str(error).encode())
        os._exit(1)
    messages.send_message(link, messages.ANSWER_OK + marshal.dumps([host.pid for host in hosts]))
    kernel.prctl(1, 0)  # PR_SET_PDEATHSIG: from now on the closed socket ends us, in order
    _serve_requests(link, hosts, plan)
    _remove_cgroups(plan.cgroups)
    os._exit(0)


def _open_hosts(
    plan: BoxPlan, programs: tuple[tuple[str, bytes], ...], link: _socket.socket
) -> "list[RunningHost]":
    if plan.copies_machine:
        return _copy_machine(plan, programs, link)
    return _copy_hosts(plan) if plan.copied_pids else _start_hosts(plan, programs, link)


def _start_hosts(
    plan: BoxPlan, programs: tuple[tuple[str, bytes], ...], link: _socket.socket
) -> "list[RunningHost]":
    _create_outer_user_namespace(link)
    if plan.own_users:
        _limit_processes(plan.processes)
        kernel.system_call("setns", copied_hosts.create_user_namespace(), CLONE_NEW_USERS)
        copied_hosts.become_first_user()
    _limit_processes(plan.processes)
    kernel.system_call("unshare", CLONE_NEW_NETWORK)
    host_setup.bring_up_interface("lo")
    plans = [host_plan_from_fields(fields) for fields in plan.hosts]
    started = [_start_host(host, NewHostRoot(plan, host, programs)) for host in plans]
    for each in started:
        each.oracle_view = messages.receive_message(each.supervisor_socket)[1][0]
    return started


def _copy_hosts(plan: BoxPlan) -> "list[RunningHost]":
    sources = copied_hosts.enter_source_box(plan.copied_pids)
    _limit_processes(plan.processes + sum(len(find_descendants(pid)) for pid in plan.copied_pids))
    users = copied_hosts.create_user_namespace()
    hosts = []
    for source, fields in zip(sources, plan.hosts, strict=True):
        host = host_plan_from_fields(fields)
        started = _start_host(host, copied_hosts.CopiedHostRoot(source, host, users))
        started.layers = copied_hosts.receive_layers(started.supervisor_socket)
        hosts.append(started)
    kernel.system_call("setns", users, CLONE_NEW_USERS)
    copied_hosts.become_first_user()
    kernel.system_call("unshare", CLONE_NEW_NETWORK)
    host_setup.bring_up_interface("lo")
    return hosts


def _copy_machine(
    plan: BoxPlan, programs: tuple[tuple[str, bytes], ...], link: _socket.socket
) -> "list[RunningHost]":
    if plan.own_users:
        _create_outer_user_namespace(link)
    _limit_processes(plan.processes)
    users = copied_hosts.create_user_namespace()
    host = host_plan_from_fields(plan.hosts[0])
    started = _start_host(host, machine_root.MachineRoot(plan, host, programs, users))
    started.layers = copied_hosts.receive_layers(started.supervisor_socket)
    started.namespaces = {
        name: os.open(f"/proc/{started.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        for name in (*host_requests.HOST_NAMESPACES, "mnt")
    }
    messages.send_message(started.supervisor_socket, b"go")
    kernel.system_call("setns", users, CLONE_NEW_USERS)
    copied_hosts.become_first_user()
    kernel.prctl(4, 0)  # PR_SET_DUMPABLE: our descriptors lead out of the copy
    return [started]


def _receive_plan(link: _socket.socket) -> tuple[BoxPlan, tuple[tuple[str, bytes], ...]]:
    """The plan is too long for one message: it comes as an open file."""
    _, files = messages.receive_message(link)
    with open(files[0], "rb") as file:  # noqa: PTH123 - pathlib is slow to import
        fields, programs = marshal.loads(file.read())
    plan = BoxPlan()
    vars(plan).update(fields)
    return plan, programs


def send_plan(link: _socket.socket, plan: BoxPlan, programs: tuple[tuple[str, bytes], ...]) -> None:
    """Called by the process that starts box init."""
    fd = os.memfd_create("plan")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(marshal.dumps((vars(plan), programs)))
        os.lseek(fd, 0, os.SEEK_SET)
        messages.send_message(link, b"plan", (fd,))
    finally:
        os.close(fd)


def _create_outer_user_namespace(link: _socket.socket) -> None:
    kernel.system_call("unshare", CLONE_NEW_USERS)
    messages.send_message(link, ID_MAP_REQUEST)
    messages.receive_message(link)
    copied_hosts.become_first_user()


def _limit_processes(count: int) -> None:
    """Bounds a fork bomb. The kernel counts the processes of the user in this user namespace.

    A namespace made below counts all its users together against the limit of its creator. Set
    before the first namespace, the limit would also count what the caller runs elsewhere.
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (count, count))


def _limit_memory(plan: BoxPlan) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if plan.watched_memory_mb:
        size = plan.watched_memory_mb << 20
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


class RunningHost:
    def __init__(self, plan: HostPlan, pid: int, supervisor_socket: _socket.socket) -> None:
        self.plan = plan
        self.pid = pid
        self.supervisor_socket = supervisor_socket
        """Connected to its supervisor; no process of the host has it."""
        self.layers = CopiedLayers()
        """Of a copied host: what it changed, and what it left out."""
        self.namespaces: dict[str, int] = {}
        """Of a copy of this machine: open descriptors. Its commands have fewer rights."""
        self.oracle_view = -1
        """Descriptor of the mount namespace in which the oracle's requests run; -1 in a copy."""


class HostRoot(Protocol):
    """The file system of a host."""

    def prepare(self, link: _socket.socket) -> None:
        """Called before the namespaces are created; `link` leads to box init."""
        ...

    def enter(self) -> None:
        """Called by the first process of the host, in its new namespaces."""
        ...

    def give_up_rights(self, link: _socket.socket) -> None:
        """Called before the first service is started."""
        ...


class NewHostRoot:
    def __init__(
        self, plan: BoxPlan, host: HostPlan, programs: tuple[tuple[str, bytes], ...]
    ) -> None:
        self._plan, self._host = plan, host
        # With another supervisor there is no systemctl of ours.
        self._programs = tuple(each for each in programs if not host.boot or each[0] == "python3")

    def prepare(self, link: _socket.socket) -> None:
        self._link = link

    def enter(self) -> None:
        enter_host_root(self._plan, self._host, self._programs)
        view = split_oracle_view(self._programs)
        messages.send_message(self._link, b"view", (view,))
        os.close(view)

    def give_up_rights(self, link: _socket.socket) -> None:
        """Root of the host can open what its first process has open."""
        os.closerange(LINK_FD, link.fileno())
        os.closerange(link.fileno() + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _start_host(host: HostPlan, root: HostRoot) -> RunningHost:
    """A short-lived parent creates the namespaces and forks the host's first process into them."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    status_read, status_write = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            root.prepare(theirs)
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
                os.write(status_write, b"%d\n" % first)
                os._exit(0)
            ours.close()  # otherwise it would not notice that box init has ended
            host_setup.bring_up_interface("lo")
            root.enter()
            os.write(status_write, b"ok\n")
            os.close(status_write)
            root.give_up_rights(theirs)
            supervisor.run_supervisor(theirs, host)
        except Exception as error:  # noqa: BLE001 - box init reports it
            os.write(status_write, b"!" + (str(error) or type(error).__name__).encode())
        finally:
            os._exit(1)
    os.close(status_write)
    theirs.close()
    status = b""
    while not _first_process_id(status) and (piece := os.read(status_read, 4096)):
        status += piece
    os.close(status_read)
    os.waitpid(parent, 0)
    pid = _first_process_id(status)
    if not pid:
        error_text = status.partition(b"!")[2].decode("utf-8", "replace")
        raise OSError(error_text or "the host did not start")
    return RunningHost(host, pid, ours)


def _first_process_id(status: bytes) -> int:
    """0 until it runs. The parent's line with the id may come after the child's "ok"."""
    lines = status.split(b"\n")
    return next((int(line) for line in lines if line.isdigit()), 0) if b"ok" in lines else 0


def _serve_requests(link: _socket.socket, hosts: list[RunningHost], plan: BoxPlan) -> None:
    """Until Hermes closes the socket, or the time is over."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their exit codes are not needed
    traffic: list[int] = []
    ends_at = time.monotonic() + (plan.time_s or NO_END_S)
    while _wait_for_request(link, hosts, plan, ends_at):
        data, files = messages.receive_message(link)
        if not data:
            break
        request = host_requests.read_request(data, files)
        child = _fork_for_request(link, hosts, request, files)
        if request["do"] == "traffic":
            traffic.append(child)
        for fd in files:
            os.close(fd)
    for host in hosts:
        _kill_process(host.pid)
    for pid in traffic:
        _kill_process(pid)


def _wait_for_request(
    link: _socket.socket, hosts: list[RunningHost], plan: BoxPlan, ends_at: float
) -> bool:
    """Return False when the time is over."""
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    pause = MEMORY_CHECK_INTERVAL_S if plan.watched_memory_mb else NO_END_S
    while (left := ends_at - time.monotonic()) > 0:
        if plan.watched_memory_mb:
            _end_largest_process(hosts, plan.watched_memory_mb << 20)
        if poll.poll(min(left, pause) * 1000):
            return True
    return False


def _fork_for_request(
    link: _socket.socket, hosts: list[RunningHost], request: dict[str, object], files: list[int]
) -> int:
    try:
        child = os.fork()
    except OSError:  # a fork bomb in a host used up all processes
        os.write(files[0], marshal.dumps({"error": "no more processes can be started"}))
        return -1
    if child == 0:
        try:
            # It holds the sockets of the supervisors, which end when these are closed.
            process_control.die_with_parent()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            link.close()
            host_requests.handle_request(request, hosts, files)
        finally:
            os._exit(0)
    return child


def _end_largest_process(hosts: list[RunningHost], limit: int) -> None:
    """Ends one process when all of the box together use more memory than `limit`."""
    pids = find_descendants(os.getpid())
    for host in hosts:
        pids += find_descendants(host.pid)
    largest = find_largest_process(pids, limit)
    if largest is not None:
        _kill_process(largest)


def _remove_cgroups(folders: tuple[str, ...]) -> None:
    """Hermes does the same. It may have been killed, and nothing must be left."""
    for folder in folders:
        try:
            with open(f"{os.path.dirname(folder)}/cgroup.procs", "w") as file:  # noqa: PTH120, PTH123
                file.write("0")
            for _ in range(CGROUP_REMOVAL_TRIES):
                try:
                    os.rmdir(folder)  # noqa: PTH106 - pathlib is slow to import
                    break
                except FileNotFoundError:
                    break
                except OSError:  # its last process is still ending
                    time.sleep(0.005)
        except OSError:
            continue


def _kill_process(pid: int) -> None:
    """With the first process of a pid namespace, the kernel kills all others of it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


NO_END_S = 1e6
MEMORY_CHECK_INTERVAL_S = 0.1
CGROUP_REMOVAL_TRIES = 1000
REAP_INTERVAL_MS = 1000
"""Milliseconds between two checks for exited children while no request comes."""


def run_forkserver() -> None:
    link = _socket.socket(fileno=LINK_FD)
    os.set_inheritable(LINK_FD, False)
    os.setsid()
    gc.disable()
    gc.freeze()  # memory that the collector writes to would be copied in every child
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
        answer = _socket.socket(fileno=files.pop())
        try:
            _fork_box_init(link, answer, files)
        except OSError as error:
            _send_answer(answer, messages.ANSWER_FAILED + str(error).encode())
        answer.close()
        for fd in files:
            os.close(fd)


def _fork_box_init(link: _socket.socket, answer: _socket.socket, files: list[int]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            link.close()
            answer.close()
            box_link, stderr_file = files
            os.dup2(stderr_file, 2)
            if box_link != LINK_FD:
                os.dup2(box_link, LINK_FD)
                os.close(box_link)
            os.close(stderr_file)
            random.seed()
            main()
        finally:
            os._exit(1)
    process = os.pidfd_open(pid)
    try:
        _send_answer(answer, messages.ANSWER_OK + b"%d" % pid, (process,))
    finally:
        os.close(process)


def _send_answer(link: _socket.socket, answer: bytes, files: tuple[int, ...] = ()) -> None:
    try:
        messages.send_message(link, answer, files)
    except OSError:
        return  # Hermes no longer waits for it


def _reap_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return
