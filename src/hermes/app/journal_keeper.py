"""Looks after the journal of a watch: notices trouble, tries again, says so on standard error."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio

from hermes.memory.buffered_journal import BufferedJournal, Outage
from hermes.memory.opening import Store, open_journal
from hermes.memory.reserve import FILE, MIB, Reserve
from hermes.settings.load import Loaded

LOOK_S = 1.0
"""Seconds between two looks at the file, and between two tries to write it again."""


def open_buffered(loaded: Loaded) -> AbstractAsyncContextManager[Store]:
    """The journal of a watch. A database on a server is used as it is: it is not in the home."""
    settings, store = loaded.settings.store, loaded.store
    if not isinstance(store, Path):
        return open_journal(store, patience=settings.patience)
    reserve = None
    if settings.reserve_mib > 0:
        reserve = Reserve(store.parent / FILE, size_bytes=settings.reserve_mib * MIB)
    return _accounted(BufferedJournal.open(store, patience=settings.patience, reserve=reserve))


@asynccontextmanager
async def _accounted(
    opening: AbstractAsyncContextManager[BufferedJournal],
) -> AsyncGenerator[Store, None]:
    """What was never recorded is said at the end."""
    journal = None
    try:
        async with opening as journal:
            yield journal
    finally:
        if journal is not None and journal.lost:
            warn(f"it ends with {journal.lost} events in memory that could not be recorded")


def warn(text: str) -> None:
    sys.stderr.write(f"hermes watch: {text}\n")
    sys.stderr.flush()


class JournalKeeper:
    """Notices go out through the stream of events; this one writes lines for who sits here."""

    def __init__(self, journal: BufferedJournal, *, say: Callable[[str], None] = warn) -> None:
        self._journal, self._say = journal, say
        self._announced: Outage | None = None

    async def run(self) -> None:
        """Until cancelled, or until everything must be built anew on the journal."""
        while not self._journal.rebuild.is_set():
            await self._look()
            await anyio.sleep(LOOK_S)

    async def until_writable(self) -> None:
        """At least one look later: what failed for another reason must not be tried in a rush."""
        await anyio.sleep(LOOK_S)
        await self._journal.until_writable()

    def gauges(self) -> dict[str, float]:
        """For the metrics."""
        journal = self._journal
        return {
            "journal_writable": float(journal.outage is None),
            "journal_held_events": float(journal.held),
            "journal_dropped_events": float(journal.dropped),
            "reserve_bytes": float(journal.reserve.left_bytes if journal.reserve else 0),
        }

    async def _look(self) -> None:
        journal = self._journal
        if journal.outage is None:
            await journal.check()
            await journal.restore_reserve()
        self._announce(journal.outage)
        if journal.outage is not None and await journal.try_again():
            self._announce(None)

    def _announce(self, outage: Outage | None) -> None:
        if outage is not None and self._announced is None:
            self._say(
                f"the journal cannot be written: {outage.reason}\n"
                "  The watch goes on from memory. It probes and notifies; it changes nothing on "
                "this host.\n  What happens is recorded as soon as the journal can be written."
            )
        elif outage is None and self._announced is not None:
            dropped = self._journal.dropped
            lost = f"; {dropped} events did not fit into memory and are lost" if dropped else ""
            self._say(f"the journal can be written again, and what was held is in it{lost}")
        self._announced = outage
