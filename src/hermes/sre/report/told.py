"""What the records of one incident come to: what was done, refused, found, checked and paid."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeVar

from msgspec.structs import replace

from hermes.core.events.approvals import ApprovalRequested, ApprovalSettled
from hermes.core.events.happening import Happening
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
from hermes.core.protocols import Recorded
from hermes.skills.playbook.ending import ended

Kind = TypeVar("Kind", bound=Happening)
Ending = Literal["ok", "failed", "cut off"]
SPOKEN = frozenset({"conclude", "finding", "done"})
"""Tools with which an agent says something: no deeds."""


class Deed(Value, kw_only=True, frozen=True):
    """One call that began, and what came of it."""

    call_id: str
    command: str
    at: datetime
    seq: int = 0
    """Of its result: what evidence points at. 0 when none was ever written."""
    ending: Ending = "cut off"
    output: str = ""
    detail: str = ""
    undo: str = ""
    by: str = ""
    attempt: int = 0
    changed: bool = False
    way_back: bool = False
    """It took something back."""


class Refused(Value, kw_only=True, frozen=True):
    command: str
    why: str
    waiting: str = ""
    """The id of the question, where a person may still answer."""


class Cost(Value, kw_only=True, frozen=True):
    calls: int = 0
    usage: Usage = Usage()
    models: tuple[str, ...] = ()


def of_kind(records: Sequence[Recorded], kind: type[Kind]) -> list[Kind]:
    return [each.event for each in records if isinstance(each.event, kind)]


def deeds(records: Sequence[Recorded]) -> list[Deed]:
    """Calls that began, in the order in which they were asked for."""
    asked = {event.call.id: event for event in of_kind(records, ToolRequested)}
    started = {event.call_id for event in of_kind(records, ToolStarted)}
    finished = {
        each.event.result.call_id: each for each in records if isinstance(each.event, ToolFinished)
    }
    changes = _changes(records)
    back = {event.call_id for event in of_kind(records, PlaybookStepped) if event.phase == "undo"}
    return [
        _deed(request, finished.get(call), changes.get(call), way_back=call in back)
        for call, request in asked.items()
        if call in started and request.call.name not in SPOKEN
    ]


def _deed(
    request: ToolRequested,
    end: Recorded | None,
    change: tuple[str, str, int] | None,
    *,
    way_back: bool,
) -> Deed:
    command = command_of(request)
    undo, by, attempt = change or ("", "", 0)
    deed = Deed(
        call_id=request.call.id,
        command=command,
        at=request.at,
        undo=undo,
        by=by,
        attempt=attempt,
        changed=change is not None,
        way_back=way_back,
    )
    if end is None or not isinstance(end.event, ToolFinished):
        return deed
    result = ended(end.event.result, command, end.event.seconds)
    well = result.status == "ok" and result.code == 0
    late = "ran out of time" if result.timed_out else ""
    failed = late or (f"exit code {result.code}" if result.code is not None else "failed")
    return replace(
        deed,
        seq=end.seq,
        ending="ok" if well else "failed",
        output=result.output,
        detail="" if well else failed,
    )


def _changes(records: Sequence[Recorded]) -> dict[str, tuple[str, str, int]]:
    """By call: the way back, who did it, in which attempt."""
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


def command_of(request: ToolRequested) -> str:
    given = request.call.arguments
    command = given.get("command") or request.command
    if isinstance(command, str) and command:
        return command
    return " ".join([request.call.name, *(str(value) for value in given.values())])


def refusals(records: Sequence[Recorded]) -> list[Refused]:
    """What a rule or a person said no to, and what still waits for somebody."""
    shown = {event.call.id: command_of(event) for event in of_kind(records, ToolRequested)}
    started = {event.call_id for event in of_kind(records, ToolStarted)}
    settled = {event.approval for event in of_kind(records, ApprovalSettled)}
    found: dict[str, Refused] = {}
    for each in records:
        event = each.event
        if isinstance(event, ToolDecided) and event.verdict == "deny":
            why = f"the rule {event.rule} forbids it" + (
                f": {event.reason}" if event.reason else ""
            )
            found[event.call_id] = Refused(command=shown.get(event.call_id, ""), why=why)
        elif isinstance(event, ToolApproved) and not event.approved:
            nobody = event.by == "nobody"
            why = "nobody answered in time" if nobody else f"{event.by} said no"
            found[event.call_id] = Refused(command=shown.get(event.call_id, ""), why=why)
        elif isinstance(event, ApprovalRequested) and event.approval not in settled:
            found[event.call_id] = Refused(
                command=event.shown, why="waits for approval", waiting=event.approval
            )
    return [each for call, each in found.items() if call not in started]


def cost(records: Sequence[Recorded]) -> Cost:
    answers = of_kind(records, ModelAnswered)
    return Cost(
        calls=len(answers),
        usage=sum((answer.usage for answer in answers), Usage()),
        models=tuple(dict.fromkeys(answer.model for answer in answers)),
    )
