"""Pseudo-terminals of a confined command: it may make and use its own, and no one else's.

Landlock lets a program open /dev/ptmx, but refuses the calls by which it becomes a terminal. The
supervisor, which is not confined, makes the terminal and hands it over.
"""

import fcntl
import os
import struct

from hermes.environments.confinement.notified_call import NotifiedCall, signed

MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")
GET_NUMBER, OPEN_PEER = 0x80045430, 0x5441
"""Calls by ioctl: the number of a terminal, and its other end."""


class Terminals:
    def __init__(self) -> None:
        self._own: set[str] = set()

    def open(self, call: NotifiedCall, real: str, flags: int) -> bool:
        """Answers the opening of a new terminal, or of one that was made here; else False."""
        if real not in MASTERS and real not in self._own:
            return False
        fd = os.open(real, flags | os.O_NOCTTY | os.O_CLOEXEC)
        if real in MASTERS:
            number = fcntl.ioctl(fd, GET_NUMBER, bytes(4))
            self._own.add(f"/dev/pts/{struct.unpack('=I', number)[0]}")
        self._give(call, fd, flags)
        return True

    def open_peer(self, call: NotifiedCall) -> None:
        """The other end of a terminal that the caller holds open."""
        master = call.descriptor(0)
        try:
            flags = signed(call.arguments[2])
            peer = fcntl.ioctl(master, OPEN_PEER, flags | os.O_NOCTTY | os.O_CLOEXEC)
        finally:
            os.close(master)
        self._give(call, peer, flags)

    def _give(self, call: NotifiedCall, fd: int, flags: int) -> None:
        try:
            call.give(fd, close_on_exec=bool(flags & os.O_CLOEXEC))
        finally:
            os.close(fd)
