"""Creates namespaces with a new root folder that contains only what was granted.

Each mount is first cloned in the old tree, made read-only if required, and then attached to an
empty tree: nothing else is reachable, and no path is resolved twice.
Needs Linux 5.12 (mount_setattr) and CAP_SYS_ADMIN over the mount namespace.
"""

import ctypes
import os

from hermes.environments.confinement import kernel
from hermes.environments.confinement.messages import SandboxPlan

AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
MOUNT_READ_ONLY, MOUNT_NO_SETUID, MOUNT_NO_DEVICES, MOUNT_NO_EXECUTE, MOUNT_ID_MAPPED = (
    1,
    2,
    4,
    8,
    0x100000,
)
MOUNT_PRIVATE, UMOUNT_DETACH = 1 << 18, 2
SANDBOX_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
MAX_TMPFS_INODES = 200_000
NO_OWNER_MAPPING = "its file system cannot translate the owner"


class _MountAttr(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    ]


def set_mount_attributes(fd: int, path: str, flags: int, *, set: int = 0, **more: int) -> None:
    attributes = _MountAttr(set, **more)
    kernel.system_call(
        "mount_setattr",
        fd,
        path.encode(),
        flags,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )


def clone_mount(path: str, attributes: int, user_namespace: int = -1) -> int:
    """A detached copy of the mount at `path`, with all mounts below it."""
    fd = kernel.system_call(
        "open_tree", AT_FDCWD, os.fsencode(path), 1 | os.O_CLOEXEC | AT_RECURSIVE
    )
    set_mount_attributes(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, set=attributes)
    if user_namespace >= 0:
        try:
            flags = AT_EMPTY_PATH | AT_RECURSIVE
            set_mount_attributes(fd, "", flags, set=MOUNT_ID_MAPPED, user_namespace=user_namespace)
        except OSError as error:
            raise OSError(error.errno, f"{NO_OWNER_MAPPING} of {path}: {error.strerror}") from error
    return fd


def clone_devices() -> list[tuple[str, int]]:
    """Path and mount of each device that programs may use. They are the machine's own: a change of
    mode, owner or time would reach it. A read-only mount refuses those, and still takes data."""
    paths = [f"/dev/{name}" for name in SANDBOX_DEVICES]
    attributes = MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_EXECUTE
    return [(path, clone_mount(path, attributes)) for path in paths]


def attach_mount(fd: int, path: str) -> None:
    kernel.system_call("move_mount", fd, b"", AT_FDCWD, os.fsencode(path), 4)
    os.close(fd)


def mount(kind: str, path: str, flags: int = 0, options: str = "") -> None:
    kernel.system_call(
        "mount", kind.encode(), os.fsencode(path), kind.encode(), flags, options.encode()
    )


def make_mounts_private() -> None:
    """From now on our mounts are not visible outside."""
    kernel.system_call("mount", b"none", b"/", None, MOUNT_PRIVATE | 0x4000, None)


def enter_new_root(plan: SandboxPlan, maps: dict[tuple[int, int], int]) -> None:
    """Enter a new root folder. `maps` has a user namespace for each owner to be mapped."""
    make_mounts_private()
    pieces = _clone_granted(plan, maps)
    # Any folder will do: it is covered in our mount namespace only.
    base = "/tmp" if os.path.isdir("/tmp") else "/usr"  # noqa: PTH112 - see landlock
    mount("tmpfs", base, MOUNT_NO_SETUID | MOUNT_NO_DEVICES, "mode=755,size=4m")
    os.chdir(base)
    _fill_root(plan)
    for path, fd, is_folder in sorted(pieces):
        _make_mount_point(path, is_folder)
        attach_mount(fd, _path_in_root(path))
    kernel.system_call("pivot_root", b".", b".")
    kernel.system_call("umount2", b".", UMOUNT_DETACH)
    os.chdir("/")
    set_mount_attributes(AT_FDCWD, "/", 0, set=MOUNT_READ_ONLY)


def _clone_granted(
    plan: SandboxPlan, maps: dict[tuple[int, int], int]
) -> list[tuple[str, int, bool]]:
    owners = {path: (uid, gid) for path, uid, gid in plan.owners}
    pieces: list[tuple[str, int, bool]] = []
    for path in plan.readable:
        if os.path.exists(path):  # noqa: PTH110 - see landlock
            fd = clone_mount(path, MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES)
            pieces.append((path, fd, os.path.isdir(path)))  # noqa: PTH112
    for path in plan.writable:
        owner = owners.get(path)
        fd = clone_mount(path, MOUNT_NO_SETUID | MOUNT_NO_DEVICES, maps[owner] if owner else -1)
        pieces.append((path, fd, os.path.isdir(path)))  # noqa: PTH112
    return pieces + [(path, fd, False) for path, fd in clone_devices()]


