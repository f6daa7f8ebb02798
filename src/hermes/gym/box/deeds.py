"""What the warden does when asked, each in a process of its own that ends with its answer.

Nothing here trusts a program inside: files are read by us, replies are taken apart by us, and what
is told to the supervisor goes over a line that only we hold.
"""

import _socket
import marshal
import os
import select
import signal
import stat
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hermes.environments.confinement import kernel, wire
from hermes.gym.box import asking, network, traffic

MOST = 4 << 20
"""Bytes of output or file that are brought back."""


def do(request: dict[str, object], hosts: "Sequence[HostLike]", answer: int) -> None:
    os.set_inheritable(answer, False)
    host = hosts[int(str(request.get("host", 0)))]
    deed = DEEDS[str(request["do"])]
    try:
        said: dict[str, object] = deed(request, host)
    except Exception as error:  # noqa: BLE001 - an answer in any case: Hermes waits for it
        said = {"error": str(error) or type(error).__name__}
    with open(answer, "wb") as file:
        file.write(marshal.dumps(said))


class HostLike(Protocol):
    """What a deed needs to know of a host."""

    @property
    def pid(self) -> int: ...
    @property
    def line(self) -> _socket.socket: ...


def _run(request: dict[str, object], host: HostLike) -> dict[str, object]:
    """A shell script inside, as user 0 or another, with a time-out for all that it starts."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _become_inside(request, host, write)
    os.close(write)
    deadline = time.monotonic() + float(str(request.get("timeout", 30.0)))
    output, timed_out = _listen(read, child, deadline)
    if timed_out:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = 124 if timed_out else os.waitstatus_to_exitcode(status)
    return {"code": code, "output": output, "timed_out": timed_out}


def _listen(read: int, child: int, deadline: float) -> tuple[bytes, bool]:
    """Until the script itself ends: what it left in the background may hold the pipe for ever."""
    ended = os.pidfd_open(child)
    output = b""
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([read, ended], [], [], left)
        if not ready:
            return output, True
        if read in ready:
            piece = os.read(read, 65536)
            output = (output + piece)[-MOST:]
            if piece:
                continue
        return output, not select.select([ended], [], [], left)[0]


def _become_inside(request: dict[str, object], host: HostLike, output: int) -> None:
    """Never returns. A process is of its namespace only from its children on: fork once more."""
    try:
        os.setpgid(0, 0)
        step_in(host.pid)
        inner = os.fork()
        if inner:
            _, status = os.waitpid(inner, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 255)
        null = os.open("/dev/null", os.O_RDONLY)
        for fd, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(fd, target)
        os.chdir(str(request.get("cwd", "/root")))
        uid = int(str(request.get("uid", 0)))
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        variables = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
        os.execve("/bin/bash", ["bash", "-c", str(request["script"])], variables)
    finally:
        os._exit(127)


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def step_in(pid: int) -> None:
    for name in ("net", "uts", "ipc", "pid", "mnt"):
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        kernel.call("setns", fd, 0)
        os.close(fd)


def _inside(host: HostLike, deed: Callable[[], dict[str, object]]) -> dict[str, object]:
    step_in(host.pid)
    os.chdir("/")
    return deed()


def _read(request: dict[str, object], host: HostLike) -> dict[str, object]:
    def look() -> dict[str, object]:
        with open(str(request["path"]), "rb") as file:  # noqa: PTH123 - see above
            return {"content": file.read(MOST)}

    return _inside(host, look)


def _tree(request: dict[str, object], host: HostLike) -> dict[str, object]:
    """A file, or all under a folder: what it is, whose, and what is in it; links as links."""
    top = str(request["path"])

    def look() -> dict[str, object]:
        paths = [top] if os.path.lexists(top) else []
        for folder, folders, files in os.walk(top):
            paths += [f"{folder}/{name}" for name in (*folders, *files)]
        return {"tree": [_leaf(path) for path in sorted(paths)]}

    return _inside(host, look)


def _leaf(path: str) -> tuple[object, ...]:
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            content = os.readlink(path).encode("utf-8", "surrogateescape")  # noqa: PTH115 - see above
        elif stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:  # noqa: PTH123 - see above
                content = file.read()
        else:
            content = b""
    except OSError as error:  # gone since, or out of reach: that too is how it is
        return path.encode("utf-8", "surrogateescape"), -1, 0, str(error.strerror).encode()
    return path.encode("utf-8", "surrogateescape"), found.st_mode, found.st_uid, content


def _space(request: dict[str, object], host: HostLike) -> dict[str, object]:
    def look() -> dict[str, object]:
        found = os.statvfs(str(request["path"]))
        return {
            "free": found.f_bavail * found.f_frsize,
            "total": found.f_blocks * found.f_frsize,
            "free_inodes": found.f_favail,
        }

    return _inside(host, look)


def _over_network(request: dict[str, object], host: HostLike) -> dict[str, object]:
    network.step_in(host.pid)
    return asking.ask(request)


def _tell(request: dict[str, object], host: HostLike) -> dict[str, object]:
    """To the supervisor. One at a time: whoever holds the lock speaks."""
    wire.send(host.line, marshal.dumps((str(request["verb"]), str(request.get("unit", "")))))
    return marshal.loads(wire.receive(host.line)[0])  # type: ignore[no-any-return]


def _traffic(request: dict[str, object], host: HostLike) -> dict[str, object]:
    network.step_in(host.pid)
    traffic.flow(request)
    return {}


DEEDS: dict[str, Callable[[dict[str, object], HostLike], dict[str, object]]] = {
    "run": _run,
    "read": _read,
    "tree": _tree,
    "space": _space,
    "ask": _over_network,
    "tell": _tell,
    "traffic": _traffic,
}
