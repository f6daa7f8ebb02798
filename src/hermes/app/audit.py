"""Keeps the audit log signed while a house works, and verifies it for those who ask.

When is signed: right after something that was approved, refused or changed the world is settled
(at most once a second), every ten minutes while anything happens, and when the house closes if a
tool was judged since, or if the last signature is older than ten minutes. A question that touches
nothing does not pay for the library.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event
from hermes.core.events.approvals import ActionStopped, ApprovalSettled, GrantGiven
from hermes.core.events.audit import CheckpointSigned
from hermes.core.events.tools import ToolApproved, ToolDecided, ToolFinished
from hermes.memory.sealing import Tip
from hermes.policy.audit_head import head_file, write_head

LATEST = 600.0
"""Seconds after which what happened is signed, whatever it was."""
PAUSE = 1.0
"""Seconds between two signatures while much happens."""
_SETTLED = (ToolApproved, ApprovalSettled, GrantGiven, ActionStopped)


@runtime_checkable
class Seals(Protocol):
    """A journal that can take a signed checkpoint at its end."""

    async def seal(self, sign: Callable[[Tip], CheckpointSigned]) -> Tip | None: ...


class Notary:
    """Hears what was written and signs for it. One for each open house."""

    def __init__(self, journal: object, home: Path, place: str) -> None:
        self._journal = journal
        self._home = home
        self._head = head_file(home, place)
        self._open: set[tuple[str, str]] = set()
        self._judged = self._heard_any = False
        self._due = anyio.Event()
        self._trouble: HermesError | None = None
        self._group: TaskGroup | None = None

    def heard(self, event: Event) -> None:
        self._heard_any = True
        if isinstance(event, ToolDecided):
            self._judged = True
            if event.verdict != "allow" or not {"read"}.issuperset(event.effects):
                self._open.add((event.run, event.call_id))
        elif isinstance(event, _SETTLED):
            self._due.set()
        elif isinstance(event, ToolFinished):
            call = event.run, event.result.call_id
            if call in self._open:
                self._open.discard(call)
                self._due.set()

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._work)
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
            # An error of the block is not the group's: handed in, it would come out wrapped.
            await group.__aexit__(None, None, None)
        with anyio.CancelScope(shield=True):
            if self._judged or self._due.is_set() or (self._heard_any and self._stale()):
                await self._try()
        if self._trouble is not None and error is None:
            raise self._trouble

    async def sign(self) -> Tip | None:
        """Sign for everything written so far; None when there is nothing new, or nowhere to."""
        self._due, self._judged, self._heard_any = anyio.Event(), False, False
        if not isinstance(self._journal, Seals):
            return None
        from hermes.policy.audit_key import open_signer

        signer = await anyio.to_thread.run_sync(open_signer, self._home)
        sealed = await self._journal.seal(
            lambda tip: signer.sign(tip.seq, tip.digest, after=tip.last)
        )
        if sealed is not None:
            head = signer.sign_head(sealed.seq, sealed.digest)
            try:
                await anyio.to_thread.run_sync(write_head, self._head, head)
            except OSError as error:
                raise StoreError(f"cannot write {self._head}: {error.strerror}") from error
        return sealed

    async def _work(self) -> None:
        while self._trouble is None or isinstance(self._trouble, StoreError):
            with anyio.move_on_after(LATEST):
                await self._due.wait()
            if self._heard_any or self._due.is_set():
                with anyio.CancelScope(shield=True):
                    await self._try()
            await anyio.sleep(PAUSE)

    async def _try(self) -> None:
        try:
            await self.sign()
            self._trouble = None
        except HermesError as error:
            # The work goes on: what is not signed is chained, and verification says so. A store
            # that cannot be written now is tried again when there is more to sign.
            self._trouble = error
        except OSError as error:
            self._trouble = StoreError(f"cannot sign in {self._home}: {error.strerror}")

    def _stale(self) -> bool:
        try:
            return time.time() - self._head.stat().st_mtime > LATEST
        except OSError:
            return True
