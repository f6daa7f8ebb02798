"""The one process that goes behind the walls, and from which all commands are forked.

Hermes starts it once for a sandbox; a warm command then costs two forks and an exec. It has an
empty environment, no descriptor but the line to Hermes (closed on exec), and cannot be looked
into by the commands, which run as the same user. If they manage to end it, or one of the keepers,
the sandbox ends with it: the line breaks, Hermes says so and starts another one.

The line also ends it: when Hermes is gone, however that came, so is all that ran here.
"""

import _socket
import os
import select

from hermes.environments.confinement import kernel, limits, signals, wire
from hermes.environments.confinement.file_quota import FileQuota
from hermes.environments.confinement.files import serve_file
from hermes.environments.confinement.keeper import has_children, keep
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.walls import FIRST_CGROUP, go_behind, processes_outside
from hermes.environments.confinement.wire import Request

LINE = 3
"""The descriptor of the line to Hermes, the only one besides the standard ones."""
LOOK_EVERY = 0.1
"""Seconds between two looks at the files, and at the memory where no cgroup counts it."""


def main() -> None:
    os.set_inheritable(LINE, False)
    os.umask(0o022)
    os.chdir("/")
    link = _socket.socket(fileno=LINE)
    plan = Plan.unpack(wire.receive(link)[0])
    kernel.call("close_range", FIRST_CGROUP + plan.cgroups, 0xFFFFFFFF, 0)
    try:
        outside = processes_outside(plan)
        go_behind(plan)
    except OSError as error:
        wire.send(link, wire.FAILED + str(error).encode())
        os._exit(1)
    os.dup2(0, 2)  # what Python complained about so far went to Hermes; now nothing may
    wire.send(link, wire.OK)
    try:
        _Launcher(link, plan, outside).serve()
    finally:
        _end_everything()
        os._exit(0)


def _end_everything() -> None:
    """In a process namespace the kernel would do it; without one nobody else does."""
    for _ in range(1000):
        found = limits.descendants(os.getpid())
        for pid in found:
            signals.send(pid, signals.SIGKILL)
        signals.reap()
        if not found:
            return
        select.select([], [], [], 0.001)


class _Launcher:
    def __init__(self, link: _socket.socket, plan: Plan, outside: int) -> None:
        self._link = link
        self._plan = plan
        self._outside = outside
        self._ended = signals.children_as_descriptor()
        self._keepers: set[int] = set()
        self._others: set[int] = set()
        self._quota = FileQuota(plan)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._link.fileno(), select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(self._patience())}
            if self._ended in ready:
                signals.forget(self._ended)
                if not self._bury():
                    return
            if self._link.fileno() in ready:
                data, files = wire.receive(self._link)
                if not data:
                    return
                self._start(Request.unpack(data), files)
            self._look_after_memory()
            self._look_after_files()

    def _patience(self) -> float | None:
        """Milliseconds until the next look; None while there is nothing to look at."""
        looks = self._counts_memory or self._quota.watches
        return LOOK_EVERY * 1000 if looks and has_children() else None

    @property
    def _counts_memory(self) -> bool:
        return bool(self._plan.memory) and not self._plan.counted_memory

    def _bury(self) -> bool:
        """False when a keeper was killed: its command may have left processes nobody keeps."""
        ended = signals.reap()
        killed = [pid for pid in self._keepers & ended.keys() if ended[pid] != 0]
        self._keepers -= ended.keys()
        return not killed

    def _start(self, request: Request, files: list[int]) -> None:
        if self._quota.full:
            self._quota.count(limits.descendants(os.getpid()))
        keeper = os.fork()
        if keeper == 0:
            try:
                self._link.close()
                os.close(self._ended)
                if request.kind == "run":
                    keep(request, self._plan, files, self._outside, self._quota)
                else:
                    serve_file(request, self._plan, files, full=self._quota.full)
                os._exit(0)
            finally:
                os._exit(1)
        self._keepers.add(keeper)
        for fd in files:
            os.close(fd)

    def _look_after_memory(self) -> None:
        if not self._counts_memory or not has_children():
            return
        self._others = set(limits.descendants(os.getpid())) - self._keepers
        largest = limits.largest(list(self._others), self._plan.memory)
        if largest is not None:
            signals.send(largest, signals.SIGKILL)

    def _look_after_files(self) -> None:
        if has_children() and self._quota.exceeded(os.getpid()):
            for pid in set(limits.descendants(os.getpid())) - self._keepers:
                signals.send(pid, signals.SIGKILL)
