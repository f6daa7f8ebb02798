"""Builds the file system and the network of a host, and enters them.

The system's programs are those of the real machine, read-only. /etc, /var, /srv, /home, /root and
/tmp are new, small, and end with the host. Imports only the standard library.
"""

import array
import errno
import fcntl
import os
import socket
import struct

from hermes.environments.boxes.backend import BoxPlan, HostPlan
from hermes.environments.boxes.oracle_view import PROGRAM_FOLDER, install_programs, write_file
from hermes.environments.confinement import kernel, namespaces
from hermes.environments.confinement.namespaces import (
    attach_mount,
    clone_mount,
    mount,
)

ROOT_FOLDERS = """
dev dev/pts dev/shm etc home mnt opt proc root run run/lock srv sys tmp usr var var/cache var/lib
var/lock var/log var/spool var/tmp
"""
ROOT_LINKS = (
    ("dev/ptmx", "pts/ptmx"),
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("etc/mtab", "/proc/self/mounts"),
    ("var/run", "/run"),
)
WORLD_WRITABLE_FOLDERS = ("tmp", "var/tmp", "dev/shm", "run/lock")
MNT_DETACH = 2


def enter_host_root(plan: BoxPlan, host: HostPlan, programs: tuple[tuple[str, bytes], ...]) -> None:
    """Called by the first process of the host, in its new namespaces."""
    namespaces.make_mounts_private()
    system = [_open_mount_source(path) for path in plan.readable]
    devices = [(path, fd, False) for path, fd in namespaces.clone_devices()]
    base = "/tmp" if os.path.isdir("/tmp") else "/usr"  # noqa: PTH112 - pathlib is slow to import
    mount("tmpfs", base, 0, f"mode=755,size={host.disk_mb}m")
    os.chdir(base)
    for folder in ROOT_FOLDERS.split():
        os.mkdir(folder)  # noqa: PTH102 - see above
    for folder in WORLD_WRITABLE_FOLDERS:
        os.chmod(folder, 0o1777)  # noqa: PTH101 - see above
    mount("tmpfs", "dev/shm", 0, "mode=1777,size=16m")
    mount("devpts", "dev/pts", 0, "newinstance,ptmxmode=0666,mode=0620")
    mount("proc", "proc")
    for path, fd, is_folder in (*system, *devices):
        _create_mount_point(path.lstrip("/"), is_folder=is_folder)
        attach_mount(fd, path.lstrip("/"))
    for path, target in (*ROOT_LINKS, *plan.links):
        os.symlink(target, path.lstrip("/"))  # noqa: PTH211 - see above
    install_programs(PROGRAM_FOLDER, programs)
    for path, size, inodes in host.disks:
        os.makedirs(path.lstrip("/"), exist_ok=True)  # noqa: PTH103 - see above
        limit = f",nr_inodes={inodes}" if inodes else ""
        mount("tmpfs", path.lstrip("/"), 0, f"mode=755,size={size}m{limit}")
    for path, content in plan.common:
        _create_mount_point(path.lstrip("/"), is_folder=False)
        write_file(path.lstrip("/"), content, 0o644, 0)
    write_host_files(host)
    kernel.system_call("pivot_root", b".", b".")
    kernel.system_call("umount2", b".", MNT_DETACH)
    os.chdir("/")
    kernel.system_call("sethostname", host.name.encode(), len(host.name.encode()))


def _open_mount_source(path: str) -> tuple[str, int, bool]:
    # Mounts of the real machine are locked in a user namespace: flags can be added, not removed.
    fd = clone_mount(path, namespaces.MOUNT_READ_ONLY)
    return path, fd, os.path.isdir(path)  # noqa: PTH112 - see above


def _create_mount_point(inside: str, *, is_folder: bool) -> None:
    if os.path.lexists(inside):
        return
    os.makedirs(inside if is_folder else os.path.dirname(inside), exist_ok=True)  # noqa: PTH103, PTH120
    if not is_folder:
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))


def write_host_files(host: HostPlan) -> None:
    path = ""
    try:
        for path, mode, uid in host.folders:
            inside = path.lstrip("/")
            os.makedirs(inside, exist_ok=True)  # noqa: PTH103 - see above
            os.chmod(inside, mode)  # noqa: PTH101 - see above
            os.chown(inside, uid, uid)
        for path, content, mode, uid in host.files:
            write_file(_inside_made_folder(path), content, mode, uid)
        for path, target in host.links:
            os.symlink(target, _inside_made_folder(path))  # noqa: PTH211 - see above
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        raise OSError(
            f"{path} cannot be made: its folder belongs to this machine, and hosts only read it; "
            "use a folder below /opt, /srv, /var or /home, or one of its own below /etc"
        ) from error


def _inside_made_folder(path: str) -> str:
    inside = path.lstrip("/")
    os.makedirs(os.path.dirname(inside) or ".", exist_ok=True)  # noqa: PTH103, PTH120
    return inside


IP_COMMAND_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
INTERFACE_UP_FLAG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914


def bring_up_interface(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = array.array("b", struct.pack("16sh14x", name.encode(), 0))
        fcntl.ioctl(any_socket, SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh14x", request.tobytes())[1]
        changed = struct.pack("16sh14x", name.encode(), flags | INTERFACE_UP_FLAG)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, changed)


def connect_hosts(hosts: list[tuple[str, str, int]]) -> None:
    """A bridge in the namespace of box init, and a veth pair to each host with an address."""
    connected = [(address, pid) for _, address, pid in hosts if address]
    if not connected:
        return
    _run_ip("link", "add", "switch", "type", "bridge")
    _run_ip("link", "set", "switch", "up")
    for number, (address, pid) in enumerate(connected):
        peer = ("peer", "name", "eth0", "netns", str(pid))
        _run_ip("link", "add", f"port{number}", "type", "veth", *peer)
        _run_ip("link", "set", f"port{number}", "master", "switch", "up")
        _run_ip("address", "add", f"{address}/24", "dev", "eth0", inside=pid)
        _run_ip("link", "set", "eth0", "up", inside=pid)


def _run_ip(*words: str, inside: int = 0) -> None:
    """`inside`: a process whose network namespace is meant."""
    enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
    pid = os.posix_spawnp((enter or ["ip"])[0], [*enter, "ip", *words], {"PATH": IP_COMMAND_PATH})
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(f"`ip {' '.join(words)}` failed; is iproute2 installed?")


def enter_namespaces(pid: int, *names: str) -> None:
    """Moves this process into those namespaces of another one."""
    for name in names:
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        kernel.system_call("setns", fd, 0)
        os.close(fd)
