"""Folds journal events into audited actions: who requested what, which rule decided, the result."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from fnmatch import fnmatchcase

from msgspec.structs import replace

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
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import ToolCall, Value
from hermes.core.protocols import JournalRecord

AUDIT_EVENT_KINDS = (
    *("run.started", "tool.requested", "tool.decided", "tool.approved", "tool.started"),
    *("tool.finished", "approval.requested", "approval.escalated", "approval.answered"),
    *("approval.settled", "grant.given", "grant.used", "action.announced", "action.stopped"),
    *("run.deleted", "audit.signed"),
)
"""Events of an audit; of all others an export contains only the hash."""


class AuditedAction(Value, kw_only=True, frozen=True):
    """One action from the request to the result."""

    seq: int
    at: datetime
    run: str
    call: str
    origin: str = ""
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
    actions: dict[tuple[str, str], AuditedAction] = {}
    origins: dict[str, str] = {}
    of_approval: dict[str, tuple[str, str]] = {}
    of_grant: dict[str, str] = {}
    for recorded in records:
        match recorded.event:
            case RunStarted() as event:
                origins[event.run] = event.origin
            case ToolRequested() as event:
                actions[event.run, event.call.id] = AuditedAction(
                    seq=recorded.seq,
                    at=event.at,
                    run=event.run,
                    call=event.call.id,
                    origin=event.origin or origins.get(event.run, ""),
                    tool=event.call.name,
                    what=event.command or render_call(event.call),
                )
            case ApprovalRequested() as event:
                of_approval[event.approval] = (event.run, event.call_id)
                _add_person(
                    actions, (event.run, event.call_id), f"asked as {event.requester or 'hermes'}"
                )
            case ApprovalAnswered() | ApprovalSettled() as event:
                key = of_approval.get(event.approval, ("", ""))
                _add_person(actions, key, _describe_answer(event))
            case GrantGiven() as event:
                of_grant[event.grant] = ", ".join(event.by)
            case GrantUsed() as event:
                by = of_grant.get(event.grant, "")
                _add_person(
                    actions, (event.run, event.call_id), f"by grant {event.grant} of {by or '?'}"
                )
            case event:
                _apply_event(actions, event)
    yield from actions.values()


def render_call(call: ToolCall) -> str:
    """The command or the arguments in one line."""
    command = call.arguments.get("command")
    if isinstance(command, str):
        return command
    return " ".join(f"{name}={value}" for name, value in call.arguments.items()) or call.malformed


def _describe_answer(event: ApprovalAnswered | ApprovalSettled) -> str:
    if isinstance(event, ApprovalSettled):
        return f"settled: {event.outcome}"
    via = f" via {event.via}" if event.via else ""
    return f"{'yes' if event.approved else 'no'} of {event.by} ({event.scope}{via})"


def _add_person(
    actions: dict[tuple[str, str], AuditedAction], key: tuple[str, str], entry: str
) -> None:
    action = actions.get(key)
    if action is not None:
        actions[key] = replace(action, people=(*action.people, entry))


def _apply_event(actions: dict[tuple[str, str], AuditedAction], event: object) -> None:
    match event:
        case ToolDecided():
            _update_action(
                actions,
                (event.run, event.call_id),
                verdict=event.verdict,
                rule=event.rule,
                reason=event.reason,
                effects=event.effects,
                hash=event.hash,
                tainted=event.tainted,
                audited=event.audited,
            )
        case ToolApproved():
            answer = "approved" if event.approved else "refused"
            _add_person(
                actions, (event.run, event.call_id), f"{answer} by {event.by} ({event.scope})"
            )
        case ActionAnnounced():
            _add_person(actions, (event.run, event.call_id), f"announced for {event.seconds:g} s")
        case ActionStopped():
            _add_person(actions, (event.run, event.call_id), f"stopped by {event.by}")
        case ToolStarted():
            _update_action(actions, (event.run, event.call_id), started=True)
        case ToolFinished():
            result = event.result
            key = (event.run, result.call_id)
            _update_action(actions, key, result=result.status, seconds=event.seconds)


def _update_action(
    actions: dict[tuple[str, str], AuditedAction], key: tuple[str, str], **changes: object
) -> None:
    if key in actions:
        actions[key] = replace(actions[key], **changes)
