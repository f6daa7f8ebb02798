"""Gives up, for good, every right that the sandbox does not need."""

import ctypes
import os

from hermes.environments.confinement import kernel

DUMPABLE, CHILD_SUBREAPER, NO_NEW_PRIVILEGES = 4, 36, 38
DROP_FROM_BOUNDING_SET, SECURE_BITS, AMBIENT, DIES_WITH_PARENT = 24, 28, 47, 1
NO_POWER_FROM_UID_0 = 0b11101011
"""NOROOT and no raising of ambient ones set, SETUID_FIXUP and KEEP_CAPS as usual; all locked."""


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def drop(uid: int, gid: int) -> None:
    """Become `uid` (unless -1) with no capability, and no way to gain one.

    `no_new_privs` makes setuid programs ordinary ones; an empty bounding set keeps user 0 from
    getting capabilities back with its next exec.
    """
    kernel.prctl(NO_NEW_PRIVILEGES, 1)
    _empty_bounding_set()
    if uid >= 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    elif os.getuid() == 0:
        _forget_groups()
    kernel.prctl(AMBIENT, 4)
    header = _Header(0x20080522, 0)
    kernel.call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    hide()


def hide() -> None:
    """Nobody of the same user may look into our memory, descriptors or environment."""
    kernel.prctl(DUMPABLE, 0)


def _empty_bounding_set() -> None:
    try:
        kernel.prctl(SECURE_BITS, NO_POWER_FROM_UID_0)
        for capability in range(64):
            kernel.prctl(DROP_FROM_BOUNDING_SET, capability)
    except OSError as error:
        # 22: past the last one. 1: we have no say over it, and then no capability to lose either.
        if error.errno not in (1, 22):
            raise


def _forget_groups() -> None:
    try:
        os.setgroups([])
    except PermissionError:
        return  # without CAP_SETGID, or in a user namespace that forbids it


def adopt_orphans() -> None:
    """Processes whose parent died become our children instead of escaping."""
    kernel.prctl(CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    kernel.prctl(DIES_WITH_PARENT, 9)
