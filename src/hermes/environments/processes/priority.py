"""The scheduling priority of this process, which the programs that it starts do not inherit.

A watch must still run its checks on a host whose processors are all busy. A service that it
restarts must not become more important than the others.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

NORMAL_NICENESS = 0


def raise_priority(niceness: int) -> bool:
    """Sets the niceness of this process; False where only root may do that."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    except (AttributeError, PermissionError):
        return False
    return True


@contextmanager
def normal_priority() -> Iterator[None]:
    """Programs started in this block have the normal priority, whatever this process has."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    if own >= NORMAL_NICENESS:
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, NORMAL_NICENESS)
    try:
        yield
    finally:
        with suppress(PermissionError):  # the right to raise it was given up
            os.setpriority(os.PRIO_PROCESS, 0, own)
