"""The half of a journal that reads and follows; stores differ only in how they are asked."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import anyio

from hermes.core.protocols import Recorded
from hermes.memory.pages import Page, wanted
from hermes.memory.runs import RunSummary

Ask = Callable[[Callable[[Any], Any]], Awaitable[Any]]
"""Puts a question to a store: it is called with a connection, and its answer comes back."""


class Questions(NamedTuple):
    """A store's own way to find out; each takes a connection first."""

    last: Callable[..., Any]
    skip_older: Callable[..., Any]
    fetch: Callable[..., Any]
    list_runs: Callable[..., Any]


class Reading:
    def __init__(self, ask: Ask, questions: Questions) -> None:
        self._ask = ask
        self._questions = questions
        self._newest = 0
        self._stirred = anyio.Event()

    async def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
    ) -> AsyncIterator[Recorded]:
        """Events in order. Those of a deleted run are left out once a compaction took its texts."""
        want = wanted(run, kinds, since)
        _, skip_older, fetch, _ = self._questions
        start: int | None = after
        if want.since is not None:
            start = await self._ask(partial(skip_older, after=after, since=want.since))
        while start is not None:
            page: Page = await self._ask(partial(fetch, after=start, want=want))
            for recorded in page.records:
                yield recorded
            start = page.after

    async def last(self) -> int:
        newest: int = await self._ask(self._questions.last)
        return newest

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        """Runs, the last started first: without a parent, of one parent, or (None) all."""
        list_runs = partial(self._questions.list_runs, limit=limit, parent=parent, deleted=deleted)
        found: Sequence[RunSummary] = await self._ask(list_runs)
        return found

    async def passed(self, after: int, pause: float) -> bool:
        """Whether there is an event past `after`; a no comes only when it is time to look again."""
        stirred = self._stirred  # before the look: nothing can slip in between
        if self._newest > after or await self.last() > after:
            return True
        with anyio.move_on_after(pause):
            await stirred.wait()
        return False

    def reached(self, seq: int) -> None:
        """There are events up to this number."""
        self._newest = max(self._newest, seq)
        self.stir()

    def stir(self) -> None:
        """Let all who wait look again."""
        self._stirred.set()
        self._stirred = anyio.Event()
