"""Follows the file that a background process prints to, and keeps it short while it grows.

The process writes to the file itself, so its output outlives us. What was read and is older than
the window is given back to the file system by punching a hole: unlike truncating, that loses
nothing which is written at that moment. The file seems to grow for ever and takes up little.
"""

import ctypes
import errno
import os
from pathlib import Path

WINDOW = 204_800
PIECE = 65_536
_FAR = 8 * 1024 * 1024
"""So far behind, reading everything would only fall back further: go on near the end."""
_STEP = 1024 * 1024
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02


class LogTail:
    """Reads from the oldest byte that is still there; `read` gives nothing at the end."""

    def __init__(self, path: Path, window: int = WINDOW) -> None:
        self._window = window
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        size = self._size()
        self._position = self._freed = max(0, size - window)
        self._punches = True

    @property
    def closed(self) -> bool:
        return self._descriptor < 0

    def read(self) -> bytes:
        if self.closed:
            return b""
        behind = self._size() - self._position
        if behind < 0:  # truncated, by us or by the process
            self._position = self._freed = 0
        if behind > _FAR:
            return self._leap(behind - self._window)
        data = os.pread(self._descriptor, PIECE, self._position)
        self._position += len(data)
        self._free()
        return data

    def rest(self) -> bytes:
        """All that is left to read, or the last of it."""
        if self.closed:
            return b""
        self._position = max(self._position, self._size() - self._window)
        data = os.pread(self._descriptor, self._window, self._position)
        self._position += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
            self._descriptor = -1

    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _leap(self, distance: int) -> bytes:
        self._position += distance
        self._free()
        return f"\n[… {distance:,} bytes came too fast to be kept …]\n".encode()

    def _free(self) -> None:
        old = (self._position - self._window) // 4096 * 4096
        if old - self._freed < _STEP:
            return
        if self._punches and _punch(self._descriptor, old):
            self._freed = old
        else:
            self._punches = False
            # The second best: what is written between these two lines is lost.
            if self._position == self._size():
                os.ftruncate(self._descriptor, 0)
                self._position = self._freed = 0


def _punch(descriptor: int, end: int) -> bool:
    """False when this file system, or this system, cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fallocate = libc.fallocate
    except AttributeError:
        return False
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
    while fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, 0, end) != 0:
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True
