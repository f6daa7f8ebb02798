"""Lists the actions of one incident from its records: executed, refused, and the model cost."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeVar

from msgspec.structs import replace

from hermes.core.events.approvals import ApprovalRequested, ApprovalSettled
from hermes.core.events.base import BaseEvent
from hermes.core.events.incidents import ChangeBegan
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import PlaybookStepped
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Usage, Value
from hermes.core.protocols import JournalRecord
from hermes.skills.playbook.commands import parse_terminal_result

EventType = TypeVar("EventType", bound=BaseEvent)
ActionEnding = Literal["ok", "failed", "cut off"]
ANSWER_TOOLS = frozenset({"conclude", "finding", "done"})
"""Tools with which an agent reports its result: not actions."""


class IncidentAction(Value, kw_only=True, frozen=True):
    """One tool call that began, and its result."""

    call_id: str
    command: str
    at: datetime
    seq: int = 0
    """The number of the event with its result; 0 without a result."""
    ending: ActionEnding = "cut off"
    output: str = ""
    detail: str = ""
    undo: str = ""
    by: str = ""
    attempt: int = 0
    changed: bool = False
    is_undo: bool = False
    """It undid a change."""


class RefusedAction(Value, kw_only=True, frozen=True):
    command: str
    why: str
    waiting: str = ""
    """The id of the approval request, while a person may still answer."""


class ModelCost(Value, kw_only=True, frozen=True):
    calls: int = 0
    usage: Usage = Usage()
    models: tuple[str, ...] = ()


def events_of_type(records: Sequence[JournalRecord], kind: type[EventType]) -> list[EventType]:
    return [each.event for each in records if isinstance(each.event, kind)]


def list_actions(records: Sequence[JournalRecord]) -> list[IncidentAction]:
    """Calls that began, in the order of their requests."""
    asked = {event.call.id: event for event in events_of_type(records, ToolRequested)}
    started = {event.call_id for event in events_of_type(records, ToolStarted)}
    finished = {
        each.event.result.call_id: each for each in records if isinstance(each.event, ToolFinished)
    }
    changes = _changes_by_call(records)
    undo_calls = {
        event.call_id for event in events_of_type(records, PlaybookStepped) if event.phase == "undo"
    }
    return [
        _build_action(request, finished.get(call), changes.get(call), is_undo=call in undo_calls)
        for call, request in asked.items()
        if call in started and request.call.name not in ANSWER_TOOLS
    ]


def _build_action(
    request: ToolRequested,
    end: JournalRecord | None,
    change: tuple[str, str, int] | None,
    *,
    is_undo: bool,
) -> IncidentAction:
    command = requested_command(request)
    undo, by, attempt = change or ("", "", 0)
    action = IncidentAction(
        call_id=request.call.id,
        command=command,
        at=request.at,
        undo=undo,
        by=by,
        attempt=attempt,
        changed=change is not None,
        is_undo=is_undo,
    )
    if end is None or not isinstance(end.event, ToolFinished):
        return action
    result = parse_terminal_result(end.event.result, command, end.event.seconds)
    well = result.status == "ok" and result.code == 0
    late = "ran out of time" if result.timed_out else ""
    failed = late or (f"exit code {result.code}" if result.code is not None else "failed")
    return replace(
        action,
        seq=end.seq,
        ending="ok" if well else "failed",
        output=result.output,
        detail="" if well else failed,
    )


def _changes_by_call(records: Sequence[JournalRecord]) -> dict[str, tuple[str, str, int]]:
    """By call: the undo command, who did it, in which attempt."""
    found: dict[str, tuple[str, str, int]] = {}
    for each in records:
        match each.event:
            case ChangeBegan() as event:
                found[event.call_id] = (event.undo, event.by, event.attempt)
            case PlaybookStepped(phase="step") as event:
                undo, by, attempt = found.get(event.call_id, ("", event.skill, 0))
                found[event.call_id] = (undo or event.undo, by, attempt)
            case _:
                pass
    return found


def requested_command(request: ToolRequested) -> str:
    arguments = request.call.arguments
    command = arguments.get("command") or request.command
    if isinstance(command, str) and command:
        return command
    return " ".join([request.call.name, *(str(value) for value in arguments.values())])


def list_refused_actions(records: Sequence[JournalRecord]) -> list[RefusedAction]:
    """Actions that a rule or a person refused, and those that wait for approval."""
    shown = {
        event.call.id: requested_command(event) for event in events_of_type(records, ToolRequested)
    }
    started = {event.call_id for event in events_of_type(records, ToolStarted)}
    settled = {event.approval for event in events_of_type(records, ApprovalSettled)}
    found: dict[str, RefusedAction] = {}
    for each in records:
        event = each.event
        if isinstance(event, ToolDecided) and event.verdict == "deny":
            why = f"the rule {event.rule} forbids it" + (
                f": {event.reason}" if event.reason else ""
            )
            found[event.call_id] = RefusedAction(command=shown.get(event.call_id, ""), why=why)
        elif isinstance(event, ToolApproved) and not event.approved:
            nobody = event.by == "nobody"
            why = "nobody answered in time" if nobody else f"{event.by} said no"
            found[event.call_id] = RefusedAction(command=shown.get(event.call_id, ""), why=why)
        elif isinstance(event, ApprovalRequested) and event.approval not in settled:
            found[event.call_id] = RefusedAction(
                command=event.shown, why="waits for approval", waiting=event.approval
            )
    return [each for call, each in found.items() if call not in started]


def compute_model_cost(records: Sequence[JournalRecord]) -> ModelCost:
    answers = events_of_type(records, ModelAnswered)
    return ModelCost(
        calls=len(answers),
        usage=sum((answer.usage for answer in answers), Usage()),
        models=tuple(dict.fromkeys(answer.model for answer in answers)),
    )
