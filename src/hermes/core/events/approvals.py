"""What people were asked, what they answered, and what followed from it."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent


class ApprovalRequested(BaseEvent, tag="approval.requested", kw_only=True, frozen=True):
    """Any process may answer it until `until`; no answer is a no."""

    approval: str
    call_id: str
    tool: str
    shown: str
    """The command, or the arguments, as a person reads them."""
    effects: tuple[str, ...] = ()
    rule: str = ""
    reason: str = ""
    undo: str = ""
    hash: str = ""
    """Of exactly the action that was shown: an answer binds to nothing else."""
    requester: str = ""
    approvers: tuple[str, ...] = ()
    """Who may answer, by name: groups are resolved when it is asked. Anybody when empty."""
    count: int = 1
    """How many different people have to say yes."""
    barred: tuple[str, ...] = ()
    """Who may not say yes: the one who asked for it, mostly."""
    until: datetime | None = None
    place: str = ""
    """Where it would be done: environment, target, folder."""
    tainted: str = ""
    variables: tuple[str, ...] = ()
    """Variables whose values, unknown when it was asked, decide what it means."""
    prompted: bool = False
    """Somebody sits at the terminal of the process that asks, and sees it there."""


class ApprovalEscalated(BaseEvent, tag="approval.escalated", kw_only=True, frozen=True):
    """Nobody answered in time: others may now answer as well."""

    approval: str
    to: tuple[str, ...]


class ApprovalAnswered(BaseEvent, tag="approval.answered", kw_only=True, frozen=True):
    approval: str
    approved: bool
    by: str
    scope: Literal["once", "session", "always"] = "once"
    via: str = ""
    """Where it was said: terminal, cli, chat, web."""
    note: str = ""


class ApprovalSettled(BaseEvent, tag="approval.settled", kw_only=True, frozen=True):
    """Written by the process that asked: from here on no answer counts."""

    approval: str
    outcome: Literal["approved", "denied", "expired", "withdrawn", "changed"]
    by: tuple[str, ...] = ()
    via: str = ""
    note: str = ""
    """What else is worth knowing: an "always" that could not be kept, and why."""


class GrantGiven(BaseEvent, tag="grant.given", kw_only=True, frozen=True):
    """Leave to do exactly this, so often and for so long."""

    grant: str
    action: str
    by: tuple[str, ...]
    scope: Literal["exact-action", "session"] = "exact-action"
    uses: int = 1
    valid_for: float = 0.0
    rule: str = ""
    shown: str = ""


class GrantUsed(BaseEvent, tag="grant.used", kw_only=True, frozen=True):
    grant: str
    call_id: str


class GrantRevoked(BaseEvent, tag="grant.revoked", kw_only=True, frozen=True):
    grant: str
    by: str


class ActionAnnounced(BaseEvent, tag="action.announced", kw_only=True, frozen=True):
    """It goes on after `seconds` unless somebody stops it."""

    call_id: str
    shown: str
    effects: tuple[str, ...] = ()
    rule: str = ""
    seconds: float = 0.0
    approval: str = ""
    """By which it is stopped, or let go on at once; settled like any other."""
    undo: str = ""
    place: str = ""
    prompted: bool = False


class ActionStopped(BaseEvent, tag="action.stopped", kw_only=True, frozen=True):
    call_id: str
    by: str
    approval: str = ""


ApprovalEvent = (
    ApprovalRequested
    | ApprovalEscalated
    | ApprovalAnswered
    | ApprovalSettled
    | GrantGiven
    | GrantUsed
    | GrantRevoked
    | ActionAnnounced
    | ActionStopped
)
