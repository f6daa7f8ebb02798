"""What a process that runs for weeks needs: a heap that stays small, and a trace of a crash.

By default the C library of GNU gives many threads a heap of their own, in which what one thread has
freed cannot be used by another. And after the first large block was freed it takes such blocks from
the heap instead of from the system: what is left there between them is never given back.
"""

import ctypes
import faulthandler
from contextlib import suppress

HEAPS = 1
LARGE_BLOCK_BYTES = 128 * 1024
"""From this size on a block is given back to the system as soon as it is free. The default, which
no longer rises automatically once it was set."""
MAX_FREE_TOP_BYTES = 256 * 1024
"""Free memory at the end of the heap that is kept."""
RELEASES = 50
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Parameters of `mallopt`, from malloc.h."""


def limit_heap() -> None:
    """One heap for all threads, and large blocks outside of it. Other C libraries are left as they
    are."""
    with suppress(AttributeError):
        set_parameter = ctypes.CDLL(None).mallopt
        set_parameter(_M_ARENA_MAX, HEAPS)
        set_parameter(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        set_parameter(_M_TRIM_THRESHOLD, MAX_FREE_TOP_BYTES)


def print_crashes() -> None:
    """When a library crashes the process (a segmentation fault), standard error says where each
    thread was. Without a standard error nothing is printed."""
    with suppress(RuntimeError, OSError, ValueError):
        faulthandler.enable()


class HeapTrim:
    """Gives free pages in the middle of the heap back to the system, which takes milliseconds,
    after every so many things of some size were released."""

    def __init__(self, releases: int = RELEASES) -> None:
        self._releases = releases
        self._count = 0

    def note_release(self) -> bool:
        """Return whether memory was given back this time."""
        self._count += 1
        if self._count < self._releases:
            return False
        self._count = 0
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        return True
