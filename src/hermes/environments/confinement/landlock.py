"""Landlock: which files a process may touch, whatever its user may. No privilege is needed.

What is not granted is refused; a grant reaches a file or everything beneath a folder. It holds
for opening, making, moving and removing, not for looking (stat) nor for modes and owners: that is
why it stands behind a mount namespace, or, where there is none, before a stricter system-call
filter.
"""

import ctypes
import os

from hermes.environments.confinement import kernel

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
MAKE = 0b1_1111_1100_0000
"""Every right that makes an entry in a folder."""
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
CHANGE = ((1 << 16) - 1) & ~READ
"""Every right that changes a file, a folder or a device."""
FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
DEVICE = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
TCP = 0b11
ABSTRACT_SOCKETS, SIGNALS = 1, 2
VERSION_WITH_SCOPES = 6


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """What the kernel knows of it; 0 when it does not, or when it was not switched on."""
    try:
        return kernel.call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def known_rights(abi: int) -> int:
    """Version 1 knew thirteen; then came moving between folders, truncation and device control."""
    return (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1


def handle(path: str) -> int:
    """A file to be granted, whatever its name leads to later; -1 when it is not there."""
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return -1


class Grants:
    """A set of grants in the making; `restrict` puts the calling process behind it, for ever."""

    def __init__(
        self, *, network: bool, scopes: int = 0, rights: int = READ | CHANGE, abi: int = 0
    ) -> None:
        """`rights` are those that need a grant from here on; the others stay free. `abi` is the
        version of the kernel, if it is known already."""
        abi = abi or version()
        self._rights = known_rights(abi) & rights
        attributes = _Ruleset(self._rights, 0 if network or abi < 4 else TCP, scopes)
        size = 24 if abi >= VERSION_WITH_SCOPES else 16 if abi >= 4 else 8
        self._fd = kernel.call("landlock_create_ruleset", ctypes.byref(attributes), size, 0)

    def readable(self, path: str) -> None:
        self._add(path, READ)

    def writable(self, path: str) -> None:
        self._add(path, self._rights & ~(MAKE_CHAR | MAKE_BLOCK))

    def device(self, path: str) -> None:
        self._add(path, DEVICE)

    def opened_device(self, fd: int) -> None:
        """As `device`, for one that `handle` gave."""
        self._grant(fd, DEVICE)

    def _add(self, path: str, access: int) -> None:
        """A path that is not there, or that we may not even reach, needs no grant."""
        fd = handle(path)
        if fd < 0:
            return
        try:
            if not os.path.isdir(path):  # noqa: PTH112 - pathlib costs the launcher 8 ms
                access &= FILE_ONLY
            self._grant(fd, access)
        finally:
            os.close(fd)

    def _grant(self, fd: int, access: int) -> None:
        rule = _Beneath(access & self._rights, fd)
        kernel.call("landlock_add_rule", self._fd, 1, ctypes.byref(rule), 0)

    def restrict(self) -> None:
        """Needs no_new_privs or CAP_SYS_ADMIN."""
        kernel.call("landlock_restrict_self", self._fd, 0)
        self.close()

    def close(self) -> None:
        os.close(self._fd)
