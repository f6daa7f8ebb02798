"""Answers the system calls that the filter of a confined command passes to its supervisor.

The supervisor is a separate process outside of the confinement, and runs as long as any process of
the command: a background process keeps its supervisor after Hermes has ended. A foreground command
that was judged to read only is killed then, because its output is no longer read. One that changes
something is not, as a half-finished change would be worse. If the supervisor is killed, the kernel
refuses every such call.
"""

import _socket
import ctypes
import fcntl
import os
import select
import struct
import time
from errno import EACCES, ENOTCONN, EPERM

from hermes.environments.confinement import kernel, landlock, process_control
from hermes.environments.confinement.call_supervisor import (
    SO_DOMAIN,
    TIOCGPTPEER,
    ConnectionSupervisor,
    NotifiedCall,
    OwnedTerminals,
    fork_waiting_process,
    signed_int,
    socket_option,
)
from hermes.environments.confinement.enforcement import (
    AF_PACKET,
    CHANGE_CALLS,
    EXECUTE_CALLS,
    NO_READ_FLAGS,
    SIGNAL_CALLS,
    free_share,
)
from hermes.environments.confinement.installed_programs import (
    MAX_GENERATIONS,
    ConnectingPrograms,
    parent_and_session,
)
from hermes.environments.confinement.limits import DiskLimit
from hermes.environments.confinement.messages import VerdictRules
from hermes.environments.confinement.read_check import (
    ReadCheck,
    ReadRefused,
    changed_paths,
    matches_pattern,
)
from hermes.environments.confinement.seccomp import AF_INET, AF_INET6
from hermes.environments.confinement.supervised_changes import ChangeRefused, SupervisedChanges
from hermes.environments.confinement.verdict_paths import NAME_SERVICE_SOCKETS

MAX_REPORTS = 32
"""Limits the reports of a command that tries the same again and again."""
LARGE_FILES = 4
"""A command may write as much in all as this number of files of the largest size."""
DISK_CHECK_MS = 500
MAX_KILL_ROUNDS, KILL_INTERVAL_S = 50, 0.02
"""Processes that are forked meanwhile need several rounds; one that hides is left alone."""
SHM_CREATOR_OFFSET = 80
"""Offset of the creator's process id in struct shmid_ds of a 64-bit system."""
SYSCALL_NAMES = {
    numbers[kernel.SYSCALL_COLUMNS[kernel.machine()]]: name
    for name, numbers in kernel.SYSCALL_NUMBERS.items()
    if kernel.machine() in kernel.SYSCALL_COLUMNS
}
"""Built once in the fork server, for all supervisors."""
_OPEN_FLAG_ARGUMENTS = {"open": 1, "openat": 2}
FILE_CALLS = frozenset({"open", "openat", *CHANGE_CALLS.split()})


