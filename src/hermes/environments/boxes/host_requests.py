"""Carries out requests in a host: commands, files, disk space, network, supervisor, traffic.

Each request runs in a child process of box init. Imports only the standard library.
"""

import _socket
import fcntl
import marshal
import os
import random
import select
import signal
import socket
import stat
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hermes.environments.boxes.backend import HostPlan
from hermes.environments.boxes.copied_hosts import CopiedLayers
from hermes.environments.boxes.host_setup import IP_COMMAND_PATH, enter_namespaces
from hermes.environments.boxes.machine_root import give_up_rights
from hermes.environments.boxes.oracle_view import (
    added_mounts,
    enter_oracle_view,
    list_mounts,
    remove_mounts,
)
from hermes.environments.boxes.unit_files import HOST_PATH
from hermes.environments.confinement import kernel, messages
from hermes.environments.confinement.copied_files import changed_paths

MAX_REPLY_BYTES = 1 << 20


def send_to_port(request: dict[str, object]) -> dict[str, object]:
    """Sends `send` to `address`:`port` and reads the reply until it ends, or contains `until`."""
    started = time.monotonic()
    timeout = float(str(request.get("timeout", 2.0)))
    address = (str(request.get("address", "127.0.0.1")), int(str(request["port"])))
    try:
        # An address, not a name: to look up a name, modules would be needed that a host lacks.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(address)
            peer: dict[str, object] = {}
            if request.get("tls"):
                connection, peer = _wrap_in_tls(connection, request)
            payload = request.get("send", b"")
            reply = b""
            if isinstance(payload, bytes) and payload:
                connection.sendall(payload)
                reply = _read_reply(connection, request.get("until"), started + timeout)
            return {"heard": reply, "seconds": time.monotonic() - started, **peer}
    except TimeoutError:
        return {"error": "timed out", "seconds": time.monotonic() - started}
    except OSError as error:
        return {"error": str(error), "seconds": time.monotonic() - started}


def _read_reply(connection: socket.socket, until: object, deadline: float) -> bytes:
    reply = b""
    while len(reply) < MAX_REPLY_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(65536)
        reply += piece
        found = isinstance(until, bytes) and until in reply
        if not piece or found or _is_complete_http_reply(reply):
            break
    return reply


def _is_complete_http_reply(reply: bytes) -> bool:
    """By its content length: the server may keep the connection open."""
    head, separator, body = reply.partition(b"\r\n\r\n")
    if not separator or not head.startswith(b"HTTP/"):
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return False


def _wrap_in_tls(
    connection: socket.socket, request: dict[str, object]
) -> tuple[socket.socket, dict[str, object]]:
    ssl = sys.modules["ssl"]  # loaded by box init: a host cannot import it
    context = ssl.create_default_context()
    authority = request.get("authority")
    if isinstance(authority, str) and authority:
        context.load_verify_locations(cadata=authority)
    wrapped = context.wrap_socket(connection, server_hostname=str(request.get("name", "localhost")))
    return wrapped, {"certificate": str(wrapped.getpeercert())}


def generate_traffic(request: dict[str, object]) -> None:
    """Never returns: the process ends with the box."""
    rng = random.Random(str(request.get("seed", "0")))
    targets = request["targets"]
    pause = float(str(request.get("pause", 0.5)))
    assert isinstance(targets, list | tuple)
    while True:
        send_to_port(rng.choice(targets))
        time.sleep(rng.expovariate(1 / pause))


REQUEST_IN_FILE = b"file"
MAX_INLINE_REQUEST_BYTES = 1 << 16
"""A longer request comes as an open file: the kernel limits the size of a message."""


def send_request(
    link: _socket.socket, request: dict[str, object], reply_fd: int, terminal: int = -1
) -> None:
    """`terminal` is the descriptor of a terminal for an interactive program."""
    data = marshal.dumps(request)
    if len(data) <= MAX_INLINE_REQUEST_BYTES:
        messages.send_message(link, data, (reply_fd, *([terminal] if terminal >= 0 else [])))
        return
    fd = os.memfd_create("request")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        messages.send_message(link, REQUEST_IN_FILE, (reply_fd, fd))
    finally:
        os.close(fd)


def read_request(data: bytes, files: list[int]) -> dict[str, object]:
    """The other side of `send_request`."""
    if data == REQUEST_IN_FILE:
        with open(files[1], "rb", closefd=False) as file:
            data = file.read()
    request: dict[str, object] = marshal.loads(data)
    return request


MAX_PARALLEL_CLIENTS = 64


