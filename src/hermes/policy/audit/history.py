"""Folds journal events into audited actions: who requested what, which rule decided, the result."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from hermes.core.events.approvals import (
    ActionAnnounced,
    ActionStopped,
    ApprovalAnswered,
    ApprovalRequested,
    ApprovalSettled,
    GrantGiven,
    GrantUsed,
)
from hermes.core.events.runs import RunStarted
from hermes.core.events.tools import ToolApproved, ToolRequested
from hermes.core.messages import ToolCall, Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import OpenToolCalls, RecordedCall

AUDIT_EVENT_KINDS = (
    *("run.started", "tool.requested", "tool.decided", "tool.approved", "tool.started"),
    *("tool.finished", "approval.requested", "approval.escalated", "approval.answered"),
    *("approval.settled", "grant.given", "grant.used", "action.announced", "action.stopped"),
    *("run.deleted", "audit.signed"),
)
"""Events of an audit; of all others an export contains only the hash."""
_DECISION_FIELDS = ("verdict", "rule", "reason", "effects", "hash", "tainted", "audited")
_CallKey = tuple[str, str]
"""The run and the id of a call."""


class AuditedAction(Value, kw_only=True, frozen=True):
    """One action from the request to the result."""

    seq: int
    at: datetime
    run: str
    call: str
    origin: str = ""
    actor: str = ""
    """For whom: the name of a person, or `channel:id` for one who has none."""
    tool: str = ""
    what: str = ""
    verdict: str = ""
    rule: str = ""
    reason: str = ""
    effects: tuple[str, ...] = ()
    hash: str = ""
    tainted: str = ""
    audited: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    """The people who answered, granted or stopped it."""
    started: bool = False
    result: str = ""
    """ok, error or denied; empty while unknown."""
    seconds: float = 0.0

    @property
    def who(self) -> str:
        """For whom and from where: `alice (chat)`."""
        origin = self.origin or "?"
        return f"{self.actor} ({origin})" if self.actor else origin


class AuditFilter(Value, kw_only=True, frozen=True):
    """Selects audited actions."""

    since: datetime | None = None
    run: str = ""
    rule: str = "*"
    verdict: str = ""

    def matches(self, action: AuditedAction) -> bool:
        return (
            (self.since is None or action.at >= self.since)
            and (not self.run or action.run == self.run or action.run.startswith(f"{self.run}/"))
            and fnmatchcase(action.rule, self.rule)
            and self.verdict in ("", action.verdict)
        )


def fold_audited_actions(records: Iterable[JournalRecord]) -> Iterator[AuditedAction]:
    """Every requested action, in order."""
    open_calls, calls = OpenToolCalls(), dict[_CallKey, RecordedCall]()
    origins: dict[str, str] = {}
    people: dict[_CallKey, tuple[str, ...]] = {}
    of_approval: dict[str, _CallKey] = {}
    of_grant: dict[str, str] = {}
    for recorded in records:
        event = recorded.event
        call = open_calls.apply(event, recorded.seq)
        if call is not None:
            calls[call.run, call.id] = call
        match event:
            case RunStarted():
                origins[event.run] = event.origin
            case ToolRequested():
                people[event.run, event.call.id] = ()
            case GrantGiven():
                of_grant[event.grant] = ", ".join(event.by)
            case ApprovalRequested():
                of_approval[event.approval] = (event.run, event.call_id)
        if entry := _person_entry(event, of_grant):
            by_call = (event.run, getattr(event, "call_id", ""))
            key = of_approval.get(getattr(event, "approval", ""), by_call)
            people[key] = (*people.get(key, ()), entry)
    for key, call in calls.items():
        yield _audited_action(call, origins.get(call.run, ""), people[key])


def _audited_action(call: RecordedCall, origin: str, people: tuple[str, ...]) -> AuditedAction:
    known: dict[str, Any] = {}
    if call.decision is not None:
        known = {name: getattr(call.decision, name) for name in _DECISION_FIELDS}
    if call.finish is not None:
        known |= {"result": call.finish.result.status, "seconds": call.finish.seconds}
    return AuditedAction(
        seq=call.requested_seq,
        at=call.request.at,
        run=call.run,
        call=call.id,
        origin=call.request.origin or origin,
        actor=call.request.actor,
        tool=call.name,
        what=call.request.command or render_call(call.request.call),
        people=people,
        started=call.start is not None,
        **known,
    )


def render_call(call: ToolCall) -> str:
    """The command or the arguments in one line."""
    command = call.arguments.get("command")
    if isinstance(command, str):
        return command
    return " ".join(f"{name}={value}" for name, value in call.arguments.items()) or call.malformed


def _person_entry(event: object, of_grant: Mapping[str, str]) -> str:
    """Return what a person, or the wait for one, contributed to an action; empty for other
    events."""
    match event:
        case ApprovalRequested():
            return f"asked as {event.requester or 'hermes'}"
        case ApprovalSettled():
            return f"settled: {event.outcome}"
        case ApprovalAnswered():
            via = f" via {event.via}" if event.via else ""
            return f"{'yes' if event.approved else 'no'} of {event.by} ({event.scope}{via})"
        case GrantUsed():
            return f"by grant {event.grant} of {of_grant.get(event.grant) or '?'}"
        case ToolApproved():
            return f"{event.answer} ({event.scope})"
        case ActionAnnounced():
            return f"announced for {event.seconds:g} s"
        case ActionStopped():
            return f"stopped by {event.by}"
        case _:
            return ""
