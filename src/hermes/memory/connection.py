"""Opens the file the way several processes can share it."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.memory.faults import MEND
from hermes.memory.packing import plain

PATIENCE = 10.0
"""Seconds to wait for another process's transaction; ours take milliseconds."""


def connect(path: Path, *, patience: float = PATIENCE, read_only: bool = False) -> apsw.Connection:
    """`read_only` leaves no trace: unless another process has the file open, SQLite is told that
    it cannot change, and so makes neither a log nor a shared memory file beside it.
    """
    name, flags = str(path), apsw.SQLITE_OPEN_READWRITE
    if read_only and not path.with_name(f"{path.name}-wal").exists():
        name, flags = f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI)
    connection.set_busy_handler(_waiting(patience))
    connection.create_scalar_function("plain", plain, 1, deterministic=True)
    return connection


def _waiting(patience: float) -> Callable[[int], bool]:
    """Waits in short random steps: SQLite's own grow to 100 ms and starve one of two writers."""
    deadline = 0.0

    def wait(tries: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if tries == 0:
            deadline = now + patience
        time.sleep(random.uniform(0.0005, 0.002 if tries < 50 else 0.02))
        return now < deadline

    return wait


def close_untouched(connection: apsw.Connection) -> None:
    """Without SQLite's tidying up: a file that may be damaged stays as it is."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def check_log(path: Path) -> None:
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size and (not path.exists() or not path.stat().st_size):
        # SQLite would take the main file for a new one and throw the log away.
        raise StoreCorrupt(f"the journal {path} is gone but its log {wal.name} is there; {MEND}")


def make_file(path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # O_EXCL: opening and closing a file that a connection of this process has open would
        # drop that connection's locks.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return


def use_wal(connection: apsw.Connection, path: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while connection.pragma("journal_mode") != "wal":
        try:
            if connection.pragma("journal_mode", "wal") != "wal":
                raise StoreError(f"the file system of {path} cannot hold a shared journal")
        except apsw.BusyError:  # two first starts at once: SQLite does not wait here by itself
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
