"""Starts the hosts of a copied box: each sees the files of a running host through an overlay.

The overlay is mounted in the user namespace of the first box, which has the rights over its mounts.
The hosts of the copy live in a user namespace below it and cannot undo a mount. Imports only the
standard library.
"""

import _socket
import marshal
import os
import signal

from hermes.environments.boxes.backend import HostPlan
from hermes.environments.boxes.host_setup import write_host_files
from hermes.environments.confinement import kernel, messages
from hermes.environments.confinement.copied_root import (
    CopiedRoot,
    CopyRequest,
    copy_run_folders,
    enter_copied_root,
    prepare_copied_root,
)
from hermes.environments.confinement.namespaces import CLONE_NEW_MOUNTS, CLONE_NEW_USERS

MAX_DATA_MB = 96
"""Of all folders in use by programs of a host: larger ones are left out."""
NEARLY_FULL = 0.05
"""Part of a root file system that is free: with less, it is copied as a whole."""
UNCOPIED_DATA_FOLDERS = ("/var/log", "/run", "/tmp", "/dev", "/proc", "/sys", "/usr", "/var/run")
ROOT_FOLDERS_WITHOUT_DATA = ("/", "/etc", "/root", "/home", "/var", "/srv", "/opt", "/var/lib")


class SourceHost:
    """A host of the first box, by descriptors that are opened outside of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.mount_namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.mounts = read_text(f"/proc/{pid}/mountinfo")


def enter_source_box(pids: tuple[int, ...]) -> list[SourceHost]:
    """Moves this process into the user namespace of the first box, as its user 0."""
    hosts = [SourceHost(pid) for pid in pids]
    users = os.open(f"/proc/{pids[0]}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    kernel.system_call("setns", users, CLONE_NEW_USERS)
    os.close(users)
    become_first_user()
    return hosts


def become_first_user() -> None:
    os.setgid(0)
    os.setuid(0)
    kernel.prctl(4, 1)  # PR_SET_DUMPABLE: a change of user closed /proc/PID/ns, even to us


def create_user_namespace() -> int:
    """A user namespace below this one with the same users; the descriptor keeps it."""
    ready, made = os.pipe()
    wait, ends = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ends)
            kernel.system_call("unshare", CLONE_NEW_USERS)
            os.write(made, b"+")
            os.read(wait, 1)  # until the pipe is closed: also when our parent is killed
        finally:
            os._exit(0)
    os.close(made)
    os.close(wait)
    try:
        if os.read(ready, 1) != b"+":
            raise OSError("no user namespace could be made for the copy")
        for name in ("uid_map", "gid_map"):
            lines = [line.split() for line in read_text(f"/proc/self/{name}").splitlines()]
            same = "".join(f"{first} {first} {count}\n" for first, _, count in lines)
            with open(f"/proc/{child}/{name}", "w") as file:  # noqa: PTH123 - pathlib is slow to import
                file.write(same)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.close(ends)
        os.waitpid(child, 0)


def read_text(path: str) -> str:
    with open(path, errors="surrogateescape") as file:  # noqa: PTH123 - see above
        return file.read()


class CopiedLayers:
    """Known to box init, for as long as the copy runs."""

    def __init__(self) -> None:
        self.folders: list[tuple[str, int, int]] = []
        """As in `CopiedRoot.layers`."""
        self.left_out: list[str] = []


class CopiedHostRoot:
    """The file system of a copied host: see `box_init.HostRoot`."""

    def __init__(self, source: SourceHost, host: HostPlan, users: int) -> None:
        self._source, self._host, self._users = source, host, users
        self._copied = CopiedRoot("/")
        self._fresh_files: tuple[tuple[str, bytes, int, int], ...] = ()

    def prepare(self, link: _socket.socket) -> None:
        self._copied, self._fresh_files = _prepare_host_copy(self._source, self._host)
        send_layers(link, self._copied)
        kernel.system_call("setns", self._users, CLONE_NEW_USERS)
        become_first_user()

    def give_up_rights(self, link: _socket.socket) -> None:
        return

    def enter(self) -> None:
        enter_copied_root(self._copied, self._host.name, read_only_proc=False)
        # Only the folders of the fresh file systems: all other files are those of the first host.
        fresh = HostPlan()
        fresh.folders = tuple(each for each in self._host.folders if each[0].startswith("/tmp/"))
        fresh.files = self._fresh_files
        write_host_files(fresh)


def send_layers(link: _socket.socket, copied: CopiedRoot) -> None:
    """No process of the copy keeps the descriptors."""
    for path, changed, original in copied.layers:
        messages.send_message(link, marshal.dumps(path), (changed, original))
        os.close(changed)
        os.close(original)
    messages.send_message(link, marshal.dumps(copied.left_out))


def receive_layers(link: _socket.socket) -> CopiedLayers:
    """Return what `send_layers` sent."""
    layers = CopiedLayers()
    while True:
        data, files = messages.receive_message(link)
        if len(files) != 2:
            layers.left_out = marshal.loads(data)
            return layers
        layers.folders.append((marshal.loads(data), files[0], files[1]))


def _prepare_host_copy(
    source: SourceHost, host: HostPlan
) -> tuple[CopiedRoot, tuple[tuple[str, bytes, int, int], ...]]:
    """Stops the programs of the host for as long as the files that they write are copied. Also
    returns the planned files of fresh file systems: what was removed on the host stays removed."""
    request = CopyRequest()
    request.mounts = source.mounts
    request.disk_mb = host.disk_mb
    request.disks = host.disks
    request.clones_read_only = True
    stopped = _stop_programs(source.pid)
    try:
        folders = find_data_folders(stopped)
        kernel.system_call("setns", source.mount_namespace, CLONE_NEW_MOUNTS)
        kernel.system_call("unshare", CLONE_NEW_MOUNTS)
        fresh = tuple(
            each
            for each in host.files
            if each[0].startswith(("/tmp/", "/run/")) and os.access(each[0], os.F_OK)
        )
        small = [path for path in folders if size_mb(path) <= MAX_DATA_MB]
        request.data = tuple(small)
        request.omitted = tuple(path for path in folders if path not in small)
        space = os.statvfs("/")
        if space.f_bavail < space.f_blocks * NEARLY_FULL:  # removing a file must make room again
            request.whole_root_mb = host.disk_mb
        copied = prepare_copied_root(request)
        copy_run_folders(copied)
    finally:
        for pid in stopped:
            _send_signal(pid, signal.SIGCONT)
    copied.left_out += [
        f"{path}: data of a running program, more than {MAX_DATA_MB} MB" for path in request.omitted
    ]
    return copied, fresh


def _stop_programs(first: int) -> list[int]:
    """All descendants of the first process of a host, except those that are stopped already."""
    found: list[int] = []
    waiting = _children(first)
    while waiting:
        pid = waiting.pop()
        if _state(pid) not in ("T", "Z", ""):
            _send_signal(pid, signal.SIGSTOP)
            found.append(pid)
        waiting += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(each) for each in read_text(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:
        return []


def _state(pid: int) -> str:
    try:
        return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def find_data_folders(pids: list[int]) -> list[str]:
    """Folders with files that these processes have opened for writing, except for logs."""
    found = set()
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - see above
                path = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115 - see above
                if path.startswith("/") and _is_written(pid, name) and not path.endswith(".log"):
                    found.add(os.path.dirname(path))  # noqa: PTH120 - see above
        except OSError:
            continue
    data = {each for each in found if not (f"{each}/").startswith(_with_slash())}
    tops = {_database_folder(each) for each in data} - set(ROOT_FOLDERS_WITHOUT_DATA)
    return sorted(each for each in tops if not any(each.startswith(f"{top}/") for top in tops))


def _with_slash() -> tuple[str, ...]:
    return tuple(f"{each}/" for each in UNCOPIED_DATA_FOLDERS)


def _database_folder(path: str) -> str:
    """PostgreSQL keeps its files in subfolders of its data folder, redis its log in one."""
    for mark in ("/base/", "/pg_wal/", "/appendonlydir/", "/global/"):
        before, found, _ = f"{path}/".partition(mark)
        if found:
            return before
    return path


def _is_written(pid: int, name: str) -> bool:
    for line in read_text(f"/proc/{pid}/fdinfo/{name}").splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def size_mb(path: str) -> float:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(f"{folder}/{name}").st_blocks * 512
            except OSError:
                continue
    return total / (1 << 20)
