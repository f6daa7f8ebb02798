"""Saves what can be read out of a damaged journal into a new one."""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import apsw

from hermes.core.errors import StoreError
from hermes.core.messages import Value
from hermes.memory.carving import Carved, carve
from hermes.memory.chain import GENESIS
from hermes.memory.connection import close_untouched, connect
from hermes.memory.faults import explained
from hermes.memory.packing import pack
from hermes.memory.schema import prepare


class Salvage(Value, kw_only=True, frozen=True):
    saved: int
    lost: tuple[tuple[int, int], ...] = ()
    """First and last number of each stretch that could not be read."""
    doubtful: tuple[int, ...] = ()
    """Readable, and kept, but not what the chain says was written."""
    into: str
    original: str
    """Where the damaged file is now."""


def salvage(path: Path, into: Path | None = None) -> Salvage:
    """Copy every readable event, under its own number, into a new file.

    Without `into` the new file takes the place of the damaged one, which is kept beside it. All
    processes that use the journal must have ended. The chain is made anew over what was saved.
    """
    target = into or path
    if target != path and target.exists():
        raise StoreError(f"{target} is there already; name a file that is not")
    with explained(path):
        numbered = _last_number(path)
        events = carve(path)
        if not events and not path.exists():
            raise StoreError(f"there is no journal at {path}")
        partial = target.with_name(target.name + ".partial")
        partial.unlink(missing_ok=True)
        lost = _missing(events, numbered)
        _write(partial, events, lost)
        original = _set_aside(path) if target == path else path
        partial.rename(target)
    doubtful = (seq for seq, event in events.items() if _doubtful(seq, event, events))
    return Salvage(
        saved=len(events),
        lost=lost,
        doubtful=tuple(doubtful),
        into=str(target),
        original=str(original),
    )


def _last_number(path: Path) -> int:
    """The highest number ever given, when the file still says so; refuses a file in use."""
    if not path.exists() or not path.stat().st_size:
        return 0  # SQLite would take an empty file for a new one and delete the log
    connection = connect(path, patience=1.0)
    try:
        # Exclusive: fails when any process has the file open. Writable schema: look in spite of
        # damage.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA writable_schema=ON")
        return int(connection.execute("SELECT max(seq) FROM sqlite_sequence").get or 0)
    except apsw.BusyError:
        raise
    except apsw.Error:
        return 0
    finally:
        close_untouched(connection)


def _missing(events: Mapping[int, Carved], numbered: int) -> tuple[tuple[int, int], ...]:
    lost, expected = [], 1
    for seq in (*events, max(numbered, *events, 0) + 1):
        if seq > expected:
            lost.append((expected, seq - 1))
        expected = seq + 1
    return tuple(lost)


def _write(path: Path, events: Mapping[int, Carved], lost: Iterable[tuple[int, int]]) -> None:
    connection = prepare(path).connection
    try:
        connection.execute("BEGIN IMMEDIATE")
        digest = GENESIS
        for seq, (row, _) in events.items():
            digest = row.link(digest)
            body = row.body if isinstance(row.body, bytes) else pack(row.body)
            connection.execute(
                "INSERT INTO event(seq, at, run, kind, digest, body) VALUES(?, ?, ?, ?, ?, ?)",
                (seq, row.at, row.run, row.kind, digest, body),
            )
        connection.executemany("INSERT INTO gap VALUES(?, ?)", lost)
        # Numbers are never given twice, not even those of lost events.
        top = max((last for _, last in lost), default=0)
        connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?)", (top,))
        connection.execute("COMMIT")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()


def _set_aside(path: Path) -> Path:
    """Give the damaged file a second name; its own is then taken over in one step."""
    kept = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    log = path.with_name(path.name + "-wal")
    if path.exists():
        os.link(path, kept)
    if log.exists():  # beside a new file an old log would be taken for its own
        log.rename(kept.with_name(kept.name + "-wal"))
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    return kept


def _doubtful(seq: int, event: Carved, events: Mapping[int, Carved]) -> bool:
    if seq > 1 and seq - 1 not in events:
        return False  # nothing to hold it against
    return not event.follows(events.get(seq - 1))
