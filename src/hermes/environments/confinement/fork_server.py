"""The warm process from which confined commands are forked, so that none waits for Python to start.

It is a child of Hermes with an empty environment. For each request it makes two processes: the
command, as a child of Hermes itself, and the command's supervisor. A command whose confinement
cannot be put up says so and ends; it is never run without.
"""

import _socket
import fcntl
import os
import select

from hermes.environments.confinement import kernel, landlock, privileges, signals, wire
from hermes.environments.confinement.enforcement import enforce
from hermes.environments.confinement.supervisor import Supervisor
from hermes.environments.confinement.verdict_rules import VerdictRules
from hermes.environments.confinement.wire import Request

LINE = 3
"""The descriptor of the line to Hermes."""
STATE_IN, STATE_OUT = 186, 187
"""Descriptors through which a shell takes over its session's state and gives it back."""
FIRST_GIVEN = 2
ABOVE = 200
CLONE_PARENT = 0x8000
SIGCHLD = 17


def main() -> None:
    os.set_inheritable(LINE, False)
    os.chdir("/")
    kernel.call("close_range", LINE + 1, 0xFFFFFFFF, 0)
    privileges.hide()
    kernel.libc().signal(SIGCHLD, 1)  # ignored: supervisors need nobody to bury them
    link = _socket.socket(fileno=LINE)
    while True:
        data, files = wire.receive(link)
        if not data:
            os._exit(0)
        try:
            _start(Request.unpack(data), files)
        except OSError as error:
            _tell(files[0], wire.FAILED + str(error).encode())
        for fd in files:
            os.close(fd)


def _tell(fd: int, answer: bytes) -> None:
    link = _socket.socket(fileno=os.dup(fd))
    try:
        wire.send(link, answer)
    except OSError:
        return  # Hermes has given up on it
    finally:
        link.close()


def _start(request: Request, files: list[int]) -> None:
    """`files`: the line of this request, the pipe for reports, then those of the command."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    supervisor = os.fork()
    if supervisor == 0:
        try:
            ours.close()
            _supervise(theirs, request, files)
        finally:
            os._exit(0)
    theirs.close()
    try:
        child = kernel.call("clone", CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            try:
                _become(request, files, ours)
            except OSError as error:
                _tell(files[0], wire.FAILED + str(error).encode())
            finally:
                os._exit(127)
    finally:
        ours.close()
    _tell(files[0], wire.OK + str(child).encode())


def _become(request: Request, files: list[int], listener_to: _socket.socket) -> None:
    signals.as_for_a_new_program()
    kernel.libc().signal(SIGCHLD, None)
    kernel.prctl(privileges.DUMPABLE, 1)
    os.setsid()
    listener = enforce(VerdictRules.unpack(request.rules))
    wire.send(listener_to, b"L", (listener,))
    os.close(listener)
    # Copies far above the targets: else one could be overwritten before its turn comes.
    given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE) for fd in files[FIRST_GIVEN:]]
    for target, fd in zip(request.targets, given, strict=True):
        os.dup2(fd, target)
    os.dup2(1, 2)
    os.execve(request.argv[0], request.argv, dict(request.variables))


def _supervise(link: _socket.socket, request: Request, files: list[int]) -> None:
    """Not part of the command: it holds nothing of it open but the listener and the reports."""
    os.setsid()
    report = fcntl.fcntl(files[1], fcntl.F_DUPFD_CLOEXEC, ABOVE)
    for fd in (LINE, *files):
        os.close(fd)
    found = wire.receive(link)[1]
    link.close()
    if not found:
        return
    (listener,) = found
    os.set_blocking(report, False)
    Supervisor(listener, VerdictRules.unpack(request.rules), report).serve()


def check() -> str:
    """Why this machine cannot confine a command; empty when it can. Run it in a process of its own.

    It puts up the confinement of a reading command and asks a supervisor about one call.
    """
    if not landlock.version():
        return "the kernel has no Landlock, or it is not switched on (lsm=landlock)"
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            listener = enforce(VerdictRules())
            wire.send(theirs, b"L", (listener,))
            os._exit(0)
        except OSError as error:
            wire.send(theirs, wire.FAILED + str(error).encode())
        finally:
            os._exit(1)
    theirs.close()
    select.select([ours.fileno()], [], [], 5)
    data, files = wire.receive(ours)
    os.waitpid(child, 0)
    for fd in files:
        os.close(fd)
    return "" if files else f"the kernel refused it: {data[1:].decode('utf-8', 'replace')}"
