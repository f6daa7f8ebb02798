"""Events held in memory during an outage of the journal: bounded, ordered, and resumed later."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from hermes.core.actions import READ_ONLY_EFFECTS
from hermes.core.events import Event, encode_event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.incidents import ChangeBegan
from hermes.core.events.operations import JournalResumed
from hermes.core.events.tools import ToolStarted
from hermes.core.messages import Risk
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.sqlite_journal import SqliteJournal

MAX_HELD_EVENTS = 20_000
MAX_HELD_BYTES = 32 * 1024 * 1024
DROP_DIVISOR = 20
"""When memory is full, one part in this many is dropped at once."""
IMPORTANT_KIND_PREFIXES = (
    "alert.",
    "incident.",
    "change.",
    "notice.",
    "watch.",
    "journal.",
    "approval.",
)
"""Kinds from which an incident is reported. All other kinds are dropped before them."""
UNIMPORTANT_KINDS = frozenset({"incident.checked", "notice.tried"})
"""Prefixes of such kinds that the report does not need."""
_NOTICE_SEQ = re.compile(r"(?<=:)(declared|graver|part|resolved|escalated|missed):(\d+)$")

SeqMapping = Callable[[int], int | None]
"""The number that an event has in the journal, by its number in memory; None: it has none."""


class HeldEvent(NamedTuple):
    seq: int
    event: Event
    size_bytes: int


class HeldEvents:
    """Numbers continue after `base`, the newest event that is in the journal."""

    def __init__(
        self,
        base_seq: int,
        *,
        max_events: int = MAX_HELD_EVENTS,
        max_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self.base_seq = base_seq
        self.entries: list[HeldEvent] = []
        self.dropped_events = 0
        self._max_events, self._max_bytes = max_events, max_bytes
        self._bytes = 0
        self._last_seq = base_seq

    @property
    def last_seq(self) -> int:
        return self._last_seq

    @property
    def records(self) -> tuple[JournalRecord, ...]:
        return tuple(JournalRecord(each.seq, each.event) for each in self.entries)

    @property
    def complete(self) -> bool:
        """Nothing was dropped, so the numbers have no gaps."""
        return not self.dropped_events

    def add(self, events: Sequence[Event]) -> range:
        first = self._last_seq + 1
        for event in events:
            self._last_seq += 1
            entry = HeldEvent(self._last_seq, event, len(encode_event(event)))
            self.entries.append(entry)
            self._bytes += entry.size_bytes
        if len(self.entries) > self._max_events or self._bytes > self._max_bytes:
            self._drop()
        return range(first, self._last_seq + 1)

    def holds_run_start(self, run: str) -> bool:
        """Return whether this run began while events were held: then all of it is here."""
        first = run.partition("/")[0]
        opening = ("incident.opened", "run.started")
        return any(
            each.event.kind in opening and each.event.run in (first, run) for each in self.entries
        )

    def _drop(self) -> None:
        """Drop the oldest of the least important events."""
        count = max(len(self.entries) // DROP_DIVISOR, len(self.entries) - self._max_events)
        size = max(self._bytes // DROP_DIVISOR, self._bytes - self._max_bytes)
        gone: set[int] = set()
        for entry in sorted(self.entries, key=_keep_priority):
            if len(gone) >= count and size <= 0:
                break
            gone.add(entry.seq)
            size -= entry.size_bytes
            self._bytes -= entry.size_bytes
        self.entries = [each for each in self.entries if each.seq not in gone]
        self.dropped_events += len(gone)


def _keep_priority(entry: HeldEvent) -> tuple[bool, int]:
    kind = entry.event.kind
    kept = kind.startswith(IMPORTANT_KIND_PREFIXES) and kind not in UNIMPORTANT_KINDS
    return kept, entry.seq


def begins_change(event: Event) -> bool:
    """Return whether it must be in the journal before anything else happens."""
    if isinstance(event, ToolStarted):
        reads = bool(event.effects) and READ_ONLY_EFFECTS.issuperset(event.effects)
        return event.risk != Risk.READ and not reads
    return isinstance(event, ChangeBegan)


def renumber_references(event: Event, new_seq: SeqMapping) -> Event:
    """The event with every reference to another event changed to its new number."""
    changes: dict[str, Any] = {}
    for name in ("alerts", "evidence"):
        references = getattr(event, name, ())
        if isinstance(references, tuple) and references and isinstance(references[0], int):
            known = (new_seq(seq) for seq in references)
            changes[name] = tuple(seq for seq in known if seq is not None)
    if up_to := getattr(event, "up_to", 0):
        changes["up_to"] = new_seq(up_to) or 0
    if notice := getattr(event, "notice", ""):
        changes["notice"] = _renumber_notice(notice, new_seq)
    if covers := getattr(event, "covers", ()):
        changes["covers"] = tuple(_renumber_notice(each, new_seq) for each in covers)
    return replace(event, **changes) if changes else event


def _renumber_notice(notice: str, new_seq: SeqMapping) -> str:
    """Notifications are named after the event that they are about: `…:declared:57`."""
    return _NOTICE_SEQ.sub(lambda its: f"{its[1]}:{new_seq(int(its[2])) or its[2]}", notice)


WATCH_RUN_ID = "watch"


class ResumeResult(NamedTuple):
    last: int
    numbers_unchanged: bool
    """Every event has the number in the file that it had in memory."""


async def resume_journal(
    store: SqliteJournal,
    held: HeldEvents,
    recent: Sequence[JournalRecord],
    *,
    since: datetime,
    same_file: bool,
) -> ResumeResult:
    """Append the held events in one transaction, with an event that the journal has resumed.

    `recent` are the last events that were written before: a disk that failed may have lost some of
    them although they were acknowledged, and these are written again first. `same_file`: the file
    is the one that was in use. Raises `StoreError`, and then nothing was appended.
    """
    newest = await store.last()
    lost = _lost_events(newest, held.base_seq, recent)
    same = await _file_continues(
        store, min(newest, held.base_seq), held.base_seq, recent, same_file
    ) and (newest + len(lost) >= held.base_seq)
    again = lost if same else []
    found = await _seqs_already_written(store, held) if same and newest > held.base_seq else []
    waiting = [*held.entries[:1], *held.entries[1 + len(found) :]]
    first = newest + len(again) + 1
    known = held.entries[1 : 1 + len(found)]
    new_seqs = {each.seq: seq for each, seq in zip(known, found, strict=True)}
    new_seqs |= {each.seq: first + offset for offset, each in enumerate(waiting)}

    def number(seq: int) -> int | None:
        return new_seqs.get(seq, seq if same and seq <= held.base_seq else None)

    resumed = JournalResumed(
        run=WATCH_RUN_ID,
        since=since,
        held=len(held.entries),
        dropped=held.dropped_events,
        again=len(again),
    )
    events = [renumber_references(each.event, number) for each in waiting]
    numbers = await store.append(*again, *events, resumed)
    steady = same and held.complete and newest <= held.base_seq and numbers[0] == newest + 1
    return ResumeResult(numbers[-1], steady)


def _lost_events(newest: int, base: int, recent: Sequence[JournalRecord]) -> list[Event]:
    """Events that were acknowledged and are not in the file; empty unless all of them are known."""
    found = {each.seq: each.event for each in recent if newest < each.seq <= base}
    events = [event for _, event in sorted(found.items()) if not isinstance(event, UnknownEvent)]
    return events if len(events) == base - newest else []


async def _file_continues(
    store: SqliteJournal, at: int, base: int, recent: Sequence[JournalRecord], same_file: bool
) -> bool:
    """Return whether the file ends, or is at `at`, with the events we know to be there."""
    if not at:
        return True
    known = [each for each in recent if each.seq == at]
    if not known:
        return same_file and at == base
    async for recorded in store.read(after=at - 1):
        return recorded == known[-1]
    return False


async def _seqs_already_written(store: SqliteJournal, held: HeldEvents) -> list[int]:
    """Numbers of events that are in the file already: written, but not acknowledged.

    The first of the held events records the outage itself, and is not among them.
    """
    found: list[int] = []
    waiting = iter(held.entries[1:] if held.base_seq and held.complete else list[HeldEvent]())
    async for recorded in store.read(after=held.base_seq):
        entry = next(waiting, None)
        if entry is None or recorded.event != entry.event:
            break
        found.append(recorded.seq)
    return found
