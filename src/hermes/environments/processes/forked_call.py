"""Calls a function in a forked process: the memory of what it loads is given back with its end.

A fork copies the calling thread alone, and a lock that another thread held stays locked in the
child. So the function may import modules, read files and compute, and do nothing with the journal
or an event loop. A child that waits for such a lock ends after its time.
"""

import ctypes
import gc
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.environments.processes.spawn import ChildProcess

READ_BYTES = 1 << 16
FAILED = 1
_PR_SET_PDEATHSIG = 1


async def call_in_fork(function: Callable[[], bytes], timeout_s: float) -> bytes:
    """Return what the function returns. Raises `EnvironmentFailed` when it raised an error, took
    longer, or no process could be forked."""
    result, output = os.pipe()
    try:
        child = _fork(function, output, timeout_s)
    except OSError as error:
        os.close(result)
        raise EnvironmentFailed(f"no process can be forked: {error.strerror}") from error
    finally:
        os.close(output)
    returned = bytearray()
    try:
        while True:
            await anyio.wait_readable(result)
            if not (part := os.read(result, READ_BYTES)):
                break
            returned += part
        await child.wait()
    finally:
        os.close(result)  # a cancelled call does not wait: a child without a reader ends
        await child.wait_or_kill(0)
    if child.code:
        raise EnvironmentFailed(f"a forked process ended with code {child.code}")
    return bytes(returned)


def _fork(function: Callable[[], bytes], output: int, timeout_s: float) -> ChildProcess:
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python warns about the locks of other threads; see above.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _run_child(function, output, timeout_s, parent)
    return ChildProcess(pid)


def _run_child(
    function: Callable[[], bytes], output: int, timeout_s: float, parent: int
) -> NoReturn:
    code = FAILED
    try:
        gc.disable()  # a collection would copy the memory that is shared with the parent
        signal.set_wakeup_fd(-1)  # it belongs to the event loop of the parent
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        with suppress(AttributeError):  # not Linux
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            with open(output, "wb") as file:
                file.write(function())
            code = 0
    finally:
        os._exit(code)
