"""The mounts of a host as they were when it was built, for the oracle.

An agent is root on a host: it can mount anything over any path, programs and /proc among them. So
each host has two mount namespaces with the same files: its own, and one in which only the oracle's
requests run. Imports only the standard library.
"""

import os
import struct
from collections.abc import Sequence

from hermes.environments.confinement import kernel, namespaces
from hermes.environments.confinement.namespaces import (
    CLONE_NEW_MOUNTS,
    MOUNT_READ_ONLY,
    UMOUNT_DETACH,
)

PROGRAM_FOLDER = "usr/local/sbin"
"""First in the PATH: our systemctl, journalctl and service."""
_SCRATCH_FOLDER = "/mnt"
_SHELL = "/bin/bash"
_LOADER_PATHS = (
    (b"/etc/ld.so.preload", b"/usr/ld.so.preload"),
    (b"/etc/ld.so.cache", b"/usr/ld.so.cache"),
)
"""Files that name libraries to load into every program. /etc belongs to the host, and its root
could change them; below /usr they do not exist, and no one on the host can create them."""
_ELF_INTERPRETER_SEGMENT = 3
Mount = tuple[str, str, str]
"""Mount point, device, and the folder of the device that is mounted."""


def split_oracle_view(programs: tuple[tuple[str, bytes], ...]) -> int:
    """Moves this process into a new mount namespace; returns the descriptor of the old one.

    Called by the first process of a host before it starts anything. Close the descriptor there.
    """
    oracle = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    kernel.system_call("unshare", CLONE_NEW_MOUNTS)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    kernel.system_call("setns", oracle, 0)
    # The tmpfs of the host's own programs can be made writable by its root: this one cannot.
    install_programs(f"/{PROGRAM_FOLDER}", programs)
    _cover_loader()
    kernel.system_call("setns", own, 0)
    os.close(own)
    return oracle


def enter_oracle_view(view: int) -> None:
    """A copy of it: a process that enters this namespace changes nothing for others."""
    kernel.system_call("setns", view, 0)
    kernel.system_call("unshare", CLONE_NEW_MOUNTS)


def install_programs(folder: str, programs: tuple[tuple[str, bytes], ...]) -> None:
    if not os.path.isdir(folder):  # noqa: PTH112 - pathlib is slow to import
        raise OSError(f"{folder} is not there")
    namespaces.mount("tmpfs", folder, 0, "mode=755,size=1m")
    for name, content in programs:
        write_file(f"{folder}/{name}", content, 0o755, 0)
    namespaces.set_mount_attributes(namespaces.AT_FDCWD, folder, 0, set=MOUNT_READ_ONLY)


def write_file(path: str, content: bytes, mode: int, uid: int) -> None:
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.fchown(fd, uid, uid)
        os.fchmod(fd, mode)
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def _cover_loader() -> None:
    """Programs of the oracle load no library that a file in /etc names."""
    with open(_SHELL, "rb") as file:  # noqa: PTH123 - see above
        loader = os.path.realpath(elf_interpreter(file.read()))
    with open(loader, "rb") as file:  # noqa: PTH123 - see above
        content = file.read()
    for path, replacement in _LOADER_PATHS:
        content = content.replace(path, replacement)
    namespaces.mount("tmpfs", _SCRATCH_FOLDER, 0, "mode=755,size=8m")
    write_file(f"{_SCRATCH_FOLDER}/loader", content, 0o755, 0)
    changed = namespaces.clone_mount(f"{_SCRATCH_FOLDER}/loader", MOUNT_READ_ONLY)
    namespaces.attach_mount(changed, loader)
    kernel.system_call("umount2", _SCRATCH_FOLDER.encode(), UMOUNT_DETACH)


def elf_interpreter(program: bytes) -> str:
    """The path of the dynamic loader of a 64-bit program."""
    offset = struct.unpack_from("<Q", program, 32)[0]
    size, count = struct.unpack_from("<HH", program, 54)
    for number in range(count):
        at = offset + number * size
        kind = struct.unpack_from("<I", program, at)[0]
        start, _, _, length = struct.unpack_from("<QQQQ", program, at + 8)
        if kind == _ELF_INTERPRETER_SEGMENT:
            return program[start : start + length].rstrip(b"\0").decode()
    raise OSError(f"{_SHELL} has no dynamic loader")


def list_mounts(pid: int) -> list[Mount]:
    """Of the namespace of a process, in the order in which they were mounted."""
    with open(f"/proc/{pid}/mountinfo", errors="replace") as file:  # noqa: PTH123 - see above
        rows = [line.split(" ", 5) for line in file]
    return [(row[4], row[2], row[3]) for row in rows]


def added_mounts(known: Sequence[Mount], mounts: Sequence[Mount]) -> list[str]:
    """The mount points that are not known, in order."""
    left, added = list(known), []
    for each in mounts:
        if each in left:
            left.remove(each)
        else:
            added.append(each[0])
    return added


def remove_mounts(paths: Sequence[str]) -> None:
    """The latest first."""
    for path in reversed(paths):
        kernel.system_call("umount2", _unescape(path).encode(), UMOUNT_DETACH)


def _unescape(path: str) -> str:
    """Space, tab, newline and backslash are octal numbers in the table of mounts."""
    for code in ("040", "011", "012", "134"):
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path
