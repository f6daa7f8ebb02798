"""Builds the file tree of one host and goes to live in it.

The system's programs are those of the real machine, read-only; everything that a host calls its
own (/etc, /var, /srv, /home, /root, /tmp) is new, small, and gone with it.
"""

import os

from hermes.environments.confinement import kernel, mounts
from hermes.environments.confinement.mounts import DEVICES, hang, mount, take
from hermes.gym.box.plan import BoxPlan, HostPlan

FOLDERS = """
dev dev/pts dev/shm etc home mnt opt proc root run run/lock srv sys tmp usr var var/cache var/lib
var/lock var/log var/spool var/tmp
"""
LINKS = (
    ("dev/ptmx", "pts/ptmx"),
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("etc/mtab", "/proc/self/mounts"),
    ("var/run", "/run"),
)
OPEN_TO_ALL = ("tmp", "var/tmp", "dev/shm", "run/lock")
OWN_PROGRAMS = "usr/local/sbin"
"""Ours come first in the PATH: systemctl, journalctl and the like."""
PRIVATE, DETACH = 1 << 18, 2


def move_in(plan: BoxPlan, host: HostPlan, programs: tuple[tuple[str, bytes], ...]) -> None:
    """Called by what will be the first process of the host, in namespaces of its own."""
    mounts.keep_private()
    pieces = [_piece(path) for path in plan.readable]
    devices = [_piece(f"/dev/{name}") for name in DEVICES]
    base = "/tmp" if os.path.isdir("/tmp") else "/usr"  # noqa: PTH112 - pathlib is slow to import
    mount("tmpfs", base, 0, f"mode=755,size={host.disk_mb}m")
    os.chdir(base)
    for folder in FOLDERS.split():
        os.mkdir(folder)  # noqa: PTH102 - see above
    for folder in OPEN_TO_ALL:
        os.chmod(folder, 0o1777)  # noqa: PTH101 - see above
    mount("tmpfs", "dev/shm", 0, "mode=1777,size=16m")
    mount("devpts", "dev/pts", 0, "newinstance,ptmxmode=0666,mode=0620")
    mount("proc", "proc")
    for path, fd, is_folder in (*pieces, *devices):
        _place(path.lstrip("/"), is_folder=is_folder)
        hang(fd, path.lstrip("/"))
    for path, target in (*LINKS, *plan.links):
        os.symlink(target, path.lstrip("/"))  # noqa: PTH211 - see above
    _programs(programs)
    for path, size in host.disks:
        os.makedirs(path.lstrip("/"), exist_ok=True)  # noqa: PTH103 - see above
        mount("tmpfs", path.lstrip("/"), 0, f"mode=755,size={size}m")
    for path, content in plan.common:
        _place(path.lstrip("/"), is_folder=False)
        write_file(path.lstrip("/"), content, 0o644, 0)
    _furnish(host)
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", DETACH)
    os.chdir("/")
    kernel.call("sethostname", host.name.encode(), len(host.name.encode()))


def _piece(path: str) -> tuple[str, int, bool]:
    # Most of what is mounted outside is locked for us: no flag may be taken away, only added.
    fd = take(path, mounts.READ_ONLY if not path.startswith("/dev/") else 0)
    return path, fd, os.path.isdir(path)  # noqa: PTH112 - see above


def _place(inside: str, *, is_folder: bool) -> None:
    if os.path.lexists(inside):
        return
    os.makedirs(inside if is_folder else os.path.dirname(inside), exist_ok=True)  # noqa: PTH103, PTH120
    if not is_folder:
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))


def _programs(programs: tuple[tuple[str, bytes], ...]) -> None:
    if not os.path.isdir(OWN_PROGRAMS):  # noqa: PTH112 - see above
        raise OSError(f"/{OWN_PROGRAMS} is not there")
    mount("tmpfs", OWN_PROGRAMS, 0, "mode=755,size=1m")
    for name, content in programs:
        write_file(f"{OWN_PROGRAMS}/{name}", content, 0o755, 0)
    mounts.change(mounts.HERE, OWN_PROGRAMS, 0, set=mounts.READ_ONLY)


def _furnish(host: HostPlan) -> None:
    for path, mode, uid in host.folders:
        inside = path.lstrip("/")
        os.makedirs(inside, exist_ok=True)  # noqa: PTH103 - see above
        os.chmod(inside, mode)  # noqa: PTH101 - see above
        os.chown(inside, uid, uid)
    for path, content, mode, uid in host.files:
        inside = path.lstrip("/")
        os.makedirs(os.path.dirname(inside) or ".", exist_ok=True)  # noqa: PTH103, PTH120
        write_file(inside, content, mode, uid)


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