class CommandSupervisor(ConnectionSupervisor):
    """`leader` is the first process of the command, `report` the descriptor to which refusals are
    written, a line each."""

    def __init__(self, listener: int, rules: VerdictRules, report: int, *, leader: int) -> None:
        super().__init__(listener)
        self._rules, self._report_writer, self.ports = rules, report, rules.ports
        self._leader = leader
        self._mounts = _open_mounts(leader) if rules.hidden or rules.sees_processes else -1
        """Kept open: the kernel takes half a millisecond to remove the mounts of a command, and
        so the supervisor does that, after the command has ended."""
        self._terminals = OwnedTerminals()
        self._changes = SupervisedChanges(rules, self._terminals)
        self._reads = ReadCheck(rules, self._changes) if rules.checks_reads else None
        if self._reads is not None:
            self.expect_many_calls()
        self._programs = ConnectingPrograms(rules.connecting)
        self._reported: set[bytes] = set()
        self._disk: DiskLimit | None = None
        if rules.max_file_bytes:
            self._disk = DiskLimit(changed_paths(rules), LARGE_FILES * free_share(rules))
            self.interval_ms = DISK_CHECK_MS
        scopes = landlock.landlock_version() >= landlock.VERSION_WITH_SCOPES
        self._scoped = scopes and not rules.sees_processes

    def watch_hermes(self, hermes: int) -> None:
        """`hermes` is a descriptor of its process; the command has a session of its own."""
        self._kill_rounds = 0
        if self._rules.ends_with_hermes:
            self._poll.register(hermes, select.POLLIN)

    def handle_ready(self, fd: int) -> None:
        """Hermes has ended. Called again and again until no process of the command is left."""
        self._kill_rounds += 1
        if self._kill_rounds > MAX_KILL_ROUNDS:
            return self._poll.unregister(fd)
        for pid in self._find_processes():
            process_control.send_signal(pid, process_control.SIGKILL)
        return time.sleep(KILL_INTERVAL_S)

    def look_around(self) -> None:
        """Nobody was asked how much the command writes in all, so it is ended."""
        if self._disk is None or not self._disk.exceeded(self._leader):
            return
        self._write_report("size", f"{self._disk.limit >> 20} MiB")
        self._disk, self.interval_ms = None, None
        for _ in range(MAX_KILL_ROUNDS):
            if not (found := self._find_processes()):
                break
            for pid in found:
                process_control.send_signal(pid, process_control.SIGKILL)
            time.sleep(KILL_INTERVAL_S)

    def decide(self, call: NotifiedCall) -> None:
        name = SYSCALL_NAMES.get(call.number, "")
        try:
            self._decide(name, call)
        except ChangeRefused as refused:
            self._report(call, refused.kind, refused.path, refused.why)
            call.refuse(refused.error)
        except ReadRefused as refused:
            self._report(call, refused.kind, refused.path, refused.why)
            call.refuse(refused.error)

    def may_reach(self, call: NotifiedCall, real: str, status: os.stat_result) -> bool:
        if any(matches_pattern(real, each) for each in NAME_SERVICE_SOCKETS):
            return True
        granted = any(matches_pattern(real, pattern) for pattern in self._rules.sockets)
        return granted and self._may_connect(call)

    def _may_connect(self, call: NotifiedCall) -> bool:
        return self._programs.includes(call.pid, self._leader)

    def refused(self, call: NotifiedCall, what: str) -> None:
        self._report(call, "connect", what)

    def _decide(self, name: str, call: NotifiedCall) -> None:
        reads = name in EXECUTE_CALLS or _opens_for_reading(name, call)
        if self._reads is not None and reads:
            self._reads.decide(name, call)
        elif name in FILE_CALLS:
            self._changes.decide(name, call)
        elif name == "connect":
            self.connect(call)
        elif name == "flock":
            self._lock(call)
        elif name == "listen":
            self._listen(call)
        elif name == "ioctl" and call.arguments[1] & 0xFFFFFFFF == TIOCGPTPEER:
            self._terminals.open_peer(call)
        elif name in SIGNAL_CALLS or name == "kill":
            self._signal(call, name)
        elif name in ("shmat", "shmctl") and self._made_memory(call):
            call.proceed()
        elif name == "socket":
            self._open_socket(call)
        else:
            self._report(call, "call", name)
            call.refuse(EPERM)

    def _open_socket(self, call: NotifiedCall) -> None:
        if self._asks_about_interfaces(call):
            return self._make_silent_socket(call)
        if self._is_granted_socket(call) and self._may_connect(call):
            return call.proceed()
        family = _SOCKET_FAMILY_NAMES.get(signed_int(call.arguments[0]), "a special protocol")
        self._report(call, "socket", family)
        return call.refuse(EACCES)

    def _is_granted_socket(self, call: NotifiedCall) -> bool:
        family = signed_int(call.arguments[0])
        if family == AF_PACKET:
            return self._rules.raw_sockets
        return self._rules.network and family in (AF_INET, AF_INET6)

    def _asks_about_interfaces(self, call: NotifiedCall) -> bool:
        family, kind, protocol = map(signed_int, call.arguments[:3])
        datagrams = kind & 0xF == _socket.SOCK_DGRAM and protocol in (0, _socket.IPPROTO_UDP)
        return self._rules.interfaces and family in (AF_INET, AF_INET6) and datagrams

    def _make_silent_socket(self, call: NotifiedCall) -> None:
        """A socket for questions about interfaces. Its sending side is shut down for good."""
        family, kind, protocol = map(signed_int, call.arguments[:3])
        made = _socket.socket(family, kind | _socket.SOCK_CLOEXEC, protocol)
        try:
            try:
                made.shutdown(_socket.SHUT_WR)
            except OSError as error:  # reported because it is not connected; it is shut down still
                if error.errno != ENOTCONN:
                    raise
            call.give(made.fileno(), close_on_exec=bool(kind & _socket.SOCK_CLOEXEC))
        finally:
            made.close()

    def _listen(self, call: NotifiedCall) -> None:
        """Only on a unix socket, and on a copy of it: TCP would take a port that was not named."""
        fd = call.descriptor(0)
        try:
            if socket_option(fd, SO_DOMAIN) in (AF_INET, AF_INET6):
                self._report(call, "socket", "a port to listen on")
                return call.refuse(EACCES)
            if kernel.libc().listen(fd, signed_int(call.arguments[1])):
                raise OSError(ctypes.get_errno(), "")
        finally:
            os.close(fd)
        return call.answer()

    def _lock(self, call: NotifiedCall) -> None:
        """An exclusive lock keeps others waiting, so only what may change can be locked.

        It is taken on a copy of the descriptor, which has its locks in common with the original.
        """
        fd = call.descriptor(0)
        try:
            real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            if not self._changes.covers(real):
                raise ChangeRefused(real, kind="lock")
            _lock_or_wait(call, fd)
        finally:
            os.close(fd)

    def _signal(self, call: NotifiedCall, name: str) -> None:
        """Landlock decides from version 6 on; without it, the supervisor does."""
        target = signed_int(call.arguments[0])
        if name == "pidfd_send_signal":
            target = -1
        own = target == 0 or (target != -1 and self._is_own(abs(target), call))
        if own or (target > 0 and not os.path.exists(f"/proc/{target}")):  # noqa: PTH110
            return call.proceed()
        number = call.arguments[2 if name in ("tgkill", "rt_tgsigqueueinfo") else 1]
        if name == "kill" and signed_int(number) == 0:  # it only asks whether the process is there
            os.kill(target, 0)
            return call.answer()
        self._report(call, "signal", f"process {target}")
        return call.proceed() if self._scoped else call.refuse(EPERM)

    def _is_own(self, pid: int, call: NotifiedCall) -> bool:
        """Return whether a process belongs to the command: it has its mark or descends from the
        caller."""
        if self._carries_mark(pid):
            return True
        above, caller = pid, int(call.pid)
        for _ in range(MAX_GENERATIONS):
            if above in (caller, 0, 1):
                break
            above = parent_and_session(above)[0]
        return above == caller

    def _find_processes(self) -> "set[int]":
        """Those in the session of the command or with its mark, and their descendants."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
        known = {pid: parent_and_session(pid) for pid in pids}
        found = {
            pid
            for pid, (_, session) in known.items()
            if session == self._leader or self._carries_mark(pid)
        }
        while more := {pid for pid, (parent, _) in known.items() if parent in found} - found:
            found |= more
        return found

    def _made_memory(self, call: NotifiedCall) -> bool:
        """Return whether this command created the shared memory; pmap tries to attach to it."""
        described = ctypes.create_string_buffer(256)
        if kernel.libc().shmctl(signed_int(call.arguments[0]), 2, described):
            return False
        (maker,) = struct.unpack_from("=i", described, SHM_CREATOR_OFFSET)
        return self._carries_mark(maker)

    def _carries_mark(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                return f"HERMES_TREE={self._rules.mark}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def _report(self, call: NotifiedCall, kind: str, what: str, why: str = "") -> None:
        optional = any(matches_pattern(what, pattern) for pattern in self._rules.optional)
        program = call.program().replace("\n", "?")
        self._write_report(kind, what, program, why, "optional" if optional else "")

    def _write_report(self, kind: str, what: str, *more: str) -> None:
        words = (kind, what.replace("\n", "?"), *more)
        line = "\0".join(words).encode("utf-8", "replace") + b"\n"
        if line in self._reported or len(self._reported) >= MAX_REPORTS:
            return
        self._reported.add(line)
        try:
            os.write(self._report_writer, line[:1024])
        except OSError:
            return  # the reader is gone


def _open_mounts(pid: int) -> int:
    try:
        return os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it has ended already
        return -1


def _lock_or_wait(call: NotifiedCall, fd: int) -> None:
    """Answers the call. A separate process waits for a lock that another process holds."""
    operation = signed_int(call.arguments[1])
    try:
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
        return call.answer()
    except BlockingIOError:
        if operation & fcntl.LOCK_NB:
            raise
    if fork_waiting_process():
        try:
            fcntl.flock(fd, operation)
            call.answer()
        finally:
            os._exit(0)
    return None


def _opens_for_reading(name: str, call: NotifiedCall) -> bool:
    argument = _OPEN_FLAG_ARGUMENTS.get(name)
    return argument is not None and not call.arguments[argument] & NO_READ_FLAGS


_SOCKET_FAMILY_NAMES = {
    2: "the network (IPv4)",
    10: "the network (IPv6)",
    17: "raw network packets",
}
