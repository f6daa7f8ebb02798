"""A network and a /tmp of its own for each test process, so that test processes do not meet.

A watch under test asks every port of the loopback interface, while another test proves that nothing
reached its port; tests look into /tmp for what a command left there. Two runs on one machine are
kept apart in the same way. Without root everything is shared, as before.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
libc = ctypes.CDLL(None, use_errno=True)
CHECKOUT = Path(__file__).resolve().parent.parent


def isolate(private_tmp: Path) -> bool:
    """Move this process into namespaces of its own, with `private_tmp` as /tmp; False: not here."""
    if sys.platform != "linux" or os.geteuid() or libc.unshare(CLONE_NEWNS | CLONE_NEWNET):
        return False
    private_tmp.mkdir(mode=0o1777)
    private_tmp.chmod(0o1777)
    _mount(None, b"/", MS_REC | MS_PRIVATE)
    if CHECKOUT.is_relative_to("/tmp"):
        kept = private_tmp / CHECKOUT.relative_to("/tmp")
        kept.mkdir(parents=True)
        _mount(os.fsencode(CHECKOUT), os.fsencode(kept), MS_BIND | MS_REC)
    _mount(os.fsencode(private_tmp), b"/tmp", MS_BIND | MS_REC)
    _start_loopback()
    return True


def _mount(source: bytes | None, target: bytes, flags: int) -> None:
    if libc.mount(source, target, None, flags, None):
        raise OSError(ctypes.get_errno(), "mount failed", os.fsdecode(target))


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
