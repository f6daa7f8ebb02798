"""Supervises system calls: reads the call of a waiting process, and answers it.

Numeric arguments cannot change while the call waits. The memory that they point to can: another
thread may write to it. So a path or an address is read once, and either the supervisor acts on its
copy, or the kernel checks the call again with Landlock.
"""

import _socket
import ctypes
import fcntl
import os
import select
import struct
from errno import EACCES, EAGAIN, ECONNREFUSED, EINPROGRESS, EPERM

from hermes.environments.confinement import kernel, process_control

NOTIFY_RECEIVE, NOTIFY_SEND, NOTIFY_ID_VALID, NOTIFY_ADD_DESCRIPTOR, NOTIFY_SET_FLAGS = (
    0xC0502100,
    0xC0182101,
    0x40082102,
    0x40182103,
    0x40082104,
)
FLAG_WAKE_ON_SAME_PROCESSOR = 1
NOTIFICATION = struct.Struct("=QI4xi12x6Q")
"""struct seccomp_notif: its id, the process, the number of the call and its arguments."""
NOTIFICATION_ANSWER = struct.Struct("=QqiI")
FLAG_CONTINUE, FLAG_SEND_AT_ONCE = 1, 2
AT_FDCWD = -100
MAX_PATH_BYTES = 4096
_CALLER_RELATIVE_PATHS = (
    ("/proc/self/", ""),
    ("/proc/thread-self/", ""),
    ("/dev/fd/", "fd/"),
    ("/dev/stdin", "fd/0"),
    ("/dev/stdout", "fd/1"),
    ("/dev/stderr", "fd/2"),
)
"""Paths that lead elsewhere for the caller than for the supervisor."""


class CallerGone(Exception):
    """The caller was killed while it waited."""


def signed_int(word: int) -> int:
    """An argument as the C type `int`."""
    return ctypes.c_int32(word & 0xFFFFFFFF).value


def caller_text(pid: int, text: str) -> str:
    """The path of a process with its own entry in `/proc`, which is `self` for it alone."""
    for prefix, own in _CALLER_RELATIVE_PATHS:
        if text.startswith(prefix):
            return f"/proc/{pid}/{own}{text[len(prefix) :]}"
    return text


def caller_view(pid: int, folder: "int | None", text: str) -> str:
    """A path by which the supervisor gets to the file that the caller gets to."""
    if text.startswith("/"):
        return f"/proc/{pid}/root{caller_text(pid, text)}"
    start = AT_FDCWD if folder is None else signed_int(folder)
    return f"/proc/{pid}/{'cwd' if start == AT_FDCWD else f'fd/{start}'}/{text}"


class NotifiedCall:
    __slots__ = ("_listener", "arguments", "id", "number", "pid")

    def __init__(self, listener: int) -> None:
        """Waits for the next call. Raises `CallerGone` when its caller ended before it was read."""
        data = bytearray(NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, NOTIFY_RECEIVE, data)
        except FileNotFoundError:
            raise CallerGone from None
        self._listener = listener
        self.id, self.pid, self.number, *words = NOTIFICATION.unpack(data)
        self.arguments: list[int] = words

    def proceed(self) -> None:
        """Let the kernel execute the call; the other restrictions of the caller still apply."""
        self._send(0, 0, FLAG_CONTINUE)

    def answer(self, value: int = 0) -> None:
        self._send(value, 0, 0)

    def refuse(self, error: int) -> None:
        self._send(0, -error, 0)

    def give(self, descriptor: int, *, close_on_exec: bool) -> None:
        """Answer with a copy of one of our open files."""
        flags = os.O_CLOEXEC if close_on_exec else 0
        data = struct.pack("=QIIII", self.id, FLAG_SEND_AT_ONCE, descriptor, 0, flags)
        try:
            fcntl.ioctl(self._listener, NOTIFY_ADD_DESCRIPTOR, data)
        except FileNotFoundError:
            return
        except OSError:  # Linux before 5.14 cannot answer in the same step
            given = bytearray(struct.pack("=QIIII", self.id, 0, descriptor, 0, flags))
            self.answer(fcntl.ioctl(self._listener, NOTIFY_ADD_DESCRIPTOR, given))

    def _send(self, value: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(
                self._listener, NOTIFY_SEND, NOTIFICATION_ANSWER.pack(self.id, value, error, flags)
            )
        except FileNotFoundError:
            return

    def memory(self, address: int, size: int) -> bytes:
        """Bytes of the caller, fewer where its memory ends. Raises `OSError` without access."""
        fd = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, size, address)
        finally:
            os.close(fd)
        try:  # proves that the memory was that of this caller
            fcntl.ioctl(self._listener, NOTIFY_ID_VALID, struct.pack("=Q", self.id))
        except FileNotFoundError:
            raise CallerGone from None
        return data

    def text(self, argument: int) -> str:
        """The path that an argument points to."""
        return os.fsdecode(
            self.memory(self.arguments[argument], MAX_PATH_BYTES).partition(b"\0")[0]
        )

    def real(self, folder: int | None, argument: int, *, follow: bool) -> str:
        """The real path of a path of the caller. `folder` is the argument it is relative to."""
        text = self.text(argument)
        if not text:
            return self.opened(folder) if folder is not None else ""
        text = caller_text(self.pid, text)
        start = AT_FDCWD if folder is None else signed_int(self.arguments[folder])
        base = "cwd" if start == AT_FDCWD else f"fd/{start}"
        path = text if text.startswith("/") else f"/proc/{self.pid}/{base}/{text}"
        if follow:
            return os.path.realpath(path)
        head, _, name = path.rstrip("/").rpartition("/")
        if name in (".", ".."):
            return os.path.realpath(path)
        return f"{os.path.realpath(head or '/').rstrip('/')}/{name}"

    def opened(self, argument: int) -> str:
        """The path of an open file of the caller."""
        return os.readlink(f"/proc/{self.pid}/fd/{signed_int(self.arguments[argument])}")  # noqa: PTH115

    def descriptor(self, argument: int) -> int:
        """A copy of an open file of the caller."""
        process = kernel.system_call("pidfd_open", self._group(), 0)
        try:
            fd = kernel.system_call("pidfd_getfd", process, signed_int(self.arguments[argument]), 0)
        finally:
            os.close(process)
        return fd

    def _group(self) -> int:
        """The process id of the calling thread."""
        return int(self.status().get(b"Tgid", b"0"))

    def status(self) -> dict[bytes, bytes]:
        with open(f"/proc/{self.pid}/status", "rb") as file:  # noqa: PTH123
            lines = (line.partition(b":\t") for line in file.read().splitlines())
            return {name: value for name, _, value in lines}

    def program(self) -> str:
        try:
            with open(f"/proc/{self.pid}/comm", "rb") as file:  # noqa: PTH123
                return os.fsdecode(file.read().rstrip(b"\n"))
        except OSError:
            return ""


