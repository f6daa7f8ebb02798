"""Follows the events of incidents and queues the notifications that are due.

The outbox of the gateway delivers them.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.operations import NotificationQueued
from hermes.core.notifications import SinkFilter
from hermes.sre.notifications.composer import NotificationComposer
from hermes.sre.notifications.notification_state import NOTIFICATION_KINDS, NotificationState
from hermes.sre.settings import NoticeSettings

CLOCK_CHECK_S = 1.0
"""Seconds between two checks for notifications that are due by time."""
MAX_BATCH_EVENTS = 20
IMMEDIATE_KINDS = frozenset(NOTIFICATION_KINDS) - {"notice.queued", "run.started"}


class Notifier:
    """Composes notifications for sinks, each by its filter."""

    def __init__(
        self,
        bus: Bus,
        filters: Sequence[SinkFilter],
        settings: NoticeSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._bus, self._now = bus, now
        self._state = NotificationState()
        self._composer = NotificationComposer(settings, filters)
        self._unwritten: list[NotificationQueued] = []
        self._has_unwritten = anyio.Event()
        self._written = anyio.Event()
        self._seen = 0
        self._advanced = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Raises `StoreError` when the journal cannot be read."""
        last = await self._resume()
        async with anyio.create_task_group() as group:
            group.start_soon(self._publish_queued)
            group.start_soon(self._compose_on_timer)
            task_status.started()
            async for recorded in self._bus.follow(after=last):
                self._state.apply(recorded)
                # Compose before the next event: the incident may be over by then.
                if recorded.event.kind in IMMEDIATE_KINDS:
                    self._compose()
                self._advance_to(recorded.seq)

    async def wait_until_queued(self) -> None:
        """Return once everything that is due so far is queued."""
        last = await self._bus.journal.last()
        while self._seen < last:
            await self._advanced.wait()
        self._compose()
        while self._unwritten:
            await self._written.wait()

    async def _resume(self) -> int:
        """Read what an earlier watch left."""
        last = await self._bus.journal.last()
        async for recorded in self._bus.journal.read(kinds=NOTIFICATION_KINDS):
            if recorded.seq <= last:
                self._state.apply(recorded)
        self._advance_to(last)
        return last

    def _advance_to(self, seq: int) -> None:
        self._seen = seq
        self._advanced.set()
        self._advanced = anyio.Event()

    async def _compose_on_timer(self) -> None:
        while True:
            self._compose()
            await anyio.sleep(CLOCK_CHECK_S)

    def _compose(self) -> None:
        for notice in self._composer.compose(self._state, self._now()):
            self._state.mark_queued(notice)
            self._unwritten.append(notice)
            self._has_unwritten.set()

    async def _publish_queued(self) -> None:
        while True:
            while not self._unwritten:
                self._has_unwritten = anyio.Event()
                await self._has_unwritten.wait()
            try:
                await self._bus.publish(*self._unwritten[:MAX_BATCH_EVENTS])
                del self._unwritten[:MAX_BATCH_EVENTS]
                self._written.set()
                self._written = anyio.Event()
            except StoreError:  # retry: the disk may be full
                await anyio.sleep(CLOCK_CHECK_S)
