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
    ToolStarted,
)
from hermes.core.messages import Usage, Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import OpenToolCalls, RecordedCall, fold_tool_calls
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


OBSERVE_RULE = "observe-only"
"""The rule of the policy set `observe`: what it denies would have run in another mode."""


class RefusedAction(Value, kw_only=True, frozen=True):
    command: str
    why: str
    rule: str = ""
    """The rule that forbids it; empty when a person refused or has to answer."""
    waiting: str = ""
    """The id of the approval request, while a person may still answer."""

    @property
    def would_have_run(self) -> bool:
        """Whether only the mode `observe` kept it from running."""
        return self.rule == OBSERVE_RULE


class ModelCost(Value, kw_only=True, frozen=True):
    calls: int = 0
    usage: Usage = Usage()
    models: tuple[str, ...] = ()


def events_of_type(records: Sequence[JournalRecord], kind: type[EventType]) -> list[EventType]:
    return [each.event for each in records if isinstance(each.event, kind)]


def list_actions(records: Sequence[JournalRecord]) -> list[IncidentAction]:
    """Calls that began, in the order of their requests."""
    started = {
        (call.run, call.id): call
        for call in fold_tool_calls(records)
        if call.start is not None and call.name not in ANSWER_TOOLS
    }
    changes = _changes_by_call(records)
    undo_calls = {
        event.call_id for event in events_of_type(records, PlaybookStepped) if event.phase == "undo"
    }
    return [
        _build_action(
            call, changes.get(key) or changes.get(("", call.id)), is_undo=call.id in undo_calls
        )
        for key, call in started.items()
    ]


def _build_action(
    call: RecordedCall, change: tuple[str, str, int] | None, *, is_undo: bool
) -> IncidentAction:
    command = call_text(call)
    undo, by, attempt = change or ("", "", 0)
    action = IncidentAction(
        call_id=call.id,
        command=command,
        at=call.start.at if call.start is not None else call.request.at,
        undo=undo,
        by=by,
        attempt=attempt,
        changed=change is not None,
        is_undo=is_undo,
    )
    if call.finish is None:
        return action
    result = parse_terminal_result(call.finish.result, command, call.finish.seconds)
    well = result.status == "ok" and result.code == 0
    late = "ran out of time" if result.timed_out else ""
    failed = late or (f"exit code {result.code}" if result.code is not None else "failed")
    return replace(
        action,
        seq=call.finished_seq,
        ending="ok" if well else "failed",
        output=result.output,
        detail="" if well else failed,
    )


def _changes_by_call(
    records: Sequence[JournalRecord],
) -> dict[tuple[str, str], tuple[str, str, int]]:
    """By the run of the agent, else an empty text, and the call: the undo command, who did it, in
    which attempt."""
    found: dict[tuple[str, str], tuple[str, str, int]] = {}
    for each in records:
        match each.event:
            case ChangeBegan() as event:
                of_agent = event.by == event.run or event.by.startswith(f"{event.run}/")
                key = (event.by if of_agent else "", event.call_id)
                found[key] = (event.undo, event.by, event.attempt)
            case PlaybookStepped(phase="step") as event:
                key = ("", event.call_id)
                undo, by, attempt = found.get(key, ("", event.skill, 0))
                found[key] = (undo or event.undo, by, attempt)
            case _:
                pass
    return found


def call_text(call: RecordedCall) -> str:
    return call.command or f"{call.name} {call.text}".strip()


def list_refused_actions(records: Sequence[JournalRecord]) -> list[RefusedAction]:
    """Actions that a rule or a person refused, and those that wait for approval."""
    settled = {event.approval for event in events_of_type(records, ApprovalSettled)}
    calls, found = OpenToolCalls(), dict[tuple[str, str], RefusedAction]()
    started = {(event.run, event.call_id) for event in events_of_type(records, ToolStarted)}
    for each in records:
        event, call = each.event, calls.apply(each.event)
        command = call_text(call) if call is not None else ""
        if isinstance(event, ToolDecided) and event.verdict == "deny":
            why = f"the rule {event.rule} forbids it" + (
                f": {event.reason}" if event.reason else ""
            )
            found[event.run, event.call_id] = RefusedAction(
                command=command, why=why, rule=event.rule
            )
        elif isinstance(event, ToolApproved) and not event.approved:
            unanswered = event.by == "nobody"
            why = "nobody answered in time" if unanswered else f"{event.by} said no"
            why = event.reason or why
            found[event.run, event.call_id] = RefusedAction(command=command, why=why)
        elif isinstance(event, ApprovalRequested) and event.approval not in settled:
            found[event.run, event.call_id] = RefusedAction(
                command=event.shown, why="waits for approval", waiting=event.approval
            )
    return [each for call_key, each in found.items() if call_key not in started]


def compute_model_cost(records: Sequence[JournalRecord]) -> ModelCost:
    answers = events_of_type(records, ModelAnswered)
    return ModelCost(
        calls=len(answers),
        usage=sum((answer.usage for answer in answers), Usage()),
        models=tuple(dict.fromkeys(answer.model for answer in answers)),
    )
