"""Asks people over the journal: whoever may answer, from wherever, and the first to settle wins.

Nobody reachable is a no, silence is a no, and what has changed since it was approved is a no.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.actions import Action, Answers, Approval, Approver, Decision, not_for_good
from hermes.core.bus import Bus
from hermes.core.events import Event
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalRequested,
    ApprovalSettled,
    GrantUsed,
)
from hermes.policy.approvals_clock import Clock, Countdown, Deadline, Monotonic, now
from hermes.policy.approvals_leave import Leave
from hermes.policy.approvals_past import Past, Question, recall_approvals
from hermes.policy.approvals_request import Manners, ask_of, identity, request_of, resolved
from hermes.policy.approvals_tally import Tally
from hermes.policy.approvals_vigil import TICK, Ended, Here, Vigil
from hermes.policy.grants import Grant
from hermes.policy.verdict import Ask

CHANGED = "what it would do has changed since it was approved"
Keep = Callable[[ApprovalRequested, str], str]
"""Writes down that this is allowed for good, and by whom; what went wrong, if anything did."""
Outcome = Literal["approved", "denied", "expired", "withdrawn", "changed"]


@dataclass(frozen=True)
class Matter:
    """What is asked about."""

    action: Action
    decision: Decision
    ask: Ask
    id: str
    """Of exactly this action."""


class Approvals:
    """An `Approver`. `party` is the person in front of us; None when nobody sits there."""

    def __init__(
        self,
        bus: Bus,
        decide: Callable[[Action], Decision],
        manners: Manners,
        party: Approver | Answers | None = None,
        *,
        keep: Keep | None = None,
        redact: Callable[[str], str] = str,
        clocks: tuple[Clock, Monotonic] = (now, time.monotonic),
        tick: float = TICK,
    ) -> None:
        self._bus = bus
        self._decide = decide
        self._manners = manners
        self._party = party
        self._keep = keep
        self._redact = redact
        self._clock, self._monotonic = clocks
        self._tick = tick
        self._leave = Leave(bus, *clocks)
        self._runs: dict[str, Past] = {}

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        """Raises `StoreError`: what cannot be written down is not asked."""
        matter = Matter(action, decision, ask_of(decision), identity(action, decision))
        try:
            return await self._asked(matter)
        except ExceptionGroup as group:
            raise _first(group) from group

    async def _asked(self, matter: Matter) -> Approval:
        run, manners = matter.action.run, self._manners
        if run not in self._runs:  # it may have had an earlier life
            self._runs[run] = await recall_approvals(self._bus.journal, run=run)
            self._leave.restore(run, self._runs[run])
        if not matter.decision.tainted and (grant := await self._leave.take(matter.id, run)):
            used = GrantUsed(run=run, grant=grant.id, call_id=matter.action.call.id)
            await self._bus.publish(used)
            return _by_grant(grant)
        if matter.ask.announce > 0 and (manners.wait or isinstance(self._party, Answers)):
            return await self._announce(matter)
        if self._party is None and not (manners.wait or matter.ask.waits):
            return Approval(approved=False, by="nobody")
        return await self._ask(matter)

    async def _ask(self, matter: Matter) -> Approval:
        question, after = await self._question(matter)
        request, tally = question.request, question.tally
        until = request.until or request.at + timedelta(seconds=matter.ask.timeout)
        deadline = Deadline(request.at, until, question.newest, self._clock, self._monotonic)
        vigil = self._vigil(matter, tally, deadline)
        here = self._here(matter, request)
        alone = not (self._manners.wait or matter.ask.waits)
        ended = await self._keep_vigil(vigil, request, after, here, alone=alone)
        if ended == "granted" and vigil.grant is not None:
            used = GrantUsed(run=request.run, grant=vigil.grant.id, call_id=request.call_id)
            await self._settle(request, "approved", vigil.grant.by, used)
            return _by_grant(vigil.grant)
        if ended == "unheard":
            await self._settle(request, "denied")
            return Approval(approved=False, by="nobody")
        if tally.outcome is None:
            await self._settle(request, "expired", tuple(tally.yes))
            return Approval(approved=False, by="nobody", reason=_too_late(request, tally))
        return await self._conclude(matter, request, tally)

    async def _question(self, matter: Matter) -> tuple[Question, int]:
        """The question to wait on: the one of an earlier life, if it still is the same one."""
        past = self._runs[matter.action.run]
        known = past.unsettled(matter.action.call.id)
        if known is not None:
            if self._still_counts(known, matter):
                return known, past.last
            same = known.request.hash == matter.decision.hash
            await self._settle(known.request, "expired" if same else "changed")
        request = self._made(matter)
        numbers = await self._bus.publish(request)
        return Question(request, Tally(request), request.at), numbers[-1]

    def _still_counts(self, known: Question, matter: Matter) -> bool:
        """A yes of long ago is asked for again: what it was about may be over."""
        if known.request.hash != matter.decision.hash:
            return False
        ages = [(self._clock() - yes.at).total_seconds() for yes in known.tally.yes.values()]
        return all(0 <= age <= matter.ask.grant_seconds for age in ages)

    def _made(self, matter: Matter) -> ApprovalRequested:
        return request_of(
            matter.action,
            matter.decision,
            self._manners,
            now=self._clock(),
            prompted=isinstance(self._party, Answers),
            redact=self._redact,
        )

    def _here(
        self, matter: Matter, request: ApprovalRequested, announced: float = 0.0
    ) -> Here | None:
        party = self._party
        if isinstance(party, Answers):
            return partial(party.answer, matter.action, request, announced)
        if party is None or announced:
            return None
        return partial(party, matter.action, matter.decision)

    def _vigil(self, matter: Matter, tally: Tally, deadline: Deadline | Countdown) -> Vigil:
        groups = self._manners.groups
        return Vigil(
            self._bus,
            tally,
            deadline,
            escalate=[(each.after, resolved((each.to,), groups)) for each in matter.ask.escalate],
            granted=partial(self._leave.take, matter.id, matter.action.run),
            tick=self._tick,
        )

    async def _keep_vigil(
        self, vigil: Vigil, request: ApprovalRequested, after: int, here: Here | None, alone: bool
    ) -> Ended:
        try:
            return await vigil.keep(after, here, alone=alone)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(2, shield=True):
                await self._settle(request, "withdrawn")
            raise

    async def _announce(self, matter: Matter) -> Approval:
        """Anybody may stop it; silence lets it go on, so the clock is one that nobody can set."""
        seconds = matter.ask.announce
        request = replace(self._made(matter), approvers=(), barred=(), count=1)
        numbers = await self._bus.publish(
            ActionAnnounced(
                run=request.run,
                at=request.at,
                call_id=request.call_id,
                shown=request.shown,
                effects=request.effects,
                rule=request.rule,
                seconds=seconds,
                approval=request.approval,
                undo=request.undo,
                place=request.place,
                prompted=request.prompted,
            )
        )
        tally = Tally(request)
        vigil = self._vigil(matter, tally, Countdown(seconds, self._monotonic))
        here = self._here(matter, request, seconds)
        await self._keep_vigil(vigil, request, numbers[-1], here, alone=False)
        return await self._conclude(matter, request, tally)

    async def _conclude(self, matter: Matter, request: ApprovalRequested, tally: Tally) -> Approval:
        by = ", ".join(tally.by) or "nobody objected"
        if tally.outcome == "denied":
            await self._settle(request, "denied", tally.by, via=tally.via)
            said = f"{by} said no" + (f": {tally.note}" if tally.note else "")
            return Approval(approved=False, by=by, reason=said)
        again = self._decide(matter.action)
        if again.hash != matter.decision.hash or again.verdict == "deny":
            await self._settle(request, "changed", tally.by, via=tally.via)
            return Approval(approved=False, by=by, reason=CHANGED)
        scope, trouble = tally.scope, ""
        if scope == "always":
            trouble = not_for_good(request) or (self._keep(request, by) if self._keep else "")
            scope = "once" if trouble or self._keep is None else scope
        given = self._leave.give(matter.id, request, tally, matter.ask)
        await self._settle(request, "approved", tally.by, *given, via=tally.via, note=trouble)
        return Approval(approved=True, by=by, scope=scope)

    async def _settle(
        self,
        request: ApprovalRequested,
        outcome: Outcome,
        by: tuple[str, ...] = (),
        *more: Event,
        via: str = "",
        note: str = "",
    ) -> None:
        settled = ApprovalSettled(
            run=request.run, approval=request.approval, outcome=outcome, by=by, via=via, note=note
        )
        await self._bus.publish(settled, *more)


def _by_grant(grant: Grant) -> Approval:
    scope: Literal["session", "once"] = "session" if grant.scope == "session" else "once"
    return Approval(approved=True, by=", ".join(grant.by), scope=scope)


def _too_late(request: ApprovalRequested, tally: Tally) -> str:
    if tally.yes:
        return f"only {len(tally.yes)} of {request.count} people approved it in time"
    return "nobody approved it in time"


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
