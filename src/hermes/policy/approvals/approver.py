"""Leave that was given for more than once, kept in the journal: counted, taken back, restored."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.actions import (
    Action,
    AnswersApprovals,
    Approval,
    Approver,
    Decision,
    why_not_always,
)
from hermes.core.bus import Bus
from hermes.core.events import Event
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalRequested,
    ApprovalSettled,
    GrantGiven,
    GrantRevoked,
    GrantUsed,
)
from hermes.core.run_ids import new_id
from hermes.policy.approvals.answers import (
    CLOCK_CHECK_INTERVAL_S,
    AnswerCountdown,
    AnswerDeadline,
    AnswerTally,
    AnswerWait,
    AskLocally,
    MonotonicClock,
    WaitResult,
    WallClock,
    utc_now,
)
from hermes.policy.approvals.grants import Grant, LiveGrants
from hermes.policy.approvals.history import ApprovalHistory, ApprovalQuestion, read_approval_history
from hermes.policy.approvals.request import (
    ApprovalOptions,
    action_identity,
    ask_options_of,
    build_request,
    expand_groups,
)
from hermes.policy.rules.rule import AskOptions

SESSION_GRANT_S = 7 * 86_400.0
"""Seconds after which even a session that still goes on is asked again."""


class GrantStore:
    """The grants of the runs that this process works on; any process may take one back."""

    def __init__(self, bus: Bus, clock: WallClock, monotonic: MonotonicClock) -> None:
        self._bus = bus
        self._clock = clock
        self._grants = LiveGrants(clock=clock, monotonic=monotonic)
        self._last_read: dict[str, int] = {}

    def restore(self, run: str, past: ApprovalHistory) -> None:
        self._last_read[run] = past.last
        for held in past.grants.values():
            if not held.revoked:
                self._grants.give(held.grant, used=held.used)

    async def use_grant(self, action: str, run: str) -> Grant | None:
        """Use it, if there is any that nobody has taken back."""
        if not self._grants.may_have(action, run):
            return None
        after = self._last_read.get(run, 0)
        async for recorded in self._bus.journal.read(
            after=after, run=run, kinds=("grant.revoked",)
        ):
            self._last_read[run] = recorded.seq
            if isinstance(recorded.event, GrantRevoked):
                self._grants.revoke(recorded.event.grant)
        return self._grants.use(action, run)

    def create_grant(
        self, action: str, request: ApprovalRequested, tally: AnswerTally, ask: AskOptions
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
            valid_for=SESSION_GRANT_S if tally.scope == "session" else ask.grant_seconds,
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


ACTION_CHANGED_REASON = "what it would do has changed since it was approved"
SaveAlways = Callable[[ApprovalRequested, str], str]
"""Writes down that this is allowed for good, and by whom; what went wrong, if anything did."""
ApprovalOutcome = Literal["approved", "denied", "expired", "withdrawn", "changed"]


@dataclass(frozen=True)
class ApprovalSubject:
    """What is asked about."""

    action: Action
    decision: Decision
    ask: AskOptions
    id: str
    """Of exactly this action."""


class JournalApprover:
    """An `Approver`. `party` is the person in front of us; None when nobody sits there."""

    def __init__(
        self,
        bus: Bus,
        decide: Callable[[Action], Decision],
        options: ApprovalOptions,
        local_approver: Approver | AnswersApprovals | None = None,
        *,
        save_always: SaveAlways | None = None,
        redact: Callable[[str], str] = str,
        clocks: tuple[WallClock, MonotonicClock] = (utc_now, time.monotonic),
        tick: float = CLOCK_CHECK_INTERVAL_S,
    ) -> None:
        self._bus = bus
        self._decide = decide
        self._options = options
        self._local_approver = local_approver
        self._save_always = save_always
        self._redact = redact
        self._clock, self._monotonic = clocks
        self._tick = tick
        self._grant_store = GrantStore(bus, *clocks)
        self._histories: dict[str, ApprovalHistory] = {}

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        """Raises `StoreError`: what cannot be written down is not asked."""
        matter = ApprovalSubject(
            action, decision, ask_options_of(decision), action_identity(action, decision)
        )
        try:
            return await self._resolve(matter)
        except ExceptionGroup as group:
            raise _innermost_error(group) from group

    async def _resolve(self, matter: ApprovalSubject) -> Approval:
        run, manners = matter.action.run, self._options
        if run not in self._histories:  # it may have had an earlier life
            self._histories[run] = await read_approval_history(self._bus.journal, run=run)
            self._grant_store.restore(run, self._histories[run])
        if not matter.decision.tainted and (
            grant := await self._grant_store.use_grant(matter.id, run)
        ):
            used = GrantUsed(run=run, grant=grant.id, call_id=matter.action.call.id)
            await self._bus.publish(used)
            return _approval_by_grant(grant)
        if matter.ask.announce > 0 and (
            manners.wait or isinstance(self._local_approver, AnswersApprovals)
        ):
            return await self._announce(matter)
        if self._local_approver is None and not (manners.wait or matter.ask.waits):
            return Approval(approved=False, by="nobody")
        return await self._ask(matter)

    async def _ask(self, matter: ApprovalSubject) -> Approval:
        question, after = await self._question(matter)
        request, tally = question.request, question.tally
        until = request.until or request.at + timedelta(seconds=matter.ask.timeout)
        deadline = AnswerDeadline(request.at, until, question.newest, self._clock, self._monotonic)
        vigil = self._open_wait(matter, tally, deadline)
        here = self._local_question(matter, request)
        alone = not (self._options.wait or matter.ask.waits)
        ended = await self._wait_for_answer(vigil, request, after, here, alone=alone)
        if ended == "granted" and vigil.grant is not None:
            used = GrantUsed(run=request.run, grant=vigil.grant.id, call_id=request.call_id)
            await self._settle(request, "approved", vigil.grant.by, used)
            return _approval_by_grant(vigil.grant)
        if ended == "unheard":
            await self._settle(request, "denied")
            return Approval(approved=False, by="nobody")
        if tally.outcome is None:
            await self._settle(request, "expired", tuple(tally.yes))
            return Approval(approved=False, by="nobody", reason=_timeout_reason(request, tally))
        return await self._conclude(matter, request, tally)

    async def _question(self, matter: ApprovalSubject) -> tuple[ApprovalQuestion, int]:
        """The question to wait on: the one of an earlier life, if it still is the same one."""
        past = self._histories[matter.action.run]
        known = past.unsettled(matter.action.call.id)
        if known is not None:
            if self._still_counts(known, matter):
                return known, past.last
            same = known.request.hash == matter.decision.hash
            await self._settle(known.request, "expired" if same else "changed")
        request = self._build_request(matter)
        numbers = await self._bus.publish(request)
        return ApprovalQuestion(request, AnswerTally(request), request.at), numbers[-1]

    def _still_counts(self, known: ApprovalQuestion, matter: ApprovalSubject) -> bool:
        """A yes of long ago is asked for again: what it was about may be over."""
        if known.request.hash != matter.decision.hash:
            return False
        ages = [(self._clock() - yes.at).total_seconds() for yes in known.tally.yes.values()]
        return all(0 <= age <= matter.ask.grant_seconds for age in ages)

    def _build_request(self, matter: ApprovalSubject) -> ApprovalRequested:
        return build_request(
            matter.action,
            matter.decision,
            self._options,
            now=self._clock(),
            prompted=isinstance(self._local_approver, AnswersApprovals),
            redact=self._redact,
        )

    def _local_question(
        self, matter: ApprovalSubject, request: ApprovalRequested, announced: float = 0.0
    ) -> AskLocally | None:
        party = self._local_approver
        if isinstance(party, AnswersApprovals):
            return partial(party.answer, matter.action, request, announced)
        if party is None or announced:
            return None
        return partial(party, matter.action, matter.decision)

    def _open_wait(
        self,
        matter: ApprovalSubject,
        tally: AnswerTally,
        deadline: AnswerDeadline | AnswerCountdown,
    ) -> AnswerWait:
        groups = self._options.groups
        return AnswerWait(
            self._bus,
            tally,
            deadline,
            escalate=[
                (each.after, expand_groups((each.to,), groups)) for each in matter.ask.escalate
            ],
            granted=partial(self._grant_store.use_grant, matter.id, matter.action.run),
            tick=self._tick,
        )

    async def _wait_for_answer(
        self,
        vigil: AnswerWait,
        request: ApprovalRequested,
        after: int,
        here: AskLocally | None,
        alone: bool,
    ) -> WaitResult:
        try:
            return await vigil.wait(after, here, alone=alone)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(2, shield=True):
                await self._settle(request, "withdrawn")
            raise

    async def _announce(self, matter: ApprovalSubject) -> Approval:
        """Anybody may stop it; silence lets it go on, so the clock is one that nobody can set."""
        seconds = matter.ask.announce
        request = replace(self._build_request(matter), approvers=(), barred=(), count=1)
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
        tally = AnswerTally(request)
        vigil = self._open_wait(matter, tally, AnswerCountdown(seconds, self._monotonic))
        here = self._local_question(matter, request, seconds)
        await self._wait_for_answer(vigil, request, numbers[-1], here, alone=False)
        return await self._conclude(matter, request, tally)

    async def _conclude(
        self, matter: ApprovalSubject, request: ApprovalRequested, tally: AnswerTally
    ) -> Approval:
        by = ", ".join(tally.by) or "nobody objected"
        if tally.outcome == "denied":
            await self._settle(request, "denied", tally.by, via=tally.via)
            said = f"{by} said no" + (f": {tally.note}" if tally.note else "")
            return Approval(approved=False, by=by, reason=said)
        again = self._decide(matter.action)
        if again.hash != matter.decision.hash or again.verdict == "deny":
            await self._settle(request, "changed", tally.by, via=tally.via)
            return Approval(approved=False, by=by, reason=ACTION_CHANGED_REASON)
        scope, trouble = tally.scope, ""
        if scope == "always":
            trouble = why_not_always(request) or (
                self._save_always(request, by) if self._save_always else ""
            )
            scope = "once" if trouble or self._save_always is None else scope
        given = self._grant_store.create_grant(matter.id, request, tally, matter.ask)
        await self._settle(request, "approved", tally.by, *given, via=tally.via, note=trouble)
        return Approval(approved=True, by=by, scope=scope)

    async def _settle(
        self,
        request: ApprovalRequested,
        outcome: ApprovalOutcome,
        by: tuple[str, ...] = (),
        *more: Event,
        via: str = "",
        note: str = "",
    ) -> None:
        settled = ApprovalSettled(
            run=request.run, approval=request.approval, outcome=outcome, by=by, via=via, note=note
        )
        await self._bus.publish(settled, *more)


def _approval_by_grant(grant: Grant) -> Approval:
    scope: Literal["session", "once"] = "session" if grant.scope == "session" else "once"
    return Approval(approved=True, by=", ".join(grant.by), scope=scope)


def _timeout_reason(request: ApprovalRequested, tally: AnswerTally) -> str:
    if tally.yes:
        return f"only {len(tally.yes)} of {request.count} people approved it in time"
    return "nobody approved it in time"


def _innermost_error(group: ExceptionGroup[Exception]) -> Exception:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
