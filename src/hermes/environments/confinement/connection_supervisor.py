"""Answers the system calls that a filter hands over, and connects sockets in place of the caller.

A connection is made on a copy of the caller's socket, to a copy of its address: neither can change
after it was judged. What else is handed over, and what may be reached, a subclass decides.
"""

import _socket
import ctypes
import os
import select
import struct
from errno import EACCES, EAGAIN, ECONNREFUSED, EINPROGRESS, EPERM

from hermes.environments.confinement import kernel
from hermes.environments.confinement.notified_call import Gone, NotifiedCall

LONGEST_ADDRESS = 128
SO_DOMAIN = 39


class ConnectionSupervisor:
    """Serves one listener until no process is left under its filter."""

    ports: tuple[int, ...] = ()
    """TCP ports that may be connected to; with none here, every port."""
    abstract_sockets = False
    """Whether abstract sockets are left to Landlock and the network namespace."""

    def __init__(self, listener: int) -> None:
        self._listener = listener
        self._connecting: dict[int, NotifiedCall] = {}
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def serve(self) -> None:
        while True:
            for fd, event in self._poll.poll():
                if fd in self._connecting:
                    self._connected(fd)
                elif fd != self._listener:
                    self.woken(fd)
                elif event & select.POLLIN:
                    self._next()
                else:
                    return

    def decide(self, call: NotifiedCall) -> None:
        """Answers the call. Raises `OSError` to be passed on to the caller."""
        raise NotImplementedError

    def may_reach(self, real: str, status: os.stat_result) -> bool:
        """Whether the unix socket at this path may be connected to."""
        raise NotImplementedError

    def refused(self, call: NotifiedCall, what: str) -> None:
        """A connection is about to be refused."""

    def woken(self, fd: int) -> None:
        """A descriptor that a subclass registered is ready."""

    def _next(self) -> None:
        try:
            call = NotifiedCall(self._listener)
        except Gone:
            return
        try:
            self.decide(call)
        except Gone:
            return
        except OSError as error:
            call.refuse(error.errno or EPERM)

    def connect(self, call: NotifiedCall) -> None:
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
            if not self.abstract_sockets:
                name = address[3:].rstrip(b"\0").decode("utf-8", "replace")
                self.refused(call, f"the abstract socket {name}")
                raise PermissionError(EPERM, "")
            return _connect_or_wait(call, fd, address)
        text = os.fsdecode(path)
        seen = text if text.startswith("/") else f"/proc/{call.pid}/cwd/{text}"
        real = os.path.realpath(seen)
        at = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not self.may_reach(real, os.fstat(at)):
                self.refused(call, f"the socket {real}")
                raise PermissionError(EACCES, "")
            own = struct.pack("=H", _socket.AF_UNIX) + f"/proc/self/fd/{at}".encode() + b"\0"
            return _connect_or_wait(call, fd, own)
        finally:
            os.close(at)

    def _connect_inet(self, call: NotifiedCall, fd: int, address: bytes) -> bool:
        """True when the connection is still being made; then the call is answered later."""
        stream = _option(fd, _socket.SO_TYPE) == _socket.SOCK_STREAM
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
        error = _option(fd, _socket.SO_ERROR)
        os.close(fd)
        if error:
            call.refuse(error)
        else:
            call.answer()


def _connect_or_wait(call: NotifiedCall, fd: int, address: bytes) -> None:
    """Answers the call. A queue that is full is waited for in a process of its own."""
    blocking = os.get_blocking(fd)
    os.set_blocking(fd, False)
    try:
        _connect(fd, address)
        return call.answer()
    except OSError as error:
        if error.errno != EAGAIN or not blocking:
            raise
    finally:
        os.set_blocking(fd, blocking)
    if os.fork() == 0:
        try:
            _connect(fd, address)
            call.answer()
        except OSError as error:
            call.refuse(error.errno or EPERM)
        finally:
            os._exit(0)
    return None


def _option(fd: int, name: int) -> int:
    link = _socket.socket(fileno=os.dup(fd))
    try:
        return link.getsockopt(_socket.SOL_SOCKET, name)
    finally:
        link.close()


def _connect(fd: int, address: bytes) -> None:
    if kernel.libc().connect(fd, address, len(address)):
        raise OSError(ctypes.get_errno(), "")
