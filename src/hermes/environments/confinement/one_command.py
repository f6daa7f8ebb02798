"""Runs one command confined to its verdict, on a host that Hermes reaches remotely.

`remote.session` installs this program there, and starts a Python for each command: no fork server
runs on other hosts. The started process waits for the exit code, its child supervises, and its
grandchild becomes the command. The supervisor is an ancestor of all that the command starts: Yama
lets only ancestors inspect a process.

A command that cannot be confined is not run, and the report says so.
"""

import _socket
import marshal
import os
import select
import sys

from hermes.environments.confinement import kernel, landlock, messages, process_control, seccomp
from hermes.environments.confinement.command_supervisor import CommandSupervisor
from hermes.environments.confinement.enforcement import (
    CAP_SYS_ADMIN,
    VerdictEnforcer,
    has_capability,
)
from hermes.environments.confinement.messages import VerdictRules
from hermes.environments.confinement.replacement import replace_file
from hermes.environments.confinement.verdict_paths import (
    PathTargetChanged,
    find_connecting_files,
    outside_reason,
    resolve_rules,
)

EXIT_NOT_RUN, EXIT_KILLED = 126, 137
REPORT_PATH_CHANGED, REPORT_FAILED = "elsewhere", "failed"
"""Kinds of lines in a report that say why the command was not run."""


class ConfinedCommandOrder:
    """What Hermes sends with a command, packed by `pack`."""

    profile: "dict[str, object]"
    folder: str = "/"
    """The working folder of the command."""
    temporary: str = ""
    """The folder that every command may write to."""
    protected: "tuple[str, ...]" = ()
    mark: str = ""

    def pack(self) -> str:
        return marshal.dumps(vars(self), 2).hex()

    @classmethod
    def unpack(cls, data: str) -> "ConfinedCommandOrder":
        order = cls()
        vars(order).update(marshal.loads(bytes.fromhex(data)))
        return order

    def rules(self) -> VerdictRules:
        """Raises `PathTargetChanged`."""
        profile = _PlainProfile()
        vars(profile).update(self.profile)
        folder = os.path.expanduser(self.folder)  # noqa: PTH111 - pathlib costs 8 ms
        protected = tuple(_real_prefix(path) for path in self.protected)
        rules = resolve_rules(profile, folder, protected)  # type: ignore[arg-type]
        rules.trees += (os.path.realpath(self.temporary),)
        rules.files += (os.ttyname(0),) if os.isatty(0) else ()
        rules.mark = self.mark
        rules.connecting = find_connecting_files(
            self.profile["connecting"],  # type: ignore[arg-type]
            os.get_exec_path(),
        )
        return rules


class _PlainProfile:
    """A `core.actions.ConfinementProfile` without msgspec."""


def _real_prefix(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{os.path.realpath(folder or '/').rstrip('/')}/{name}"


def main() -> None:
    """`support`, `replace ORDER PATH SIZE` or `run ORDER REPORT PROGRAM ARGUMENT...`"""
    kind, *words = sys.argv[1:]
    if kind == "support":
        sys.stdout.write(describe_support())
    elif kind == "replace":
        sys.stdout.write(replace(ConfinedCommandOrder.unpack(words[0]), words[1], int(words[2])))
    else:
        run_confined(ConfinedCommandOrder.unpack(words[0]), words[1], words[2:])


def describe_support() -> str:
    """The version of Landlock, whether we have the rights of root (2: but hide no files), and what
    is missing."""
    if kernel.machine() not in kernel.SYSCALL_COLUMNS:
        return f"0 0 the system calls of {kernel.machine()} are not known"
    abi = landlock.landlock_version()
    root = int(has_capability(CAP_SYS_ADMIN))
    if root and _is_hiding_forbidden():
        root = 2
    if not abi:
        return "0 0 its kernel has no Landlock, or it is not switched on"
    return (
        f"{abi} {root} {'' if seccomp.is_available() else 'its kernel has no system-call filter'}"
    )


def _is_hiding_forbidden() -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(VerdictEnforcer().why_visible() != "")
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] != 0


