"""Events about approvals: what people were asked, what they answered, and what followed."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent


class ApprovalRequested(BaseEvent, tag="approval.requested", kw_only=True, frozen=True):
    """Any process may answer it until `until`; no answer means no."""

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
    """Hash of exactly the action that was shown: an answer is valid for nothing else."""
    requester: str = ""
    approvers: tuple[str, ...] = ()
    """Who may answer, by name: groups are resolved when it is asked. Empty: anyone."""
    count: int = 1
    """How many different people must approve."""
    barred: tuple[str, ...] = ()
    """Who may not approve: usually the requester."""
    until: datetime | None = None
    place: str = ""
    """Where it would run: environment, target, folder."""
    tainted: str = ""
    variables: tuple[str, ...] = ()
    """Variables with values unknown at the time of the request that decide what it means."""
    prompted: bool = False
    """A person at the terminal of the requesting process sees it there."""
    tested: str = ""
    """How its fix did on a copy of the host, in words; empty when it was not tested."""
    purpose: str = ""
    """What it changes and why, in words of this program and not of a model; empty when that is not
    known."""


class ApprovalEscalated(BaseEvent, tag="approval.escalated", kw_only=True, frozen=True):
    """There was no answer in time: more people may answer now."""

    approval: str
    to: tuple[str, ...]


class ApprovalAnswered(BaseEvent, tag="approval.answered", kw_only=True, frozen=True):
    approval: str
    approved: bool
    by: str
    scope: Literal["once", "session", "always"] = "once"
    via: str = ""
    """Where it was answered: terminal, cli, chat, web."""
    note: str = ""


class ApprovalSettled(BaseEvent, tag="approval.settled", kw_only=True, frozen=True):
    """Written by the requesting process: later answers do not count."""

    approval: str
    outcome: Literal["approved", "denied", "expired", "withdrawn", "changed"]
    by: tuple[str, ...] = ()
    via: str = ""
    note: str = ""
    """Additional information: for example, why an "always" could not be stored."""


class GrantGiven(BaseEvent, tag="grant.given", kw_only=True, frozen=True):
    """Permission to do exactly this, a number of times and until a time."""

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
    """An action was announced; it continues after `seconds` unless a person stops it."""

    call_id: str
    shown: str
    effects: tuple[str, ...] = ()
    rule: str = ""
    seconds: float = 0.0
    approval: str = ""
    """The approval request that stops it or lets it continue at once."""
    undo: str = ""
    place: str = ""
    prompted: bool = False
    tested: str = ""
    purpose: str = ""


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
