"""A stored journal for maintenance: its rows, and what verification, copies and compaction need.

The same functions work on a file and on a database; each store has its own class below this
protocol, on one open connection.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.messages import Value
from hermes.memory.journal.rows import EventRow, chain_digest, hash_text, read_event

KINDS_KEPT_AFTER_DELETION = (
    *("run.deleted", "model.answered", "tool.decided", "tool.approved", "tool.started"),
    *("approval.answered", "approval.settled", "grant.given", "grant.used", "action.stopped"),
    "audit.signed",
)
"""Kinds kept of a deleted run: what was allowed, by whom, and what it cost."""
MAX_LISTED_PROBLEMS = 20
"""Problems that a report lists one by one."""
SCAN_PAGE_ROWS = 500
MAX_SCAN_PAGE_BYTES = 8 << 20


class StoredRow(NamedTuple):
    """Everything as bytes: damaged text must be read where its number can be reported."""

    seq: int
    digest: bytes
    at: int
    run: bytes
    kind: bytes
    purged: bool
    body: bytes
    """The text, or its hash when it is purged."""
    is_hidden: bool = False
    """Not of the types we write: a query may miss it although it reads the same."""

    def event(self) -> Event | UnknownEvent | None:
        """Return None when it is purged; raises `StoreCorrupt` when it is damaged."""
        if self.purged:
            return None
        return read_event(self.seq, self.at, self.run, self.kind, self.body)

    def event_row(self) -> EventRow:
        body = self.body if self.purged else self.body.decode()
        return EventRow(self.at, self.run.decode(), self.kind.decode(), body)

    def digest_after(self, previous_digest: bytes) -> bytes:
        kind, run = self.kind.decode(errors="replace"), self.run.decode(errors="replace")
        hashed = self.body if self.purged else hash_text(self.body)
        return chain_digest(previous_digest, hashed, kind, run, self.at)


class StoreExtent(NamedTuple):
    events: int
    purged: int
    lowest: int
    last: int
    last_given: int
    """The highest number ever assigned."""


class StoreStatus(Value, kw_only=True, frozen=True, omit_defaults=False):
    kind: str
    place: str
    version: int
    events: int
    last: int
    bytes: int
    round_trip_ms: float
    server: str = ""
    pgvector: str = ""
    """Version of the extension; empty when the server has none."""
    processes: int = 1
    """How many Hermes processes are connected, this one included."""


class StoredJournal(Protocol):
    name: str
    """Its location as it may be printed."""

    def status(self) -> StoreStatus: ...
    def extent(self) -> StoreExtent: ...
    def newest(self) -> tuple[int, bytes] | None:
        """Number and digest of the last event."""

    def digest_at(self, seq: int) -> bytes | None: ...
    def pages(self, after: int = 0, run: str | None = None) -> Iterator[list[StoredRow]]:
        """All rows in order. No transaction lasts longer than a page, so writers never wait."""

    def last_row(self, kind: str) -> StoredRow | None:
        """The newest event of a kind."""

    def gaps(self) -> list[tuple[int, int]]:
        """First and last number of each range that an earlier salvage could not recover."""

    def purged_hashes(self) -> Iterator[tuple[int, bytes]]: ...
    def deleted_runs(self) -> list[str]: ...
    def run_parents(self) -> Iterator[tuple[str, str]]:
        """Each run that was started, with its parent."""

    def size_bytes(self) -> int: ...
    def transaction(self) -> AbstractContextManager[object]:
        """Keeps other writers away until its commit, which is on the disk."""

    def append(self, rows: Sequence[EventRow]) -> None:
        """Append to the chain, inside a transaction."""

    def purge_deleted_runs(self) -> int:
        """Replace the texts of deleted runs by their hashes, inside a transaction."""

    def free_space(self) -> None: ...
    def insert_copies(self, rows: Sequence[StoredRow]) -> None:
        """Rows of another store under their own numbers, inside a transaction."""

    def finish_copy(
        self, gaps: Sequence[tuple[int, int]], purged: Iterator[tuple[int, bytes]]
    ) -> None: ...

    def structure_problems(self) -> list[str]:
        """Damage below the rows, as far as the store can find it."""
        return []

    def rows(self, run: str | None = None) -> Iterator[StoredRow]:
        return chain.from_iterable(self.pages(run=run))


def open_stored(
    location: Path | str, *, timeout_s: float | None = None, read_only: bool = False
) -> AbstractContextManager[StoredJournal]:
    """An existing journal; it is neither created nor migrated. Raises `StoreError`.

    `read_only` leaves no trace beside a file.
    """
    opening: AbstractContextManager[StoredJournal]
    if isinstance(location, Path):
        module = import_module("hermes.memory.journal.sqlite_stored")
        opening = module.open_stored_file(location, timeout_s=timeout_s, read_only=read_only)
    else:
        opening = import_module("hermes.memory.postgres.stored").open_stored_database(
            location, timeout_s=timeout_s
        )
    return opening
