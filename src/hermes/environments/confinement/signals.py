"""Waiting for children in a poll, without Python's `signal` module (its enums cost 7 ms)."""

import ctypes
import os

from hermes.environments.confinement import kernel

SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGCHLD, SIGCONT, SIGXFSZ = 2, 9, 13, 15, 17, 18, 25
SET_SIZE = 128
"""Bytes of a sigset_t in glibc and musl."""
BLOCK, SET = 0, 2


def children_as_descriptor() -> int:
    """A descriptor that becomes readable when a child has ended.

    All other signals wait for ever: commands may send them, and Python would end at an INT.
    """
    everything = (ctypes.c_ubyte * SET_SIZE)(*[0xFF] * SET_SIZE)
    kernel.libc().sigprocmask(BLOCK, ctypes.byref(everything), None)
    mask = (ctypes.c_ubyte * SET_SIZE)()
    mask[(SIGCHLD - 1) // 8] = 1 << ((SIGCHLD - 1) % 8)
    fd: int = kernel.libc().signalfd(-1, ctypes.byref(mask), os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return fd


def as_for_a_new_program() -> None:
    """What an exec would hand down: nothing blocked, nothing ignored."""
    library = kernel.libc()
    for number in (SIGINT, SIGPIPE, SIGXFSZ):
        library.signal(number, None)
    library.sigprocmask(SET, ctypes.byref((ctypes.c_ubyte * SET_SIZE)()), None)


def forget(fd: int) -> None:
    """Empty the descriptor; how many signals there were says nothing about how many ended."""
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return


def reap() -> "dict[int, int]":
    """Everyone that has ended, with its wait status."""
    ended: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = status
    except ChildProcessError:
        pass
    return ended


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
