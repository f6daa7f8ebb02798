"""Writes facts down: what rules and models found becomes events, and the store follows them."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from hermes.core.events.memory import FactNoted
from hermes.core.protocols import Journal, Recorded
from hermes.memory.facts.fact import Candidate
from hermes.memory.facts.gather import gather
from hermes.memory.facts.patterns import patterns
from hermes.memory.facts.settle import Settled, settle
from hermes.memory.facts.sqlite_facts import SqliteFacts
from hermes.memory.facts.store import Wanted

Publish = Callable[..., Awaitable[Sequence[int]]]
MOST_PATTERNS = 500


def now() -> datetime:
    return datetime.now(UTC)


class FactKeeper:
    """Opens the store when it is first needed. One writes at a time; other processes may too."""

    def __init__(
        self,
        path: Path,
        journal: Journal,
        publish: Publish | None = None,
        *,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self.facts = SqliteFacts(path, journal)
        self._journal = journal
        self._publish: Callable[..., Awaitable[Any]] = publish or journal.append
        self._clock = clock
        self._lock = anyio.Lock()

    async def keep(self, run: str, candidates: Iterable[Candidate]) -> list[Settled]:
        """Note, confirm or supersede; what was written down."""
        wanted = list(candidates)
        if not wanted:
            return []
        async with self._lock:
            return await self._keep(run, wanted)

    async def learn(
        self, run: str, records: Sequence[Recorded], more: Sequence[Candidate] = ()
    ) -> list[Settled]:
        """Everything that rules find in these events, and `more` that somebody else found."""
        found = [*gather(records), *more]
        if not found:
            return []
        async with self._lock:
            written = await self._keep(run, found)
            if not written:
                return []
            await self.facts.catch_up()
            seen = Wanted(memory="episodic", limit=MOST_PATTERNS)
            repeated = patterns(await self.facts.find(seen), self._clock())
            return [*written, *await self._keep(run, repeated)]

    def close(self) -> None:
        self.facts.close()

    async def _keep(self, run: str, candidates: Iterable[Candidate]) -> list[Settled]:
        await self.facts.catch_up()
        events = await settle(self.facts, candidates, run=run, at=self._clock())
        if events:
            await self._publish(*events)
        return events


def noted(events: Iterable[Settled]) -> list[FactNoted]:
    return [event for event in events if isinstance(event, FactNoted)]
