"""Controls processes: waits for children in a poll, resets signals, drops privileges.

Without Python's `signal` module, whose import takes 7 ms.
"""

import ctypes
import os

from hermes.environments.confinement import kernel

SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGCHLD, SIGCONT, SIGSTOP, SIGXFSZ = 2, 9, 13, 15, 17, 18, 19, 25
SIGSET_BYTES = 128
"""Bytes of a sigset_t in glibc and musl."""
SIG_BLOCK, SIG_SETMASK = 0, 2


def open_child_descriptor() -> int:
    """A descriptor that becomes readable when a child has ended.

    All other signals stay blocked: commands may send them, and Python would end at SIGINT.
    """
    everything = (ctypes.c_ubyte * SIGSET_BYTES)(*[0xFF] * SIGSET_BYTES)
    kernel.libc().sigprocmask(SIG_BLOCK, ctypes.byref(everything), None)
    mask = (ctypes.c_ubyte * SIGSET_BYTES)()
    mask[(SIGCHLD - 1) // 8] = 1 << ((SIGCHLD - 1) % 8)
    fd: int = kernel.libc().signalfd(-1, ctypes.byref(mask), os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return fd


def reset_signals() -> None:
    """Blocks and ignores no signals, because an exec passes this on."""
    library = kernel.libc()
    for number in (SIGINT, SIGPIPE, SIGXFSZ):
        library.signal(number, None)
    library.sigprocmask(SIG_SETMASK, ctypes.byref((ctypes.c_ubyte * SIGSET_BYTES)()), None)


def drain_signals(fd: int) -> None:
    """Empties the descriptor. The number of signals does not tell how many children ended."""
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return


def reap_children() -> "dict[int, int]":
    """The wait status of each child that has ended."""
    ended: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    except ChildProcessError:
        pass
    return ended


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVILEGES = 4, 36, 38
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_SET_PDEATHSIG = (
    23,
    24,
    28,
    47,
    1,
)
SECUREBITS_NO_ROOT = 0b11101011
"""NOROOT and NO_CAP_AMBIENT_RAISE set, SETUID_FIXUP and KEEP_CAPS as usual; all locked."""


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def capability_header() -> _CapabilityHeader:
    """For the calling process, version 3: two words for each set."""
    return _CapabilityHeader(0x20080522, 0)


def drop_privileges(uid: int, gid: int) -> None:
    """Become `uid` (unless -1) with no capability, and no way to gain one.

    `no_new_privs` makes setuid programs ordinary ones; an empty bounding set keeps user 0 from
    getting capabilities back with its next exec.
    """
    kernel.prctl(PR_SET_NO_NEW_PRIVILEGES, 1)
    _empty_bounding_set()
    if uid >= 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif os.getuid() == 0:
        _drop_groups()
    kernel.prctl(PR_CAP_AMBIENT, 4)
    header = capability_header()
    kernel.system_call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    make_undumpable()


COPY_CAPABILITIES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 18)
"""Of user 0 in a copy: owners and modes of files, signals, other users, low ports, locked memory
and chroot. Not among them: mounts, devices, modules, tracing, the network's configuration."""


def keep_copy_capabilities() -> None:
    """Gives up all other capabilities of this user namespace, also for later programs."""
    for capability in range(64):
        if capability not in COPY_CAPABILITIES:
            try:
                kernel.prctl(PR_CAPBSET_DROP, capability)
            except OSError as error:
                if error.errno == 22:  # after the last one
                    break
                raise
    kernel.prctl(PR_CAP_AMBIENT, 4)
    kept = sum(1 << each for each in COPY_CAPABILITIES)
    data = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    header = capability_header()
    kernel.system_call("capset", ctypes.byref(header), ctypes.byref(data))


def make_undumpable() -> None:
    """Processes of the same user cannot read our memory, descriptors or environment."""
    kernel.prctl(PR_SET_DUMPABLE, 0)


def _empty_bounding_set() -> None:
    try:
        kernel.prctl(PR_SET_SECUREBITS, SECUREBITS_NO_ROOT)
        for capability in range(64):
            kernel.prctl(PR_CAPBSET_DROP, capability)
    except OSError as error:
        # 22: after the last capability. 1: not permitted, so there is no capability to lose either.
        if error.errno not in (1, 22):
            raise


def _drop_groups() -> None:
    try:
        os.setgroups([])
    except PermissionError:
        return  # without CAP_SETGID, or in a user namespace that forbids it


def adopt_orphans() -> None:
    """Processes whose parent ended become our children."""
    kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    kernel.prctl(PR_SET_PDEATHSIG, 9)
