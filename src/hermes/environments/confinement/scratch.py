"""The folder that a sandbox gets for itself: its home, the state of its shell, its /tmp if need be.

Whoever made it holds a lock on it. One that nobody holds was left by a Hermes that was killed,
and is swept away by the next.
"""

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from hermes.environments.confinement import identity

PREFIX = "hermes-sandbox-"
FOLDERS = ("home", "state", "tmp", "work")
YOUNG = 60.0
"""Seconds in which a folder may have been made and not yet locked."""


class Scratch:
    def __init__(self) -> None:
        sweep()
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in FOLDERS:
            (Path(self.path) / name).mkdir(mode=0o700)

    def remove(self) -> None:
        _remove(self.path)
        os.close(self._lock)


def sweep() -> None:
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _sweep(left)


def _sweep(left: Path) -> None:
    fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _is_ours(os.fstat(fd)):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(str(left))
    finally:
        os.close(fd)


def _is_ours(found: os.stat_result) -> bool:
    """In a folder that all users share, others may have laid out something for us to remove."""
    stranger = identity.is_root() and found.st_uid >= identity.FIRST
    private = stat.S_IMODE(found.st_mode) == 0o700 and time.time() - found.st_mtime > YOUNG
    return private and (found.st_uid == os.geteuid() or stranger)


def _remove(folder: str) -> None:
    with suppress(OSError):
        shutil.rmtree(folder)
