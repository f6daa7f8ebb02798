"""Opens boxes on this machine: starts box init, sends it the plan, and sends it requests.

`open_local_box` opens one box. `open_forkserver` yields an opener that is quicker for many.
"""

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
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes import host_requests
from hermes.environments.boxes.backend import BoxOpener, BoxPlan
from hermes.environments.boxes.box_init import (
    FIRST_OUTER_UID,
    ID_MAP_REQUEST,
    LINK_FD,
    UID_COUNT,
    send_plan,
)
from hermes.environments.confinement import messages
from hermes.environments.processes.spawn import normal_priority
from hermes.environments.sandboxing import cgroups, host_access
from hermes.environments.sandboxing.cgroups import SandboxCgroup
from hermes.environments.sandboxing.host_access import is_root

BOX_INIT_TIMEOUT_S = 20.0
BOX_PACKAGE_FOLDER = Path(__file__).parent
ENV_PYTHON_SHEBANG, ISOLATED_PYTHON_SHEBANG = b"#!/usr/bin/env python3", b"#!/usr/bin/python3 -IS"
"""Without site packages a program of a host starts in half the time."""

# The parent packages are replaced by empty ones: the real ones may import more than the standard
# library.
_BOOT_SCRIPT = """
import sys
names = ("hermes", "hermes.environments", "hermes.environments.confinement",
         "hermes.environments.boxes")
for name, folder in zip(names, FOLDERS):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [folder]
from hermes.environments.boxes.box_init import {function}
{function}()
"""

SpawnBoxInit = Callable[[int, int], tuple[int, int]]
"""Takes descriptors of its socket and of a file for stderr; returns its pid and a pidfd."""


class BoxInitProcess:
    """A running box init, with the socket for requests to it."""

    def __init__(self, plan: BoxPlan, spawner: SpawnBoxInit) -> None:
        """Raises `EnvironmentFailed` with what this machine does not allow."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(BOX_INIT_TIMEOUT_S)
        self.cgroup = cgroups.create_cgroup(memory=plan.memory_mb << 20, processes=plan.processes)
        self._stderr_file = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
        with theirs:
            try:
                self.pid, self._pidfd = spawner(theirs.fileno(), self._stderr_file.fileno())
            except BaseException:
                self._release()
                raise
        plan.cgroups = self.cgroup.folders
        plan.own_users = not is_root()
        if not self.cgroup.memory and (plan.copies_machine or plan.copied_pids):
            plan.watched_memory_mb = plan.memory_mb
            plan.hosts = tuple({**fields, "counted_memory": False} for fields in plan.hosts)
        try:
            _add_to_cgroup(self.cgroup, self.pid)
            self.host_pids = self._open_box(plan)
        except BaseException:
            self.stop()
            raise
        self.socket.setblocking(False)

    def _open_box(self, plan: BoxPlan) -> list[int]:
        send_plan(self.socket, plan, host_programs())
        # A copy of a box uses the users of that box, a copy by root those of this machine.
        if plan.own_users if plan.copies_machine else not plan.copied_pids:
            request = self._receive()
            if request != ID_MAP_REQUEST:
                why = request[1:].decode("utf-8", "replace") or self._last_error()
                raise EnvironmentFailed(f"no user namespace: {why}")
            write_id_maps(self.pid)
            messages.send_message(self.socket, b"go")
        answer = self._receive()
        if answer[:1] != messages.ANSWER_OK:
            why = answer[1:].decode("utf-8", "replace") or self._last_error()
            raise EnvironmentFailed(f"the box could not be made: {why}")
        host_pids: list[int] = marshal.loads(answer[1:])
        return host_pids

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(messages.MAX_MESSAGE_BYTES)
        except TimeoutError as error:
            why = f"box init did not answer within {BOX_INIT_TIMEOUT_S:g} s"
            raise EnvironmentFailed(why) from error
        except ConnectionError:
            return b""

    def _last_error(self) -> str:
        self._stderr_file.seek(0)
        text = self._stderr_file.read().decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else "box init ended without an error message"

    def stop(self) -> None:
        """The box ends when its socket closes."""
        self.socket.close()
        _wait_for_exit(self.pid, self._pidfd)
        self._release()

    def _release(self) -> None:
        self.socket.close()
        for entry in self.cgroup.entries:
            _empty_cgroup(Path(entry))
        self._stderr_file.close()


def host_programs(*, system_python: bool | None = None) -> tuple[tuple[str, bytes], ...]:
    """Names and contents of the programs that come first in the PATH of every host.

    Where the system has no Python, one of them is `python3`.
    """
    if system_python is None:
        system_python = Path("/usr/bin/python3").exists()
    shebang = ISOLATED_PYTHON_SHEBANG if system_python else ENV_PYTHON_SHEBANG
    programs = [
        (path.stem, path.read_bytes().replace(ENV_PYTHON_SHEBANG, shebang))
        for path in sorted((BOX_PACKAGE_FOLDER / "programs").iterdir())
        if path.suffix in (".py", ".sh")
    ]
    if not system_python:
        real = os.path.realpath(sys.executable)
        programs.append(("python3", f'#!/bin/sh\nexec {real} "$@"\n'.encode()))
    return tuple(programs)


def spawn_box_init(link_fd: int, stderr_fd: int) -> tuple[int, int]:
    """Starts a new Python. `open_forkserver` is quicker."""
    pid = start_box_program("main", link_fd, stderr_fd)
    return pid, os.pidfd_open(pid)


def start_box_program(function: str, link_fd: int, stderr_fd: int) -> int:
    """Starts a Python without packages that calls a function of `box_init`."""
    environments = BOX_PACKAGE_FOLDER.parent
    paths = (environments.parent, environments, environments / "confinement", BOX_PACKAGE_FOLDER)
    folders = [str(each) for each in paths]
    # Over a pipe: the command line of a host's first process should not show what started it.
    read, write = os.pipe()
    os.write(write, f"FOLDERS = {folders!r}\n{_BOOT_SCRIPT.format(function=function)}".encode())
    os.close(write)
    # Copies with high numbers: a target could otherwise overwrite a source not yet copied.
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
        with normal_priority():
            return os.posix_spawn(argv[0], argv, {}, file_actions=actions, setsigmask=[])
    finally:
        for fd in (read, *high):
            os.close(fd)


def write_id_maps(pid: int) -> None:
    """Root maps any ids; a user those of /etc/subuid with `newuidmap`, or only its own id."""
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


def _write_id_map_by_program(program: str, pid: int, own_id: int, table: str) -> bool:
    path = shutil.which(program)
    ids = subordinate_ids(table)
    if path is None or ids is None:
        return False
    first, count = ids
    mappings = ["0", str(own_id), "1", "1", str(first), str(min(count, UID_COUNT) - 1)]
    child = os.posix_spawn(path, [path, str(pid), *mappings], {})
    return os.waitpid(child, 0)[1] == 0


def subordinate_ids(table: str) -> tuple[int, int] | None:
    """The first subordinate id of this user, and how many there are."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
        lines = Path(table).read_text().splitlines()
    except (KeyError, OSError):
        return None
    for line in lines:
        user, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if user in (name, str(os.getuid())) and count.isdigit():
            return int(first), int(count)
    return None


