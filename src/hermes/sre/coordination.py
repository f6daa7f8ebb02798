"""Coordinates the work on incidents: which one reverts a cause, which one waits for the fix of
another, and when work is withdrawn."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import anyio

PART_OF_FILE = " (line"
"""Begins the end of the label of a cause that is only a part of a file."""
MAX_TURN_WAIT_S = 180.0
MAX_FIX_WAIT_S = 90.0
"""An announcement, the change and its verification. A fix that waits for a person takes longer."""


class CauseClaims:
    """Decides which incident experiments, and which one reverts a cause. Two incidents may have the
    same cause: the second waits for the end of the first, so that they do not restart and undo
    against each other."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, anyio.Event]] = {}
        self._turn = ""
        """The incident whose experiments run, or whose proved cause is about to be reverted."""
        self._turn_ended = anyio.Event()
        self._fixes: dict[str, anyio.Event] = {}
        """The incidents with a change that is announced, made or verified, and its end."""
        self._faults: dict[str, str] = {}
        """The faults that playbooks have found, each with the incident that fixes it."""

    def claim_fault(self, incident: str, fault: str) -> str:
        """Return the other incident whose work fixes this fault already; empty where there is none.
        People are asked about one fix once."""
        owner = self._faults.setdefault(fault, incident)
        return owner if owner != incident else ""

    def begin_fix(self, incident: str) -> None:
        self._fixes.setdefault(incident, anyio.Event())

    def end_fix(self, incident: str) -> None:
        if ended := self._fixes.pop(incident, None):
            ended.set()

    def fixes_of_others(self, incident: str) -> list[str]:
        """The other incidents with a fix under way."""
        return [each for each in self._fixes if each != incident]

    async def wait_for_fixes(self, incident: str) -> None:
        """Wait until the fixes of other incidents have ended, but not for ever: what this one is
        about may depend on what they are about."""
        with anyio.move_on_after(MAX_FIX_WAIT_S):
            while others := self.fixes_of_others(incident):
                await self._fixes[others[0]].wait()

    async def take_turn(self, incident: str) -> bool:
        """Wait until no other incident experiments: an outage of one service fails others with it,
        and the copies of all their incidents would slow each other down. Returns whether it had to
        wait; after a while it does not wait any longer."""
        waited = False
        with anyio.move_on_after(MAX_TURN_WAIT_S):
            while self._turn not in ("", incident):
                waited = True
                await self._turn_ended.wait()
            if self._turn != incident:  # others wait for the event of a turn that goes on
                self._turn, self._turn_ended = incident, anyio.Event()
        return waited

    def end_turn(self, incident: str) -> None:
        if self._turn == incident:
            self._turn = ""
            self._turn_ended.set()

    async def claim(self, incident: str, causes: Sequence[str]) -> bool:
        """Return whether it had to wait for another incident. Two parts of one file are one claim:
        the content that the second would put back lacks what the first has put back."""
        causes = [each.partition(PART_OF_FILE)[0] for each in causes]
        waited = False
        while others := [
            ended
            for cause in causes
            for owner, ended in [self._claims.get(cause, (incident, None))]
            if owner != incident and ended is not None
        ]:
            waited = True
            self.end_turn(incident)  # the other one may need it before its work ends
            await others[0].wait()
        ended = anyio.Event()
        self._claims |= {cause: (incident, ended) for cause in causes}
        return waited

    @contextmanager
    def release_after(self, incident: str) -> Iterator[None]:
        """Ends the claims of an incident with the work on it."""
        try:
            yield
        finally:
            self.end_turn(incident)
            self.end_fix(incident)
            self._faults = {
                name: owner for name, owner in self._faults.items() if owner != incident
            }
            for cause, (owner, ended) in list(self._claims.items()):
                if owner == incident:
                    del self._claims[cause]
                    ended.set()


class WorkWithdrawal:
    """Decides which comes first: a change (or the end of the work), or its withdrawal."""

    def __init__(self) -> None:
        self._committed = self._withdrawn = False

    @property
    def withdrawn(self) -> bool:
        return self._withdrawn

    def withdraw(self) -> bool:
        """Return False when a change has begun or the end is being written. On True the caller
        cancels the work."""
        self._withdrawn = self._withdrawn or not self._committed
        return self._withdrawn

    async def commit(self) -> None:
        """Make the work final: from here on it cannot be withdrawn. Never returns if it was
        withdrawn."""
        if self._withdrawn:
            await anyio.sleep_forever()
        self._committed = True


class WorkInProgress:
    """The handles by which the watch stops the work on an incident and waits for its end."""

    def __init__(self) -> None:
        self.scope, self.withdrawal = anyio.CancelScope(), WorkWithdrawal()
        self.ended = anyio.Event()
