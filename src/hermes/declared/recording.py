"""Records the state of a host, and the changes since the last time.

Everything is safe against being killed: content is written before the changes that refer to it,
these before the state, and the state before the events. What is repeated has the same ids.
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.core.events.changes import ChangeSeen
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Value
from hermes.core.protocols import Journal, PublishEvents
from hermes.declared.change_log import ChangeAuthor, RecordedChange
from hermes.declared.state import State, StateChange, compare
from hermes.declared.store import StateStore

MAX_EVENTS = 300
"""Change events of one round; the others are counted, and are in the store."""
MAX_KNOWN_GOOD_AGE = timedelta(days=1)
CollectState = Callable[[State | None], Awaitable[State]]
FindAuthors = Callable[
    [Sequence[StateChange], datetime, datetime], Awaitable[Sequence[ChangeAuthor]]
]
"""Gets the changes, and between which times they happened."""
_PATH = re.compile(r"(?<![\w./-])/(?:[\w.@+-]+/)*[\w.@+-]+")


class RecordedRound(Value, frozen=True, kw_only=True):
    host: str
    state: str = ""
    """The id of the live state; empty when nothing at all differs from the last."""
    known_good: str = ""
    """The id of the new known good state; empty when there is none."""
    has_known_good: bool = False
    """Whether there is a known good state now, this one or an earlier one."""
    items: int = 0
    changes: tuple[RecordedChange, ...] = ()
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0


async def record_round(
    collect: CollectState,
    store: StateStore,
    host: str,
    *,
    known_good: bool = False,
    find_authors: FindAuthors,
) -> RecordedRound:
    """One look at the host. Raises `EnvironmentFailed` and `OSError`."""
    began = time.monotonic()
    known = store.latest(host, "live") or store.latest(host)
    state = await collect(known)
    changes = compare(known, state) if known is not None else ()
    recorded: tuple[RecordedChange, ...] = ()
    if known is not None:
        store.changes.discard_unfinished(known.at)
    if known is not None and changes:
        authors = await find_authors(changes, known.at, state.at)
        recorded = _with_authors(changes, authors, known, state, store)
        store.flush()
        store.changes.add(recorded)
    id = "" if known is not None and known.items == state.items else store.save(state)
    good, latest = "", store.latest(host)
    if known_good and _is_new_known_good(latest, state):
        good = store.save(replace(state, source="known-good"))
    return RecordedRound(
        host=host,
        state=id,
        known_good=good,
        has_known_good=bool(good) or latest is not None,
        items=len(state.items),
        changes=recorded,
        left_out=state.left_out,
        seconds=round(time.monotonic() - began, 3),
    )


def _is_new_known_good(latest: State | None, state: State) -> bool:
    if latest is None or compare(latest, state):
        return True
    return abs(state.at - latest.at) > MAX_KNOWN_GOOD_AGE


def _with_authors(
    changes: Sequence[StateChange],
    authors: Sequence[ChangeAuthor],
    known: State,
    state: State,
    store: StateStore,
) -> tuple[RecordedChange, ...]:
    unit_paths = _paths_by_unit(state, store)
    return tuple(
        RecordedChange(
            change=change,
            host=state.host,
            seen_at=state.at,
            after=known.at,
            author=author,
            units=units_of(change, unit_paths),
        )
        for change, author in zip(changes, authors, strict=True)
    )


def _paths_by_unit(state: State, store: StateStore) -> dict[str, frozenset[str]]:
    found = {}
    for id, item in state.items.items():
        if id.kind == "unit":
            text = (store.content(item.digest) or b"").decode("utf-8", "replace")
            found[id.key] = frozenset(_PATH.findall(text)) | {item.attributes.get("file", "")}
    return found


def units_of(change: StateChange, paths_by_unit: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """The units that name the item, its folder, or have its name in the path."""
    kind, key = change.item.kind, change.item.key
    if kind in ("unit", "service"):
        return (key,)
    if kind != "file":
        return ()
    found = []
    for unit, paths in paths_by_unit.items():
        name = unit.rpartition(".")[0] or unit
        inside = any(path and (key == path or key.startswith(f"{path}/")) for path in paths)
        if inside or f"/{name}/" in key or f"/{name}." in key or key.endswith(f"/{name}"):
            found.append(unit)
    return tuple(sorted(found))


async def publish_changes(store: StateStore, journal: Journal, publish: PublishEvents) -> int:
    """Publishes the changes that have no event yet; how many. Raises `StoreError`.

    A round may have been published before a crash: its events are not repeated.
    """
    count = 0
    for path, changes in list(store.changes.unpublished()):
        known = await _published(journal, changes)
        new = [each for each in changes[:MAX_EVENTS] if (each.id, each.after) not in known]
        events = [change_event(each) for each in new]
        if events:
            await publish(*events)
        count += len(events)
        store.changes.mark_published(path)
    return count


async def _published(
    journal: Journal, changes: Sequence[RecordedChange]
) -> set[tuple[str, datetime | None]]:
    """With the time of the look before: an edit that is reverted and made again has one id."""
    times = [each.after for each in changes if each.after is not None]
    if not times:
        return set()
    found = set()
    async for recorded in journal.read(kinds=("change.seen",), since=min(times)):
        if isinstance(recorded.event, ChangeSeen):
            found.add((recorded.event.change, recorded.event.after))
    return found


def change_event(each: RecordedChange) -> ChangeSeen:
    change = each.change
    return ChangeSeen(
        run=WATCH_RUN,
        change=each.id,
        host=each.host,
        item_kind=change.item.kind,
        key=change.item.key,
        verb=change.verb,
        differing=change.differing if change.verb == "changed" else (),
        happened=change.at,
        after=each.after,
        author=each.author.name,
        evidence=each.author.evidence,
        unknown_because="" if each.author.name else each.author.unknown_because,
        units=each.units,
    )
