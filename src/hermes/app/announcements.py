"""Continues an announced action that a crash interrupted before it ran.

Without this, each crash would announce it again from the start, and a watch that is restarted often
would never get to act.
"""

from collections.abc import Callable
from datetime import datetime

from hermes.core.actions import Action, Approval, DecideAction, Decision, why_changed
from hermes.core.bus import Bus
from hermes.core.events.approvals import ActionAnnounced, ApprovalSettled
from hermes.policy.approvals.answers import (
    AnswerCountdown,
    AnswerTally,
    AnswerWait,
    WallClock,
    utc_now,
)
from hermes.policy.approvals.grants import Grant
from hermes.policy.approvals.history import request_from_announcement
from hermes.policy.approvals.request import ApprovalOptions, ask_options_of, build_request

MIN_LEFT_S = 5.0
"""Seconds that remain to stop it after a restart, whatever the clock says."""
MAX_AGE_S = 600.0
"""An older announcement is not continued: the action is announced again."""
NO_OBJECTION = "nobody objected"


class InterruptedAnnouncements:
    """The announcements of earlier processes that were neither settled nor carried out."""

    def __init__(
        self,
        bus: Bus,
        options: ApprovalOptions,
        *,
        redact: Callable[[str], str] = str,
        clock: WallClock = utc_now,
    ) -> None:
        self._bus, self._options = bus, options
        self._redact, self._clock = redact, clock
        self._open: dict[str, list[tuple[int, ActionAnnounced]]] = {}

    async def resume(
        self, action: Action, decision: Decision, decide: DecideAction
    ) -> Approval | None:
        """Wait for the rest of the time; None when exactly this was not announced before."""
        announce = ask_options_of(decision).announce
        if announce <= 0 or decision.tainted:
            return None
        if action.run not in self._open:
            self._open[action.run] = await self._read(action.run)
        found = self._find(action, decision)
        if found is None:
            return None
        self._open[action.run].remove(found)
        number, event = found
        tally = AnswerTally(request_from_announcement(event))
        passed = max(0.0, (self._clock() - event.at).total_seconds())
        left = max(MIN_LEFT_S, max(announce, event.seconds) - passed)
        # A no counts, also one that was given while no process was running.
        waiting = AnswerWait(self._bus, tally, AnswerCountdown(left), granted=_no_grant)
        await waiting.wait(number, None, alone=False)
        return await self._conclude(why_changed(decision, decide(action)), event, tally)

    def forget(self, run: str) -> None:
        self._open.pop(run, None)

    async def _read(self, run: str) -> list[tuple[int, ActionAnnounced]]:
        found: dict[str, tuple[int, ActionAnnounced]] = {}
        now = self._clock()
        kinds = ("action.announced", "approval.settled")
        async for recorded in self._bus.journal.read(run=run, kinds=kinds):
            event = recorded.event
            if isinstance(event, ActionAnnounced) and _is_recent(event, now):
                found[event.approval] = (recorded.seq, event)
            elif isinstance(event, ApprovalSettled):
                found.pop(event.approval, None)
        return list(found.values())

    def _find(self, action: Action, decision: Decision) -> tuple[int, ActionAnnounced] | None:
        request = build_request(
            action,
            decision,
            self._options,
            now=self._clock(),
            prompted=False,
            redact=self._redact,
        )
        wanted = (request.shown, request.effects, request.rule, request.undo, request.place)
        for number, each in reversed(self._open[action.run]):
            if (each.shown, each.effects, each.rule, each.undo, each.place) == wanted:
                return number, each
        return None

    async def _conclude(self, changed: str, event: ActionAnnounced, tally: AnswerTally) -> Approval:
        by = ", ".join(tally.by) or NO_OBJECTION
        if tally.outcome == "denied":
            await self._settle(event, "denied", tally)
            reason = f"{by} said no" + (f": {tally.note}" if tally.note else "")
            return Approval(approved=False, by=by, reason=reason)
        if changed:
            await self._settle(event, "changed", tally)
            return Approval(approved=False, by=by, reason=changed)
        await self._settle(event, "approved", tally)
        return Approval(approved=True, by=by)

    async def _settle(self, event: ActionAnnounced, outcome: str, tally: AnswerTally) -> None:
        await self._bus.publish(
            ApprovalSettled(
                run=event.run,
                approval=event.approval,
                outcome=outcome,  # type: ignore[arg-type]
                by=tally.by,
                via=tally.via,
            )
        )


def _is_recent(event: ActionAnnounced, now: datetime) -> bool:
    return abs((now - event.at).total_seconds()) <= MAX_AGE_S


async def _no_grant() -> Grant | None:
    return None
