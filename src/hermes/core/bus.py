"""Writes events to the journal first, and then delivers them to subscribers."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from hermes.core.events import Event
from hermes.core.messages import CompletionDelta, Value
from hermes.core.protocols import Journal, JournalRecord


class Glimpse(Value, frozen=True):
    """Something to show now and not to keep: a part of an answer that is being written."""

    run: str
    delta: CompletionDelta


BusItem = JournalRecord | Glimpse


class Bus:
    """Publishing never waits for a reader: a reader that falls behind continues from the journal.

    `clean` removes secrets from an event before it is stored or shown; `on_recorded` receives what
    was written.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        backlog: int = 1024,
        clean: Callable[[Event], Event] | None = None,
        on_recorded: Callable[[Event], None] | None = None,
    ) -> None:
        self.journal = journal
        self._backlog = backlog
        self._clean = clean
        self._on_recorded = on_recorded
        self._readers: set[MemoryObjectSendStream[BusItem]] = set()
        self._last: anyio.Event | None = None

    async def publish(self, *events: Event) -> Sequence[int]:
        return [seq for seq, _ in await self.record(*events)]

    async def record(self, *events: Event) -> Sequence[tuple[int, Event]]:
        """Publish, and return what was written: the numbers, and the events without secrets."""
        if self._clean is not None:
            events = tuple(map(self._clean, events))
        # Several publishers may wait for one group commit; each delivers its events only after the
        # one before it did, else two events numbered 5 and 6 could be delivered as 6, 5.
        before, mine = self._last, anyio.Event()
        self._last = mine
        try:
            numbers = await self.journal.append(*events)
            if before is not None:
                await before.wait()
            written = list(zip(numbers, events, strict=True))
            for seq, event in written:
                self._show(JournalRecord(seq, event))
        finally:
            mine.set()
            if self._last is mine:
                self._last = None
        if self._on_recorded is not None:
            for event in events:
                self._on_recorded(event)
        return written

    def glimpse(self, run: str, delta: CompletionDelta) -> None:
        self._show(Glimpse(run, delta))

    def _show(self, shown: BusItem) -> None:
        for reader in list(self._readers):
            try:
                reader.send_nowait(shown)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._readers.discard(reader)
                reader.close()

    async def follow(
        self, *, after: int = 0, run: str | None = None, kinds: Sequence[str] = ()
    ) -> AsyncIterator[JournalRecord]:
        """Yield every event after `after`, of all processes, in order: first stored events, then
        new ones. `kinds` restricts them."""
        while True:
            newest = await self.journal.last()  # read first: a later event wakes us again
            async for recorded in self.journal.read(after=after, run=run, kinds=kinds):
                after = recorded.seq
                yield recorded
            after = max(after, newest)
            await self.journal.changed(after)

    @asynccontextmanager
    async def subscribe(self) -> AsyncGenerator[MemoryObjectReceiveStream[BusItem], None]:
        """Yield what this process publishes from now on, with glimpses.

        The stream ends if its reader falls a whole backlog behind.
        """
        send, receive = anyio.create_memory_object_stream[BusItem](self._backlog)
        self._readers.add(send)
        try:
            yield receive
        finally:
            self._readers.discard(send)
            send.close()
            receive.close()
