"""Grants for approved actions: bound to the hash of the exact action, with a number of uses."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from hermes.core.messages import Value

_MAX_GRANTS = 10_000


class Grant(Value, kw_only=True, frozen=True):
    """The result of an approval, as it is stored in the journal."""

    id: str
    action: str
    """The hash of the exact action."""
    run: str
    by: tuple[str, ...]
    scope: Literal["exact-action", "session"] = "exact-action"
    uses: int = 1
    """How often it may be used; 0 is any number of times in the session."""
    given_at: datetime
    valid_for: float
    rule: str = ""


class _HeldGrant(msgspec.Struct):
    grant: Grant
    left: int
    until: float
    """On the monotonic clock."""


class LiveGrants:
    """Live grants of this process.

    A grant ends when either clock says so. The monotonic clock ignores changes of the time; the
    wall clock also counts while the machine sleeps. If the wall clock is before the time of the
    grant, it was set back, and the grant is void.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._held: dict[str, _HeldGrant] = {}

    def give(self, grant: Grant, *, used: int = 0) -> None:
        """Adds a grant; one from the journal may have been used before."""
        age = (self._clock() - grant.given_at).total_seconds()
        if age < 0 or age >= grant.valid_for:
            return
        left = grant.uses - used if grant.uses else _MAX_GRANTS
        if left > 0:
            until = self._monotonic() + grant.valid_for - age
            self._held[grant.id] = _HeldGrant(grant, left, until)
        while len(self._held) > _MAX_GRANTS:
            self._held.pop(next(iter(self._held)))

    def may_have(self, action: str, run: str) -> bool:
        """Return whether there may be one; `use` checks the clocks."""
        return any(
            held.grant.action == action and held.grant.run == run for held in self._held.values()
        )

    def use(self, action: str, run: str) -> Grant | None:
        """Uses a grant for this exact action of this run, if there is a live one."""
        for held in list(self._held.values()):
            if held.grant.action != action or held.grant.run != run:
                continue
            if not self._is_live(held):
                del self._held[held.grant.id]
                continue
            held.left -= 1
            if held.left == 0:
                del self._held[held.grant.id]
            return held.grant
        return None

    def revoke(self, id: str) -> bool:
        return self._held.pop(id, None) is not None

    def end(self, run: str) -> None:
        """Removes all grants of a run that is over."""
        for id in [id for id, held in self._held.items() if held.grant.run == run]:
            del self._held[id]

    def live(self) -> list[tuple[Grant, int]]:
        """The live grants, with how many uses are left."""
        return [(held.grant, held.left) for held in self._held.values() if self._is_live(held)]

    def _is_live(self, held: _HeldGrant) -> bool:
        given, now = held.grant.given_at, self._clock()
        if not given <= now < given + timedelta(seconds=held.grant.valid_for):
            return False
        return self._monotonic() < held.until