def send_load(request: dict[str, object]) -> dict[str, object]:
    """Sends `requests` requests from `parallel` processes; counts those that got a reply."""
    left = int(str(request["requests"]))
    clients = max(1, min(int(str(request["parallel"])), left, MAX_PARALLEL_CLIENTS))
    read, write = os.pipe()
    pids = []
    for number in range(clients):
        share = left // clients + (number < left % clients)
        pid = os.fork()
        if pid == 0:
            try:
                answered = sum("error" not in send_to_port(request) for _ in range(share))
                os.write(write, b"%d\n" % answered)
            finally:
                os._exit(0)
        pids.append(pid)
    os.close(write)
    for pid in pids:
        os.waitpid(pid, 0)
    with open(read, "rb") as file:  # noqa: PTH123 - see above
        answered = sum(int(line) for line in file.read().split())
    return {"sent": left, "answered": answered}


HOST_NAMESPACES = ("net", "uts", "ipc", "pid")
ORACLE_FOLDER = "/usr/local/sbin"
"""Where the oracle's scripts start: Python looks for modules there first, and curl for settings."""
ORACLE_VARIABLES = {"PYTHONNOUSERSITE": "1", "CURL_HOME": ORACLE_FOLDER, "PSQLRC": "/dev/null"}
"""Files below /root must not change what a program of the oracle does."""
MAX_SCRIPT_ARGUMENT_BYTES = 100_000
NFT_TIMEOUT_S = 5.0
MAX_RESULT_BYTES = 4 << 20
"""Of the output of a command, or of a file."""


