"""Tasks as the journal tells them."""

from hermes.core.events import Event
from hermes.core.events.runs import RunStarted, TurnEnded
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import JournalRecord


def numbered(events: list[Event]) -> list[JournalRecord]:
    return [JournalRecord(number, event) for number, event in enumerate(events, 1)]


def a_task(run: str, error: str = "", outcome: str = "answered") -> list[Event]:
    call = ToolCall(f"c-{run}", "terminal", {"command": f"cat /srv/{run}"})
    failed = ToolResult(call_id=call.id, content=error, status="error" if error else "ok")
    return [
        RunStarted(run=run, origin="cli", task=f"task {run}"),
        ToolRequested(run=run, call=call),
        ToolFinished(run=run, result=failed),
        TurnEnded(run=run, turn=1, outcome=outcome),  # type: ignore[arg-type]
    ]


def tasks(count: int, error: str = "") -> list[Event]:
    return [event for n in range(count) for event in a_task(f"run-{n}", error.format(n=n))]
