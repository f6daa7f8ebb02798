"""Coordinates the work on incidents: which one reverts a cause, which one waits for the fix of
another, and when work is withdrawn."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from hermes.core.incident import IncidentDetails

PART_OF_FILE = " (line"
"""Begins the end of the label of a cause that is only a part of a file."""
_ADDRESS = re.compile(r"(?<![\w.-])[\w.-]+:\d{2,5}(?!\d)")
MAX_TURN_WAIT_S = 180.0
MAX_FIX_WAIT_S = 90.0
"""An announcement, the change and its verification. A fix that waits for a person takes longer."""


@dataclass(frozen=True)
class _FixInProgress:
    names: tuple[str, ...]
    """How texts name what it is about: its service, and the addresses of its alert."""
    ended: anyio.Event = field(default_factory=anyio.Event)

    def is_named(self, text: str) -> bool:
        return any(
            re.search(rf"(?<![\w.-]){re.escape(each)}(?![\w-])", text, re.IGNORECASE)
            for each in self.names
        )


class CauseClaims:
    """Decides which incident experiments, and which one reverts a cause. Two incidents may have the
    same cause: the second waits for the end of the first, so that they do not restart and undo
    against each other."""

    def __init__(self, *, fix_wait_s: float = MAX_FIX_WAIT_S) -> None:
        self._fix_wait_s = fix_wait_s
        self._claims: dict[str, tuple[str, anyio.Event]] = {}
        self._turn = ""
        """The incident whose experiments run, or whose proved cause is about to be reverted."""
        self._turn_ended = anyio.Event()
        self._fixes: dict[str, _FixInProgress] = {}
        """The incidents with a change that is announced, made or verified."""
        self._faults: dict[str, str] = {}
        """What playbooks are about to do, or to change, each with the incident that does it."""
        self._owners: dict[str, set[str]] = {}
        """By incident, the others that fix what it has found."""

    def claim_fault(self, incident: str, fault: str, causes: Sequence[str] = ()) -> str:
        """Return the other incident that is about to fix this already; empty where there is none.
        People are asked about one fix once, whether a playbook or an experiment has found it.
        `causes`: the files that the fix changes, as experiments name them."""
        wanted = (fault, *causes)
        holders = [self._faults[each] for each in wanted if each in self._faults]
        holders += [owner for name, (owner, _) in self._claims.items() if name in causes]
        owner = next((each for each in holders if each != incident), "")
        if owner:
            self._owners.setdefault(incident, set()).add(owner)
        else:
            self._faults |= dict.fromkeys(wanted, incident)
        return owner

    def begin_fix(self, incident: str, names: Sequence[str] = ()) -> None:
        """`names`: the service that it is about, and addresses of it."""
        self._fixes.setdefault(incident, _FixInProgress(tuple(filter(None, names))))

    def end_fix(self, incident: str) -> None:
        if fix := self._fixes.pop(incident, None):
            fix.ended.set()

    def fixes_of_others(self, incident: str) -> list[str]:
        """The other incidents with a fix under way."""
        return [each for each in self._fixes if each != incident]

    async def wait_for_fixes(self, incident: str, text: str = "") -> None:
        """Wait until the fixes of other incidents have ended, but not for ever: what this one is
        about may depend on what they are about. Where `text`, which says what is known of it,
        names what they are about, it does: then it waits as long as people are asked."""
        with anyio.move_on_after(self._fix_wait_s):
            while others := self.fixes_of_others(incident):
                await self._fixes[others[0]].ended.wait()
        while causing := self._named_fixes(incident, text):
            await causing[0].ended.wait()

    async def wait_for_owners(self, incident: str) -> None:
        """Wait for the fixes of the incidents that fix what this one has found. Its own attempt has
        ended: two must not wait for each other."""
        self.end_fix(incident)
        while fixing := self._owners.get(incident, set()) & self._fixes.keys():
            await self._fixes[min(fixing)].ended.wait()

    def _named_fixes(self, incident: str, text: str) -> list[_FixInProgress]:
        fixes = (self._fixes[each] for each in self.fixes_of_others(incident))
        return [each for each in fixes if each.is_named(text)]

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
        causes = [_file_of(each) for each in causes]
        waited = False
        while others := self._holders_of(incident, causes):
            waited = True
            self.end_turn(incident)  # the other one may need it before its work ends
            await others[0].wait()
        ended = anyio.Event()
        self._claims |= {cause: (incident, ended) for cause in causes}
        return waited

    def _holders_of(self, incident: str, causes: Sequence[str]) -> list[anyio.Event]:
        """The ends of the claims of others, and of their fixes by playbooks, on these causes."""
        claims = [self._claims[each] for each in causes if each in self._claims]
        found = [ended for owner, ended in claims if owner != incident]
        fixing = {self._faults[each] for each in causes if each in self._faults} - {incident}
        return [*found, *(self._fixes[each].ended for each in fixing if each in self._fixes)]

    @contextmanager
    def release_after(self, incident: str) -> Iterator[None]:
        """Ends the claims of an incident with the work on it."""
        try:
            yield
        finally:
            self.end_turn(incident)
            self.end_fix(incident)
            self._owners.pop(incident, None)
            self._faults = {
                name: owner for name, owner in self._faults.items() if owner != incident
            }
            for cause, (owner, ended) in list(self._claims.items()):
                if owner == incident:
                    del self._claims[cause]
                    ended.set()


def names_of(details: IncidentDetails) -> tuple[str, ...]:
    """How other alerts name what this one is about: its service, and the addresses in its alert."""
    return (details.service, *_ADDRESS.findall(details.facts.combined_text))


def _file_of(cause: str) -> str:
    return cause.partition(PART_OF_FILE)[0]


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
