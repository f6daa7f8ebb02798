"""Lets one process at a time work on a run, by a lock that ends with its process."""

import os
from contextlib import suppress
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.memory.store import ClaimsRuns
from hermes.plumbing.files import FileLock


class RunLocked(SettingsError):
    """Another living process works on this run."""


class RunLockError(SettingsError):
    """The lock could not be taken because its file cannot be created."""


class RunLocks:
    """The runs that this process works on. Released by `close`, by exit, and by `kill -9`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, FileLock] = {}

    def acquire(self, run: str) -> None:
        """Raises `RunLocked`, naming the process that has it, and `RunLockError`."""
        if run in self._held:
            return
        try:
            while (lock := _lock_file(self._lock_path(run), run)) is None:
                pass  # its process removed the file between our opening and locking it
        except OSError as error:
            raise RunLockError(
                f"the lock of {run} cannot be made in {self._folder}: {error.strerror}; free some "
                "space and make the folder writable"
            ) from error
        self._held[run] = lock
        with suppress(OSError):  # on a full disk the lock holds without the number
            os.ftruncate(lock.descriptor, 0)
            os.write(lock.descriptor, str(os.getpid()).encode())

    def release(self, run: str) -> None:
        lock = self._held.pop(run, None)
        if lock is None:
            return
        with suppress(OSError):
            self._lock_path(run).unlink(missing_ok=True)  # while still locked: see `_lock_file`
        lock.release()

    def close(self) -> None:
        for run in tuple(self._held):
            self.release(run)

    def _lock_path(self, run: str) -> Path:
        return self._folder / f"{run.replace('/', '-')}.lock"


async def lock_run(run: str, claims: RunLocks, journal: object) -> None:
    """Lock a run on this machine and, where several machines share a store, among all of them."""
    claims.acquire(run)
    holder = await journal.claim(run) if isinstance(journal, ClaimsRuns) else ""
    if holder:
        claims.release(run)
        raise RunLocked(
            f"{run} is open on another machine or in another process ({holder}); end that one "
            "first, or begin a new conversation"
        )


async def unlock_run(run: str, claims: RunLocks, journal: object) -> None:
    claims.release(run)
    if isinstance(journal, ClaimsRuns):
        await journal.release_claim(run)


def _lock_file(file: Path, run: str) -> FileLock | None:
    """The locked file, or None when the path is another file by now."""
    try:
        lock = FileLock(file, wait=False)
    except BlockingIOError:
        holder = _read_holder(file) or "unknown"
        raise RunLocked(
            f"{run} is open in another process ({holder}); end that one first, or begin a new "
            "conversation"
        ) from None
    if _is_same_file(file, lock.descriptor):
        return lock
    lock.release()
    return None


def _read_holder(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")[:20].strip()
    except OSError:
        return ""


def _is_same_file(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
