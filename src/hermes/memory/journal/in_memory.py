"""A journal in memory for tests and temporary runs, with the contract of the SQLite journal."""

from collections.abc import AsyncIterator, Sequence

import anyio

from hermes.core.events import Event
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.runs import EventFilter, RunSummary, SelectsEvents, fold_runs


class InMemoryJournal(SelectsEvents):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._appended = anyio.Event()

    async def append(self, *events: Event) -> Sequence[int]:
        first = len(self.events) + 1
        self.events.extend(events)
        self._appended.set()
        self._appended = anyio.Event()
        return range(first, first + len(events))

    async def select(self, after: int, want: EventFilter) -> AsyncIterator[JournalRecord]:
        for seq, event in enumerate(self.events[after:], start=after + 1):
            if want.matches(event):
                yield JournalRecord(seq, event)

    async def last(self) -> int:
        return len(self.events)

    async def changed(self, after: int) -> None:
        while len(self.events) <= after:
            await self._appended.wait()

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        records = [JournalRecord(seq, event) for seq, event in enumerate(self.events, start=1)]
        return fold_runs(records, limit, parent, deleted)
