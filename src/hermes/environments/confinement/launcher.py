"""Runs in a sandbox: starts and supervises its commands, and opens files for Hermes.

Each command gets a supervising process, forked by the launcher, that reports how it ended and ends
all that it started. Files are opened with the rights of the commands.
"""

import _socket
import os
import select
import stat
import time

from hermes.environments.confinement import kernel, limits, messages, process_control
from hermes.environments.confinement.isolation import (
    FIRST_CGROUP_DESCRIPTOR,
    apply_isolation,
    apply_landlock,
    count_outside_processes,
)
from hermes.environments.confinement.limits import FileQuota, allow_only_removal
from hermes.environments.confinement.messages import (
    LAUNCHER_DESCRIPTOR,
    LauncherRequest,
    SandboxPlan,
)

ENOSPC = 28


def serve_file(
    request: LauncherRequest, plan: SandboxPlan, files: list[int], *, full: bool
) -> None:
    """Sends a descriptor; for a replacement also waits for the order to commit."""
    link = _socket.socket(fileno=files[0])
    try:
        if plan.isolation == "landlock":
            apply_landlock(plan)
        os.chdir(request.cwd)
        if request.kind == "read":
            messages.send_message(link, messages.ANSWER_FILE, (_open_plain_file(request.path),))
        elif full:
            raise OSError(ENOSPC, "the files of the sandbox take up more than terminal.total_mb")
        else:
            _replace_file(link, request.path)
    except OSError as error:
        messages.send_message(
            link, messages.ANSWER_FAILED + f"{error.errno or 0} {error.strerror or error}".encode()
        )


def _open_plain_file(path: bytes) -> int:
    """Only a plain file: a reader of a pipe or a device could block forever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(22, "is not a plain file")
    return fd


def _replace_file(link: _socket.socket, path: bytes) -> None:
    target = os.path.realpath(path)
    folder = os.path.dirname(target)  # noqa: PTH120 - pathlib costs the launcher 8 ms
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    try:
        there = os.stat(target)  # noqa: PTH116
    except FileNotFoundError:
        mode = 0o644
    else:
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(21, "is a folder")
        mode = there.st_mode & 0o777
    new = os.path.join(folder, b".hermes-%d.new" % os.getpid())  # noqa: PTH118
    os.umask(0)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        messages.send_message(link, messages.ANSWER_FILE, (fd,))
        if messages.receive_message(link)[0] != messages.ORDER_COMMIT:
            raise OSError(4, "the writer went away")
        os.replace(new, target)  # noqa: PTH105
    except OSError:
        os.unlink(new)  # noqa: PTH108
        raise
    messages.send_message(link, messages.ANSWER_OK)


TREE_END_TIMEOUT_S = 10.0
"""Seconds to end a process tree; after that the whole sandbox is ended."""
TERMINATE_INTERVAL_MS = 20
"""Milliseconds."""
TIOCSCTTY = 0x540E


def supervise_child(
    request: LauncherRequest,
    plan: SandboxPlan,
    files: list[int],
    already_running: int,
    quota: FileQuota,
) -> None:
    """Runs one command and reports its end. `files`: socket to Hermes, stdin, stdout, stderr."""
    link = _socket.socket(fileno=files[0])
    ended = process_control.open_child_descriptor()
    process_control.adopt_orphans()
    standard = files[1:]
    if request.terminal:
        outer, inner = os.openpty()
        messages.send_message(link, messages.ANSWER_FILE, (outer,))
        os.close(outer)
        standard = [inner, inner, inner]
    error_reader, error_writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _exec_command(request, plan, standard, already_running, full=quota.full)
        except OSError as error:
            os.write(error_writer, _error_text(error))
        finally:
            os._exit(127)
    os.close(error_writer)
    for fd in set(standard):
        os.close(fd)
    problem = os.read(error_reader, 4096)
    if problem:
        messages.send_message(link, messages.ANSWER_FAILED + problem)
        return
    status = _watch_child(link, ended, child)
    if status is not None:
        quota.exceeded(os.getppid())  # the launcher may not have looked since the command began
        _send_status(
            link, messages.ANSWER_QUOTA_EXCEEDED if quota.full else messages.ANSWER_ENDED, status
        )


def _error_text(error: OSError) -> bytes:
    return f"{error.errno or 0} {error.strerror or error}".encode()


def _exec_command(
    request: LauncherRequest,
    plan: SandboxPlan,
    standard: list[int],
    already_running: int,
    *,
    full: bool,
) -> None:
    process_control.reset_signals()
    os.setsid()
    os.umask(0o022)
    for target, fd in enumerate(standard):
        os.dup2(fd, target)
    if request.terminal:
        kernel.libc().ioctl(0, TIOCSCTTY, 0)
    os.chdir(request.cwd)
    terminal = os.ttyname(0) if request.terminal else ""
    if plan.isolation == "landlock":
        apply_landlock(plan, terminal)
    if full:
        allow_only_removal(terminal)
    limits.apply_limits(plan, already_running)
    os.execve(request.argv[0], request.argv, dict(request.variables))


def _watch_child(link: _socket.socket, ended: int, child: int) -> int | None:
    """Waits until the program ends; after ORDER_TERMINATE, until its whole tree has ended."""
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    poll.register(ended, select.POLLIN)
    status: int | None = None
    asked: set[tuple[int, bytes]] | None = None
    while status is None or (asked is not None and has_children()):
        # A process that was being forked meanwhile did not get the signal: send it again.
        ready = {fd for fd, _ in poll.poll(None if asked is None else TERMINATE_INTERVAL_MS)}
        if ended in ready:
            process_control.drain_signals(ended)
            status = process_control.reap_children().get(child, status)
        if link.fileno() in ready:
            asked = asked or set()
            if messages.receive_message(link)[0] != messages.ORDER_TERMINATE:
                status = _kill_all(child, status)
                break
        if asked is not None:
            _send_terminate(asked)
    return status


def _send_terminate(asked: set[tuple[int, bytes]]) -> None:
    """Once for each program: a shell's child may lose the signal just before its exec."""
    for pid in limits.find_descendants(os.getpid()):
        program = (pid, limits.process_name(pid))
        if program not in asked:
            process_control.send_signal(pid, process_control.SIGTERM)
            process_control.send_signal(
                pid, process_control.SIGCONT
            )  # a stopped process would not handle the signal
            asked.add(program)


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_all(child: int, status: int | None) -> int | None:
    """Kills until no process is left. The number of processes is limited, so this ends."""
    deadline = time.monotonic() + TREE_END_TIMEOUT_S
    while has_children():
        if time.monotonic() > deadline:
            return None
        limits.kill_descendants(os.getpid(), keep=set())
        status = process_control.reap_children().get(child, status)
        time.sleep(0.001)
    return status


