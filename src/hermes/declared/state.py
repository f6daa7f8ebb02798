"""A state of a host, item by item, and what differs between two of them.

A known good state, a declared one and the live one have the same type, so that one comparison
answers "what changed" and "what drifted".
"""

import hashlib
import posixpath
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Literal, get_args

from msgspec import field

from hermes.core.messages import Value

ItemKind = Literal[
    "file",
    "unit",
    "package",
    "service",
    "mount",
    "kernel-setting",
    "user",
    "group",
    "port",
    "setting",
    "schedule",
    "packet-filter",
]
StateSource = Literal["known-good", "declared", "live", "incident"]
"""`live`: the last look of the watch, with which the next is compared. `incident`: kept for one."""
ITEM_KINDS: tuple[ItemKind, ...] = get_args(ItemKind)

LENGTH = "length"
"""The attribute of what fills a file system: its bytes."""
STAMP = "stamp"
"""Size, mtime, inode and ctime of a file: whether its content must be read again."""
VOLATILE = "volatile"
"""A file that programs rewrite all the time: its content is not compared."""
NAMED = "named"
"""A file outside of the folders that are always read, included because a service names it."""
ACTIVITY = "activity"
"""Rises when the content of a file changes from one state to the next, and falls when not."""
HANDLE, FOLLOWS, PLACE = "handle", "follows", "place"
"""Of a rule of the packet filter: its number, that of what is before it, and where in its chain it
is. They differ each time the same rules are loaded."""
UNCOMPARED_ATTRIBUTES = frozenset({STAMP, VOLATILE, NAMED, ACTIVITY, HANDLE, FOLLOWS, PLACE})
CONTENT_ATTRIBUTES = frozenset({"size"})


ChangeVerb = Literal["added", "removed", "changed"]
_VERBS_BY_KIND: dict[tuple[str, ChangeVerb], str] = {
    ("service", "added"): "started",
    ("service", "removed"): "stopped",
    ("port", "added"): "opened",
    ("port", "removed"): "closed",
    ("package", "added"): "installed",
}


def change_verb_text(kind: str, verb: ChangeVerb) -> str:
    """Return how a person would say it: a service that runs again was started, not added."""
    return _VERBS_BY_KIND.get((kind, verb), verb)


class ItemId(Value, frozen=True, order=True):
    kind: ItemKind
    key: str
    """A path, the name of a unit, the name of a package."""

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


RULESET = ItemId("packet-filter", "rules")
"""In each state for which the rules of the packet filter were read, also where there are none."""


class Item(Value, frozen=True):
    digest: str = ""
    """Of the content; the store has the content itself unless it is large, secret or data."""
    attributes: dict[str, str] = field(default_factory=dict)


class State(Value, frozen=True, kw_only=True):
    host: str
    at: datetime
    source: StateSource = "live"
    items: dict[ItemId, Item] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """What is not in `items` although it exists: `PATH: reason` or `KIND: reason`."""


class StateChange(Value, frozen=True):
    item: ItemId
    before: Item | None
    """None for a new item."""
    after: Item | None
    """None for one that is gone."""
    at: datetime | None = None
    """When it happened, where the host says so."""

    @property
    def verb(self) -> ChangeVerb:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def differing(self) -> tuple[str, ...]:
        """The attributes that differ, and `content`."""
        before, after = self.before or Item(), self.after or Item()
        names = {"content"} if before.digest != after.digest else set[str]()
        names |= _differing_attributes(before, after)
        return tuple(sorted(names))


def compare(before: State, after: State) -> tuple[StateChange, ...]:
    """The changes from one state to the other, by kind and key.

    What one of them left out is not reported, as it was not looked at.
    """
    left_out = _LeftOut(before, after)
    return tuple(
        sorted(
            (
                each
                for each in _differences(before, after)
                if each.item not in left_out and not _seen_through_link(each.item, before, after)
            ),
            key=lambda change: change.item,
        )
    )


