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
from collections.abc import Callable
from pathlib import Path

from hermes.core.errors import PlaceFailed
from hermes.environments.confinement import cgroups, wire
from hermes.environments.confinement.cgroups import Cgroup
from hermes.environments.confinement.identity import is_root
from hermes.gym.box.plan import BoxPlan
from hermes.gym.box.warden import LINE, READY

PATIENCE = 20.0
FIRST_USER, USERS = 1_700_000_000, 65_536
"""Where the user numbers of a box lie outside when root makes it: nobody else's."""
HERE = Path(__file__).parent
ANY_PYTHON, BARE_PYTHON = b"#!/usr/bin/env python3", b"#!/usr/bin/python3 -IS"
"""Without the site's packages a program inside starts in half the time."""

# The packages above are empty shells: their own modules may import what a warden must not.
_BOOT = """
import sys
names = ("hermes", "hermes.environments", "hermes.environments.confinement", "hermes.gym",
         "hermes.gym.box")
for name, folder in zip(names, FOLDERS):
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [folder]
from hermes.gym.box.{module} import main
main()
"""

Spawn = Callable[[int, int], tuple[int, int]]
"""Of a line and a file for complaints: the warden's number, and a descriptor of it as a process."""


class Warden:
    """The running process and our end of its line."""

    def __init__(self, plan: BoxPlan, by: "Spawn") -> None:
        """Raises `PlaceFailed` with what this machine does not allow."""
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line.settimeout(PATIENCE)
        self.cgroup = cgroups.make(memory=plan.memory_mb << 20, processes=plan.processes)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        with theirs:
            try:
                self.pid, self._process = by(theirs.fileno(), self._complaints.fileno())
            except BaseException:
                self._forget()
                raise
        try:
            _enter(self.cgroup, self.pid)
            self.hosts = self._introduce(plan)
        except BaseException:
            self.end()
            raise
        self.line.setblocking(False)

    def _introduce(self, plan: BoxPlan) -> list[int]:
        with tempfile.TemporaryFile() as letter:
            letter.write(marshal.dumps((vars(plan), programs())))
            letter.flush()
            letter.seek(0)
            wire.send(self.line, b"plan", (letter.fileno(),))
            if self._hear() != READY:
                raise PlaceFailed(self._trouble())
            give_numbers(self.pid)
            wire.send(self.line, b"go")
            answer = self._hear()
        if answer[:1] != wire.OK:
            why = answer[1:].decode("utf-8", "replace") or self._trouble()
            raise PlaceFailed(f"the box could not be made: {why}")
        hosts: list[int] = marshal.loads(answer[1:])
        return hosts

    def _hear(self) -> bytes:
        try:
            return self.line.recv(wire.LONGEST)
        except (TimeoutError, ConnectionError):
            return b""

    def _trouble(self) -> str:
        self._complaints.seek(0)
        said = self._complaints.read().decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else "the warden ended at once"

    def end(self) -> None:
        """The end of the line is the end of the box."""
        self.line.close()
        _wait(self.pid, self._process)
        self._forget()

    def _forget(self) -> None:
        self.line.close()
        for entry in self.cgroup.entries:
            _empty(Path(entry))
        self._complaints.close()


def programs(*, system_python: bool | None = None) -> tuple[tuple[str, bytes], ...]:
    """What comes first in the PATH of every host; Python where the system has none."""
    folder, own = HERE / "programs", system_python
    if own is None:
        own = Path("/usr/bin/python3").exists()
    found = [
        (path.stem, path.read_bytes().replace(ANY_PYTHON, BARE_PYTHON if own else ANY_PYTHON))
        for path in sorted(folder.iterdir())
        if path.suffix in (".py", ".sh")
    ]
    if not own:
        real = os.path.realpath(sys.executable)
        found.append(("python3", f'#!/bin/sh\nexec {real} "$@"\n'.encode()))
    return tuple(found)


def spawn(line: int, complaints: int) -> tuple[int, int]:
    """A warden of its own start. See `nursery` for a quicker way."""
    pid = start("warden", line, complaints)
    return pid, os.pidfd_open(pid)


def start(module: str, line: int, complaints: int) -> int:
    """A bare Python beside us that runs a module of this folder."""
    rooms = (HERE.parent.parent, HERE.parent.parent / "environments")
    folders = [str(each) for each in (*rooms, rooms[1] / "confinement", HERE.parent, HERE)]
    # Over a pipe: whoever looks at the first process of a host need not see what made it.
    read, write = os.pipe()
    os.write(write, f"FOLDERS = {folders!r}\n{_BOOT.format(module=module)}".encode())
    os.close(write)
    # Copies far above the targets: else one could be overwritten before its turn comes.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (line, read)]
    argv = [sys.executable, "-I", "-S", "-c", "import os; exec(os.read(4, 65536))"]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, complaints, 2),
        (os.POSIX_SPAWN_DUP2, high[0], LINE),
        (os.POSIX_SPAWN_DUP2, high[1], LINE + 1),
    ]
    try:
        return os.posix_spawn(argv[0], argv, {}, file_actions=actions, setsigmask=[])
    finally:
        for fd in (read, *high):
            os.close(fd)


def give_numbers(pid: int) -> None:
    """As root any; as a user those of /etc/subuid, by `newuidmap`; else one's own alone."""
    if is_root():
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(f"0 {FIRST_USER} {USERS}")
        return
    uid, gid = os.getuid(), os.getgid()
    if _by_program("newuidmap", pid, uid, "/etc/subuid") and _by_program(
        "newgidmap", pid, gid, "/etc/subgid"
    ):
        return
    Path(f"/proc/{pid}/setgroups").write_text("deny")
    Path(f"/proc/{pid}/uid_map").write_text(f"0 {uid} 1")
    Path(f"/proc/{pid}/gid_map").write_text(f"0 {gid} 1")


def _by_program(program: str, pid: int, own: int, table: str) -> bool:
    found = shutil.which(program)
    spare = spare_numbers(table)
    if found is None or spare is None:
        return False
    first, count = spare
    words = [found, str(pid), "0", str(own), "1", "1", str(first), str(min(count, USERS) - 1)]
    child = os.posix_spawn(found, words, {})
    return os.waitpid(child, 0)[1] == 0


def spare_numbers(table: str) -> tuple[int, int] | None:
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


def _enter(cgroup: Cgroup, pid: int) -> None:
    for entry in cgroup.entries:
        Path(entry).write_text(str(pid))


def _wait(pid: int, process: int) -> None:
    """It ends all hosts before itself; one that hangs is ended with them."""
    try:
        if not select.select([process], [], [], PATIENCE)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [], PATIENCE)
    finally:
        os.close(process)
    with contextlib.suppress(ChildProcessError):  # of a nursery, which buries its own
        os.waitpid(pid, 0)


def _empty(entry: Path) -> None:
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
