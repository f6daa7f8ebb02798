"""Where wardens are born ready: a process with everything loaded that forks itself when asked.

Half of what a box costs is a Python that starts and imports. It holds nothing of any box, and ends
when Hermes does. Imports only what a bare Python has.
"""

import _socket
import gc
import os
import random
import select
import signal

from hermes.environments.confinement import wire
from hermes.gym.box import warden

BURY = 1000
"""Milliseconds after which the dead are looked for, if nobody asks for the living."""


def main() -> None:
    link = _socket.socket(fileno=warden.LINE)
    os.set_inheritable(warden.LINE, False)
    os.setsid()
    gc.disable()
    gc.freeze()  # what a collector writes to is copied in every child
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    while True:
        ready = poll.poll(BURY)
        _bury()
        if not ready:
            continue
        data, files = wire.receive(link)
        if not data:
            os._exit(0)
        try:
            _bear(link, files)
        except OSError as error:
            wire.send(link, wire.FAILED + str(error).encode())
        for fd in files:
            os.close(fd)


def _bear(link: _socket.socket, files: list[int]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            link.close()
            line, complaints = files
            os.dup2(complaints, 2)
            if line != warden.LINE:
                os.dup2(line, warden.LINE)
                os.close(line)
            os.close(complaints)
            random.seed()
            warden.main()
        finally:
            os._exit(1)
    process = os.pidfd_open(pid)
    try:
        wire.send(link, wire.OK + b"%d" % pid, (process,))
    finally:
        os.close(process)


def _bury() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return