def _add_to_cgroup(cgroup: SandboxCgroup, pid: int) -> None:
    for entry in cgroup.entries:
        Path(entry).write_text(str(pid))


def _wait_for_exit(pid: int, pidfd: int) -> None:
    """Box init kills its hosts, then exits. It is killed after the timeout."""
    try:
        if not select.select([pidfd], [], [], BOX_INIT_TIMEOUT_S)[0]:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [], BOX_INIT_TIMEOUT_S)
    finally:
        os.close(pidfd)
    with contextlib.suppress(ChildProcessError):  # a child of the forkserver, which reaps it
        os.waitpid(pid, 0)


def _empty_cgroup(entry: Path) -> None:
    """Kills what is left and removes the group; the kernel may need a moment for both."""
    for _ in range(2000):
        try:
            pids = entry.read_text().split()
        except OSError:
            return
        for pid in pids:
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                continue
        if not pids:
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
"""The agent's commands join the cgroups of the box, so its limits hold for them."""


class LocalBoxBackend:
    """A `BoxBackend`: requests go over the socket of box init, each with a socket for its reply."""

    def __init__(self, init_process: BoxInitProcess) -> None:
        self.init_process = init_process

    @property
    def label(self) -> str:
        return f"box {self.init_process.pid}"

    async def check_available(self) -> None:
        if shutil.which("nsenter") is None:
            raise EnvironmentFailed("nsenter is not installed (apt install util-linux)")

    def host_command(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        options = [] if is_root() else ["--preserve-credentials"]
        cgroups = " ".join(self.init_process.cgroup.entries)
        enter = [*NSENTER_COMMAND, str(self.init_process.host_pids[host]), *options]
        return ["/bin/sh", "-c", _JOIN_CGROUPS_SCRIPT, "enter", cgroups, *enter, "--", *argv]

    async def request(self, body: dict[str, Any], *, terminal: int = -1) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                await self._send(body, theirs, terminal)
            ours.setblocking(False)
            reply = bytearray()
            while True:
                await anyio.wait_readable(ours)
                piece = ours.recv(1 << 18)
                if not piece:
                    break
                reply += piece
        if not reply:
            raise EnvironmentFailed("the box has ended")
        answer: dict[str, Any] = marshal.loads(bytes(reply))
        return answer

    @property
    def copied_pids(self) -> tuple[int, ...]:
        return tuple(self.init_process.host_pids)

    def request_now(self, body: dict[str, Any]) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                try:
                    host_requests.send_request(self.init_process.socket, body, theirs.fileno())
                except OSError as error:
                    raise EnvironmentFailed(f"the box has ended: {error.strerror}") from error
            ours.settimeout(BOX_INIT_TIMEOUT_S)
            reply = b"".join(iter(lambda: ours.recv(1 << 18), b""))
        answer: dict[str, Any] = marshal.loads(reply) if reply else {}
        return answer

    async def start_request(self, body: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            await self._send(body, theirs)

    async def _send(
        self, request: dict[str, Any], reply: socket.socket, terminal: int = -1
    ) -> None:
        link = self.init_process.socket
        while True:
            try:
                return host_requests.send_request(link, request, reply.fileno(), terminal)
            except BlockingIOError:
                await anyio.wait_writable(link)
            except OSError as error:
                raise EnvironmentFailed(f"the box has ended: {error.strerror}") from error


@asynccontextmanager
async def open_local_box(
    plan: BoxPlan, spawner: SpawnBoxInit = spawn_box_init
) -> AsyncGenerator[LocalBoxBackend, None]:
    """`spawner` starts box init. Raises `EnvironmentFailed` with what this machine forbids."""
    init_process = await to_thread.run_sync(_start_box_init, plan, spawner)
    try:
        yield LocalBoxBackend(init_process)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(init_process.stop)


def _start_box_init(plan: BoxPlan, spawner: SpawnBoxInit) -> BoxInitProcess:
    if not plan.copied_pids and not plan.copies_machine:
        add_system_paths(plan)
    return BoxInitProcess(plan, spawner)


def add_system_paths(plan: BoxPlan) -> None:
    """Adds the files of this machine that the hosts see."""
    system = host_access.find_system_files()
    copied = {path for path, _ in system.files}
    plan.readable = _shareable_paths([path for path in system.paths if path not in copied])
    plan.links, plan.common = system.links, system.files


def _shareable_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Only what every user can read: the user ids of a box made by root own nothing outside.

    The folder of this Python is added only where the system has none.
    """
    python = set() if Path("/usr/bin/python3").exists() else {os.path.realpath(sys.base_prefix)}
    return tuple(
        path
        for path in paths
        if (path in python or path.startswith((*host_access.SYSTEM_PROGRAM_FOLDERS, "/etc/")))
        and _is_world_accessible(path)
    )


def _is_world_accessible(path: str) -> bool:
    folders = [each for each in (Path(path), *Path(path).parents) if each.is_dir()]
    return not is_root() or all(each.stat().st_mode & 0o001 for each in folders)


class Forkserver:
    def __init__(self, timeout_s: float = BOX_INIT_TIMEOUT_S) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(timeout_s)
        self.timeout_s = timeout_s
        with theirs, tempfile.TemporaryFile() as stderr_file:
            self.pid = start_box_program("run_forkserver", theirs.fileno(), stderr_file.fileno())

    def spawn(self, link_fd: int, stderr_fd: int) -> tuple[int, int]:
        """Called from worker threads. Each request has a socket for its answer: one that comes too
        late is not taken for that of the next request."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(self.timeout_s)
        try:
            with ours:
                with theirs:
                    given = (link_fd, stderr_fd, theirs.fileno())
                    messages.send_message(self._socket, b"fork", given)
                answer, files = messages.receive_message(ours)
        except OSError as error:
            raise EnvironmentFailed(f"the forkserver of boxes does not answer: {error}") from error
        if answer[:1] != messages.ANSWER_OK or not files:
            why = answer[1:].decode("utf-8", "replace") or "it has ended"
            raise EnvironmentFailed(f"no box could be started: {why}")
        return int(answer[1:]), files[0]

    def stop(self) -> None:
        self._socket.close()
        os.waitpid(self.pid, 0)


@asynccontextmanager
async def open_forkserver() -> AsyncGenerator[BoxOpener, None]:
    """Yields an opener. Close all its boxes before leaving the context."""
    forkserver = await to_thread.run_sync(Forkserver)
    try:
        yield partial(open_local_box, spawner=forkserver.spawn)
    finally:
        forkserver.stop()
