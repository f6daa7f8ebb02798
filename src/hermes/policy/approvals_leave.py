"""Leave that was given for more than once, kept in the journal: counted, taken back, restored."""

from hermes.core.bus import Bus
from hermes.core.events import Event
from hermes.core.events.approvals import ApprovalRequested, GrantGiven, GrantRevoked, GrantUsed
from hermes.core.ids import new_id
from hermes.policy.approvals_clock import Clock, Monotonic
from hermes.policy.approvals_past import Past
from hermes.policy.approvals_tally import Tally
from hermes.policy.grants import Grant, Grants
from hermes.policy.verdict import Ask

SESSION = 7 * 86_400.0
"""Seconds after which even a session that still goes on is asked again."""


class Leave:
    """The grants of the runs that this process works on; any process may take one back."""

    def __init__(self, bus: Bus, clock: Clock, monotonic: Monotonic) -> None:
        self._bus = bus
        self._clock = clock
        self._grants = Grants(clock=clock, monotonic=monotonic)
        self._looked: dict[str, int] = {}

    def restore(self, run: str, past: Past) -> None:
        self._looked[run] = past.last
        for held in past.grants.values():
            if not held.revoked:
                self._grants.give(held.grant, used=held.used)

    async def take(self, action: str, run: str) -> Grant | None:
        """Use it, if there is any that nobody has taken back."""
        if not self._grants.holds(action, run):
            return None
        after = self._looked.get(run, 0)
        async for recorded in self._bus.journal.read(
            after=after, run=run, kinds=("grant.revoked",)
        ):
            self._looked[run] = recorded.seq
            if isinstance(recorded.event, GrantRevoked):
                self._grants.revoke(recorded.event.grant)
        return self._grants.take(action, run)

    def give(
        self, action: str, request: ApprovalRequested, tally: Tally, ask: Ask
    ) -> tuple[Event, ...]:
        """What the answer allows beyond this once, to be written down; this use is the first.

        Words that nobody vouches for, and variables, are looked at each time.
        """
        session = tally.scope == "session" or ask.grant_scope == "session"
        uses = 0 if session and ask.grant_uses == 1 else ask.grant_uses
        if request.tainted or request.variables or uses == 1 or not tally.yes:
            return ()
        grant = Grant(
            id=new_id("grant"),
            action=action,
            run=request.run,
            by=tally.by,
            scope="session" if session else "exact-action",
            uses=uses,
            given_at=self._clock(),
            valid_for=SESSION if tally.scope == "session" else ask.grant_seconds,
            rule=request.rule,
        )
        self._grants.give(grant, used=1)  # before it is told: who waits for the same takes it then
        return (
            GrantGiven(
                run=grant.run,
                at=grant.given_at,
                grant=grant.id,
                action=grant.action,
                by=grant.by,
                scope=grant.scope,
                uses=grant.uses,
                valid_for=grant.valid_for,
                rule=grant.rule,
                shown=request.shown[:500],
            ),
            GrantUsed(run=grant.run, grant=grant.id, call_id=request.call_id),
        )
