"""One system call that waits for the supervisor: its arguments, its memory, its paths, its answer.

Arguments that are numbers cannot change while the call waits. What they point to can: another
thread may write there. So a path or an address is read once, and either the supervisor acts on its
own copy, or the kernel checks the call again by Landlock.
"""

import ctypes
import fcntl
import os
import struct

from hermes.environments.confinement import kernel

RECEIVE, SEND, STILL_VALID, ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
SIZE = 80
CONTINUE, SEND_AT_ONCE = 1, 2
AT_FDCWD = -100
LONGEST_PATH = 4096
_OWN_LINKS = (
    ("/proc/self/", ""),
    ("/proc/thread-self/", ""),
    ("/dev/fd/", "fd/"),
    ("/dev/stdin", "fd/0"),
    ("/dev/stdout", "fd/1"),
    ("/dev/stderr", "fd/2"),
)
"""Paths that mean something else for the caller than for us."""


class Gone(Exception):
    """The caller was killed while it waited."""


def signed(word: int) -> int:
    """An argument as the C type `int`."""
    return ctypes.c_int32(word & 0xFFFFFFFF).value


class NotifiedCall:
    def __init__(self, listener: int) -> None:
        """Waits for the next call. Raises `Gone` when its caller ended before we looked."""
        data = bytearray(SIZE)
        try:
            fcntl.ioctl(listener, RECEIVE, data)
        except FileNotFoundError:
            raise Gone from None
        self._listener = listener
        self.id, self.pid, _, self.number = struct.unpack_from("=QIIi", data)
        self.arguments: tuple[int, ...] = struct.unpack_from("=6Q", data, 32)

    def proceed(self) -> None:
        """Let the kernel carry it out, under whatever else confines the caller."""
        self._send(0, 0, CONTINUE)

    def answer(self, value: int = 0) -> None:
        self._send(value, 0, 0)

    def refuse(self, error: int) -> None:
        self._send(0, -error, 0)

    def give(self, descriptor: int, *, close_on_exec: bool) -> None:
        """Answer with a copy of an open file of ours."""
        flags = os.O_CLOEXEC if close_on_exec else 0
        data = struct.pack("=QIIII", self.id, SEND_AT_ONCE, descriptor, 0, flags)
        try:
            fcntl.ioctl(self._listener, ADD_DESCRIPTOR, data)
        except FileNotFoundError:
            return
        except OSError:  # Linux before 5.14 cannot answer in the same step
            given = bytearray(struct.pack("=QIIII", self.id, 0, descriptor, 0, flags))
            self.answer(fcntl.ioctl(self._listener, ADD_DESCRIPTOR, given))

    def _send(self, value: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self._listener, SEND, struct.pack("=QqiI", self.id, value, error, flags))
        except FileNotFoundError:
            return

    def memory(self, address: int, size: int) -> bytes:
        """Bytes of the caller, fewer where its memory ends. Raises `OSError` if we may not look."""
        fd = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, size, address)
        finally:
            os.close(fd)
        try:  # only now is it certain that it was this caller's memory
            fcntl.ioctl(self._listener, STILL_VALID, struct.pack("=Q", self.id))
        except FileNotFoundError:
            raise Gone from None
        return data

    def text(self, place: int) -> str:
        """The path that an argument points to."""
        return os.fsdecode(self.memory(self.arguments[place], LONGEST_PATH).partition(b"\0")[0])

    def real(self, folder: int | None, place: int, *, follow: bool) -> str:
        """Where a path leads, seen from the caller. `folder` is the argument it starts from."""
        text = self.text(place)
        if not text:
            return self.opened(folder) if folder is not None else ""
        for prefix, own in _OWN_LINKS:
            if text.startswith(prefix):
                text = f"/proc/{self.pid}/{own}{text[len(prefix) :]}"
        start = AT_FDCWD if folder is None else signed(self.arguments[folder])
        base = "cwd" if start == AT_FDCWD else f"fd/{start}"
        path = text if text.startswith("/") else f"/proc/{self.pid}/{base}/{text}"
        if follow:
            return os.path.realpath(path)
        head, _, name = path.rstrip("/").rpartition("/")
        if name in (".", ".."):
            return os.path.realpath(path)
        return f"{os.path.realpath(head or '/').rstrip('/')}/{name}"

    def opened(self, place: int) -> str:
        """The path of an open file of the caller."""
        return os.readlink(f"/proc/{self.pid}/fd/{signed(self.arguments[place])}")  # noqa: PTH115

    def descriptor(self, place: int) -> int:
        """A copy of an open file of the caller."""
        process = kernel.call("pidfd_open", self._group(), 0)
        try:
            fd = kernel.call("pidfd_getfd", process, signed(self.arguments[place]), 0)
        finally:
            os.close(process)
        return fd

    def _group(self) -> int:
        """The process of the calling thread."""
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
