"""Counts the answers to one question: who may answer, who did, and whether that settles it."""

from typing import Literal

from hermes.core.actions import Scope, objection
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalEscalated,
    ApprovalRequested,
)

Outcome = Literal["approved", "denied"]
_SCOPES: tuple[Scope, ...] = ("once", "session", "always")


class Tally:
    """Answers in the order of the journal; the first that decides wins, later ones do nothing."""

    def __init__(self, request: ApprovalRequested) -> None:
        self.request = request
        self.escalated: tuple[str, ...] = ()
        self.escalations = 0
        self.yes: dict[str, ApprovalAnswered] = {}
        self.no = ""
        """Who said no."""
        self.note = ""
        self.via = ""

    def add(self, event: ApprovalAnswered | ApprovalEscalated | ActionStopped) -> str:
        """Why it does not count, empty when it does."""
        if isinstance(event, ApprovalEscalated):
            self.escalated = (*self.escalated, *event.to)
            self.escalations += 1
            return ""
        if self.outcome is not None:
            return "it was settled before"
        if isinstance(event, ActionStopped):
            self.no = event.by or "somebody"
            return ""
        why = self.objection(event.by, approved=event.approved)
        if why:
            return why
        self.via, self.note = event.via, event.note
        if event.approved:
            self.yes.setdefault(event.by, event)  # the same person twice is one person
        else:
            self.no = event.by or "somebody"
        return ""

    def objection(self, who: str, *, approved: bool) -> str:
        return objection(self.request, who, approved=approved, escalated=self.escalated)

    @property
    def outcome(self) -> Outcome | None:
        if self.no:
            return "denied"
        return "approved" if len(self.yes) >= self.request.count else None

    @property
    def scope(self) -> Scope:
        """The narrowest that any of them gave."""
        given = [_SCOPES.index(answer.scope) for answer in self.yes.values()]
        return _SCOPES[min(given, default=0)]

    @property
    def by(self) -> tuple[str, ...]:
        return (self.no,) if self.no else tuple(self.yes)
