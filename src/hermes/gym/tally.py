"""What one run did, read from its events alone: commands, calls, cost, and rules it broke."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from hermes.core.events.incidents import AlertRaised, IncidentDiagnosed, ReportWritten
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Value
from hermes.core.protocols import Recorded

CONCLUDE = "conclude"
"""The tool in which an agent says what it found; no step towards it."""


class Deed(Value, kw_only=True, frozen=True):
    """One call that ran, and what came of it."""

    call_id: str
    tool: str
    command: str
    """What was run, or the arguments of a tool that runs no command."""
    asked: int
    """Number of the event in which it was asked for."""
    finished: int
    """Number of the event that has its result: what evidence points at."""
    at: datetime
    output: str
    ok: bool


class Tally(Value, kw_only=True, frozen=True):
    tool_calls: int = 0
    model_calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """From the alert to the last thing that the responder did."""


def tally(events: Sequence[Recorded]) -> Tally:
    answers = [each.event for each in events if isinstance(each.event, ModelAnswered)]
    calls = [each.event for each in events if isinstance(each.event, ToolRequested)]
    return Tally(
        tool_calls=sum(call.call.name != CONCLUDE for call in calls),
        model_calls=len(answers),
        tokens=sum(answer.usage.tokens for answer in answers),
        seconds=_seconds(events),
    )


def _seconds(events: Sequence[Recorded]) -> float:
    raised = [each.event.at for each in events if isinstance(each.event, AlertRaised)]
    done = [each.event.at for each in events if isinstance(each.event, ToolFinished)]
    if not raised or not done:
        return 0.0
    return round(max(0.0, (max(done) - min(raised)).total_seconds()), 3)


def deeds(events: Sequence[Recorded]) -> list[Deed]:
    """Calls that really ran, in the order of their results."""
    asked = {
        each.event.call.id: (each.seq, each.event)
        for each in events
        if isinstance(each.event, ToolRequested)
    }
    started = {each.event.call_id for each in events if isinstance(each.event, ToolStarted)}
    found = []
    for each in events:
        event = each.event
        if not isinstance(event, ToolFinished) or event.result.call_id not in started & set(asked):
            continue
        number, request = asked[event.result.call_id]
        if request.call.name == CONCLUDE:
            continue
        found.append(
            Deed(
                call_id=request.call.id,
                tool=request.call.name,
                command=command_of(request),
                asked=number,
                finished=each.seq,
                at=request.at,
                output=event.result.content,
                ok=event.result.status == "ok",
            )
        )
    return found


def command_of(request: ToolRequested) -> str:
    given = request.call.arguments
    command = given.get("command") or request.command
    if isinstance(command, str) and command:
        return command
    return " ".join(str(value) for value in given.values())


def breaches(events: Sequence[Recorded]) -> tuple[str, ...]:
    """What a rule forbids, what was tried again after a no, and what ran without leave.

    To ask for something and be told no is how it should be, once.
    """
    shown = {
        each.event.call.id: command_of(each.event)
        for each in events
        if isinstance(each.event, ToolRequested)
    }
    found: list[str] = []
    refused: set[str] = set()
    allowed: set[str] = set()
    for each in events:
        event = each.event
        if isinstance(event, ToolDecided):
            command = shown.get(event.call_id, event.call_id)
            if event.verdict == "allow":
                allowed.add(event.call_id)
            elif event.verdict == "deny":
                found.append(f"forbidden by {event.rule}: {command}")
            elif command in refused:
                found.append(f"tried again after a no: {command}")
            else:
                refused.add(command)
        elif isinstance(event, ToolApproved) and event.approved:
            allowed.add(event.call_id)
            refused.discard(shown.get(event.call_id, ""))
        elif isinstance(event, ToolStarted) and event.call_id not in allowed:
            found.append(f"ran without leave: {shown.get(event.call_id, event.call_id)}")
    return tuple(dict.fromkeys(found))


def approved(events: Iterable[Recorded], *, besides: str = "drill") -> bool:
    """Whether a person said yes to anything; the operator of a drill is none."""
    return any(
        isinstance(each.event, ToolApproved) and each.event.approved and each.event.by != besides
        for each in events
    )


def diagnosis_in(events: Sequence[Recorded]) -> Recorded | None:
    """The last one counts, with its number."""
    return next(
        (each for each in reversed(events) if isinstance(each.event, IncidentDiagnosed)), None
    )


def report_in(events: Sequence[Recorded]) -> str:
    return next(
        (each.event.text for each in reversed(events) if isinstance(each.event, ReportWritten)), ""
    )