MAX_ADDRESS_BYTES = 128
SO_DOMAIN = 39


class ConnectionSupervisor:
    """Serves one listener until no process with its filter is left."""

    ports: tuple[int, ...] = ()
    """TCP ports that may be connected to; empty for every port."""
    abstract_sockets = False
    """Whether abstract sockets are left to Landlock and the network namespace."""

    def __init__(self, listener: int) -> None:
        self._listener = listener
        self._connecting: dict[int, NotifiedCall] = {}
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self.interval_ms: int | None = None
        """How often `look_around` is called; None for never."""

    def expect_many_calls(self) -> None:
        """Caller and supervisor take turns on one processor, which is faster (Linux 6.6)."""
        try:
            fcntl.ioctl(self._listener, NOTIFY_SET_FLAGS, FLAG_WAKE_ON_SAME_PROCESSOR)
        except OSError:
            return

    def serve(self) -> None:
        while True:
            ready = self._poll.poll(self.interval_ms)
            if self.interval_ms is not None:
                self.look_around()
            for fd, event in ready:
                if fd in self._connecting:
                    self._connected(fd)
                elif fd != self._listener:
                    self.handle_ready(fd)
                elif event & select.POLLIN:
                    self._next()
                else:
                    return

    def decide(self, call: NotifiedCall) -> None:
        """Answers the call. Raises `OSError` to be passed on to the caller."""
        raise NotImplementedError

    def may_reach(self, call: NotifiedCall, real: str, status: os.stat_result) -> bool:
        """Return whether the unix socket at this path may be connected to."""
        raise NotImplementedError

    def refused(self, call: NotifiedCall, what: str) -> None:
        """Called before a connection is refused."""

    def look_around(self) -> None:
        """Called at least every `interval_ms`, if that is set."""

    def handle_ready(self, fd: int) -> None:
        """Called when a descriptor that a subclass registered is ready."""

    def _next(self) -> None:
        try:
            call = NotifiedCall(self._listener)
        except CallerGone:
            return
        try:
            self.decide(call)
        except CallerGone:
            return
        except OSError as error:
            call.refuse(error.errno or EPERM)

    def connect(self, call: NotifiedCall) -> None:
        size = min(call.arguments[2] & 0xFFFFFFFF, MAX_ADDRESS_BYTES)
        address = call.memory(call.arguments[1], size)
        fd = call.descriptor(0)
        keep = False
        try:
            family = socket_option(fd, SO_DOMAIN)
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
            if not self.abstract_sockets:
                name = address[3:].rstrip(b"\0").decode("utf-8", "replace")
                self.refused(call, f"the abstract socket {name}")
                raise PermissionError(EPERM, "")
            return _connect_as_caller(call, fd, address)
        text = os.fsdecode(path)
        visible = text if text.startswith("/") else f"/proc/{call.pid}/cwd/{text}"
        real = os.path.realpath(visible)
        at = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not self.may_reach(call, real, os.fstat(at)):
                self.refused(call, f"the socket {real}")
                raise PermissionError(EACCES, "")
            own = struct.pack("=H", _socket.AF_UNIX) + f"/proc/self/fd/{at}".encode() + b"\0"
            return _connect_as_caller(call, fd, own)
        finally:
            os.close(at)

    def _connect_inet(self, call: NotifiedCall, fd: int, address: bytes) -> bool:
        """Return True while the connection is in progress; the call is answered later then."""
        stream = socket_option(fd, _socket.SO_TYPE) == _socket.SOCK_STREAM
        given, port = struct.unpack_from("=H", address)[0], int.from_bytes(address[2:4], "big")
        named = given in (_socket.AF_INET, _socket.AF_INET6)
        if stream and named and self.ports and port not in self.ports:
            self.refused(call, f"port {port}")
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
        error = socket_option(fd, _socket.SO_ERROR)
        os.close(fd)
        if error:
            call.refuse(error)
        else:
            call.answer()


