"""Starts a warden, gives its user namespace its numbers, and waits until the hosts live."""

import contextlib
import fcntl
import marshal
import os
import pwd
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from hermes.core.errors import EnvironmentFailed
from hermes.environments.confinement import messages
from hermes.environments.sandboxing import cgroups, host_access
from hermes.environments.sandboxing.cgroups import SandboxCgroup
from hermes.environments.sandboxing.host_access import is_root
from hermes.gym.box.backend import BoxOpener, BoxPlan
from hermes.gym.box.box_init import ID_MAP_REQUEST, LINK_FD

BOX_INIT_TIMEOUT_S = 20.0
FIRST_OUTER_UID, UID_COUNT = 1_700_000_000, 65_536
"""Where the user numbers of a box lie outside when root makes it: nobody else's."""
BOX_PACKAGE_FOLDER = Path(__file__).parent
ENV_PYTHON_SHEBANG, ISOLATED_PYTHON_SHEBANG = b"#!/usr/bin/env python3", b"#!/usr/bin/python3 -IS"
"""Without the site's packages a program inside starts in half the time."""

# The packages above are empty shells: their own modules may import what a warden must not.
_BOOT_SCRIPT = """
import sys
names = ("hermes", "hermes.environments", "hermes.environments.confinement", "hermes.gym",
         "hermes.gym.box")
for name, folder in zip(names, FOLDERS):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [folder]
from hermes.gym.box.{module} import main
main()
"""

SpawnBoxInit = Callable[[int, int], tuple[int, int]]
"""Of a line and a file for complaints: the warden's number, and a descriptor of it as a process."""


class BoxInitProcess:
    """The running process and our end of its line."""

    def __init__(self, plan: BoxPlan, spawner: "SpawnBoxInit") -> None:
        """Raises `EnvironmentFailed` with what this machine does not allow."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(BOX_INIT_TIMEOUT_S)
        self.cgroup = cgroups.create_cgroup(memory=plan.memory_mb << 20, processes=plan.processes)
        self._stderr_file = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        with theirs:
            try:
                self.pid, self._pidfd = spawner(theirs.fileno(), self._stderr_file.fileno())
            except BaseException:
                self._release()
                raise
        try:
            _add_to_cgroup(self.cgroup, self.pid)
            self.host_pids = self._send_plan(plan)
        except BaseException:
            self.stop()
            raise
        self.socket.setblocking(False)

    def _send_plan(self, plan: BoxPlan) -> list[int]:
        with tempfile.TemporaryFile() as letter:
            letter.write(marshal.dumps((vars(plan), host_programs())))
            letter.flush()
            letter.seek(0)
            messages.send_message(self.socket, b"plan", (letter.fileno(),))
            if self._receive() != ID_MAP_REQUEST:
                raise EnvironmentFailed(self._last_error())
            write_id_maps(self.pid)
            messages.send_message(self.socket, b"go")
            answer = self._receive()
        if answer[:1] != messages.ANSWER_OK:
            why = answer[1:].decode("utf-8", "replace") or self._last_error()
            raise EnvironmentFailed(f"the box could not be made: {why}")
        hosts: list[int] = marshal.loads(answer[1:])
        return hosts

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(messages.MAX_MESSAGE_BYTES)
        except (TimeoutError, ConnectionError):
            return b""

    def _last_error(self) -> str:
        self._stderr_file.seek(0)
        said = self._stderr_file.read().decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else "the warden ended at once"

    def stop(self) -> None:
        """The end of the line is the end of the box."""
        self.socket.close()
        _wait_for_exit(self.pid, self._pidfd)
        self._release()

    def _release(self) -> None:
        self.socket.close()
        for entry in self.cgroup.entries:
            _empty_cgroup(Path(entry))
        self._stderr_file.close()


def host_programs(*, system_python: bool | None = None) -> tuple[tuple[str, bytes], ...]:
    """What comes first in the PATH of every host; Python where the system has none."""
    folder, own = BOX_PACKAGE_FOLDER / "programs", system_python
    if own is None:
        own = Path("/usr/bin/python3").exists()
    found = [
        (
            path.stem,
            path.read_bytes().replace(
                ENV_PYTHON_SHEBANG, ISOLATED_PYTHON_SHEBANG if own else ENV_PYTHON_SHEBANG
            ),
        )
        for path in sorted(folder.iterdir())
        if path.suffix in (".py", ".sh")
    ]
    if not own:
        real = os.path.realpath(sys.executable)
        found.append(("python3", f'#!/bin/sh\nexec {real} "$@"\n'.encode()))
    return tuple(found)


def spawn_box_init(link_fd: int, stderr_fd: int) -> tuple[int, int]:
    """A warden of its own start. See `nursery` for a quicker way."""
    pid = start_box_program("warden", link_fd, stderr_fd)
    return pid, os.pidfd_open(pid)


def start_box_program(module: str, link_fd: int, stderr_fd: int) -> int:
    """A bare Python beside us that runs a module of this folder."""
    rooms = (BOX_PACKAGE_FOLDER.parent.parent, BOX_PACKAGE_FOLDER.parent.parent / "environments")
    folders = [
        str(each)
        for each in (
            *rooms,
            rooms[1] / "confinement",
            BOX_PACKAGE_FOLDER.parent,
            BOX_PACKAGE_FOLDER,
        )
    ]
    # Over a pipe: whoever looks at the first process of a host need not see what made it.
    read, write = os.pipe()
    os.write(write, f"FOLDERS = {folders!r}\n{_BOOT_SCRIPT.format(module=module)}".encode())
    os.close(write)
    # Copies far above the targets: else one could be overwritten before its turn comes.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (link_fd, read)]
    argv = [sys.executable, "-I", "-S", "-c", "import os; exec(os.read(4, 65536))"]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, stderr_fd, 2),
        (os.POSIX_SPAWN_DUP2, high[0], LINK_FD),
        (os.POSIX_SPAWN_DUP2, high[1], LINK_FD + 1),
    ]
    try:
        return os.posix_spawn(argv[0], argv, {}, file_actions=actions, setsigmask=[])
    finally:
        for fd in (read, *high):
            os.close(fd)


def write_id_maps(pid: int) -> None:
    """As root any; as a user those of /etc/subuid, by `newuidmap`; else one's own alone."""
    if is_root():
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(f"0 {FIRST_OUTER_UID} {UID_COUNT}")
        return
    uid, gid = os.getuid(), os.getgid()
    if _write_id_map_by_program("newuidmap", pid, uid, "/etc/subuid") and _write_id_map_by_program(
        "newgidmap", pid, gid, "/etc/subgid"
    ):
        return
    Path(f"/proc/{pid}/setgroups").write_text("deny")
    Path(f"/proc/{pid}/uid_map").write_text(f"0 {uid} 1")
    Path(f"/proc/{pid}/gid_map").write_text(f"0 {gid} 1")