def _send_status(link: _socket.socket, kind: bytes, status: int) -> None:
    try:
        messages.send_message(link, kind + str(os.waitstatus_to_exitcode(status)).encode())
    except OSError:
        return  # the reader is gone


USAGE_CHECK_INTERVAL_S = 0.1
"""Seconds between checks of the files, and of the memory where no cgroup counts it."""


def main() -> None:
    os.set_inheritable(LAUNCHER_DESCRIPTOR, False)
    os.umask(0o022)
    os.chdir("/")
    link = _socket.socket(fileno=LAUNCHER_DESCRIPTOR)
    plan = SandboxPlan.unpack(messages.receive_message(link)[0])
    kernel.system_call("close_range", FIRST_CGROUP_DESCRIPTOR + plan.cgroups, 0xFFFFFFFF, 0)
    try:
        outside = count_outside_processes(plan)
        apply_isolation(plan)
    except OSError as error:
        messages.send_message(link, messages.ANSWER_FAILED + str(error).encode())
        os._exit(1)
    os.dup2(0, 2)  # from here on, no error output goes to Hermes
    messages.send_message(link, messages.ANSWER_OK)
    try:
        _Launcher(link, plan, outside).serve()
    finally:
        _end_everything()
        os._exit(0)


def _end_everything() -> None:
    """In a process namespace the kernel does this; without one, the launcher has to."""
    for _ in range(1000):
        limits.kill_descendants(os.getpid(), keep=set())
        process_control.reap_children()
        if not limits.find_descendants(os.getpid()):
            return
        select.select([], [], [], 0.001)


class _Launcher:
    def __init__(self, link: _socket.socket, plan: SandboxPlan, outside: int) -> None:
        self._link = link
        self._plan = plan
        self._outside = outside
        self._ended = process_control.open_child_descriptor()
        self._supervisors: set[int] = set()
        self._others: set[int] = set()
        self._quota = FileQuota(plan)
        self._only_removes = False
        """Whether commands were ended because of their files, and new ones can only remove some."""

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._link.fileno(), select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._poll_timeout())}
            if self._ended in ready:
                process_control.drain_signals(self._ended)
                if not self._reap_children():
                    return
            if self._link.fileno() in ready:
                data, files = messages.receive_message(self._link)
                if not data:
                    return
                self._start(LauncherRequest.unpack(data), files)
            self._check_memory()
            self._check_files()

    def _poll_timeout(self) -> float | None:
        """Milliseconds until the next check; None while nothing has to be checked."""
        checks = self._counts_memory or self._quota.watches
        return USAGE_CHECK_INTERVAL_S * 1000 if checks and has_children() else None

    @property
    def _counts_memory(self) -> bool:
        return bool(self._plan.memory) and not self._plan.counted_memory

    def _reap_children(self) -> bool:
        """Return False when a supervising process was killed: its command may have left
        processes."""
        ended = process_control.reap_children()
        killed = [pid for pid in self._supervisors & ended.keys() if ended[pid] != 0]
        self._supervisors -= ended.keys()
        return not killed

    def _start(self, request: LauncherRequest, files: list[int]) -> None:
        self._check_files()
        if self._quota.full:
            self._only_removes = self._quota.count(limits.find_descendants(os.getpid()))
        supervisor = os.fork()
        if supervisor == 0:
            try:
                self._link.close()
                os.close(self._ended)
                if request.kind == "run":
                    supervise_child(request, self._plan, files, self._outside, self._quota)
                else:
                    serve_file(request, self._plan, files, full=self._quota.full)
                os._exit(0)
            finally:
                os._exit(1)
        self._supervisors.add(supervisor)
        for fd in files:
            os.close(fd)

    def _check_memory(self) -> None:
        if not self._counts_memory or not has_children():
            return
        self._others = set(limits.find_descendants(os.getpid())) - self._supervisors
        largest = limits.find_largest_process(list(self._others), self._plan.memory)
        if largest is not None:
            process_control.send_signal(largest, process_control.SIGKILL)

    def _check_files(self) -> None:
        if self._only_removes or not has_children():
            return
        if self._quota.full or self._quota.exceeded(os.getpid()):
            self._only_removes = True
            limits.kill_descendants(os.getpid(), keep=self._supervisors)
