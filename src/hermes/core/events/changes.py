"""Events about the state of a host: what was recorded, what changed, what was reverted."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent


class StateRecorded(BaseEvent, tag="state.recorded", kw_only=True, frozen=True):
    """The state itself is in the home directory; an event holds no content of files."""

    state: str
    host: str = ""
    source: Literal["known-good", "declared", "live"] = "live"
    items: int = 0
    changes: int = 0
    """Since the state before it."""
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0


class ChangeSeen(BaseEvent, tag="change.seen", kw_only=True, frozen=True):
    """An item of the host differs from what it was at the last look."""

    change: str
    """The id; the same change seen again, after a crash, has the same."""
    host: str = ""
    item_kind: str = ""
    key: str = ""
    verb: Literal["added", "removed", "changed"] = "changed"
    differing: tuple[str, ...] = ()
    """`content`, and names of attributes such as `mode`."""
    happened: datetime | None = None
    """When, where the host says so; otherwise it was between `after` and `at`."""
    after: datetime | None = None
    """The time of the last look at which it was unchanged."""
    author: str = ""
    """A person, a program or a run of Hermes; empty when it is not known."""
    evidence: str = ""
    """How the author is known."""
    unknown_because: str = ""
    """What would make the author known."""
    units: tuple[str, ...] = ()
    """Units that name the item."""


class ChangeReverted(BaseEvent, tag="change.reverted", kw_only=True, frozen=True):
    change: str
    by: str = ""
    outcome: Literal["reverted", "undone", "failed", "denied", "impossible"] = "reverted"
    detail: str = ""
