"""Monitors the journal of a watch and signs checkpoints of what was written."""

import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event
from hermes.core.events.approvals import ActionStopped, ApprovalSettled, GrantGiven
from hermes.core.events.operations import CheckpointSigned
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolFinished
from hermes.memory.store import JournalStore, open_journal
from hermes.policy.audit.head import head_file, write_head
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.memory.held_copy import HeldCopy
    from hermes.memory.journal.buffered_journal import BufferedJournal, JournalOutage
    from hermes.memory.journal.maintenance import JournalTip
    from hermes.policy.audit.signer import AuditSigner

JOURNAL_CHECK_INTERVAL_S = 1.0
"""Seconds between two checks of the file, and between two attempts to write it again."""


def open_buffered_journal(loaded: LoadedSettings) -> AbstractAsyncContextManager[JournalStore]:
    """The journal of a watch. A database on a server is used directly: it is not in the home."""
    from hermes.memory.journal.buffered_journal import BufferedJournal
    from hermes.memory.journal.disk import MIB, RESERVE_FILE_NAME, DiskReserve

    settings, store = loaded.settings.store, loaded.store
    if not isinstance(store, Path):
        return open_journal(store, timeout_s=settings.patience)
    reserve = None
    if settings.reserve_mib > 0:
        reserve = DiskReserve(
            store.parent / RESERVE_FILE_NAME, size_bytes=settings.reserve_mib * MIB
        )
    return _report_losses(BufferedJournal.open(store, timeout_s=settings.patience, reserve=reserve))


@asynccontextmanager
async def _report_losses(
    opening: "AbstractAsyncContextManager[BufferedJournal]",
) -> AsyncGenerator[JournalStore, None]:
    """Reports at the end what was never recorded."""
    journal = None
    try:
        async with opening as journal:
            yield journal
    finally:
        if journal is not None and journal.lost_events:
            write_warning(
                f"it ends with {journal.lost_events} events in memory that could not be recorded"
            )


def write_warning(text: str) -> None:
    with suppress(OSError):  # the disk below a log may be full: the watch goes on
        sys.stderr.write(f"hermes watch: {text}\n")
        sys.stderr.flush()


class JournalMonitor:
    """Events report outages to everyone; this writes lines to standard error."""

    def __init__(
        self,
        journal: "BufferedJournal",
        *,
        say: Callable[[str], None] = write_warning,
        copy: "HeldCopy | None" = None,
    ) -> None:
        self._journal, self._say = journal, say
        self._copy = copy
        """What is held, for commands that are run beside the watch."""
        self._announced: JournalOutage | None = None

    async def run(self) -> None:
        """Check the journal until cancelled, or until everything has to be opened again."""
        while not self._journal.rebuild_needed.is_set():
            await self._check_journal()
            await anyio.sleep(JOURNAL_CHECK_INTERVAL_S)

    async def until_writable(self) -> None:
        """Wait until the journal can be written, for at least one check: what failed for another
        reason must not be retried at once."""
        await anyio.sleep(JOURNAL_CHECK_INTERVAL_S)
        await self._journal.wait_until_writable()

    def gauges(self) -> dict[str, float]:
        """Return the state of the journal as metrics."""
        journal = self._journal
        return {
            "journal_writable": float(journal.outage is None),
            "journal_held_events": float(journal.held_events),
            "journal_dropped_events": float(journal.dropped_events),
            "reserve_bytes": float(journal.reserve.left_bytes if journal.reserve else 0),
        }

    async def _check_journal(self) -> None:
        journal = self._journal
        if journal.outage is None:
            await journal.check()
            await journal.restore_reserve()
        self._announce(journal.outage)
        if journal.outage is not None and await journal.retry_write():
            self._announce(None)
        if self._copy is not None and (held := journal.held_records):
            await anyio.to_thread.run_sync(self._copy.write, held)
        elif self._copy is not None:
            self._copy.remove()  # also what a watch left that was killed

    def _announce(self, outage: "JournalOutage | None") -> None:
        if outage is not None and self._announced is None:
            self._say(
                f"the journal cannot be written: {outage.reason}\n"
                "  The watch continues from memory. It probes and notifies; it changes nothing on "
                "this host.\n  What happens is recorded as soon as the journal can be written."
            )
        elif outage is None and self._announced is not None:
            dropped = self._journal.dropped_events
            lost = f"; {dropped} events did not fit into memory and are lost" if dropped else ""
            self._say(f"the journal can be written again, and what was held is in it{lost}")
        self._announced = outage


