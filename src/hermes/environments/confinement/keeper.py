"""Keeps one command: starts it, tells how it ended, and ends all that came from it when asked.

A keeper is the foster parent of every process whose own parent died, so nothing of a command can
get away by forking twice or by making itself a new session.
"""

import _socket
import os
import select
import time

from hermes.environments.confinement import kernel, limits, privileges, signals, wire
from hermes.environments.confinement.file_quota import FileQuota, only_remove
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.walls import behind_landlock
from hermes.environments.confinement.wire import Request

LONGEST_END = 10.0
"""Seconds for ending a tree; after that the whole sandbox is ended instead."""
ASK_AGAIN = 20
"""Milliseconds."""
TAKE_TERMINAL = 0x540E


def keep(
    request: Request, plan: Plan, files: list[int], already_running: int, quota: FileQuota
) -> None:
    """The whole life of a keeper. `files` are the line to Hermes, then stdin, stdout, stderr."""
    link = _socket.socket(fileno=files[0])
    ended = signals.children_as_descriptor()
    privileges.adopt_orphans()
    standard = files[1:]
    if request.terminal:
        outer, inner = os.openpty()
        wire.send(link, wire.FILE, (outer,))
        os.close(outer)
        standard = [inner, inner, inner]
    trouble, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become(request, plan, standard, already_running, full=quota.full)
        except OSError as error:
            os.write(tell, _words(error))
        finally:
            os._exit(127)
    os.close(tell)
    for fd in set(standard):
        os.close(fd)
    problem = os.read(trouble, 4096)
    if problem:
        wire.send(link, wire.FAILED + problem)
        return
    status = _watch(link, ended, child)
    if status is not None:
        _say(link, wire.FULL if quota.full else wire.ENDED, status)


def _words(error: OSError) -> bytes:
    return f"{error.errno or 0} {error.strerror or error}".encode()


def _become(
    request: Request, plan: Plan, standard: list[int], already_running: int, *, full: bool
) -> None:
    signals.as_for_a_new_program()
    os.setsid()
    os.umask(0o022)
    for target, fd in enumerate(standard):
        os.dup2(fd, target)
    if request.terminal:
        kernel.libc().ioctl(0, TAKE_TERMINAL, 0)
    os.chdir(request.cwd)
    terminal = os.ttyname(0) if request.terminal else ""
    if plan.walls == "landlock":
        behind_landlock(plan, terminal)
    if full:
        only_remove(terminal)
    limits.apply(plan, already_running)
    os.execve(request.argv[0], request.argv, dict(request.variables))


def _watch(link: _socket.socket, ended: int, child: int) -> int | None:
    """Until the program ends; once asked to end it, until all that came from it has ended."""
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    poll.register(ended, select.POLLIN)
    status: int | None = None
    asked: set[tuple[int, bytes]] | None = None
    while status is None or (asked is not None and has_children()):
        # One that is being forked while the others are asked would never hear of it: ask again.
        ready = {fd for fd, _ in poll.poll(None if asked is None else ASK_AGAIN)}
        if ended in ready:
            signals.forget(ended)
            status = signals.reap().get(child, status)
        if link.fileno() in ready:
            asked = asked or set()
            if wire.receive(link)[0] != wire.ASK:
                status = _end_all(child, status)
                break
        if asked is not None:
            _ask(asked)
    return status


def _ask(asked: set[tuple[int, bytes]]) -> None:
    """Once each program: a shell's child may swallow the signal just before it becomes another."""
    for pid in limits.descendants(os.getpid()):
        program = (pid, limits.name_of(pid))
        if program not in asked:
            signals.send(pid, signals.SIGTERM)
            signals.send(pid, signals.SIGCONT)  # one that is stopped cannot listen
            asked.add(program)


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_all(child: int, status: int | None) -> int | None:
    """Kill until nobody is left. A bomb of forks is bounded, so this comes to an end."""
    deadline = time.monotonic() + LONGEST_END
    while has_children():
        if time.monotonic() > deadline:
            return None
        for pid in limits.descendants(os.getpid()):
            signals.send(pid, signals.SIGKILL)
        status = signals.reap().get(child, status)
        time.sleep(0.001)
    return status


def _say(link: _socket.socket, kind: bytes, status: int) -> None:
    try:
        wire.send(link, kind + str(os.waitstatus_to_exitcode(status)).encode())
    except OSError:
        return  # nobody listens any more
