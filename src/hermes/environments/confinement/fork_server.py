"""The warm process from which confined commands are forked, so that none waits for Python to start.

It is a child of Hermes with an empty environment. For each request it makes two processes: the
command, as a child of Hermes itself, and the command's supervisor. A command whose confinement
cannot be put up says so and ends; it is never run without.
"""

import _socket
import fcntl
import gc
import os
import select

from hermes.environments.confinement import kernel, privileges, signals, wire
from hermes.environments.confinement.enforcement import Enforcement
from hermes.environments.confinement.supervisor import Supervisor
from hermes.environments.confinement.verdict_rules import VerdictRules
from hermes.environments.confinement.wire import Request

LINE = 3
"""The descriptor of the line to Hermes."""
FIRST_GIVEN = 2
ABOVE = 200
SPARE_DELAY_S = 0.03
CLONE_PARENT = 0x8000
SIGCHLD = 17


def main() -> None:
    os.set_inheritable(LINE, False)
    os.chdir("/")
    kernel.call("close_range", LINE + 1, 0xFFFFFFFF, 0)
    privileges.hide()
    kernel.libc().signal(SIGCHLD, 1)  # ignored: supervisors need nobody to bury them
    gc.disable()  # its looks at every object would copy the memory that forks share
    try:
        _Server(_socket.socket(fileno=LINE)).serve()
    finally:
        os._exit(0)


class _Server:
    def __init__(self, link: _socket.socket) -> None:
        self._link, self._enforcement = link, Enforcement()
        self._spare = _Spare(self._enforcement, link)

    def serve(self) -> None:
        """Until the line is closed. One command is always forked ahead, and waits for its request:
        a fork and the first steps after it take longer than all the rest."""
        while True:
            if self._spare.used:  # not at once: the command that was just started needs the CPU
                select.select([self._link.fileno()], [], [], SPARE_DELAY_S)
                self._spare = _Spare(self._enforcement, self._link)
            data, files = wire.receive(self._link)
            if not data:
                return
            try:
                self._answer(Request.unpack(data), data, files)
            except OSError as error:  # the spare was killed: it is used, and the next is another
                _tell(files[0], wire.FAILED + str(error).encode())
            for fd in files:  # the next spare must inherit none of them
                os.close(fd)

    def _answer(self, request: Request, data: bytes, files: list[int]) -> None:
        if request.kind == "check":
            _tell(files[0], wire.OK + check(self._enforcement).encode())
        elif request.kind == "end":
            _tell(files[0], wire.OK + str(self._spare.pid).encode())
            os._exit(0)
        else:
            self._spare.use(data, files)
            _tell(files[0], wire.OK + str(self._spare.pid).encode())
            self._enforcement.prepare(VerdictRules.unpack(request.rules))


def _tell(fd: int, answer: bytes) -> None:
    link = _socket.socket(fileno=os.dup(fd))
    try:
        wire.send(link, answer)
    except OSError:
        return  # Hermes has given up on it
    finally:
        link.close()


class _Spare:
    """A process that becomes the next command, a child of Hermes, and its supervisor."""

    def __init__(self, enforcement: Enforcement, line: _socket.socket) -> None:
        self.link, theirs = _pair()
        to_supervisor, from_command = _pair()
        self.pid = kernel.call("clone", CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
        if self.pid == 0:
            try:
                for each in (self.link, line, from_command):
                    each.close()
                _wait_and_become(theirs, to_supervisor, enforcement)
            finally:
                os._exit(127)
        theirs.close()
        to_supervisor.close()
        try:
            if os.fork() == 0:
                try:
                    self.link.close()
                    line.close()
                    _supervise(from_command)
                finally:
                    os._exit(0)
        finally:
            from_command.close()
        self.used = False

    def use(self, data: bytes, files: list[int]) -> None:
        self.used = True
        wire.send(self.link, data, tuple(files))
        self.link.close()


def _pair() -> tuple[_socket.socket, _socket.socket]:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return ours, theirs


def _wait_and_become(
    link: _socket.socket, supervisor: _socket.socket, enforcement: Enforcement
) -> None:
    """`files`: the line of the request, the pipe for reports, then those of the command."""
    signals.as_for_a_new_program()
    kernel.libc().signal(SIGCHLD, None)
    kernel.prctl(privileges.DUMPABLE, 1)
    os.setsid()
    enforcement.rehearse()
    data, files = wire.receive(link)
    if not data:
        os._exit(0)
    try:
        request = Request.unpack(data)
        listener = enforcement.enforce(VerdictRules.unpack(request.rules))
        wire.send(supervisor, request.rules, (listener, files[1]))
        _become(request, files)
    except OSError as error:
        _tell(files[0], wire.FAILED + str(error).encode())


def _become(request: Request, files: list[int]) -> None:
    # Copies far above the targets: else one could be overwritten before its turn comes.
    given = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE) for fd in files[FIRST_GIVEN:]]
    for target, fd in zip(request.targets, given, strict=True):
        os.dup2(fd, target)
    os.dup2(1, 2)
    os.execve(request.argv[0], request.argv, dict(request.variables))


def _supervise(link: _socket.socket) -> None:
    """Not part of the command: it holds nothing of it open but the listener and the reports."""
    os.setsid()
    data, found = wire.receive(link)
    link.close()
    if not data:
        return
    listener, report = found
    os.set_blocking(report, False)
    Supervisor(listener, VerdictRules.unpack(data), report).serve()


def check(enforcement: Enforcement) -> str:
    """Why this machine cannot confine a command; empty when it can. A child of ours tries."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    kernel.libc().signal(SIGCHLD, None)
    child = os.fork()
    if child == 0:
        try:
            wire.send(theirs, b"L", (enforcement.enforce(VerdictRules()),))
            os._exit(0)
        except OSError as error:
            wire.send(theirs, wire.FAILED + str(error).encode())
        finally:
            os._exit(1)
    theirs.close()
    select.select([ours.fileno()], [], [], 5)
    data, files = wire.receive(ours)
    os.waitpid(child, 0)
    kernel.libc().signal(SIGCHLD, 1)
    for fd in files:
        os.close(fd)
    return "" if files else f"the kernel refused it: {data[1:].decode('utf-8', 'replace')}"
