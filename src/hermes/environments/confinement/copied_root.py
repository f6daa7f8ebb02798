"""Builds a root folder that shows the files of a host and cannot change them.

Each file system of the host becomes the lower layer of an overlay whose upper layer is a small
file system in memory. `prepare_copied_root` mounts them, with the rights over the host's mounts;
`enter_copied_root` enters them from a further user namespace, in which no mount can be undone.
Imports only the standard library.
"""

import os
import stat
from collections.abc import Callable

from hermes.environments.confinement import kernel, namespaces
from hermes.environments.confinement.copied_files import (
    copy_attributes,
    copy_quiet_tree,
    copy_tree,
)
from hermes.environments.confinement.hidden_files import (
    ACCOUNT_FILES,
    make_stand_in,
    without_hashes,
)
from hermes.environments.confinement.namespaces import (
    MOUNT_NO_DEVICES,
    attach_mount,
    clone_devices,
    clone_mount,
    mount,
)

FRESH_FOLDERS = ("/run", "/tmp", "/dev", "/proc", "/sys")
"""Nothing of the host is visible in them: no socket, no device, no process."""
REMOTE_KINDS = ("autofs", "fuse", "nfs", "cifs", "smb", "9p", "ceph", "gluster", "lustre")
"""File systems that may wait for another host, or for a program."""
KERNEL_KINDS = ("proc", "sysfs", "cgroup", "cgroup2", "devtmpfs", "devpts", "mqueue", "debugfs")
DEVICE_LINKS = (
    ("dev/ptmx", "pts/ptmx"),
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
)
INVALID_ARGUMENT = 22
MAX_LAYER_INODES = 100_000
SMALL_FILE_SYSTEM_MB = 16
"""Size of /run, /tmp and /dev/shm at most, each."""
SHARED_MEMORY, MAX_SHARED_MB = "/dev/shm", 64
"""As large as on the host, if it is no larger and at least half of it is used."""


class MountedFolder:
    def __init__(self, path: str, kind: str, *, read_only: bool) -> None:
        self.path = path
        self.kind = kind
        self.read_only = read_only


class CopyRequest:
    """What to copy. Holds only types that `marshal` can write."""

    mounts: str = ""
    """The mountinfo of a process of the host."""
    disk_mb: int = 512
    disks: tuple[tuple[str, int, int], ...] = ()
    """Small file systems that are copied as a whole: (path, megabytes, inodes or 0). A full one
    stays full."""
    data: tuple[str, ...] = ()
    """Folders in use by programs that are stopped now: copied as a whole."""
    databases: tuple[str, ...] = ()
    """Folders of programs that go on running: copied as a whole while nothing is written there."""
    omitted: tuple[str, ...] = ()
    """Folders that appear empty."""
    user_attributes: bool = True
    """Whether the overlay must keep its notes where a user namespace may write them."""
    clones_read_only: bool = False
    """Whether read-only mounts are shared instead of covered by an overlay."""
    whole_root_mb: int = 0
    """Size of the root file system, if it is to be copied as a whole."""
    hidden: tuple[str, ...] = ()
    """Files with secrets: they appear empty, files of accounts without the passwords."""


class CopiedRoot:
    """A prepared root folder, as long as its process has not entered it."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.layers: list[tuple[str, int, int]] = []
        """Path, and descriptors of its folder of changes and of the original folder."""
        self.left_out: list[str] = []


def read_mounts(text: str) -> list[MountedFolder]:
    """From a mountinfo, parents before what is mounted in them: it may list them in any order."""
    found: dict[str, MountedFolder] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(rest) < 3:
            continue
        path = _unescape(fields[4])
        read_only = "ro" in fields[5].split(",") or "ro" in rest[2].split(",")
        found.pop(path, None)  # a later mount at the same place covers it
        found[path] = MountedFolder(path, rest[0], read_only=read_only)
    return sorted(found.values(), key=lambda each: each.path.rstrip("/").count("/"))


def _unescape(text: str) -> str:
    """Spaces and the like are written as octal numbers."""
    for character in " \t\n\\":
        text = text.replace(f"\\{ord(character):03o}", character)
    return text


def prepare_copied_root(request: CopyRequest) -> CopiedRoot:
    """Called in a new mount namespace that shows the host's mounts."""
    namespaces.make_mounts_private()
    old_mask = os.umask(0)
    base = "/tmp" if os.path.isdir("/tmp") else "/usr"  # noqa: PTH112 - pathlib is slow to import
    copied = CopiedRoot(base)
    mounts = [each for each in read_mounts(request.mounts) if each.path != "/"]
    devices = clone_devices()
    # Sources below the base folder are opened first: it is covered.
    mount("tmpfs", base, MOUNT_NO_DEVICES, _memory_options(0o700, request.disk_mb))
    os.chdir(base)
    os.mkdir("root")  # noqa: PTH102 - see above
    _cover_root(copied, mounts, request)
    _cover_mounts(copied, mounts, request)
    for path in request.data:
        _copy_folder(copied, path)
    for path in request.databases:
        _copy_folder(copied, path, copy=copy_quiet_tree)
    for path in request.omitted:
        if not _is_fresh(path):
            _attach_memory(path, 0o755, 1)
    for path in request.hidden:
        if not _is_fresh(path):
            _hide_file(path)
    _make_fresh_folders(devices)
    os.umask(old_mask)
    return copied


