"""Forks confined commands from a running process, so that none waits for Python to start.

The server is a child of Hermes with an empty environment. For each request it forks two processes
ahead of time: the command, as a child of Hermes itself, and its supervisor. The former reads the
next request from the socket of the server. A command that cannot be confined reports that and ends;
it is never run unconfined.
"""

import _socket
import fcntl
import gc
import os
import select
import struct

from hermes.environments.confinement import kernel, messages, process_control
from hermes.environments.confinement.command_supervisor import CommandSupervisor
from hermes.environments.confinement.enforcement import VerdictEnforcer
from hermes.environments.confinement.messages import LauncherRequest, VerdictRules
from hermes.environments.confinement.read_check import prepare_patterns, rehearse_checks

FIRST_COMMAND_FILE = 2
MIN_COPY_DESCRIPTOR = 200
SPARE_DELAY_S = 0.03
CLONE_PARENT = 0x8000
SIGCHLD = 17
_ENDED = b"ended"
"""What a spare process tells the server when Hermes needs no more commands."""


def main() -> None:
    os.set_inheritable(messages.LAUNCHER_DESCRIPTOR, False)
    os.chdir("/")
    kernel.system_call("close_range", messages.LAUNCHER_DESCRIPTOR + 1, 0xFFFFFFFF, 0)
    process_control.make_undumpable()
    kernel.libc().signal(SIGCHLD, 1)  # ignored: the kernel reaps the supervisors
    gc.disable()  # a collection would copy the memory that forks share
    try:
        _ForkServer(_socket.socket(fileno=messages.LAUNCHER_DESCRIPTOR)).serve()
    finally:
        os._exit(0)


class _ForkServer:
    def __init__(self, link: _socket.socket) -> None:
        self._link, self._enforcement = link, VerdictEnforcer()
        self._hermes = _open_peer_process(link)
        self._enforcement.prepare_stand_ins()

    def serve(self) -> None:
        """Runs until the socket is closed. One process is always forked ahead and waits for the
        next request: the fork and the first steps after it take longer than all the rest."""
        self._answer_check()
        while True:
            taken = _SpareProcess(self._enforcement, self._link, self._hermes).wait_until_taken()
            if taken == _ENDED:
                return
            if taken:
                rules = VerdictRules.unpack(taken)
                self._enforcement.prepare(rules)
                if rules.refused_reads:
                    prepare_patterns(rules.refused_reads)
            # The next fork waits a moment: the command that just started needs the CPU.
            select.select([self._link.fileno()], [], [], SPARE_DELAY_S)

    def _answer_check(self) -> None:
        """Answers the first request if it only asks what is possible here: Hermes asks once."""
        data = self._link.recv(messages.MAX_MESSAGE_BYTES, _socket.MSG_PEEK)
        if not data or LauncherRequest.unpack(data).kind != "check":
            return
        _, files = messages.receive_message(self._link)
        answer = "\0".join(check_confinement(self._enforcement))
        _send_answer(files[0], messages.ANSWER_OK + answer.encode())
        for fd in files:
            os.close(fd)


def _open_peer_process(link: _socket.socket) -> int:
    """A descriptor of Hermes that is readable when it has ended; -1 where that is forbidden."""
    credentials = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    try:
        return kernel.system_call("pidfd_open", struct.unpack_from("=i", credentials)[0], 0)
    except ProcessLookupError:
        raise
    except OSError:
        return -1


def _send_answer(fd: int, answer: bytes) -> bool:
    """Return False when Hermes no longer waits for it."""
    link = _socket.socket(fileno=os.dup(fd))
    try:
        messages.send_message(link, answer)
    except OSError:
        return False
    finally:
        link.close()
    return True


