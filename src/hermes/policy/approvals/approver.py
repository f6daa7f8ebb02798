"""Asks people for approval and keeps the requests, answers and grants in the journal."""

import time
from collections.abc import Callable, Mapping
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
    DecideAction,
    Decision,
    why_changed,
    why_not_always,
)
from hermes.core.bus import Bus
from hermes.core.errors import innermost_error
from hermes.core.events import Event
from hermes.core.events.approvals import (
    ActionAnnounced,
    ApprovalRequested,
    ApprovalSettled,
    GrantGiven,
    GrantRevoked,
    GrantUsed,
)
from hermes.core.events.tools import ToolStarted
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
"""Seconds after which a grant for a session ends, even if the session continues."""


class GrantStore:
    """The grants of the runs of this process; any process may revoke one."""

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

    def forget(self, run: str) -> None:
        self._last_read.pop(run, None)
        self._grants.end(run)

    async def use_grant(self, action: str, run: str) -> Grant | None:
        """Uses a grant for the action, if there is one that was not revoked."""
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
        """The events for a grant beyond this one use, which is its first.

        Actions with untrusted words or unknown variables get none: they are checked each time.
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
        self._grants.give(grant, used=1)  # first: a waiting request may use it
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


SaveAlways = Callable[[ApprovalRequested, str], str]
"""Saves that the action is always allowed, and by whom; returns what went wrong, if anything."""
ApprovalOutcome = Literal["approved", "denied", "expired", "withdrawn", "changed"]


@dataclass(frozen=True)
class ApprovalSubject:
    """The action that approval is requested for."""

    action: Action
    decision: Decision
    ask: AskOptions
    id: str
    """The hash of the exact action."""
    decide: DecideAction
    """The policy that asked."""


class JournalApprover:
    """Implements `Approver` and `DecidesAgain`. `decide` is used where the caller names no policy
    of its own. `local_approver` asks the person at this terminal, if there is one."""

    def __init__(
        self,
        bus: Bus,
        decide: DecideAction,
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

    def set_groups(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        """Replace the groups of people."""
        self._options = replace(self._options, groups=dict(groups))

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        return await self.approve(action, decision, self._decide)

    async def approve(self, action: Action, decision: Decision, decide: DecideAction) -> Approval:
        """Raises `StoreError` when the request cannot be saved."""
        identity = action_identity(action, decision)
        subject = ApprovalSubject(action, decision, ask_options_of(decision), identity, decide)
        try:
            return await self._resolve(subject)
        except ExceptionGroup as group:
            raise innermost_error(group) from group

    def forget(self, run: str) -> None:
        """Forget the history of a run; it is read from the journal again when it is needed."""
        for each in [each for each in self._histories if each.partition("/")[0] == run]:
            del self._histories[each]
            self._grant_store.forget(each)

    async def _resolve(self, subject: ApprovalSubject) -> Approval:
        run, options = subject.action.run, self._options
        if run not in self._histories:  # it may have an earlier history
            self._histories[run] = await read_approval_history(self._bus.journal, run=run)
            self._grant_store.restore(run, self._histories[run])
        if not subject.decision.tainted and (
            grant := await self._grant_store.use_grant(subject.id, run)
        ):
            used = GrantUsed(run=run, grant=grant.id, call_id=subject.action.call.id)
            await self._bus.publish(used)
            return _approval_by_grant(grant)
        if subject.ask.announce > 0 and (
            options.wait or isinstance(self._local_approver, AnswersApprovals)
        ):
            return await self._announce(subject)
        if self._local_approver is None and not (options.wait or subject.ask.waits):
            return Approval(approved=False, by="nobody")
        return await self._ask(subject)

    async def _ask(self, subject: ApprovalSubject) -> Approval:
        if approval := await self._use_earlier_approval(subject):
            return approval
        question, after = await self._question(subject)
        request, tally = question.request, question.tally
        until = request.until or request.at + timedelta(seconds=subject.ask.timeout)
        deadline = AnswerDeadline(request.at, until, question.newest, self._clock, self._monotonic)
        waiting = self._open_wait(subject, tally, deadline)
        here = self._local_question(subject, request)
        alone = not (self._options.wait or subject.ask.waits)
        ended = await self._wait_for_answer(waiting, request, after, here, alone=alone)
        if ended == "granted" and waiting.grant is not None:
            used = GrantUsed(run=request.run, grant=waiting.grant.id, call_id=request.call_id)
            await self._settle(request, "approved", waiting.grant.by, used)
            return _approval_by_grant(waiting.grant)
        if ended == "unheard":
            await self._settle(request, "denied")
            return Approval(approved=False, by="nobody", reason=waiting.unheard_reason)
        if tally.outcome is None:
            await self._settle(request, "expired", tuple(tally.yes))
            reasons = _timeout_reason(request, tally), waiting.unheard_reason
            return Approval(approved=False, by="nobody", reason="; ".join(filter(None, reasons)))
        return await self._conclude(subject, request, tally)

    async def _use_earlier_approval(self, subject: ApprovalSubject) -> Approval | None:
        """The approval that this call got before a crash, unless it started or its turn ended."""
        past, call_id = self._histories[subject.action.run], subject.action.call.id
        known = past.newest(call_id)
        if known is None or known.settled is None or known.settled.outcome != "approved":
            return None
        del past.questions[known.request.approval]  # it counts once
        same_words = known.request.tainted == self._redact(subject.decision.tainted)
        if not same_words or not self._still_counts(known, subject):
            return None
        async for recorded in self._bus.journal.read(
            after=known.settled_at, run=known.request.run, kinds=("tool.started", "turn.ended")
        ):
            event = recorded.event
            if not isinstance(event, ToolStarted) or event.call_id == call_id:
                return None
        return Approval(approved=True, by=", ".join(known.settled.by))

    async def _question(self, subject: ApprovalSubject) -> tuple[ApprovalQuestion, int]:
        """The question to wait for: that of an earlier process, if it is still the same."""
        past = self._histories[subject.action.run]
        known = past.newest(subject.action.call.id)
        if known is not None and known.settled is None:
            if self._still_counts(known, subject):
                return known, past.last
            same = known.request.hash == subject.decision.hash
            await self._settle(known.request, "expired" if same else "changed")
        request = self._build_request(subject)
        numbers = await self._bus.publish(request)
        return ApprovalQuestion(request, AnswerTally(request), request.at), numbers[-1]

    def _still_counts(self, known: ApprovalQuestion, subject: ApprovalSubject) -> bool:
        """An old approval is requested again, because the situation may have changed."""
        if known.request.hash != subject.decision.hash:
            return False
        ages = [(self._clock() - yes.at).total_seconds() for yes in known.tally.yes.values()]
        return all(0 <= age <= subject.ask.grant_seconds for age in ages)

    def _build_request(self, subject: ApprovalSubject) -> ApprovalRequested:
        return build_request(
            subject.action,
            subject.decision,
            self._options,
            now=self._clock(),
            prompted=isinstance(self._local_approver, AnswersApprovals),
            redact=self._redact,
        )

    def _local_question(
        self, subject: ApprovalSubject, request: ApprovalRequested, announced: float = 0.0
    ) -> AskLocally | None:
        approver = self._local_approver
        if isinstance(approver, AnswersApprovals):
            return partial(approver.answer, subject.action, request, announced)
        if approver is None or announced:
            return None
        return partial(approver, subject.action, subject.decision)

    def _open_wait(
        self,
        subject: ApprovalSubject,
        tally: AnswerTally,
        deadline: AnswerDeadline | AnswerCountdown,
    ) -> AnswerWait:
        groups = self._options.groups
        return AnswerWait(
            self._bus,
            tally,
            deadline,
            escalate=[
                (each.after, expand_groups((each.to,), groups)) for each in subject.ask.escalate
            ],
            granted=partial(self._grant_store.use_grant, subject.id, subject.action.run),
            tick=self._tick,
        )

    async def _wait_for_answer(
        self,
        waiting: AnswerWait,
        request: ApprovalRequested,
        after: int,
        here: AskLocally | None,
        alone: bool,
    ) -> WaitResult:
        try:
            return await waiting.wait(after, here, alone=alone)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(2, shield=True):
                await self._settle(request, "withdrawn")
            raise

    async def _announce(self, subject: ApprovalSubject) -> Approval:
        """Anybody may stop it. It proceeds without an answer, so its clock cannot be set."""
        seconds = subject.ask.announce
        request = replace(self._build_request(subject), approvers=(), barred=(), count=1)
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
                tested=request.tested,
                purpose=request.purpose,
            )
        )
        tally = AnswerTally(request)
        waiting = self._open_wait(subject, tally, AnswerCountdown(seconds, self._monotonic))
        here = self._local_question(subject, request, seconds)
        await self._wait_for_answer(waiting, request, numbers[-1], here, alone=False)
        return await self._conclude(subject, request, tally)

    async def _conclude(
        self, subject: ApprovalSubject, request: ApprovalRequested, tally: AnswerTally
    ) -> Approval:
        by = ", ".join(tally.by) or "nobody objected"
        if tally.outcome == "denied":
            await self._settle(request, "denied", tally.by, via=tally.via)
            reason = f"{by} said no" + (f": {tally.note}" if tally.note else "")
            return Approval(approved=False, by=by, reason=reason)
        if changed := why_changed(subject.decision, subject.decide(subject.action)):
            await self._settle(request, "changed", tally.by, via=tally.via)
            return Approval(approved=False, by=by, reason=changed)
        scope, trouble = tally.scope, ""
        if scope == "always":
            trouble = why_not_always(request) or (
                self._save_always(request, by) if self._save_always else ""
            )
            scope = "once" if trouble or self._save_always is None else scope
        given = self._grant_store.create_grant(subject.id, request, tally, subject.ask)
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
