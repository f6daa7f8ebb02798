"""Folds journal events into open approval requests and grants."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hermes.core.events.approvals import (
    ActionAnnounced,
    ActionStopped,
    ApprovalAnswered,
    ApprovalEscalated,
    ApprovalRequested,
    ApprovalSettled,
    GrantGiven,
    GrantRevoked,
    GrantUsed,
)
from hermes.core.protocols import Journal, JournalRecord
from hermes.policy.approvals.answers import AnswerTally
from hermes.policy.approvals.grants import Grant

APPROVAL_EVENT_KINDS = (
    "approval.requested",
    "approval.answered",
    "approval.escalated",
    "approval.settled",
    "action.announced",
    "action.stopped",
)
GRANT_EVENT_KINDS = ("grant.given", "grant.used", "grant.revoked")


@dataclass
class ApprovalQuestion:
    """A request or announcement, with its answers so far."""

    request: ApprovalRequested
    tally: AnswerTally
    newest: datetime
    seconds: float = 0.0
    """Above 0: announced, and proceeds by itself after this time."""
    settled: ApprovalSettled | None = None
    settled_at: int = 0
    """The number of `settled` in the journal."""

    def is_open(self, now: datetime) -> bool:
        until = self.request.until
        return self.settled is None and (until is None or self.request.at <= now < until)

    def state(self, now: datetime) -> str:
        if self.settled is not None:
            return self.settled.outcome
        if not self.is_open(now):
            return "expired"
        return "announced" if self.seconds else "waiting"

    def is_in_time(self, event: ApprovalAnswered | ActionStopped) -> bool:
        """Decided afterwards: by its own time, and by that of the events before it, so that setting
        the clock back does not help a late answer."""
        until = self.request.until
        self.newest = max(self.newest, event.at)
        return event.at >= self.request.at and (until is None or self.newest < until)


@dataclass
class GrantUsage:
    """A grant, with how often it was used."""

    grant: Grant
    shown: str = ""
    used: int = 0
    revoked: bool = False

    @property
    def expires_at(self) -> datetime:
        return self.grant.given_at + timedelta(seconds=self.grant.valid_for)

    def is_live(self, now: datetime) -> bool:
        unused = self.grant.uses == 0 or self.used < self.grant.uses
        return not self.revoked and self.grant.given_at <= now < self.expires_at and unused


@dataclass
class ApprovalHistory:
    """Folds events, in order."""

    questions: dict[str, ApprovalQuestion] = field(default_factory=dict)
    grants: dict[str, GrantUsage] = field(default_factory=dict)
    last: int = 0

    def add(self, recorded: JournalRecord) -> None:
        self.last = recorded.seq
        event: Any = recorded.event
        step = _FOLD_STEPS.get(type(event))
        if step is not None:
            step(self, event)

    def open_questions(self, now: datetime) -> Iterator[ApprovalQuestion]:
        return (each for each in self.questions.values() if each.is_open(now))

    def live_grants(self, now: datetime) -> Iterator[GrantUsage]:
        return (each for each in self.grants.values() if each.is_live(now))

    def newest(self, call_id: str) -> ApprovalQuestion | None:
        """The last question of an earlier process about this call; none that was announced."""
        for each in reversed(self.questions.values()):
            if each.request.call_id == call_id and not each.seconds:
                return each
        return None

    def _requested(self, event: ApprovalRequested) -> None:
        self.questions[event.approval] = ApprovalQuestion(event, AnswerTally(event), event.at)

    def _announced(self, event: ActionAnnounced) -> None:
        request = request_from_announcement(event)
        self.questions[event.approval] = ApprovalQuestion(
            request, AnswerTally(request), event.at, event.seconds
        )

    def _answered(self, event: ApprovalAnswered | ActionStopped) -> None:
        question = self.questions.get(event.approval)
        if question is not None and question.is_in_time(event):
            question.tally.add(event)

    def _escalated(self, event: ApprovalEscalated) -> None:
        if event.approval in self.questions:
            self.questions[event.approval].tally.add(event)

    def _settled(self, event: ApprovalSettled) -> None:
        if event.approval in self.questions:
            self.questions[event.approval].settled = event
            self.questions[event.approval].settled_at = self.last

    def _given(self, event: GrantGiven) -> None:
        grant = Grant(
            id=event.grant,
            action=event.action,
            run=event.run,
            by=event.by,
            scope=event.scope,
            uses=event.uses,
            given_at=event.at,
            valid_for=event.valid_for,
            rule=event.rule,
        )
        self.grants[event.grant] = GrantUsage(grant, event.shown)

    def _used(self, event: GrantUsed) -> None:
        if event.grant in self.grants:
            self.grants[event.grant].used += 1

    def _revoked(self, event: GrantRevoked) -> None:
        if event.grant in self.grants:
            self.grants[event.grant].revoked = True


_FOLD_STEPS: dict[type, Any] = {
    ApprovalRequested: ApprovalHistory._requested,
    ActionAnnounced: ApprovalHistory._announced,
    ApprovalAnswered: ApprovalHistory._answered,
    ActionStopped: ApprovalHistory._answered,
    ApprovalEscalated: ApprovalHistory._escalated,
    ApprovalSettled: ApprovalHistory._settled,
    GrantGiven: ApprovalHistory._given,
    GrantUsed: ApprovalHistory._used,
    GrantRevoked: ApprovalHistory._revoked,
}


def request_from_announcement(event: ActionAnnounced) -> ApprovalRequested:
    """An announcement in the form of an approval request."""
    return ApprovalRequested(
        run=event.run,
        at=event.at,
        approval=event.approval,
        call_id=event.call_id,
        tool="",
        shown=event.shown,
        effects=event.effects,
        rule=event.rule,
        undo=event.undo,
        place=event.place,
        prompted=event.prompted,
        tested=event.tested,
        purpose=event.purpose,
        until=event.at + timedelta(seconds=event.seconds),
    )


async def read_approval_history(
    journal: Journal, *, run: str | None = None, since: datetime | None = None
) -> ApprovalHistory:
    past = ApprovalHistory()
    async for recorded in journal.read(
        run=run, kinds=(*APPROVAL_EVENT_KINDS, *GRANT_EVENT_KINDS), since=since
    ):
        past.add(recorded)
    return past
