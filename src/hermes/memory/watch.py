"""Hears that another process has written to the journal, without asking all the time.

A writer touches the file's times after each commit, and the kernel tells us (inotify, Linux only).
Watching the writes to the log itself would be no good: they come before the commit can be seen.
A writer that dies between commit and touch, or a system without inotify, is noticed by looking
again after `pause` seconds.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

IN_ATTRIB = 0x00000004
_QUIET = os.O_NONBLOCK | os.O_CLOEXEC  # the same numbers as IN_NONBLOCK and IN_CLOEXEC


class Watch:
    """Inside its block `ring` is called, in the event loop, whenever somebody commits."""

    def __init__(self, path: Path, ring: Callable[[], None]) -> None:
        self._path = path
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._descriptor: int | None = None
        self._asked = False
        self._inside = 0

    @property
    def pause(self) -> float:
        """Seconds after which a look at the file is due although nothing rang."""
        return 0.1 if self._descriptor is None else 1.0

    def __enter__(self) -> "Watch":
        if not self._asked:
            self._asked = True
            self._descriptor = _listen(self._path)
        self._inside += 1
        if self._inside == 1 and self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._heard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside -= 1
        if self._inside == 0 and self._descriptor is not None:
            # The descriptor stays open: the kernel folds what nobody reads into one event, while
            # closing and opening it for every wait costs more than the wait.
            self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _heard(self) -> None:
        if self._descriptor is not None:
            with suppress(BlockingIOError):
                os.read(self._descriptor, 65536)
            self._ring()


def _listen(path: Path) -> int | None:
    """A descriptor that becomes readable when the file is touched; None where there is none."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "inotify_init1"):
        return None
    descriptor: int = library.inotify_init1(_QUIET)
    if descriptor < 0:  # all instances of this user are taken
        return None
    if library.inotify_add_watch(descriptor, os.fsencode(path), IN_ATTRIB) < 0:
        os.close(descriptor)
        return None
    return descriptor
