"""Processes of one script that start in milliseconds: forks of an interpreter that has loaded it.

A test that kills a process fifty times would otherwise load the same modules fifty times. The
script has a function `main`, which takes the arguments of a process as strings.
"""

import json
import os
import runpy
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_MESSAGE_BYTES = 65536


class WarmProcess:
    """One run of the script. It is a child of the interpreter, which waits for it."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection

    def wait(self, timeout_s: float = 120.0) -> int:
        """The exit code; the negative number of the signal for a process that was killed."""
        self._connection.settimeout(timeout_s)
        self._connection.send(json.dumps(self.pid).encode())
        return int(self._connection.recv(MAX_MESSAGE_BYTES))


class WarmInterpreter:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def start(self, *arguments: str, stdin: int = 0, stdout: int = 1) -> WarmProcess:
        """`stdin` and `stdout` are descriptors, of which the process gets copies."""
        message = json.dumps(arguments).encode()
        socket.send_fds(self._connection, [message], [stdin, stdout])
        return WarmProcess(self._connection, int(self._connection.recv(MAX_MESSAGE_BYTES)))


@contextmanager
def warm_interpreter(script: Path) -> Iterator[WarmInterpreter]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        command = [sys.executable, __file__, str(script), str(there.fileno())]
        server = subprocess.Popen(command, pass_fds=[there.fileno()])
    with server, here:
        yield WarmInterpreter(here)


def serve(main: Callable[..., object], connection: socket.socket) -> None:
    """Starts a process for a list of arguments, and waits for the process of a number."""
    while True:
        message, descriptors, *_ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 2)
        if not message:
            return
        request = json.loads(message)
        if isinstance(request, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
        elif answer := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            connection.close()
            _run(main, request, descriptors)
        connection.send(str(answer).encode())


def _run(main: Callable[..., object], arguments: list[str], descriptors: list[int]) -> None:
    code = 1
    try:
        for standard, descriptor in enumerate(descriptors):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        main(*arguments)
        sys.stdout.flush()
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(sys.argv[1]).parent))
    serve(runpy.run_path(sys.argv[1])["main"], socket.socket(fileno=int(sys.argv[2])))
