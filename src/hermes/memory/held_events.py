"""Events that wait in memory for a journal that cannot be written: bounded, in order, numbered."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from hermes.core.actions import READ_ONLY_EFFECTS
from hermes.core.events import Event, encode
from hermes.core.events.incidents import ChangeBegan
from hermes.core.events.tools import ToolStarted
from hermes.core.messages import Risk
from hermes.core.protocols import Recorded

HELD_EVENTS_MOST = 20_000
HELD_BYTES_MOST = 32 * 1024 * 1024
DROP_SHARE = 20
"""When memory is full, one part in this many is dropped at once."""
KEPT_LONGEST = ("alert.", "incident.", "change.", "notice.", "watch.", "journal.", "approval.")
"""What the story of an incident is told from. Everything else is dropped before it."""
DROPPED_FIRST = frozenset({"incident.checked", "notice.tried"})
"""Parts of those that the story can do without."""
_NUMBERED = re.compile(r"(?<=:)(declared|graver|part|resolved|escalated|missed):(\d+)$")

Number = Callable[[int], int | None]
"""The number that an event has in the journal, by the one it had in memory; None: it has none."""


class Held(NamedTuple):
    seq: int
    event: Event
    size_bytes: int


class HeldEvents:
    """Numbers go on after `base`, the newest event that is in the journal."""

    def __init__(
        self,
        base: int,
        *,
        most_events: int = HELD_EVENTS_MOST,
        most_bytes: int = HELD_BYTES_MOST,
    ) -> None:
        self.base = base
        self.entries: list[Held] = []
        self.dropped = 0
        self._most_events, self._most_bytes = most_events, most_bytes
        self._bytes = 0
        self._last = base

    @property
    def last(self) -> int:
        return self._last

    @property
    def records(self) -> tuple[Recorded, ...]:
        return tuple(Recorded(each.seq, each.event) for each in self.entries)

    @property
    def whole(self) -> bool:
        """Nothing was dropped, so the numbers have no holes."""
        return not self.dropped

    def add(self, events: Sequence[Event]) -> range:
        first = self._last + 1
        for event in events:
            self._last += 1
            entry = Held(self._last, event, len(encode(event)))
            self.entries.append(entry)
            self._bytes += entry.size_bytes
        if len(self.entries) > self._most_events or self._bytes > self._most_bytes:
            self._drop()
        return range(first, self._last + 1)

    def begins(self, run: str) -> bool:
        """Whether this run began while events were held: then all of it is here."""
        first = run.partition("/")[0]
        opening = ("incident.opened", "run.started")
        return any(
            each.event.kind in opening and each.event.run in (first, run) for each in self.entries
        )

    def _drop(self) -> None:
        """The oldest of what matters least."""
        count = max(len(self.entries) // DROP_SHARE, len(self.entries) - self._most_events)
        size = max(self._bytes // DROP_SHARE, self._bytes - self._most_bytes)
        gone: set[int] = set()
        for entry in sorted(self.entries, key=_worth):
            if len(gone) >= count and size <= 0:
                break
            gone.add(entry.seq)
            size -= entry.size_bytes
            self._bytes -= entry.size_bytes
        self.entries = [each for each in self.entries if each.seq not in gone]
        self.dropped += len(gone)


def _worth(entry: Held) -> tuple[bool, int]:
    kind = entry.event.kind
    kept = kind.startswith(KEPT_LONGEST) and kind not in DROPPED_FIRST
    return kept, entry.seq


def matches(
    recorded: Recorded, run: str | None, kinds: Sequence[str], since: datetime | None
) -> bool:
    """Whether a reader who asked for these wants it."""
    event = recorded.event
    return (
        run in (None, event.run)
        and (not kinds or event.kind in kinds)
        and (since is None or event.at >= since)
    )


def begins_change(event: Event) -> bool:
    """Whether it must be in the journal before anything else happens."""
    if isinstance(event, ToolStarted):
        reads = bool(event.effects) and READ_ONLY_EFFECTS.issuperset(event.effects)
        return event.risk != Risk.READ and not reads
    return isinstance(event, ChangeBegan)


def renumber(event: Event, number: Number) -> Event:
    """The event with every reference to another event under the number that one has now."""
    changes: dict[str, Any] = {}
    for name in ("alerts", "evidence"):
        given = getattr(event, name, ())
        if isinstance(given, tuple) and given and isinstance(given[0], int):
            known = (number(seq) for seq in given)
            changes[name] = tuple(seq for seq in known if seq is not None)
    if up_to := getattr(event, "up_to", 0):
        changes["up_to"] = number(up_to) or 0
    if notice := getattr(event, "notice", ""):
        changes["notice"] = _renamed(notice, number)
    if covers := getattr(event, "covers", ()):
        changes["covers"] = tuple(_renamed(each, number) for each in covers)
    return replace(event, **changes) if changes else event


def _renamed(notice: str, number: Number) -> str:
    """Notices are named after the event that they are about: `…:declared:57`."""
    return _NUMBERED.sub(lambda its: f"{its[1]}:{number(int(its[2])) or its[2]}", notice)