def _path_in_root(path: str) -> str:
    return path.lstrip("/")


def _make_mount_point(path: str, is_folder: bool) -> None:
    """Creates the mount point, unless it exists inside another mount."""
    inside = _path_in_root(path)
    if os.path.lexists(inside):
        return
    os.makedirs(inside if is_folder else os.path.dirname(inside), exist_ok=True)  # noqa: PTH103, PTH120
    if not is_folder:
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))


def _fill_root(plan: SandboxPlan) -> None:
    for folder in ("dev", "dev/pts", "dev/shm", "etc", "proc", "run", "tmp", "var"):
        os.mkdir(folder)  # noqa: PTH102 - see landlock
    limit = f",size={plan.file_size}" if plan.file_size else ""
    for folder in ("tmp", "dev/shm"):
        options = f"mode=1777,nr_inodes={MAX_TMPFS_INODES}{limit}"
        mount("tmpfs", folder, MOUNT_NO_SETUID | MOUNT_NO_DEVICES, options)
    mount(
        "devpts",
        "dev/pts",
        MOUNT_NO_SETUID | MOUNT_NO_EXECUTE,
        "newinstance,ptmxmode=0666,mode=0620",
    )
    # Read-only as a whole: user 0 owns /proc/sys even without capabilities.
    mount("proc", "proc", MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES | MOUNT_NO_EXECUTE)
    links = (
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/etc/mtab", "/proc/self/mounts"),
        ("/var/tmp", "/tmp"),
    )
    for path, target in (*links, *plan.links):
        os.symlink(target, _path_in_root(path))  # noqa: PTH211 - see landlock
    for path, content in plan.files:
        _make_mount_point(os.path.dirname(path), True)  # noqa: PTH120 - see landlock
        fd = os.open(_path_in_root(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        os.write(fd, content)
        os.close(fd)


CLONE_NEW_MOUNTS, CLONE_NEW_CGROUPS, CLONE_NEW_UTS, CLONE_NEW_IPC = (
    0x20000,
    0x02000000,
    0x04000000,
    0x08000000,
)
CLONE_NEW_USERS, CLONE_NEW_PROCESSES, CLONE_NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000


def enter_namespaces(plan: SandboxPlan) -> None:
    """The next child of the caller is the first process in the new namespaces."""
    flags = (
        CLONE_NEW_MOUNTS | CLONE_NEW_CGROUPS | CLONE_NEW_UTS | CLONE_NEW_IPC | CLONE_NEW_PROCESSES
    )
    if not plan.network:
        flags |= CLONE_NEW_NETWORK
    if not plan.own_user_namespace:
        kernel.system_call("unshare", flags)
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.system_call("unshare", flags | CLONE_NEW_USERS)
    _write_file("/proc/self/setgroups", "deny")
    _write_file("/proc/self/uid_map", f"{uid} {uid} 1")
    _write_file("/proc/self/gid_map", f"{gid} {gid} 1")


def set_up_root(plan: SandboxPlan, maps: dict[tuple[int, int], int]) -> None:
    """Called by that first process: sets up the root folder and the host name."""
    enter_new_root(plan, maps)
    kernel.system_call("sethostname", b"sandbox", 7)


def open_owner_mappings(plan: SandboxPlan) -> dict[tuple[int, int], int]:
    """A user namespace for each foreign owner, which maps its files to `uid`."""
    owners = {(uid, gid) for _, uid, gid in plan.owners}
    return {(uid, gid): _open_owner_mapping(uid, gid, plan) for uid, gid in owners}


def _open_owner_mapping(uid: int, gid: int, plan: SandboxPlan) -> int:
    """The descriptor keeps the user namespace after the process that made it has ended."""
    ready, made = os.pipe()
    go, done = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernel.system_call("unshare", CLONE_NEW_USERS)
            os.write(made, b"+")
        finally:
            os.close(made)
            os.close(done)
            os.read(go, 1)
            os._exit(0)
    os.close(made)
    try:
        if os.read(ready, 1) != b"+":
            raise OSError("no user namespace could be made to translate the owner of a folder")
        _write_file(f"/proc/{child}/uid_map", f"{uid} {plan.uid} 1")
        _write_file(f"/proc/{child}/gid_map", f"{gid} {plan.gid} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (ready, go, done):
            os.close(fd)
        os.waitpid(child, 0)


def _write_file(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
