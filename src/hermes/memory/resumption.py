"""Brings events that were held in memory into the file of the journal, once it can be written."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.watching import JournalResumed
from hermes.core.protocols import Recorded
from hermes.memory.held_events import Held, HeldEvents, renumber
from hermes.memory.journal import SqliteJournal

RUN = "watch"


class Resumed(NamedTuple):
    last: int
    steady: bool
    """Every event has the number in the file that it had in memory."""


async def resume(
    store: SqliteJournal,
    held: HeldEvents,
    recent: Sequence[Recorded],
    *,
    since: datetime,
    same_file: bool,
) -> Resumed:
    """Append what is held in one transaction, and the word that the journal goes on.

    `recent` are the last events that were written before: a disk that failed may have lost some of
    them although they were acknowledged, and these are written again first. `same_file`: the file
    is the one that was in use. Raises `StoreError`, and then nothing was appended.
    """
    newest = await store.last()
    lost = _lost(newest, held.base, recent)
    same = await _goes_on(store, min(newest, held.base), held.base, recent, same_file) and (
        newest + len(lost) >= held.base
    )
    again = lost if same else []
    found = await _found(store, held) if same and newest > held.base else []
    waiting = [*held.entries[:1], *held.entries[1 + len(found) :]]
    first = newest + len(again) + 1
    known = held.entries[1 : 1 + len(found)]
    places = {each.seq: seq for each, seq in zip(known, found, strict=True)}
    places |= {each.seq: first + place for place, each in enumerate(waiting)}

    def number(seq: int) -> int | None:
        return places.get(seq, seq if same and seq <= held.base else None)

    resumed = JournalResumed(
        run=RUN, since=since, held=len(held.entries), dropped=held.dropped, again=len(again)
    )
    events = [renumber(each.event, number) for each in waiting]
    numbers = await store.append(*again, *events, resumed)
    steady = same and held.whole and newest <= held.base and numbers[0] == newest + 1
    return Resumed(numbers[-1], steady)


def _lost(newest: int, base: int, recent: Sequence[Recorded]) -> list[Event]:
    """What was acknowledged and is not in the file; empty unless all of it is known."""
    found = {each.seq: each.event for each in recent if newest < each.seq <= base}
    events = [event for _, event in sorted(found.items()) if not isinstance(event, Unknown)]
    return events if len(events) == base - newest else []


async def _goes_on(
    store: SqliteJournal, at: int, base: int, recent: Sequence[Recorded], same_file: bool
) -> bool:
    """Whether the file ends, or is at `at`, with what we know to be there."""
    if not at:
        return True
    known = [each for each in recent if each.seq == at]
    if not known:
        return same_file and at == base
    async for recorded in store.read(after=at - 1):
        return recorded == known[-1]
    return False


async def _found(store: SqliteJournal, held: HeldEvents) -> list[int]:
    """Numbers of those that are in the file already: written, but nobody could say so.

    The first of the held events says that the journal was interrupted, and is not among them.
    """
    found: list[int] = []
    waiting = iter(held.entries[1:] if held.base and held.whole else list[Held]())
    async for recorded in store.read(after=held.base):
        entry = next(waiting, None)
        if entry is None or recorded.event != entry.event:
            break
        found.append(recorded.seq)
    return found
