"""A journal in memory for tests and temporary runs, with the contract of the SQLite journal."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import anyio

from hermes.core.events import Event
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.runs import RunSummary, fold_runs


class InMemoryJournal:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._appended = anyio.Event()

    async def append(self, *events: Event) -> Sequence[int]:
        first = len(self.events) + 1
        self.events.extend(events)
        self._appended.set()
        self._appended = anyio.Event()
        return range(first, first + len(events))

    async def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
    ) -> AsyncIterator[JournalRecord]:
        for seq, event in enumerate(self.events[after:], start=after + 1):
            if (
                run in (None, event.run)
                and (not kinds or event.kind in kinds)
                and (since is None or event.at >= since)
            ):
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
