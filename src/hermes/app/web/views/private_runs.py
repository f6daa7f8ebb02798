"""Runs of private chats, and whose they are: what was said there is shown to no one else."""

from collections.abc import Callable

from hermes.app.journal.search import root_run
from hermes.core.events.runs import RunStarted
from hermes.core.protocols import Journal

MayRead = Callable[[str], bool]
"""Whether one person may read what was said in a run."""


class PrivateRuns:
    """Reads on from where it was, once for each page and not once for each row."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._owners: dict[str, str] = {}
        self._read_to = 0

    async def readable_by(self, person: str) -> MayRead:
        """A check for this person, as of now. Raises `StoreError`."""
        newest = await self._journal.last()
        if newest != self._read_to:
            await self._read_on()
            self._read_to = newest
        hidden = frozenset(run for run, owner in self._owners.items() if owner != person)

        def may_read(run: str) -> bool:
            return root_run(run) not in hidden

        return may_read

    async def _read_on(self) -> None:
        async for recorded in self._journal.read(after=self._read_to, kinds=("run.started",)):
            if isinstance(event := recorded.event, RunStarted) and event.audience:
                self._owners[event.run] = event.by
