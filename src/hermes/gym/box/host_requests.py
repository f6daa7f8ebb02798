"""Questions over a host's network, put as a client would put them, with sockets alone."""

import _socket
import marshal
import os
import random
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hermes.environments.confinement import kernel, messages
from hermes.gym.box import host_setup

MAX_REPLY_BYTES = 1 << 20


def send_to_port(request: dict[str, object]) -> dict[str, object]:
    """`bytes` are sent to `address`:`port`; what comes back until the end, or `until`, or time."""
    started = time.monotonic()
    timeout = float(str(request.get("timeout", 2.0)))
    address = (str(request.get("address", "127.0.0.1")), int(str(request["port"])))
    try:
        # A number, not a name: looking one up would load modules that lie out of reach by now.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as line:
            line.settimeout(timeout)
            line.connect(address)
            peer: dict[str, object] = {}
            if request.get("tls"):
                line, peer = _wrap_in_tls(line, request)
            payload = request.get("send", b"")
            if isinstance(payload, bytes) and payload:
                line.sendall(payload)
            heard = _read_reply(line, request.get("until"), started + timeout) if payload else b""
            return {"heard": heard, "seconds": time.monotonic() - started, **peer}
    except TimeoutError:
        return {"error": "timed out", "seconds": time.monotonic() - started}
    except OSError as error:
        return {"error": str(error), "seconds": time.monotonic() - started}


def _read_reply(line: socket.socket, until: object, deadline: float) -> bytes:
    heard = b""
    while len(heard) < MAX_REPLY_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        piece = line.recv(65536)
        heard += piece
        if (
            not piece
            or (isinstance(until, bytes) and until in heard)
            or _is_complete_http_reply(heard)
        ):
            break
    return heard


def _is_complete_http_reply(heard: bytes) -> bool:
    """An HTTP answer that says how long it is need not be waited for any longer."""
    head, gap, body = heard.partition(b"\r\n\r\n")
    if not gap or not head.startswith(b"HTTP/"):
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return False


def _wrap_in_tls(
    line: socket.socket, request: dict[str, object]
) -> tuple[socket.socket, dict[str, object]]:
    ssl = sys.modules["ssl"]  # the warden loaded it before it went where it cannot be found
    context = ssl.create_default_context()
    authority = request.get("authority")
    if isinstance(authority, str) and authority:
        context.load_verify_locations(cadata=authority)
    wrapped = context.wrap_socket(line, server_hostname=str(request.get("name", "localhost")))
    return wrapped, {"certificate": str(wrapped.getpeercert())}


def generate_traffic(request: dict[str, object]) -> None:
    """Never returns: it is ended with the box."""
    dice = random.Random(str(request.get("seed", "0")))
    targets = request["targets"]
    pause = float(str(request.get("pause", 0.5)))
    assert isinstance(targets, list | tuple)
    while True:
        send_to_port(dice.choice(targets))
        time.sleep(dice.expovariate(1 / pause))


MAX_RESULT_BYTES = 4 << 20
"""Bytes of output or file that are brought back."""


def handle_request(
    request: dict[str, object], hosts: "Sequence[RequestedHost]", answer: int
) -> None:
    os.set_inheritable(answer, False)
    host = hosts[int(str(request.get("host", 0)))]
    deed = REQUEST_HANDLERS[str(request["do"])]
    try:
        said: dict[str, object] = deed(request, host)
    except Exception as error:  # noqa: BLE001 - an answer in any case: Hermes waits for it
        said = {"error": str(error) or type(error).__name__}
    with open(answer, "wb") as file:
        file.write(marshal.dumps(said))


class RequestedHost(Protocol):
    """What a deed needs to know of a host."""

    @property
    def pid(self) -> int: ...
    @property
    def supervisor_socket(self) -> _socket.socket: ...


def _run_script(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """A shell script inside, as user 0 or another, with a time-out for all that it starts."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _exec_in_host(request, host, write)
    os.close(write)
    deadline = time.monotonic() + float(str(request.get("timeout", 30.0)))
    output, timed_out = _read_output(read, child, deadline)
    if timed_out:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = 124 if timed_out else os.waitstatus_to_exitcode(status)
    return {"code": code, "output": output, "timed_out": timed_out}


def _read_output(read: int, child: int, deadline: float) -> tuple[bytes, bool]:
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
            output = (output + piece)[-MAX_RESULT_BYTES:]
            if piece:
                continue
        return output, not select.select([ended], [], [], left)[0]


def _exec_in_host(request: dict[str, object], host: RequestedHost, output: int) -> None:
    """Never returns. A process is of its namespace only from its children on: fork once more."""
    try:
        os.setpgid(0, 0)
        enter_namespaces(host.pid)
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
        variables = {"PATH": HOST_PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
        os.execve("/bin/bash", ["bash", "-c", str(request["script"])], variables)
    finally:
        os._exit(127)


HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def enter_namespaces(pid: int) -> None:
    for name in ("net", "uts", "ipc", "pid", "mnt"):
        fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        kernel.system_call("setns", fd, 0)
        os.close(fd)


def _call_in_host(
    host: RequestedHost, function: Callable[[], dict[str, object]]
) -> dict[str, object]:
    enter_namespaces(host.pid)
    os.chdir("/")
    return function()


def _read_file(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    def look() -> dict[str, object]:
        with open(str(request["path"]), "rb") as file:  # noqa: PTH123 - see above
            return {"content": file.read(MAX_RESULT_BYTES)}

    return _call_in_host(host, look)


def _read_tree(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """A file, or all under a folder: what it is, whose, and what is in it; links as links."""
    top = str(request["path"])

    def look() -> dict[str, object]:
        paths = [top] if os.path.lexists(top) else []
        for folder, folders, files in os.walk(top):
            paths += [f"{folder}/{name}" for name in (*folders, *files)]
        return {"tree": [_describe_path(path) for path in sorted(paths)]}

    return _call_in_host(host, look)


def _describe_path(path: str) -> tuple[object, ...]:
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


def _disk_space(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    def look() -> dict[str, object]:
        found = os.statvfs(str(request["path"]))
        return {
            "free": found.f_bavail * found.f_frsize,
            "total": found.f_blocks * found.f_frsize,
            "free_inodes": found.f_favail,
        }

    return _call_in_host(host, look)


def _send_over_network(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    host_setup.enter_network_namespace(host.pid)
    return send_to_port(request)


def _call_supervisor(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """To the supervisor. One at a time: whoever holds the lock speaks."""
    messages.send_message(
        host.supervisor_socket, marshal.dumps((str(request["verb"]), str(request.get("unit", ""))))
    )
    return marshal.loads(messages.receive_message(host.supervisor_socket)[0])  # type: ignore[no-any-return]


def _start_traffic(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    host_setup.enter_network_namespace(host.pid)
    generate_traffic(request)
    return {}


REQUEST_HANDLERS: dict[str, Callable[[dict[str, object], RequestedHost], dict[str, object]]] = {
    "run": _run_script,
    "read": _read_file,
    "tree": _read_tree,
    "space": _disk_space,
    "ask": _send_over_network,
    "tell": _call_supervisor,
    "traffic": _start_traffic,
}
