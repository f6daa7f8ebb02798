"""Namespaces of its own for each test process: processes, network, mounts and /tmp.

A watch under test asks every port of the loopback interface, while another test proves that nothing
reached its port; tests count processes, and look into /tmp for what a command left there. Two runs
on one machine are kept apart in the same way, and whatever a killed run has started ends with it.
Without root everything is shared.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import traceback
from pathlib import Path

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
libc = ctypes.CDLL(None, use_errno=True)
CHECKOUT = Path(__file__).resolve().parent.parent


def is_possible() -> bool:
    """Whether this process may make all these namespaces."""
    if sys.platform != "linux" or os.geteuid() or shutil.which("unshare") is None:
        return False
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def fork(private_tmp: Path) -> int:
    """Forks into new namespaces, in which `private_tmp` is /tmp; returns as `os.fork` does.

    The child that it returns in is the second process there. The first one reaps orphans, and ends
    with its child or with the caller: then the kernel kills whatever is left.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    _check("unshare", libc.unshare(CLONE_NEWPID))
    pid = os.fork()
    if pid:
        _check("setns", libc.setns(own, CLONE_NEWPID))
        os.close(own)
        return pid
    child = -1
    try:
        os.close(own)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _check("unshare", libc.unshare(CLONE_NEWNS | CLONE_NEWNET))
        _mount_own(private_tmp)
        _start_loopback()
        child = os.fork()
    finally:
        if child < 0:
            traceback.print_exc()
            os._exit(1)
    if child:
        os._exit(_reap_until_end_of(child))
    return 0


def _reap_until_end_of(child: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the caller waits for the end of connections
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _mount_own(private_tmp: Path) -> None:
    _mount(None, b"/", None, MS_REC | MS_PRIVATE)
    _mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    private_tmp.mkdir(mode=0o1777)
    private_tmp.chmod(0o1777)
    if CHECKOUT.is_relative_to("/tmp"):
        kept = private_tmp / CHECKOUT.relative_to("/tmp")
        kept.mkdir(parents=True)
        _mount(os.fsencode(CHECKOUT), os.fsencode(kept), None, MS_BIND | MS_REC)
    _mount(os.fsencode(private_tmp), b"/tmp", None, MS_BIND | MS_REC)


def _mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int) -> None:
    _check(f"mount on {os.fsdecode(target)}", libc.mount(source, target, kind, flags, None))


def _check(call: str, result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{call} failed")


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