class _SpareProcess:
    """A process that becomes the next command, a child of Hermes, and its supervisor."""

    def __init__(self, enforcement: VerdictEnforcer, link: _socket.socket, hermes: int) -> None:
        self._news, to_server = _socket_pair()
        to_supervisor, from_command = _socket_pair()
        # The supervisor first: if the server is killed here, no command waits without one.
        if os.fork() == 0:
            try:
                for each in (self._news, to_server, to_supervisor, link):
                    each.close()
                _supervise(from_command, hermes)
            finally:
                os._exit(0)
        from_command.close()
        if kernel.system_call("clone", CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
            try:
                self._news.close()
                _wait_for_command(link, to_server, to_supervisor, enforcement)
            finally:
                os._exit(127)
        to_server.close()
        to_supervisor.close()

    def wait_until_taken(self) -> bytes:
        """The packed rules of its command, `_ENDED`, or nothing if it failed or was killed."""
        try:
            return messages.receive_message(self._news)[0]
        finally:
            self._news.close()


def _socket_pair() -> tuple[_socket.socket, _socket.socket]:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    return ours, theirs


def _wait_for_command(
    link: _socket.socket,
    server: _socket.socket,
    supervisor: _socket.socket,
    enforcement: VerdictEnforcer,
) -> None:
    """`files`: the socket of the request, the pipe for reports, then the files of the command."""
    process_control.reset_signals()
    kernel.libc().signal(SIGCHLD, None)
    os.setsid()
    enforcement.rehearse()
    _rehearse_request()
    own = messages.ANSWER_OK + str(os.getpid()).encode()
    data, files = messages.receive_message(link)
    request = LauncherRequest.unpack(data) if data else None
    if request is None or request.kind == "end":
        _tell_server(server, _ENDED)
        if files:
            _send_answer(files[0], own)
        os._exit(0)
    try:
        _tell_server(server, request.rules)
        kernel.prctl(process_control.PR_SET_DUMPABLE, 1)
        listener = enforcement.enforce(VerdictRules.unpack(request.rules))
        leader = struct.pack("=i", os.getpid())
        messages.send_message(supervisor, leader + request.rules, (listener, files[1]))
        # Only the supervisor keeps it: once that has ended, no call waits for its answer.
        os.close(listener)
        if _send_answer(files[0], own):
            _exec_command(request, files)
    except OSError as error:
        _send_answer(files[0], own)
        _send_answer(files[0], messages.ANSWER_FAILED + str(error).encode())


def _rehearse_request() -> None:
    """Does without effect what a request needs, as `VerdictEnforcer.rehearse` does."""
    ours, theirs = _socket_pair()
    request = LauncherRequest()
    request.argv, request.rules = (b"bash",), VerdictRules().pack()
    request.variables = tuple((b"NAME%d" % each, b"value" * 99) for each in range(9))
    messages.send_message(ours, request.pack(), (ours.fileno(),))
    data, files = messages.receive_message(theirs)
    request = LauncherRequest.unpack(data)
    VerdictRules.unpack(request.rules)
    _send_answer(files[0], b"")
    for end in (ours, theirs):
        end.close()
    os.close(fcntl.fcntl(files[0], fcntl.F_DUPFD_CLOEXEC, MIN_COPY_DESCRIPTOR))
    os.close(files[0])
    try:
        os.execve("/", request.argv, dict(request.variables))  # no program
    except OSError:
        return


def _tell_server(server: _socket.socket, news: bytes) -> None:
    try:
        messages.send_message(server, news)
    except OSError:
        return  # it was killed; Hermes starts another one for the next command


def _exec_command(request: LauncherRequest, files: list[int]) -> None:
    # Copies with high numbers: otherwise a target could overwrite a source that is still needed.
    given = [
        fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, MIN_COPY_DESCRIPTOR)
        for fd in files[FIRST_COMMAND_FILE:]
    ]
    for target, fd in zip(request.targets, given, strict=True):
        os.dup2(fd, target)
    os.dup2(1, 2)
    os.execve(request.argv[0], request.argv, dict(request.variables))


def _supervise(link: _socket.socket, hermes: int) -> None:
    """Keeps nothing of the command open but the listener and the reports."""
    os.setsid()
    rehearse_checks()
    data, found = messages.receive_message(link)
    link.close()
    if not data:
        return
    listener, report = found
    os.set_blocking(report, False)
    (leader,) = struct.unpack_from("=i", data)
    supervisor = CommandSupervisor(listener, VerdictRules.unpack(data[4:]), report, leader=leader)
    if hermes >= 0:
        supervisor.watch_hermes(hermes)
    supervisor.serve()


def check_confinement(enforcement: VerdictEnforcer) -> "tuple[str, str]":
    """Return why this machine cannot confine a command, and why it cannot hide files from one.

    Each is empty when it can. A child process tries it.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    before = kernel.libc().signal(SIGCHLD, None)
    child = os.fork()
    if child == 0:
        try:
            visible = enforcement.why_visible().encode()
            messages.send_message(theirs, b"L" + visible, (enforcement.enforce(VerdictRules()),))
            os._exit(0)
        except OSError as error:
            messages.send_message(theirs, messages.ANSWER_FAILED + str(error).encode())
        finally:
            os._exit(1)
    theirs.close()
    select.select([ours.fileno()], [], [], 5)
    data, files = messages.receive_message(ours)
    ours.close()
    os.waitpid(child, 0)
    kernel.libc().signal(SIGCHLD, before)
    for fd in files:
        os.close(fd)
    answer = data[1:].decode("utf-8", "replace")
    return ("", answer) if files else (f"the kernel refused it: {answer}", "")