def _seen_through_link(item: ItemId, before: State, after: State) -> bool:
    """Return whether a file differs because a link above it leads elsewhere now, or is known by its
    real path too. To put back what is read through a link would write into what the link names
    now."""
    if item.kind != "file":
        return False
    for above in PurePosixPath(item.key).parents:
        targets = [_link_target(state, str(above)) for state in (before, after)]
        if not all(targets):
            continue
        if targets[0] != targets[1]:
            return True
        folder = posixpath.join(above.parent, targets[0])
        rest = PurePosixPath(item.key).relative_to(above)
        real = ItemId("file", posixpath.normpath(posixpath.join(folder, rest)))
        if real in before.items or real in after.items:
            return True
    return False


def _link_target(state: State, path: str) -> str:
    """Empty where it is no link."""
    found = state.items.get(ItemId("file", path))
    return found.attributes.get("link", "") if found is not None else ""


def change_id(change: StateChange) -> str:
    """The same for the same change, whenever it is seen; another when it happens again."""
    parts = [change.item.kind, change.item.key]
    for item in (change.before, change.after):
        attributes = item.attributes if item is not None else {}
        parts.append(item.digest if item is not None else "-")
        parts += sorted(
            f"{name}={value}"
            for name, value in attributes.items()
            if name == STAMP or name not in UNCOMPARED_ATTRIBUTES
        )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]


def _differences(before: State, after: State) -> Iterator[StateChange]:
    for item, new in after.items.items():
        old = before.items.get(item)
        if old is None:
            if not _merely_named_now(new, before):
                yield StateChange(item, None, new, _changed_at(new, before, after))
        elif old != new and items_differ(old, new):
            yield StateChange(item, old, new, _changed_at(new, before, after))
    for item, old in before.items.items():
        if item not in after.items:
            yield StateChange(item, old, None)


def items_differ(old: Item, new: Item) -> bool:
    volatile = VOLATILE in old.attributes or VOLATILE in new.attributes
    if not volatile and old.digest != new.digest:
        return True
    names = _differing_attributes(old, new)
    return bool(names - CONTENT_ATTRIBUTES if volatile else names)


def _differing_attributes(old: Item, new: Item) -> set[str]:
    names = (old.attributes.keys() | new.attributes.keys()) - UNCOMPARED_ATTRIBUTES
    return {name for name in names if old.attributes.get(name) != new.attributes.get(name)}


def changed_time(item: Item) -> datetime | None:
    """When a file was last changed in any way, by its inode."""
    stamp = item.attributes.get(STAMP, "").split(":")
    if len(stamp) != 4 or not stamp[3].isdigit():
        return None
    try:
        return datetime.fromtimestamp(int(stamp[3]) / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _changed_at(new: Item, before: State, after: State) -> datetime | None:
    """Return None where the host's clock contradicts the order of the two states."""
    at = changed_time(new)
    return at if at is not None and before.at <= at <= after.at else None


def _merely_named_now(new: Item, before: State) -> bool:
    """It existed before, but no running service named it then."""
    at = changed_time(new)
    return NAMED in new.attributes and at is not None and at < before.at


def _asked_servers(state: State) -> frozenset[str]:
    """Servers whose settings were read: one that does not run has lost none of them."""
    return frozenset(_server_of(each) for each in state.items if each.kind == "setting")


def _server_of(setting: ItemId) -> str:
    """`redis/6379` of `redis/6379/maxmemory`."""
    return setting.key.rpartition("/")[0]


class _LeftOut:
    """The items that at least one of two states did not look at."""

    def __init__(self, *states: State) -> None:
        named = {each.partition(": ")[0] for state in states for each in state.left_out}
        self._kinds = named & set(ITEM_KINDS)
        self._paths = tuple(sorted(each for each in named if each.startswith("/")))
        self._folders = tuple(f"{each.rstrip('/')}/" for each in self._paths)

        self._servers = [_asked_servers(state) for state in states]
        if not all(RULESET in state.items for state in states):
            self._kinds.add(RULESET.kind)

    def __contains__(self, item: ItemId) -> bool:
        if item.kind in self._kinds:
            return True
        if item.kind == "setting":
            return not all(_server_of(item) in servers for servers in self._servers)
        if item.kind != "file":
            return False
        return item.key.startswith(self._folders)