def _memory_options(mode: int, size_mb: int) -> str:
    return f"mode={mode:o},size={size_mb}m,nr_inodes={MAX_LAYER_INODES}"


def _inside(path: str) -> str:
    return f"root/{path.lstrip('/')}".rstrip("/")


def _cover_root(copied: CopiedRoot, mounts: list[MountedFolder], request: CopyRequest) -> None:
    if request.whole_root_mb:
        mount("tmpfs", "root", MOUNT_NO_DEVICES, _memory_options(0o755, request.whole_root_mb))
        copy_tree("/", "root", left_out=FRESH_FOLDERS)
        _remember_copy(copied, "/", "root")
        return
    try:
        _cover(copied, "/", request)
    except OSError as error:
        if error.errno != INVALID_ARGUMENT:
            raise
        # Mounts of another user namespace are locked: what is below them must not be revealed.
        mount("tmpfs", "root", MOUNT_NO_DEVICES, _memory_options(0o755, 1))
        _cover_entries(copied, "/", mounts, request)
        if not copied.layers:
            raise


def _cover(copied: CopiedRoot, path: str, request: CopyRequest) -> None:
    """Mounts an overlay over `path`. Raises `OSError` where the file system is not suitable."""
    number = len(copied.layers)
    upper, work = f"changes-{number}", f"work-{number}"
    for folder in (upper, work):
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - see above
    copy_attributes(path, upper)
    lower = path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    if request.user_attributes or _takes_user_attributes(upper):
        options += ",userxattr"
    mount("overlay", _inside(path), MOUNT_NO_DEVICES, options)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    copied.layers.append((path, os.open(upper, flags), os.open(path, flags)))


def _takes_user_attributes(folder: str) -> bool:
    """Since Linux 6.6. With them, a replaced folder can be distinguished from a changed one."""
    try:
        os.setxattr(folder, "user.tried", b"")
        os.removexattr(folder, "user.tried")
    except OSError:
        return False
    return True


def _cover_entries(
    copied: CopiedRoot, folder: str, mounts: list[MountedFolder], request: CopyRequest
) -> None:
    """An overlay for each folder without locked mounts in it."""
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - see above
        path = f"{folder.rstrip('/')}/{name}"
        inside = _inside(path)
        if path in FRESH_FOLDERS:
            continue
        try:
            if os.path.islink(path):  # noqa: PTH114 - see above
                os.symlink(os.readlink(path), inside)  # noqa: PTH115, PTH211 - see above
            elif os.path.isdir(path):  # noqa: PTH112 - see above
                os.mkdir(inside, 0o755)  # noqa: PTH102 - see above
                if any(each.path.startswith(f"{path}/") for each in mounts):
                    _cover_entries(copied, path, mounts, request)
                elif all(each.path != path for each in mounts):
                    _cover(copied, path, request)
        except OSError as error:
            copied.left_out.append(f"{path}: {error.strerror or error}")


def _cover_mounts(copied: CopiedRoot, mounts: list[MountedFolder], request: CopyRequest) -> None:
    sizes = {path: (megabytes, inodes) for path, megabytes, inodes in request.disks}
    cloned: list[str] = []
    for each in mounts:
        if each.kind in KERNEL_KINDS or _is_fresh(each.path):
            continue
        if each.path.startswith(tuple(f"{path}/" for path in cloned)):
            continue  # a clone includes the mounts below it
        if each.kind.startswith(REMOTE_KINDS):
            copied.left_out.append(f"{each.path}: a file system of kind {each.kind} may not answer")
            continue
        try:
            if not os.path.isdir(each.path):  # noqa: PTH112 - see above
                _clone_file(each.path)
            elif each.read_only and request.clones_read_only:
                attach_mount(clone_mount(each.path, 0), _inside(each.path))
                cloned.append(each.path)
            elif each.path in sizes:
                _copy_disk(copied, each.path, *sizes[each.path])
            else:
                _cover(copied, each.path, request)
        except OSError as error:
            copied.left_out.append(f"{each.path}: {error.strerror or error}")


def _is_fresh(path: str) -> bool:
    return path in FRESH_FOLDERS or path.startswith(tuple(f"{each}/" for each in FRESH_FOLDERS))


def _hide_file(path: str) -> None:
    try:
        status = os.stat(path)  # noqa: PTH116 - see above
        content = without_hashes(path) if path in ACCOUNT_FILES else b""
    except (FileNotFoundError, PermissionError):
        return  # the caller cannot read it either
    try:
        os.lstat(_inside(path))
    except FileNotFoundError:
        return  # the file system with it is not in the copy
    name = f"hidden-{status.st_dev}-{status.st_ino}"
    make_stand_in(name, os.open(".", os.O_RDONLY | os.O_CLOEXEC), status, content)
    attach_mount(clone_mount(name, namespaces.MOUNT_READ_ONLY), _inside(path))


