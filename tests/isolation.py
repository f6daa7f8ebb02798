"""Namespaces of its own for each test process: processes, network, mounts and /tmp.

A watch under test asks every port of the loopback interface, while another test proves that nothing
reached its port; tests count processes, and look into /tmp for what a command left there. Two runs
on one machine are kept apart in the same way, and whatever a killed run has started ends with it.
Without root everything is shared, as before.
"""

import ctypes
import fcntl
import os
import shlex
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

MS_BIND, MS_REC = 0x1000, 0x4000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
UNSHARE_COMMAND = (
    "unshare",
    *["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
)
# Bash stays the first process of the namespace, and reaps orphans there.
FIRST_PROCESS_SCRIPT = '"$@"; exit $?'
libc = ctypes.CDLL(None, use_errno=True)
CHECKOUT = Path(__file__).resolve().parent.parent


def isolated_python() -> str:
    """The command line of a Python in namespaces of its own; empty: not here."""
    if sys.platform != "linux" or os.geteuid() or shutil.which("bash") is None:
        return ""
    try:
        subprocess.run([*UNSHARE_COMMAND, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    words = [*UNSHARE_COMMAND, "bash", "-c", FIRST_PROCESS_SCRIPT, "first-process", sys.executable]
    return shlex.join(words)


def prepare_namespaces(private_tmp: Path) -> None:
    """Called in a process of `isolated_python`: `private_tmp` becomes its /tmp."""
    private_tmp.mkdir(mode=0o1777)
    private_tmp.chmod(0o1777)
    if CHECKOUT.is_relative_to("/tmp"):
        kept = private_tmp / CHECKOUT.relative_to("/tmp")
        kept.mkdir(parents=True)
        _mount(os.fsencode(CHECKOUT), os.fsencode(kept), MS_BIND | MS_REC)
    _mount(os.fsencode(private_tmp), b"/tmp", MS_BIND | MS_REC)
    _start_loopback()


def _mount(source: bytes | None, target: bytes, flags: int) -> None:
    if libc.mount(source, target, None, flags, None):
        raise OSError(ctypes.get_errno(), "mount failed", os.fsdecode(target))


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
