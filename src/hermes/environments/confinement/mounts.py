"""A new root folder that holds what was granted and nothing else.

Every piece is first taken hold of in the old tree, made read-only where it should be, and then
hung into an empty one: nothing can be reached by accident, and no path is walked twice.
Needs Linux 5.12 (mount_setattr) and CAP_SYS_ADMIN over the mount namespace.
"""

import ctypes
import os

from hermes.environments.confinement import kernel
from hermes.environments.confinement.plan import Plan

HERE, EMPTY_PATH, RECURSIVE = -100, 0x1000, 0x8000
READ_ONLY, NO_SETUID, NO_DEVICES, NO_EXECUTE, ID_MAPPED = 1, 2, 4, 8, 0x100000
PRIVATE, DETACH = 1 << 18, 2
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
INODES = 200_000
NO_TRANSLATION = "its file system cannot translate the owner"


class _Attributes(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    ]


def change(fd: int, path: str, flags: int, *, set: int = 0, **more: int) -> None:
    attributes = _Attributes(set, **more)
    kernel.call(
        "mount_setattr",
        fd,
        path.encode(),
        flags,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )


def take(path: str, attributes: int, user_namespace: int = -1) -> int:
    """A detached copy of what is mounted at `path`, with everything mounted beneath it."""
    fd = kernel.call("open_tree", HERE, os.fsencode(path), 1 | os.O_CLOEXEC | RECURSIVE)
    change(fd, "", EMPTY_PATH | RECURSIVE, set=attributes)
    if user_namespace >= 0:
        try:
            flags = EMPTY_PATH | RECURSIVE
            change(fd, "", flags, set=ID_MAPPED, user_namespace=user_namespace)
        except OSError as error:
            raise OSError(error.errno, f"{NO_TRANSLATION} of {path}: {error.strerror}") from error
    return fd


def hang(fd: int, path: str) -> None:
    kernel.call("move_mount", fd, b"", HERE, os.fsencode(path), 4)
    os.close(fd)


def mount(kind: str, path: str, flags: int = 0, options: str = "") -> None:
    kernel.call("mount", kind.encode(), os.fsencode(path), kind.encode(), flags, options.encode())


def keep_private() -> None:
    """From now on no mount of ours is seen outside."""
    kernel.call("mount", b"none", b"/", None, PRIVATE | 0x4000, None)


def new_root(plan: Plan, maps: dict[tuple[int, int], int]) -> None:
    """Enter a root folder of our own. `maps` holds a user namespace per owner to be translated."""
    keep_private()
    pieces = _take_all(plan, maps)
    # Any folder serves: it is covered in our mount namespace only.
    base = "/tmp" if os.path.isdir("/tmp") else "/usr"  # noqa: PTH112 - see landlock
    mount("tmpfs", base, NO_SETUID | NO_DEVICES, "mode=755,size=4m")
    os.chdir(base)
    _furnish(plan)
    for path, fd, is_folder in sorted(pieces):
        _place(path, is_folder)
        hang(fd, _inside(path))
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", DETACH)
    os.chdir("/")
    change(HERE, "/", 0, set=READ_ONLY)


def _take_all(plan: Plan, maps: dict[tuple[int, int], int]) -> list[tuple[str, int, bool]]:
    owners = {path: (uid, gid) for path, uid, gid in plan.owners}
    pieces: list[tuple[str, int, bool]] = []
    for path in plan.readable:
        if os.path.exists(path):  # noqa: PTH110 - see landlock
            fd = take(path, READ_ONLY | NO_SETUID | NO_DEVICES)
            pieces.append((path, fd, os.path.isdir(path)))  # noqa: PTH112
    for path in plan.writable:
        owner = owners.get(path)
        fd = take(path, NO_SETUID | NO_DEVICES, maps[owner] if owner else -1)
        pieces.append((path, fd, os.path.isdir(path)))  # noqa: PTH112
    for name in DEVICES:
        fd = take(f"/dev/{name}", NO_SETUID | NO_EXECUTE)
        pieces.append((f"/dev/{name}", fd, False))
    return pieces


def _inside(path: str) -> str:
    return path.lstrip("/")


def _place(path: str, is_folder: bool) -> None:
    """Something to hang a mount on; inside another mount it is there already."""
    inside = _inside(path)
    if os.path.lexists(inside):
        return
    os.makedirs(inside if is_folder else os.path.dirname(inside), exist_ok=True)  # noqa: PTH103, PTH120
    if not is_folder:
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))


def _furnish(plan: Plan) -> None:
    for folder in ("dev", "dev/pts", "dev/shm", "etc", "proc", "run", "tmp", "var"):
        os.mkdir(folder)  # noqa: PTH102 - see landlock
    limit = f",size={plan.file_size}" if plan.file_size else ""
    for folder in ("tmp", "dev/shm"):
        options = f"mode=1777,nr_inodes={INODES}{limit}"
        mount("tmpfs", folder, NO_SETUID | NO_DEVICES, options)
    mount("devpts", "dev/pts", NO_SETUID | NO_EXECUTE, "newinstance,ptmxmode=0666,mode=0620")
    # Read-only as a whole: as user 0 even without capabilities one owns /proc/sys.
    mount("proc", "proc", READ_ONLY | NO_SETUID | NO_DEVICES | NO_EXECUTE)
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
        os.symlink(target, _inside(path))  # noqa: PTH211 - see landlock
    for path, content in plan.files:
        _place(os.path.dirname(path), True)  # noqa: PTH120 - see landlock
        fd = os.open(_inside(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        os.write(fd, content)
        os.close(fd)
