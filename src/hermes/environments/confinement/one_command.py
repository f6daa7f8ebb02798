"""Runs one command confined to its verdict, from a Python that was started for it alone.

This is the launcher of machines that Hermes reaches over a line (`remote.launcher` sends it there):
no fork server can wait on them. Three processes: the one that was started waits for the exit code;
its child supervises; its grandchild becomes the command. The supervisor is an ancestor of all that
the command starts, so that it may look into them where only ancestors may (Yama).

A command whose confinement cannot be put up is not run: the report says so.
"""

import _socket
import marshal
import os
import select
import sys

from hermes.environments.confinement import kernel, landlock, privileges, seccomp, signals, wire
from hermes.environments.confinement.enforcement import SYS_ADMIN, Enforcement, has_capability
from hermes.environments.confinement.resolution import LeadsElsewhere, outside, rules_for
from hermes.environments.confinement.supervisor import Supervisor
from hermes.environments.confinement.verdict_rules import VerdictRules

NOT_RUN, KILLED = 126, 137
ELSEWHERE, FAILED = "elsewhere", "failed"
"""Kinds of lines in a report that say why the command was not run."""


class Order:
    """What Hermes sends with a command, packed by `pack`."""

    profile: "dict[str, object]"
    folder: str = "/"
    """Where the command starts."""
    temporary: str = ""
    """The folder that every command may write to."""
    protected: "tuple[str, ...]" = ()
    mark: str = ""

    def pack(self) -> str:
        return marshal.dumps(vars(self), 2).hex()

    @classmethod
    def unpack(cls, data: str) -> "Order":
        order = cls()
        vars(order).update(marshal.loads(bytes.fromhex(data)))
        return order

    def rules(self) -> VerdictRules:
        """Raises `LeadsElsewhere`."""
        profile = _Profile()
        vars(profile).update(self.profile)
        folder = os.path.expanduser(self.folder)  # noqa: PTH111 - pathlib costs 8 ms
        protected = tuple(_real_beginning(path) for path in self.protected)
        rules = rules_for(profile, folder, protected)  # type: ignore[arg-type]
        rules.trees += (os.path.realpath(self.temporary),)
        rules.files += (os.ttyname(0),) if os.isatty(0) else ()
        rules.mark = self.mark
        return rules


class _Profile:
    """A `core.actions.Profile` without the library that defines it."""


def _real_beginning(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{os.path.realpath(folder or '/').rstrip('/')}/{name}"


def main() -> None:
    """`support`, `writable ORDER PATH` or `run ORDER REPORT PROGRAM ARGUMENT...`"""
    kind, *words = sys.argv[1:]
    if kind == "support":
        sys.stdout.write(support())
    elif kind == "writable":
        order = Order.unpack(words[0])
        path = os.path.expanduser(words[1])  # noqa: PTH111
        sys.stdout.write(outside(path, order.profile["writable"]))  # type: ignore[arg-type]
    else:
        run(Order.unpack(words[0]), words[1], words[2:])


def support() -> str:
    """The version of Landlock, whether we have the rights of root, and what is missing."""
    if kernel.machine() not in kernel.COLUMNS:
        return f"0 0 the system calls of {kernel.machine()} are not known"
    abi = landlock.version()
    root = int(has_capability(SYS_ADMIN))
    if not abi:
        return "0 0 its kernel has no Landlock, or it is not switched on"
    return f"{abi} {root} {'' if seccomp.available() else 'its kernel has no system-call filter'}"


def run(order: Order, report: str, argv: "list[str]") -> None:
    """Does not return: ends with the exit code of the command."""
    try:
        rules = order.rules()
    except LeadsElsewhere as error:
        _write(report, _refusal(ELSEWHERE, str(error)))
        os._exit(NOT_RUN)
    codes, code_writer = os.pipe()
    refusals, refusal_writer = os.pipe()
    if os.fork() == 0:
        try:
            _supervise(rules, argv, code_writer, refusal_writer)
        finally:
            os._exit(0)
    os.close(code_writer)
    signals.children_as_descriptor()  # no signal ends us before the command
    code = os.read(codes, 16)
    os.set_blocking(refusals, False)
    _write(report, _available(refusals))
    os._exit(int(code) if code else KILLED)


def _supervise(rules: VerdictRules, argv: "list[str]", codes: int, report: int) -> None:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    privileges.adopt_orphans()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _become(rules, argv, theirs)
        finally:
            os._exit(NOT_RUN)
    theirs.close()
    ended = signals.children_as_descriptor()
    privileges.hide()
    answer, files = wire.receive(ours)
    if not files:
        os.write(report, _refusal(FAILED, answer.decode("utf-8", "replace")))
        os.write(codes, str(NOT_RUN).encode())
        return
    os.setsid()
    _keep_open(codes, report, ended, *files)
    os.set_blocking(report, False)

    supervisor = _CommandSupervisor(files[0], rules, report)
    supervisor.watch(child, ended, codes)
    supervisor.serve()
    if supervisor.runs:  # a process leaves the filter a moment before its end can be seen
        supervisor.report_end(os.waitpid(child, 0)[1])


class _CommandSupervisor(Supervisor):
    """Also reports how the command ended, and reaps all that it left behind."""

    def watch(self, child: int, ended: int, codes: int) -> None:
        """`ended` is readable when a child has ended; the exit code goes to `codes`."""
        self._child, self._ended, self._codes, self.runs = child, ended, codes, True
        self._poll.register(ended, select.POLLIN)

    def woken(self, fd: int) -> None:
        if fd != self._ended:
            return super().woken(fd)
        signals.forget(fd)
        found = signals.reap()
        if self._child in found:
            self.report_end(found[self._child])
        return None

    def report_end(self, status: int) -> None:
        self.runs = False
        os.write(self._codes, str(_code(status)).encode())


def _code(status: int) -> int:
    """As a shell tells it."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _become(rules: VerdictRules, argv: "list[str]", supervisor: _socket.socket) -> None:
    signals.as_for_a_new_program()
    try:
        listener = Enforcement().enforce(rules)
        wire.send(supervisor, b"+", (listener,))
    except OSError as error:
        wire.send(supervisor, f"not run: the command could not be confined ({error})".encode())
        return
    os.execv(argv[0], argv)


def _keep_open(*kept: int) -> None:
    """Hold nothing else that belongs to the command, above all not its output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
        if fd < 3:
            os.dup2(nothing, fd)
        elif fd not in kept:
            try:
                os.close(fd)
            except OSError:
                continue  # it was that of the listing


def _refusal(kind: str, reason: str) -> bytes:
    """A line of the report. The output says it as well: it is all that a background process has."""
    os.write(2, f"[{reason}]\n".encode("utf-8", "replace"))
    return "\0".join((kind, reason.replace("\n", " "), "", "")).encode("utf-8", "replace") + b"\n"


def _available(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except BlockingIOError:
        return b""


def _write(path: str, data: bytes) -> None:
    if data:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, data)
        os.close(fd)