def _clone_file(path: str) -> None:
    if stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a socket must not be visible
        attach_mount(clone_mount(path, namespaces.MOUNT_READ_ONLY), _inside(path))


def _copy_disk(copied: CopiedRoot, path: str, size_mb: int, inodes: int) -> None:
    limit = f",nr_inodes={inodes}" if inodes else ""
    mount("tmpfs", _inside(path), MOUNT_NO_DEVICES, _memory_options(0o755, size_mb) + limit)
    copy_tree(path, _inside(path))
    _remember_copy(copied, path, _inside(path))


def _copy_folder(
    copied: CopiedRoot, path: str, copy: Callable[[str, str], None] = copy_tree
) -> None:
    """Replaces the folder by a copy: later changes of the host must not show through."""
    target = f"data-{len(copied.layers)}"
    try:
        os.mkdir(target)  # noqa: PTH102 - see above
        copy(path, target)
        attach_mount(clone_mount(target, 0), _inside(path))
        _remember_copy(copied, path, target)
    except OSError as error:
        copied.left_out.append(f"{path}: data of a running program: {error.strerror or error}")
        _attach_memory(path, 0o755, 1)


def _remember_copy(copied: CopiedRoot, path: str, target: str) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    copied.layers.append((f"={path}", os.open(target, flags), os.open(path, flags)))


def _attach_memory(path: str, mode: int, size_mb: int) -> None:
    mount("tmpfs", _inside(path), MOUNT_NO_DEVICES, _memory_options(mode, size_mb))


def _make_fresh_folders(devices: list[tuple[str, int]]) -> None:
    for path in FRESH_FOLDERS:
        if not os.path.isdir(_inside(path)):  # noqa: PTH112 - see above
            os.mkdir(_inside(path), 0o755)  # noqa: PTH102 - see above
    for path, mode in (("/run", 0o755), ("/tmp", 0o1777), ("/dev", 0o755), ("/sys", 0o555)):
        _attach_memory(path, mode, SMALL_FILE_SYSTEM_MB)
    for folder, mode in (("run/lock", 0o1777), ("dev/shm", 0o1777), ("dev/pts", 0o755)):
        os.mkdir(f"root/{folder}")  # noqa: PTH102 - see above
        os.chmod(f"root/{folder}", mode)  # noqa: PTH101 - see above
    _attach_shared_memory()
    for path, fd in devices:
        os.close(os.open(_inside(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        attach_mount(fd, _inside(path))
    for path, target in DEVICE_LINKS:
        os.symlink(target, f"root/{path}")  # noqa: PTH211 - see above


def _attach_shared_memory() -> None:
    """One that is half used stays so: files without content take up the same room."""
    size_mb = _used_shared_memory_mb()
    _attach_memory(SHARED_MEMORY, 0o1777, size_mb or SMALL_FILE_SYSTEM_MB)
    if not size_mb:
        return
    for entry in os.scandir(SHARED_MEMORY):
        found = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or not found.st_blocks:
            continue
        inside = f"{_inside(SHARED_MEMORY)}/{entry.name}"
        fd = os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)
        os.posix_fallocate(fd, 0, found.st_blocks * 512)
        os.ftruncate(fd, found.st_size)
        os.close(fd)
        copy_attributes(entry.path, inside)


def _used_shared_memory_mb() -> int:
    """The size of the host's, if it is small and at least half of it is used; else 0."""
    try:
        space = os.statvfs(SHARED_MEMORY)
        own = os.stat(SHARED_MEMORY).st_dev != os.stat("/dev").st_dev  # noqa: PTH116 - see above
    except OSError:
        return 0
    size_mb = round(space.f_blocks * space.f_frsize / (1 << 20))
    small = own and 0 < size_mb <= MAX_SHARED_MB
    return size_mb if small and 2 * space.f_bfree <= space.f_blocks else 0


def copy_run_folders(copied: CopiedRoot) -> None:
    """The folders of /run with their owners, without the files and sockets in them."""
    try:
        copy_tree("/run", "root/run", only_folders=True)
    except OSError as error:
        copied.left_out.append(f"/run: {error.strerror or error}")


def enter_copied_root(copied: CopiedRoot, name: str, *, read_only_proc: bool) -> None:
    """Called by the first process in the new namespaces."""
    os.chdir(copied.base)
    # The mounts came from another user namespace and are locked, except for a new clone of them.
    attach_mount(clone_mount("root", 0), "root")
    os.chdir("root")
    mount("devpts", "dev/pts", 0, "newinstance,ptmxmode=0666,mode=0620")
    # User 0 may own files below /proc/sys, even without rights outside.
    mount("proc", "proc", namespaces.MOUNT_READ_ONLY if read_only_proc else 0)
    kernel.system_call("pivot_root", b".", b".")
    kernel.system_call("umount2", b".", namespaces.UMOUNT_DETACH)
    os.chdir("/")
    kernel.system_call("sethostname", name.encode(), len(name.encode()))