def handle_request(
    request: dict[str, object], hosts: "Sequence[RequestedHost]", files: list[int]
) -> None:
    reply_fd = files[0]
    if request["do"] == "terminal":
        request["terminal"] = files[1]
    os.set_inheritable(reply_fd, False)
    host = hosts[int(str(request.get("host", 0)))]
    handler = REQUEST_HANDLERS[str(request["do"])]
    try:
        reply: dict[str, object] = handler(request, host)
    except Exception as error:  # noqa: BLE001 - Hermes waits for a reply in any case
        reply = {"error": str(error) or type(error).__name__}
    with open(reply_fd, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(marshal.dumps(reply))


class RequestedHost(Protocol):
    """What a handler uses of a host."""

    @property
    def pid(self) -> int: ...
    @property
    def plan(self) -> HostPlan: ...
    @property
    def supervisor_socket(self) -> _socket.socket: ...
    @property
    def layers(self) -> CopiedLayers: ...
    @property
    def namespaces(self) -> dict[str, int]: ...
    @property
    def oracle_view(self) -> int: ...


def _run_script(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """Runs a bash script as root or another user. A timeout kills all that it started."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _exec_in_host(request, host, write)
    os.close(write)
    return _wait_for_output(read, child, float(str(request.get("timeout", 30.0))))


def _wait_for_output(read: int, child: int, timeout_s: float) -> dict[str, object]:
    output, timed_out = _read_output(read, child, time.monotonic() + timeout_s)
    if timed_out:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = 124 if timed_out else os.waitstatus_to_exitcode(status)
    return {"code": code, "output": output, "timed_out": timed_out}


def _read_output(read: int, child: int, deadline: float) -> tuple[bytes, bool]:
    """Until the script itself ends: its background processes may keep the pipe open."""
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


def _run_in_terminal(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """Runs an interactive program until it ends."""
    terminal = int(str(request["terminal"]))
    child = os.fork()
    if child == 0:
        _exec_in_host(request, host, terminal)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status)}


def _exec_in_host(request: dict[str, object], host: RequestedHost, output: int) -> None:
    """Never returns. Only a child of this process is in the new pid namespace: forks again."""
    trusted = bool(request.get("trusted"))
    try:
        os.setpgid(0, 0)
        _enter_host(host, oracle=trusted)
        inner = os.fork()
        if inner:
            _, status = os.waitpid(inner, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 255)
        if request["do"] == "terminal":
            os.setsid()
            fcntl.ioctl(output, termios.TIOCSCTTY, 0)
            given = output
        else:
            given = _open_input(request.get("stdin"))
        for fd, target in ((given, 0), (output, 1), (output, 2)):
            os.dup2(fd, target)
        folder = str(request.get("cwd", "/root"))
        os.chdir(ORACLE_FOLDER if trusted else _existing_folder(folder))
        uid = int(str(request.get("uid", 0)))
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        variables = {"PATH": HOST_PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
        variables |= dict(host.plan.variables)
        if request["do"] == "terminal":
            variables["TERM"] = str(request.get("term", "xterm"))
        if host.namespaces:
            give_up_rights(host.plan)
        variables |= ORACLE_VARIABLES if trusted else {}
        os.execve("/bin/bash", ["bash", *_script_words(str(request["script"]))], variables)
    finally:
        os._exit(127)


def _existing_folder(path: str) -> str:
    return path if os.access(path, os.X_OK) else "/"


def _open_input(content: object) -> int:
    if not isinstance(content, bytes) or not content:
        return os.open("/dev/null", os.O_RDONLY)
    fd = os.memfd_create("input")
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _script_words(script: str) -> list[str]:
    """One argument of a program is limited to 128 KiB: a longer script is a file."""
    text = script.encode("utf-8", "surrogateescape")
    if len(text) < MAX_SCRIPT_ARGUMENT_BYTES:
        return ["-c", script]
    fd = os.memfd_create("script", 0)
    with open(fd, "wb", closefd=False) as file:
        file.write(text)
    return [f"/proc/self/fd/{fd}"]


def _call_in_host(
    host: RequestedHost, function: Callable[[], dict[str, object]]
) -> dict[str, object]:
    _enter_host(host, oracle=True)
    os.chdir("/")
    return function()


def _enter_host(host: RequestedHost, *, oracle: bool) -> None:
    """`oracle`: with the mounts that the host was built with, not with those of its processes."""
    oracle = oracle and host.oracle_view >= 0
    names = HOST_NAMESPACES if oracle else (*HOST_NAMESPACES, "mnt")
    if not host.namespaces:
        enter_namespaces(host.pid, *names)
    for name in names if host.namespaces else ():
        kernel.system_call("setns", host.namespaces[name], 0)
    if oracle:
        enter_oracle_view(host.oracle_view)


def _read_file(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    def read() -> dict[str, object]:
        with open(str(request["path"]), "rb") as file:  # noqa: PTH123 - see above
            return {"content": file.read(MAX_RESULT_BYTES)}

    return _call_in_host(host, read)


def _read_tree(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """A file, or everything below a folder, with mode, owner and content; links unfollowed."""
    top = str(request["path"])

    def read() -> dict[str, object]:
        paths = [top] if os.path.lexists(top) else []
        for folder, folders, files in os.walk(top):
            paths += [f"{folder}/{name}" for name in (*folders, *files)]
        return {"tree": [_describe_path(path) for path in sorted(paths)]}

    return _call_in_host(host, read)


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
    except OSError as error:  # removed meanwhile, or not readable: part of the state too
        return path.encode("utf-8", "surrogateescape"), -1, 0, str(error.strerror).encode()
    return path.encode("utf-8", "surrogateescape"), found.st_mode, found.st_uid, content


def _disk_space(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    def read() -> dict[str, object]:
        found = os.statvfs(str(request["path"]))
        return {
            "free": found.f_bavail * found.f_frsize,
            "total": found.f_blocks * found.f_frsize,
            "free_inodes": found.f_favail,
            "total_inodes": found.f_files,
        }

    return _call_in_host(host, read)


def _list_mounts(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    return {"mounts": list_mounts(host.pid)}


def _remove_mounts(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """Unmounts what processes of the host mounted, except `known`."""
    known = request["known"]
    assert isinstance(known, list | tuple)
    added = added_mounts(known, list_mounts(host.pid))
    enter_namespaces(host.pid, "mnt")
    remove_mounts(added)
    return {"removed": added}


def _send_over_network(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    _enter_network(host)
    return send_to_port(request)


def _enter_network(host: RequestedHost) -> None:
    if host.namespaces:
        kernel.system_call("setns", host.namespaces["net"], 0)
    else:
        enter_namespaces(host.pid, "net")


def _send_load(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    _enter_network(host)
    return send_load(request)


def _call_supervisor(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """The caller sends one request at a time: see `Box.call_supervisor`."""
    messages.send_message(
        host.supervisor_socket, marshal.dumps((str(request["verb"]), str(request.get("unit", ""))))
    )
    return marshal.loads(messages.receive_message(host.supervisor_socket)[0])  # type: ignore[no-any-return]


def _run_nft(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    """The nft of this machine, in the network of the host: its processes may not configure it."""
    _enter_network(host)
    words = request["words"]
    assert isinstance(words, list | tuple)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            for fd, target in ((_open_input(request.get("stdin")), 0), (write, 1), (write, 2)):
                os.dup2(fd, target)
            os.execvpe("nft", ["nft", *map(str, words)], {"PATH": IP_COMMAND_PATH})
        finally:
            os._exit(127)
    os.close(write)
    return _wait_for_output(read, child, NFT_TIMEOUT_S)


def _start_traffic(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    _enter_network(host)
    generate_traffic(request)
    return {}


def _list_changes(request: dict[str, object], host: RequestedHost) -> dict[str, object]:
    return {"paths": changed_paths(host.layers.folders), "left_out": host.layers.left_out}


REQUEST_HANDLERS: dict[str, Callable[[dict[str, object], RequestedHost], dict[str, object]]] = {
    "run": _run_script,
    "read": _read_file,
    "tree": _read_tree,
    "space": _disk_space,
    "mounts": _list_mounts,
    "unmount": _remove_mounts,
    "ask": _send_over_network,
    "load": _send_load,
    "tell": _call_supervisor,
    "traffic": _start_traffic,
    "changes": _list_changes,
    "terminal": _run_in_terminal,
    "nft": _run_nft,
}
