"""Restricts with Landlock which files a process may use. No privilege is needed.

What is not granted is refused; a grant covers a file or everything below a folder. It applies to
opening, making, moving and removing, not to `stat`, modes and owners. So it is combined with a
mount namespace, or, where there is none, with a stricter system-call filter.
"""

import ctypes
import os

from hermes.environments.confinement import kernel

RIGHT_EXECUTE, RIGHT_WRITE_FILE, RIGHT_READ_FILE, RIGHT_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
RIGHT_MAKE_CHAR, RIGHT_MAKE_BLOCK = 1 << 6, 1 << 11
RIGHTS_MAKE = 0b1_1111_1100_0000
"""Every right that makes an entry in a folder."""
RIGHT_TRUNCATE, RIGHT_IOCTL_DEVICE = 1 << 14, 1 << 15
RIGHTS_READ = RIGHT_EXECUTE | RIGHT_READ_FILE | RIGHT_READ_DIR
RIGHTS_CHANGE = ((1 << 16) - 1) & ~RIGHTS_READ
"""Every right that changes a file, a folder or a device."""
RIGHTS_FOR_FILES = (
    RIGHT_EXECUTE | RIGHT_WRITE_FILE | RIGHT_READ_FILE | RIGHT_TRUNCATE | RIGHT_IOCTL_DEVICE
)
RIGHTS_DEVICE = RIGHT_WRITE_FILE | RIGHT_READ_FILE | RIGHT_TRUNCATE | RIGHT_IOCTL_DEVICE
NETWORK_RIGHTS_TCP = 0b11
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
VERSION_WITH_SCOPES = 6


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneathAttributes(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_version() -> int:
    """The Landlock version of the kernel; 0 when it has none or it is disabled."""
    try:
        return kernel.system_call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


def known_rights(abi: int) -> int:
    """Version 1 has 13 rights; 2 adds moving between folders, 3 truncation, 5 device control."""
    return (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1


def open_path_handle(path: str) -> int:
    """A descriptor of a file to be granted, even if its path changes; -1 when it does not exist."""
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return -1


class LandlockRuleset:
    """A set of grants; `restrict` applies it to the calling process permanently."""

    def __init__(
        self,
        *,
        network: bool,
        scopes: int = 0,
        rights: int = RIGHTS_READ | RIGHTS_CHANGE,
        abi: int = 0,
    ) -> None:
        """`rights` are those that need a grant; the others stay unrestricted. `abi` is the
        version of the kernel, if it is known already."""
        abi = abi or landlock_version()
        self._rights = known_rights(abi) & rights
        attributes = _RulesetAttributes(
            self._rights, 0 if network or abi < 4 else NETWORK_RIGHTS_TCP, scopes
        )
        size = 24 if abi >= VERSION_WITH_SCOPES else 16 if abi >= 4 else 8
        self._fd = kernel.system_call("landlock_create_ruleset", ctypes.byref(attributes), size, 0)

    def readable(self, path: str) -> None:
        self._add(path, RIGHTS_READ)

    def writable(self, path: str) -> None:
        self._add(path, self._rights & ~(RIGHT_MAKE_CHAR | RIGHT_MAKE_BLOCK))

    def device(self, path: str) -> None:
        self._add(path, RIGHTS_DEVICE)

    def opened_device(self, fd: int) -> None:
        """As `device`, for a descriptor of `open_path_handle`."""
        self._grant(fd, RIGHTS_DEVICE)

    def _add(self, path: str, access: int) -> None:
        """A path that does not exist or is not accessible needs no grant."""
        fd = open_path_handle(path)
        if fd < 0:
            return
        try:
            if not os.path.isdir(path):  # noqa: PTH112 - pathlib costs the launcher 8 ms
                access &= RIGHTS_FOR_FILES
            self._grant(fd, access)
        finally:
            os.close(fd)

    def _grant(self, fd: int, access: int) -> None:
        rule = _PathBeneathAttributes(access & self._rights, fd)
        kernel.system_call("landlock_add_rule", self._fd, 1, ctypes.byref(rule), 0)

    def restrict(self) -> None:
        """Needs no_new_privs or CAP_SYS_ADMIN."""
        kernel.system_call("landlock_restrict_self", self._fd, 0)
        self.close()

    def close(self) -> None:
        os.close(self._fd)