def replace(order: ConfinedCommandOrder, path: str, size: int) -> str:
    """Write the input to a file that the profile names; or why not, in words.

    The path is looked up once and judged, and then followed without symlinks: a folder that becomes
    a link after the check refuses the write.
    """
    path = os.path.expanduser(path)  # noqa: PTH111 - pathlib costs 8 ms
    writable: tuple[str, ...] = order.profile["writable"]  # type: ignore[assignment]
    try:
        real = os.path.realpath(path)
        if reason := outside_reason(path, writable) or outside_reason(real, writable):
            return reason
        if path.endswith("/"):
            return "that names a folder"
        data = sys.stdin.buffer.read()
        if len(data) != size:  # a broken connection looks like the end of the data
            return "not all of it arrived"
        replace_file(real, data)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def run_confined(order: ConfinedCommandOrder, report: str, argv: "list[str]") -> None:
    """Does not return: exits with the exit code of the command."""
    try:
        rules = order.rules()
    except PathTargetChanged as error:
        _write_report(report, _report_line(REPORT_PATH_CHANGED, str(error)))
        os._exit(EXIT_NOT_RUN)
    code, refusals = run_supervised(rules, argv)
    _write_report(report, refusals)
    os._exit(code)


def run_supervised(
    rules: VerdictRules, argv: "list[str]", *, timeout_s: int = 0
) -> "tuple[int, bytes]":
    """The exit code, and the report of what was refused. The program is ended after `timeout_s`,
    if that is not 0."""
    codes, code_writer = os.pipe()
    refusals, refusal_writer = os.pipe()
    if os.fork() == 0:
        try:
            _supervise(rules, argv, code_writer, refusal_writer, timeout_s)
        finally:
            os._exit(0)
    os.close(code_writer)
    process_control.open_child_descriptor()  # from here on no signal ends this process
    code = os.read(codes, 16)
    os.set_blocking(refusals, False)
    return int(code) if code else EXIT_KILLED, _read_available(refusals)


def _supervise(
    rules: VerdictRules, argv: "list[str]", codes: int, report: int, timeout_s: int
) -> None:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    process_control.adopt_orphans()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _exec_command(rules, argv, theirs, timeout_s)
        finally:
            os._exit(EXIT_NOT_RUN)
    theirs.close()
    ended = process_control.open_child_descriptor()
    process_control.make_undumpable()
    answer, files = messages.receive_message(ours)
    if not files:
        os.write(report, _report_line(REPORT_FAILED, answer.decode("utf-8", "replace")))
        os.write(codes, str(EXIT_NOT_RUN).encode())
        return
    os.setsid()
    _close_other_files(codes, report, ended, *files)
    os.set_blocking(report, False)

    supervisor = _ReportingSupervisor(files[0], rules, report, leader=child)
    supervisor.watch(child, ended, codes)
    supervisor.serve()
    if supervisor.runs:  # it leaves the filter a moment before it can be reaped
        supervisor.report_end(os.waitpid(child, 0)[1])


class _ReportingSupervisor(CommandSupervisor):
    """Also reports how the command ended, and reaps the processes that it left."""

    def watch(self, child: int, ended: int, codes: int) -> None:
        """`ended` is readable when a child has ended; the exit code goes to `codes`."""
        self._child, self._ended, self._codes, self.runs = child, ended, codes, True
        self._poll.register(ended, select.POLLIN)

    def handle_ready(self, fd: int) -> None:
        if fd != self._ended:
            return super().handle_ready(fd)
        process_control.drain_signals(fd)
        found = process_control.reap_children()
        if self._child in found:
            self.report_end(found[self._child])
        return None

    def report_end(self, status: int) -> None:
        self.runs = False
        os.write(self._codes, str(_exit_code(status)).encode())


def _exit_code(status: int) -> int:
    """As a shell reports it."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _exec_command(
    rules: VerdictRules, argv: "list[str]", supervisor: _socket.socket, timeout_s: int
) -> None:
    process_control.reset_signals()
    kernel.libc().alarm(timeout_s)  # an exec keeps it
    try:
        listener = VerdictEnforcer().enforce(rules)
        messages.send_message(supervisor, b"+", (listener,))
    except OSError as error:
        messages.send_message(
            supervisor, f"not run: the command could not be confined ({error})".encode()
        )
        return
    os.execv(argv[0], argv)


def _close_other_files(*kept: int) -> None:
    """Keep no files of the command open, in particular its output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
        if fd < 3:
            os.dup2(nothing, fd)
        elif fd not in kept:
            try:
                os.close(fd)
            except OSError:
                continue  # it was the descriptor of the listing


def _report_line(kind: str, reason: str) -> bytes:
    """A line of the report; also printed, because a background process has only its output."""
    os.write(2, f"[{reason}]\n".encode("utf-8", "replace"))
    return "\0".join((kind, reason.replace("\n", " "), "", "")).encode("utf-8", "replace") + b"\n"


def _read_available(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except BlockingIOError:
        return b""


def _write_report(path: str, data: bytes) -> None:
    if data:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, data)
        os.close(fd)
