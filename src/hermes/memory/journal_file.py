"""The file of a journal as the filesystem shows it: is it still there, and may it be written?"""

import os
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.memory.reserve import free_bytes

RESUME_FREE_BYTES = 512 * 1024
"""So much must be free on a disk that was full before the journal is tried again."""

Identity = tuple[int, int]


class JournalFile:
    """Remembers which file it was, so that another one under the same name is noticed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: Identity | None = None

    @property
    def same(self) -> bool:
        return self._known is not None and self._identity() == self._known

    @property
    def roomy(self) -> bool:
        return free_bytes(self.path.parent) >= RESUME_FREE_BYTES

    def know(self) -> None:
        """This file, as it is now, is the journal."""
        self._known = self._identity()

    def trouble(self) -> str:
        """Why it cannot be written, as far as that shows without writing; empty: it can."""
        try:
            found = self.path.stat()
            read_only = os.statvfs(self.path).f_flag & os.ST_RDONLY
        except OSError as error:
            return (
                f"the journal {self.path} is gone ({error.strerror}); restore {self.path.parent}, "
                "or mount its filesystem"
            )
        if (found.st_dev, found.st_ino) != self._known:
            return f"the journal {self.path} was replaced by another file while in use"
        if read_only:
            return f"the filesystem of {self.path} is read-only; repair it and mount it again"
        return ""

    def check_mounted(self) -> None:
        """A new journal below an empty mount point would be hidden by the next mount.

        Raises `StoreError` when the journal seems to be on a filesystem that is not mounted now.
        """
        if self._known is None or self.path.exists():
            return
        folder = next(each for each in self.path.parents if each.exists())
        if folder.stat().st_dev != self._known[0]:
            raise StoreError(
                f"the journal {self.path} is gone with its filesystem; mount that again, or start "
                "the watch again to begin a new journal"
            )

    def _identity(self) -> Identity | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