def _connect_as_caller(call: NotifiedCall, fd: int, address: bytes) -> None:
    """Connect as the user that the caller is by now: servers ask the kernel who has connected."""
    caller = _read_identity(call.pid)
    own = (os.geteuid(), os.getegid(), os.getgroups())
    if caller[0] == own[0]:
        return _connect_or_wait(call, fd, address)
    os.setgroups(caller[2])
    os.setegid(caller[1])
    try:
        os.seteuid(caller[0])
        _connect_or_wait(call, fd, address)
    finally:
        os.seteuid(own[0])
        os.setegid(own[1])
        os.setgroups(own[2])


def _read_identity(pid: int) -> "tuple[int, int, list[int]]":
    """The effective user and group of a process, and its further groups."""
    found: dict[str, list[int]] = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        for line in file:
            name, _, numbers = line.partition(":")
            if name in ("Uid", "Gid", "Groups"):
                found[name] = [int(each) for each in numbers.split()]
    return found["Uid"][1], found["Gid"][1], found["Groups"]


def _connect_or_wait(call: NotifiedCall, fd: int, address: bytes) -> None:
    """Answers the call. A separate process waits while the queue of the socket is full."""
    if _connects_at_once(fd, address):
        call.answer()
    elif fork_waiting_process():
        try:
            _connect(fd, address)
            call.answer()
        except OSError as error:
            call.refuse(error.errno or EPERM)
        finally:
            os._exit(0)


def fork_waiting_process() -> bool:
    """Return True in a new process, which may wait where the supervisor must not.

    It ends with the supervisor: it holds the listener too, and other calls would wait for ever.
    """
    supervisor = os.getpid()
    if os.fork() != 0:
        return False
    process_control.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(0)
    return True


def _connects_at_once(fd: int, address: bytes) -> bool:
    """Return False when a blocking socket has to wait. Its mode is restored before the caller goes
    on."""
    blocking = os.get_blocking(fd)
    os.set_blocking(fd, False)
    try:
        _connect(fd, address)
    except OSError as error:
        if error.errno != EAGAIN or not blocking:
            raise
        return False
    finally:
        os.set_blocking(fd, blocking)
    return True


def socket_option(fd: int, name: int) -> int:
    link = _socket.socket(fileno=os.dup(fd))
    try:
        return link.getsockopt(_socket.SOL_SOCKET, name)
    finally:
        link.close()


def _connect(fd: int, address: bytes) -> None:
    if kernel.libc().connect(fd, address, len(address)):
        raise OSError(ctypes.get_errno(), "")


TERMINAL_MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")
TIOCGPTN, TIOCGPTPEER = 0x80045430, 0x5441
"""ioctl requests: the number of a terminal, and its other end."""


class OwnedTerminals:
    def __init__(self) -> None:
        self._own: set[str] = set()

    def open(self, call: NotifiedCall, real: str, flags: int) -> bool:
        """Answers the opening of a new terminal, or of one that was opened here; else False."""
        if real not in TERMINAL_MASTERS and real not in self._own:
            return False
        fd = os.open(real, flags | os.O_NOCTTY | os.O_CLOEXEC)
        if real in TERMINAL_MASTERS:
            number = fcntl.ioctl(fd, TIOCGPTN, bytes(4))
            self._own.add(f"/dev/pts/{struct.unpack('=I', number)[0]}")
        self._give(call, fd, flags)
        return True

    def owns(self, real: str) -> bool:
        return real in self._own

    def open_peer(self, call: NotifiedCall) -> None:
        """The other end of a terminal that the caller holds open."""
        master = call.descriptor(0)
        try:
            flags = signed_int(call.arguments[2])
            peer = fcntl.ioctl(master, TIOCGPTPEER, flags | os.O_NOCTTY | os.O_CLOEXEC)
        finally:
            os.close(master)
        self._give(call, peer, flags)

    def _give(self, call: NotifiedCall, fd: int, flags: int) -> None:
        try:
            call.give(fd, close_on_exec=bool(flags & os.O_CLOEXEC))
        finally:
            os.close(fd)
