"""Answers for one confined command the system calls that its filter hands over.

It is a process of its own, outside of the confinement, and lives as long as anything the command
started: a background process keeps its supervisor after Hermes has ended. If the supervisor is
killed, the kernel refuses every such call.
"""

import _socket
import ctypes
import os
import select
import struct
from errno import EACCES, ECONNREFUSED, EINPROGRESS, EPERM
from fnmatch import fnmatchcase

from hermes.environments.confinement import kernel, landlock
from hermes.environments.confinement.enforcement import CHANGES, SIGNALS
from hermes.environments.confinement.notified_call import Gone, NotifiedCall, signed
from hermes.environments.confinement.supervised_changes import Changes, Refused
from hermes.environments.confinement.terminals import OPEN_PEER, Terminals
from hermes.environments.confinement.verdict_rules import VerdictRules

MOST_REPORTS = 32
"""A command that tries the same again and again is reported so many times at most."""
LONGEST_ADDRESS = 128
MOST_GENERATIONS = 16
SO_DOMAIN = 39
MAKER_OF_MEMORY = 80
"""Where struct shmid_ds of a 64-bit system keeps the process that made the memory."""
FILE_CALLS = frozenset({"open", "openat", *CHANGES.split()})


class Supervisor:
    """`report` is the descriptor to which refusals are written, a line each."""

    def __init__(self, listener: int, rules: VerdictRules, report: int) -> None:
        self._listener, self._rules, self._report = listener, rules, report
        self._terminals = Terminals()
        self._changes = Changes(rules, self._terminals)
        self._names = {
            number: name for name in kernel.SYSCALLS if (number := kernel.number(name)) is not None
        }
        self._reported: set[bytes] = set()
        self._connecting: dict[int, NotifiedCall] = {}
        scopes = landlock.version() >= landlock.VERSION_WITH_SCOPES
        self._scoped = scopes and not rules.sees_processes
        self._poll = select.poll()

    def serve(self) -> None:
        """Until no process is left under the filter."""
        self._poll.register(self._listener, select.POLLIN)
        while True:
            for fd, event in self._poll.poll():
                if fd != self._listener:
                    self._connected(fd)
                elif event & select.POLLIN:
                    self._next()
                else:
                    return

    def _next(self) -> None:
        try:
            call = NotifiedCall(self._listener)
        except Gone:
            return
        name = self._names.get(call.number, "")
        try:
            self._decide(name, call)
        except Gone:
            return
        except Refused as refused:
            self._say(call, refused.kind, refused.path, refused.why)
            call.refuse(refused.error)
        except OSError as error:
            call.refuse(error.errno or EPERM)

    def _decide(self, name: str, call: NotifiedCall) -> None:
        if name in FILE_CALLS:
            self._changes.decide(name, call)
        elif name == "connect":
            self._connect(call)
        elif name == "ioctl" and call.arguments[1] & 0xFFFFFFFF == OPEN_PEER:
            self._terminals.open_peer(call)
        elif name in SIGNALS or name == "kill":
            self._signal(call, name)
        elif name in ("shmat", "shmctl") and self._made_memory(call):
            call.proceed()
        elif name == "socket":
            family = _FAMILIES.get(signed(call.arguments[0]), "a special protocol")
            self._say(call, "socket", family)
            call.refuse(EACCES)
        else:
            self._say(call, "call", name)
            call.refuse(EPERM)

    def _signal(self, call: NotifiedCall, name: str) -> None:
        """The kernel decides by Landlock from version 6 on; before that, or without, we do."""
        target = signed(call.arguments[0])
        if name == "pidfd_send_signal":
            target = -1
        own = target == 0 or (target != -1 and self._is_own(abs(target), call))
        if own or (target > 0 and not os.path.exists(f"/proc/{target}")):  # noqa: PTH110
            return call.proceed()
        number = call.arguments[2 if name in ("tgkill", "rt_tgsigqueueinfo") else 1]
        if name == "kill" and signed(number) == 0:  # it only asks whether the process is there
            os.kill(target, 0)
            return call.answer()
        self._say(call, "signal", f"process {target}")
        return call.proceed() if self._scoped else call.refuse(EPERM)

    def _is_own(self, pid: int, call: NotifiedCall) -> bool:
        """Of the same command: by its mark, or as a descendant of the caller without it."""
        if self._carries_mark(pid):
            return True
        above, caller = pid, int(call.pid)
        for _ in range(MOST_GENERATIONS):
            if above in (caller, 0, 1):
                break
            above = _parent(above)
        return above == caller

    def _made_memory(self, call: NotifiedCall) -> bool:
        """Whether the shared memory was made by this very command; pmap tries that out."""
        described = ctypes.create_string_buffer(256)
        if kernel.libc().shmctl(signed(call.arguments[0]), 2, described):
            return False
        (maker,) = struct.unpack_from("=i", described, MAKER_OF_MEMORY)
        return self._carries_mark(maker)

    def _carries_mark(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                return f"HERMES_TREE={self._rules.mark}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def _connect(self, call: NotifiedCall) -> None:
        """On a copy of the socket, to our own copy of the address: neither can change any more."""
        size = min(call.arguments[2] & 0xFFFFFFFF, LONGEST_ADDRESS)
        address = call.memory(call.arguments[1], size)
        fd = call.descriptor(0)
        keep = False
        try:
            family = _option(fd, SO_DOMAIN)
            if family == _socket.AF_UNIX:
                self._connect_unix(call, fd, address)
            elif family in (_socket.AF_INET, _socket.AF_INET6):
                keep = self._connect_inet(call, fd, address)
            else:
                _connect(fd, address)
                call.answer()
        finally:
            if not keep:
                os.close(fd)

    def _connect_unix(self, call: NotifiedCall, fd: int, address: bytes) -> None:
        path = address[2:].split(b"\0")[0]
        if not path:
            name = address[3:].rstrip(b"\0").decode("utf-8", "replace")
            self._say(call, "connect", f"the abstract socket {name}")
            raise PermissionError(EPERM, "")
        text = os.fsdecode(path)
        seen = text if text.startswith("/") else f"/proc/{call.pid}/cwd/{text}"
        real = os.path.realpath(seen)
        at = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not any(fnmatchcase(real, pattern) for pattern in self._rules.sockets):
                self._say(call, "connect", f"the socket {real}")
                raise PermissionError(EACCES, "")
            _connect(fd, struct.pack("=H", 1) + f"/proc/self/fd/{at}".encode() + b"\0")
        finally:
            os.close(at)
        call.answer()

    def _connect_inet(self, call: NotifiedCall, fd: int, address: bytes) -> bool:
        """True when the connection is still being made; then the call is answered later."""
        stream = _option(fd, _socket.SO_TYPE) == _socket.SOCK_STREAM
        given, port = struct.unpack_from("=H", address)[0], int.from_bytes(address[2:4], "big")
        named = given in (_socket.AF_INET, _socket.AF_INET6)
        if stream and named and self._rules.ports and port not in self._rules.ports:
            self._say(call, "connect", f"port {port}")
            raise ConnectionRefusedError(ECONNREFUSED, "")
        blocking = os.get_blocking(fd)
        os.set_blocking(fd, False)
        try:
            _connect(fd, address)
        except OSError as error:
            if error.errno != EINPROGRESS or not blocking:
                raise
            self._connecting[fd] = call
            self._poll.register(fd, select.POLLOUT)
            return True
        finally:
            os.set_blocking(fd, blocking)
        call.answer()
        return False

    def _connected(self, fd: int) -> None:
        call = self._connecting.pop(fd)
        self._poll.unregister(fd)
        error = _option(fd, _socket.SO_ERROR)
        os.close(fd)
        if error:
            call.refuse(error)
        else:
            call.answer()

    def _say(self, call: NotifiedCall, kind: str, what: str, why: str = "") -> None:
        optional = any(fnmatchcase(what, pattern) for pattern in self._rules.optional)
        program = call.program().replace("\n", "?")
        words = (kind, what.replace("\n", "?"), program, why, "optional" if optional else "")
        line = "\0".join(words).encode("utf-8", "replace") + b"\n"
        if line in self._reported or len(self._reported) >= MOST_REPORTS:
            return
        self._reported.add(line)
        try:
            os.write(self._report, line[:1024])
        except OSError:
            return  # nobody reads it any more


_FAMILIES = {2: "the network (IPv4)", 10: "the network (IPv6)", 17: "raw network packets"}


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _option(fd: int, name: int) -> int:
    link = _socket.socket(fileno=os.dup(fd))
    try:
        return link.getsockopt(_socket.SOL_SOCKET, name)
    finally:
        link.close()


def _connect(fd: int, address: bytes) -> None:
    if kernel.libc().connect(fd, address, len(address)):
        raise OSError(ctypes.get_errno(), "")
