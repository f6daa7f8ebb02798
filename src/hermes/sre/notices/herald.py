"""Reads the stream for what people are owed, and hands it to the outbox."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import anyio
from anyio.abc import TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.watching import NoticeQueued
from hermes.sre.notices import ledger, mail
from hermes.sre.notices.compose import Composer
from hermes.sre.notices.ledger import Ledger
from hermes.sre.notices.outbox import Outbox
from hermes.sre.notices.settings import NoticeSettings
from hermes.sre.notices.sink import Sink, Wanted

BEAT = 1.0
"""Seconds between two looks at what is owed by the clock alone."""
BATCH = 20
PROMPT = frozenset(ledger.KINDS) - {"notice.queued", "run.started"}
REMEMBERED = timedelta(days=30)
"""Notices older than that are not read again after a start."""


class Herald:
    """`sinks` with what each of them is told; a chat channel is one more of them."""

    def __init__(
        self,
        bus: Bus,
        sinks: Sequence[tuple[Sink, Wanted]],
        settings: NoticeSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._bus, self._now = bus, now
        self._ledger = Ledger()
        self._composer = Composer(settings, [wanted for _, wanted in sinks])
        self._outbox = Outbox(bus, [sink for sink, _ in sinks], settings)
        self._unwritten: list[NoticeQueued] = []
        self._more = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. Raises `StoreError` when the journal cannot be read."""
        last = await self._take_up()
        async with anyio.create_task_group() as group:
            group.start_soon(self._outbox.run)
            group.start_soon(self._write)
            group.start_soon(self._by_the_clock)
            task_status.started()
            async for recorded in self._bus.follow(after=last):
                self._ledger.apply(recorded)
                self._outbox.hear(recorded)
                # At once, before the next event: an incident may be over when we look again.
                if recorded.event.kind in PROMPT:
                    self._compose()

    async def until_told(self) -> None:
        """Return once everything written so far has been told, or given up."""
        await self._outbox.reached(await self._bus.journal.last())
        self._compose()
        while self._unwritten:
            await self._outbox.reached(await self._bus.journal.last() + 1)
        await self._outbox.until_empty()

    async def _take_up(self) -> int:
        """What a watch before us left untold is owed by us."""
        last = await self._bus.journal.last()
        async for recorded in self._bus.journal.read(kinds=ledger.KINDS):
            if recorded.seq <= last:
                self._ledger.apply(recorded)
        since = self._now() - REMEMBERED
        async for recorded in self._bus.journal.read(kinds=mail.KINDS, since=since):
            if recorded.seq <= last:
                self._outbox.hear(recorded)
        self._outbox.caught_up(last)
        return last

    async def _by_the_clock(self) -> None:
        while True:
            self._compose()
            await anyio.sleep(BEAT)

    def _compose(self) -> None:
        for notice in self._composer.owed(self._ledger, self._now()):
            self._ledger.note(notice)
            self._unwritten.append(notice)
            self._more.set()

    async def _write(self) -> None:
        while True:
            while not self._unwritten:
                self._more = anyio.Event()
                await self._more.wait()
            try:
                await self._bus.publish(*self._unwritten[:BATCH])
                del self._unwritten[:BATCH]
            except StoreError:  # a full disk is a reason to tell people, not to stop trying
                await anyio.sleep(BEAT)