MAX_UNSIGNED_S = 600.0
"""Seconds after which new events are signed, whatever they are."""
MIN_SIGN_INTERVAL_S = 1.0
"""Seconds between two signatures while many events arrive."""
_SIGNED_AT_ONCE = (ToolApproved, ApprovalSettled, GrantGiven, ActionStopped)


@runtime_checkable
class AcceptsCheckpoints(Protocol):
    """A journal that can append a signed checkpoint."""

    async def append_checkpoint(
        self, sign: "Callable[[JournalTip], CheckpointSigned]"
    ) -> "JournalTip | None": ...


class CheckpointSigner:
    """Signs for what was written. One for each open application."""

    def __init__(
        self, journal: object, home: Path, place: str, *, in_own_process: bool = False
    ) -> None:
        """`in_own_process`: the library that signs is never loaded here, which keeps memory free
        in a process that runs for long; each signature starts a process."""
        self._journal = journal
        self._home = home
        self._in_own_process = in_own_process
        self._head = head_file(home, place)
        self._open: set[tuple[str, str]] = set()
        self._has_decision = self._has_unsigned = False
        self._due = anyio.Event()
        self._error: HermesError | None = None
        self._group: TaskGroup | None = None

    def note_event(self, event: Event) -> None:
        self._has_unsigned = True
        if isinstance(event, ToolDecided):
            self._has_decision = True
            if event.verdict != "allow" or not {"read"}.issuperset(event.effects):
                self._open.add((event.run, event.call_id))
        elif isinstance(event, _SIGNED_AT_ONCE):
            self._due.set()
        elif isinstance(event, ToolFinished):
            call = event.run, event.result.call_id
            if call in self._open:
                self._open.discard(call)
                self._due.set()

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._sign_when_due)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raises `SettingsError` or `StoreError` when it could not sign."""
        group, self._group = self._group, None
        if group is not None:
            group.cancel_scope.cancel()
            # An error of the block is not the group's: passed on, it would be wrapped.
            await group.__aexit__(None, None, None)
        with anyio.CancelScope(shield=True):
            if (
                self._has_decision
                or self._due.is_set()
                or isinstance(self._error, StoreError)  # the journal may be writable again
                or (self._has_unsigned and self._is_overdue())
            ):
                await self._try_sign()
        if self._error is not None and error is None:
            raise self._error

    async def sign(self) -> "JournalTip | None":
        """Sign for everything written so far; None when there is nothing new, or the journal
        cannot."""
        self._due, self._has_decision, self._has_unsigned = anyio.Event(), False, False
        if not isinstance(self._journal, AcceptsCheckpoints):
            return None
        async with self._open_signer() as signer:
            checkpoint_tip = await self._journal.append_checkpoint(
                lambda tip: signer.sign(tip.seq, tip.digest, after=tip.last)
            )
            if checkpoint_tip is not None:
                head = await anyio.to_thread.run_sync(
                    signer.sign_head, checkpoint_tip.seq, checkpoint_tip.digest
                )
                try:
                    await anyio.to_thread.run_sync(write_head, self._head, head)
                except OSError as error:
                    raise StoreError(f"cannot write {self._head}: {error.strerror}") from error
        return checkpoint_tip

    @asynccontextmanager
    async def _open_signer(self) -> "AsyncGenerator[AuditSigner, None]":
        from hermes.policy.audit.signer import AuditSigner, SigningProcess

        if not self._in_own_process:
            from hermes.policy.audit.audit_key import open_audit_key

            yield AuditSigner(await anyio.to_thread.run_sync(open_audit_key, self._home))
            return
        process = await anyio.to_thread.run_sync(SigningProcess, self._home)
        try:
            yield AuditSigner(process)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(process.close)

    async def _sign_when_due(self) -> None:
        while self._error is None or isinstance(self._error, StoreError):
            with anyio.move_on_after(MAX_UNSIGNED_S):
                await self._due.wait()
            if self._has_unsigned or self._due.is_set():
                with anyio.CancelScope(shield=True):
                    await self._try_sign()
            await anyio.sleep(MIN_SIGN_INTERVAL_S)

    async def _try_sign(self) -> None:
        try:
            await self.sign()
            self._error = None
            return
        except HermesError as error:
            # The work continues: unsigned events are chained, and verification reports them. A
            # store that cannot be written now is tried again later.
            self._error = error
        except OSError as error:
            self._error = StoreError(f"cannot sign in {self._home}: {error.strerror}")
        self._has_unsigned = True

    def _is_overdue(self) -> bool:
        try:
            return time.time() - self._head.stat().st_mtime > MAX_UNSIGNED_S
        except OSError:
            return True
