"""A journal for the watch that continues in memory while its file cannot be written.

A full disk, a filesystem that became read-only, a home directory that was removed: events are held
in memory under provisional numbers, readers see them at once, and they are appended in order when
the file can be written again. Events that begin a change are refused meanwhile: a change that is
not recorded before it is made must not be made (ADR 0018).
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec.structs import replace

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull, StoreTooNew
from hermes.core.events import Event
from hermes.core.events.operations import (
    CheckpointSigned,
    JournalInterrupted,
    ReserveReleased,
    ReserveRestored,
)
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.disk import DiskReserve, JournalFile
from hermes.memory.journal.held_events import (
    WATCH_RUN_ID,
    HeldEvents,
    begins_change,
    resume_journal,
)
from hermes.memory.journal.maintenance import JournalTip
from hermes.memory.journal.runs import EventFilter, RunSummary, SelectsEvents, fold_runs
from hermes.memory.journal.sqlite_file import LOCK_TIMEOUT_S
from hermes.memory.journal.sqlite_journal import SqliteJournal

MAX_RECENT_EVENTS = 1024
"""Events of this process kept for readers that were behind when the outage began."""
_FATAL_ERRORS = (StoreCorrupt, StoreTooNew)
"""Waiting does not help against these: they are raised, and a person must act."""


class JournalOutage(Value, kw_only=True, frozen=True):
    """Since when the journal cannot be written, and why."""

    since: datetime
    reason: str
    full: bool = False


class BufferedJournal(SelectsEvents):
    """Fulfils `memory.store.JournalStore`. Call `check` and `retry_write` regularly."""

    def __init__(
        self, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S, reserve: DiskReserve | None = None
    ) -> None:
        self.reserve = reserve
        self.outage: JournalOutage | None = None
        self.rebuild_needed = anyio.Event()
        """Set when events got other numbers than their readers know. Followers and writers wait
        from then on: everything that uses this journal must be opened again."""
        self.lost_events = 0
        """Events that could not be recorded before the journal was closed."""
        self._timeout_s = timeout_s
        self._file = JournalFile(path)
        self._store: SqliteJournal | None = None
        self._held = HeldEvents(0)
        self._recent: deque[JournalRecord] = deque(maxlen=MAX_RECENT_EVENTS)
        self._reserve_complete = True
        self._highest_seq = 0
        """The highest number ever assigned."""
        self._writes_in_flight = 0
        self._writes_finished = anyio.Event()
        self._mode_lock = anyio.Lock()
        self._state_changed = anyio.Event()
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, *, timeout_s: float = LOCK_TIMEOUT_S, reserve: DiskReserve | None = None
    ) -> AsyncGenerator["BufferedJournal", None]:
        """Open the file; where that fails for lack of space or rights, begin in memory."""
        journal = cls(path, timeout_s=timeout_s, reserve=reserve)
        try:
            await journal._open()
        except _FATAL_ERRORS:
            raise
        except StoreError as error:
            journal._start_holding(error)
        try:
            yield journal
        finally:
            with anyio.CancelScope(shield=True):
                await journal.close()

    @property
    def held_events(self) -> int:
        """Events that wait in memory."""
        return len(self._held.entries) if self.outage is not None else 0

    @property
    def held_records(self) -> tuple[JournalRecord, ...]:
        return self._held.records if self.outage is not None else ()

    @property
    def dropped_events(self) -> int:
        """Events that did not fit into memory, in this outage or in the last one."""
        return self._held.dropped_events

    async def append(self, *events: Event) -> Sequence[int]:
        """Raises `StoreError` for an event that begins a change during an outage."""
        if not events:
            return range(0)
        await self._block_if_rebuild_needed()
        failed: StoreError | None = None
        if self.outage is None and not self._mode_lock.locked():
            try:
                return self._remember_written(await self._write(events), events)
            except _FATAL_ERRORS:
                raise
            except StoreError as error:
                failed = error
        numbers: Sequence[int] = ()
        # as with any journal: an append that was begun is kept
        with anyio.CancelScope(shield=True):
            async with self._mode_lock:
                numbers = await self._append_or_hold(events, failed)
        return numbers

    async def select(self, after: int, want: EventFilter) -> AsyncIterator[JournalRecord]:
        """Raises `StoreError` for earlier events during an outage; see `_records_in_memory`."""
        if want.is_empty:
            await self._block_if_rebuild_needed()
        memory = self._held.records if self.outage is not None else ()
        if self.outage is None or after < self._held.base_seq:
            try:
                async with aclosing(self._read_stored(after, want)) as stored:
                    async for recorded in stored:
                        after = recorded.seq
                        yield recorded
            except _FATAL_ERRORS:
                raise
            except StoreError as error:
                memory = await self._records_in_memory(error, after, want)
        for recorded in memory:
            if recorded.seq > after and want.matches(recorded.event):
                yield recorded

    async def last(self) -> int:
        if self.outage is None:
            try:
                newest = await self._readable.last()
            except _FATAL_ERRORS:
                raise
            except StoreError as error:
                await self._handle_failure(error)
            else:
                self._highest_seq = max(self._highest_seq, newest)
                return newest
        return self._held.last_seq

    async def changed(self, after: int) -> None:
        while True:
            stirred = self._state_changed
            await self._block_if_rebuild_needed()
            if self.outage is not None:
                if self._held.last_seq > after:
                    return
                await stirred.wait()
            elif await self._wait_for_store_change(after, stirred):
                return

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        if self._store is not None:
            return await self._store.runs(limit=limit, parent=parent, deleted=deleted)
        return fold_runs(self._held.records, limit, parent, deleted)

    async def append_checkpoint(
        self, sign: Callable[[JournalTip], CheckpointSigned]
    ) -> JournalTip | None:
        """Raises `StoreError` while the file cannot be written."""
        if self.outage is not None:
            raise StoreError(f"no checkpoint can be signed now: {self.outage.reason}")
        return await self._readable.append_checkpoint(sign)

    async def check(self) -> None:
        """Notice that the file is gone or cannot be written, without writing to it."""
        if self.outage is None and (
            why := await anyio.to_thread.run_sync(self._file.write_problem)
        ):
            await self._handle_failure(StoreError(why))

    async def retry_write(self) -> bool:
        """Open the file and append the held events; True when there is no outage now."""
        with anyio.CancelScope(shield=True):
            async with self._mode_lock:
                if self.outage is not None:
                    await self._try_resume(self.outage)
        return self.outage is None

    async def wait_until_writable(self) -> None:
        while self.outage is not None:
            await self._state_changed.wait()

    async def restore_reserve(self) -> None:
        """Allocate the reserve if there is space. Its use and its restoration are recorded once."""
        reserve = self.reserve
        if reserve is None or self.outage is not None or self.rebuild_needed.is_set():
            return
        complete = await anyio.to_thread.run_sync(reserve.ensure)
        if complete == self._reserve_complete:
            return
        self._reserve_complete, left = complete, reserve.left_bytes
        wanted = reserve.wanted_bytes
        if complete:
            await self.append(ReserveRestored(run=WATCH_RUN_ID, size_bytes=wanted))
        else:
            await self.append(ReserveReleased(run=WATCH_RUN_ID, left_bytes=left, size_bytes=wanted))

    async def close(self) -> None:
        """Record the held events if that is possible now; else they are lost and counted."""
        if self.outage is not None:
            await self.retry_write()
        self.lost_events, self._closed = self.held_events, True
        await self._close_store()

    @property
    def _readable(self) -> SqliteJournal:
        if self._store is None:
            why = self.outage.reason if self.outage is not None else "it is closed"
            raise StoreError(f"the journal cannot be read: {why}")
        return self._store

    async def _block_if_rebuild_needed(self) -> None:
        if self.rebuild_needed.is_set():
            await anyio.sleep_forever()

    async def _write(self, events: Sequence[Event]) -> Sequence[int]:
        self._writes_in_flight += 1
        try:
            return await self._readable.append(*events)
        finally:
            self._writes_in_flight -= 1
            if not self._writes_in_flight:
                self._writes_finished.set()
                self._writes_finished = anyio.Event()

    def _remember_written(self, numbers: Sequence[int], events: Sequence[Event]) -> Sequence[int]:
        self._highest_seq = max(self._highest_seq, numbers[-1])
        self._recent.extend(map(JournalRecord, numbers, events))
        return numbers

    async def _append_or_hold(
        self, events: Sequence[Event], failed: StoreError | None
    ) -> Sequence[int]:
        """One at a time: first with the reserve, as long as it lasts, then in memory."""
        while self.outage is None and (failed is None or await self._release_reserve(failed)):
            try:
                return self._remember_written(await self._write(events), events)
            except _FATAL_ERRORS:
                raise
            except StoreError as error:
                failed = error
        if self.outage is None and failed is not None:
            await self._begin_outage(failed)
        if self.outage is not None and any(map(begins_change, events)):
            why = self.outage.reason
            raise StoreError(f"no change is made while the journal cannot be written: {why}")
        numbers = self._held.add(events)
        self._wake_waiters()
        return numbers

    async def _release_reserve(self, error: StoreError) -> bool:
        """Return whether a retry has a chance: the disk is full, and the reserve freed some
        space."""
        if self.reserve is None or not isinstance(error, StoreFull):
            return False
        return bool(await anyio.to_thread.run_sync(self.reserve.release))

    async def _handle_failure(self, error: StoreError) -> None:
        if self._closed:
            raise error
        with anyio.CancelScope(shield=True):
            async with self._mode_lock:
                if self.outage is None:
                    await self._begin_outage(error)

    async def _begin_outage(self, error: StoreError) -> None:
        """From here on events are held. Their numbers are assigned once no write is under way."""
        while self._writes_in_flight:
            await self._writes_finished.wait()
        self._start_holding(error)
        if not isinstance(error, StoreFull):
            await self._close_store()  # an open file would keep a filesystem from being repaired
        self._wake_waiters()

    def _start_holding(self, error: StoreError) -> None:
        now, reason = datetime.now(UTC), str(error)
        self._held = HeldEvents(self._highest_seq)
        self._held.add([JournalInterrupted(run=WATCH_RUN_ID, at=now, since=now, reason=reason)])
        self.outage = JournalOutage(since=now, reason=reason, full=isinstance(error, StoreFull))

    async def _try_resume(self, outage: JournalOutage) -> None:
        try:
            if self._file.has_space or not outage.full:
                await self._resume(outage)
        except StoreError as error:
            full = isinstance(error, StoreFull)
            self.outage = replace(outage, reason=str(error), full=full)
            if not full:
                await self._close_store()

    async def _resume(self, outage: JournalOutage) -> None:
        store, held = self._store or await self._open(), self._held
        known = self._file.is_same_file
        done = await resume_journal(
            store, held, tuple(self._recent), since=outage.since, same_file=known
        )
        self._file.remember_identity()
        self._recent.extend(held.records)
        self.outage, self._highest_seq = None, done.last
        if not done.numbers_unchanged:
            self.rebuild_needed.set()
        self._wake_waiters()

    async def _open(self) -> SqliteJournal:
        await anyio.to_thread.run_sync(self._file.check_mounted)
        while self._store is None:
            try:
                self._store = await SqliteJournal.open_unmanaged(
                    self._file.path, timeout_s=self._timeout_s
                )
            except StoreError as error:
                if not await self._release_reserve(error):
                    raise
        if self.outage is None:
            self._file.remember_identity()
        return self._store

    async def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    async def _read_stored(
        self, after: int, want: EventFilter
    ) -> AsyncGenerator[JournalRecord, None]:
        """Events of the file; during an outage only those from before it."""
        async for recorded in self._readable.select(after, want):
            if self.outage is not None and recorded.seq > self._held.base_seq:
                return
            self._highest_seq = max(self._highest_seq, recorded.seq)
            yield recorded

    async def _records_in_memory(
        self, error: StoreError, after: int, want: EventFilter
    ) -> tuple[JournalRecord, ...]:
        """For followers, for runs that began in memory, and for readers that miss only events of
        this process; earlier events are not available."""
        if self.outage is None:
            await self._handle_failure(error)
        run = want.run
        began_in_memory = run is not None and self._held.holds_run_start(run)
        if not (want.is_empty or began_in_memory or self._remembers_all_since(after)):
            raise error
        return (*sorted(self._recent, key=lambda each: each.seq), *self._held.records)

    def _remembers_all_since(self, after: int) -> bool:
        """Return whether memory has every event between this number and the outage."""
        missing = range(after + 1, self._held.base_seq + 1)
        if len(missing) > len(self._recent):
            return False
        return set(missing) <= {each.seq for each in self._recent}

    async def _wait_for_store_change(self, after: int, stirred: anyio.Event) -> bool:
        """Return False when something happened to the journal itself: check again."""
        found = False

        async def follow() -> None:
            nonlocal found
            try:
                await self._readable.changed(after)
                found = True
            except _FATAL_ERRORS:
                raise
            except StoreError as error:
                if self.outage is None:
                    await self._handle_failure(error)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await stirred.wait()
            group.cancel_scope.cancel()
        return found

    def _wake_waiters(self) -> None:
        self._state_changed.set()
        self._state_changed = anyio.Event()