def _write_id_map_by_program(program: str, pid: int, own: int, table: str) -> bool:
    found = shutil.which(program)
    spare = subordinate_ids(table)
    if found is None or spare is None:
        return False
    first, count = spare
    words = [found, str(pid), "0", str(own), "1", "1", str(first), str(min(count, UID_COUNT) - 1)]
    child = os.posix_spawn(found, words, {})
    return os.waitpid(child, 0)[1] == 0


def subordinate_ids(table: str) -> tuple[int, int] | None:
    """The numbers that this machine lends to its user."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
        lines = Path(table).read_text().splitlines()
    except (KeyError, OSError):
        return None
    for line in lines:
        who, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if who in (name, str(os.getuid())) and count.isdigit():
            return int(first), int(count)
    return None


def _add_to_cgroup(cgroup: SandboxCgroup, pid: int) -> None:
    for entry in cgroup.entries:
        Path(entry).write_text(str(pid))


def _wait_for_exit(pid: int, process: int) -> None:
    """It ends all hosts before itself; one that hangs is ended with them."""
    try:
        if not select.select([process], [], [], BOX_INIT_TIMEOUT_S)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], BOX_INIT_TIMEOUT_S)
    finally:
        os.close(process)
    with contextlib.suppress(ChildProcessError):  # of a nursery, which buries its own
        os.waitpid(pid, 0)


def _empty_cgroup(entry: Path) -> None:
    """The kernel lets the last processes go in its own time."""
    for _ in range(2000):
        try:
            left = entry.read_text().split()
        except OSError:
            return
        for pid in left:
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                continue
        if not left:
            break
        select.select([], [], [], 0.001)
    for _ in range(1000):
        try:
            entry.parent.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            select.select([], [], [], 0.001)


NSENTER_COMMAND = ("nsenter", "-U", "-m", "-u", "-i", "-n", "-p", "-t")
_JOIN_CGROUPS_SCRIPT = 'for entry in $1; do echo 0 > "$entry"; done; shift; exec "$@"'
"""What the agent starts counts among the processes of the box."""


class LocalBoxBackend:
    """A `BoxBackend`: questions go over the warden's line, each with a socket for its answer."""

    def __init__(self, init_process: BoxInitProcess) -> None:
        self.init_process = init_process

    @property
    def label(self) -> str:
        return f"box {self.init_process.pid}"

    async def check_available(self) -> None:
        if shutil.which("nsenter") is None:
            raise EnvironmentFailed("nsenter is not installed (apt install util-linux)")

    def host_command(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        own = [] if is_root() else ["--preserve-credentials"]
        cgroups = " ".join(self.init_process.cgroup.entries)
        enter = [*NSENTER_COMMAND, str(self.init_process.host_pids[host]), *own]
        return ["/bin/sh", "-c", _JOIN_CGROUPS_SCRIPT, "enter", cgroups, *enter, "--", *argv]

    async def request(self, body: dict[str, Any]) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                await self._send(body, theirs)
            ours.setblocking(False)
            heard = bytearray()
            while True:
                await anyio.wait_readable(ours)
                piece = ours.recv(1 << 18)
                if not piece:
                    break
                heard += piece
        if not heard:
            raise EnvironmentFailed("the box has ended")
        answer: dict[str, Any] = marshal.loads(bytes(heard))
        return answer

    async def start_request(self, body: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            await self._send(body, theirs)

    async def _send(self, request: dict[str, Any], reply: socket.socket) -> None:
        line = self.init_process.socket
        while True:
            try:
                return messages.send_message(line, marshal.dumps(request), (reply.fileno(),))
            except BlockingIOError:
                await anyio.wait_writable(line)
            except OSError as error:
                raise EnvironmentFailed(f"the box has ended: {error.strerror}") from error


@asynccontextmanager
async def open_local_box(
    plan: BoxPlan, spawner: SpawnBoxInit = spawn_box_init
) -> AsyncGenerator[LocalBoxBackend, None]:
    """`by` brings the warden into being. Raises `EnvironmentFailed` with what is not allowed here."""
    warden = await to_thread.run_sync(_start_box_init, plan, spawner)
    try:
        yield LocalBoxBackend(warden)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(warden.stop)


def _start_box_init(plan: BoxPlan, spawner: SpawnBoxInit) -> BoxInitProcess:
    add_system_paths(plan)
    return BoxInitProcess(plan, spawner)


def add_system_paths(plan: BoxPlan) -> None:
    """What of this machine its hosts see."""
    system = host_access.find_system_files()
    copied = {path for path, _ in system.files}
    plan.readable = _shareable_paths([path for path in system.paths if path not in copied])
    plan.links, plan.common = system.links, system.files


def _shareable_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Root's box is nobody's outside: it reaches only what everybody does; and Python of a folder
    of one's own only where the system has none."""
    own = {os.path.realpath(sys.base_prefix)}
    if Path("/usr/bin/python3").exists():
        own = set()
    return tuple(
        path
        for path in paths
        if (path in own or path.startswith((*host_access.SYSTEM_PROGRAM_FOLDERS, "/etc/")))
        and _is_world_accessible(path)
    )


def _is_world_accessible(path: str) -> bool:
    folders = [each for each in (Path(path), *Path(path).parents) if each.is_dir()]
    return not is_root() or all(each.stat().st_mode & 0o001 for each in folders)


class _Forkserver:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(BOX_INIT_TIMEOUT_S)
        self._lock = threading.Lock()  # wardens are asked for from worker threads
        with theirs, tempfile.TemporaryFile() as complaints:
            self._pid = start_box_program("cradle", theirs.fileno(), complaints.fileno())

    def spawn(self, link_fd: int, stderr_fd: int) -> tuple[int, int]:
        try:
            with self._lock:
                messages.send_message(self._socket, b"warden", (link_fd, stderr_fd))
                answer, files = messages.receive_message(self._socket)
        except OSError as error:
            raise EnvironmentFailed(f"the nursery of boxes has ended: {error}") from error
        if answer[:1] != messages.ANSWER_OK or not files:
            why = answer[1:].decode("utf-8", "replace") or "it has ended"
            raise EnvironmentFailed(f"no box could be begun: {why}")
        return int(answer[1:]), files[0]

    def stop(self) -> None:
        self._socket.close()
        os.waitpid(self._pid, 0)


@asynccontextmanager
async def open_forkserver() -> AsyncGenerator[BoxOpener, None]:
    """Yields what opens boxes; all of them are to be gone when this is left."""
    held = await to_thread.run_sync(_Forkserver)
    try:
        yield partial(open_local_box, by=held.spawn)
    finally:
        held.stop()
