"""Joins the events of each tool call: request, decision, approval, start and result.

Audit, reports, rewards, memory and the live views read tool calls through this module, so that
they agree on what was called, who allowed it and how it ended.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Value
from hermes.core.protocols import Journal, JournalRecord


class RecordedCall(Value, kw_only=True, frozen=True):
    """A tool call as far as its events are known. A request repeated after a crash is another."""

    request: ToolRequested
    requested_seq: int = 0
    decision: ToolDecided | None = None
    approval: ToolApproved | None = None
    """The answer of a person, when the decision was to ask."""
    start: ToolStarted | None = None
    finish: ToolFinished | None = None
    """The first result: the one that the model saw."""
    finished_seq: int = 0

    @property
    def run(self) -> str:
        return self.request.run

    @property
    def id(self) -> str:
        """Unique in its run only."""
        return self.request.call.id

    @property
    def name(self) -> str:
        return self.request.call.name

    @property
    def command(self) -> str:
        """The command line; empty when the tool runs no command."""
        command = self.request.call.arguments.get("command") or self.request.command
        return command if isinstance(command, str) else ""

    @property
    def text(self) -> str:
        """The command line, else the values of the arguments."""
        values = self.request.call.arguments.values()
        return self.command or " ".join(str(value) for value in values)

    @property
    def output(self) -> str:
        return self.finish.result.content if self.finish is not None else ""

    @property
    def allowed(self) -> bool:
        """By a rule or by a person."""
        decided, answered = self.decision, self.approval
        return (decided is not None and decided.verdict == "allow") or (
            answered is not None and answered.approved
        )

    @property
    def waits_for_person(self) -> bool:
        """For an approval, or for the answer to a question of the agent."""
        asked = self.decision is not None and self.decision.verdict == "ask"
        return (asked and self.approval is None) or (
            self.start is not None and self.name == "clarify"
        )

    @property
    def effects(self) -> tuple[str, ...]:
        return self.decision.effects if self.decision is not None else ()


class OpenToolCalls:
    """Joins events as they arrive, and keeps the calls that have no result yet."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], RecordedCall] = {}

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """In the order of their first requests."""
        return tuple(self._calls.values())

    def only_wait_for_people(self, run: str) -> bool:
        """Return whether nothing of a run and its subagents goes on before a person answers."""
        calls = [call for call in self._calls.values() if call.run.partition("/")[0] == run]
        working = [call for call in calls if call.name != "delegate"]  # it waits for its subagents
        return bool(working) and all(call.waits_for_person for call in working)

    def apply(self, event: object, seq: int = 0) -> RecordedCall | None:
        """The call that the event belongs to, with the event; None for all other events."""
        match event:
            case ToolRequested():
                call = RecordedCall(request=event, requested_seq=seq)
                self._calls[call.run, call.id] = call
                return call
            case ToolDecided():
                return self._update(event.run, event.call_id, decision=event)
            case ToolApproved():
                return self._update(event.run, event.call_id, approval=event)
            case ToolStarted():
                return self._update(event.run, event.call_id, start=event)
            case ToolFinished():
                finished = self._update(
                    event.run, event.result.call_id, finish=event, finished_seq=seq
                )
                self._calls.pop((event.run, event.result.call_id), None)
                return finished
            case _:
                return None

    def _update(self, run: str, id: str, **changes: Any) -> RecordedCall | None:
        call = self._calls.get((run, id))
        if call is None:
            return None
        self._calls[run, id] = call = replace(call, **changes)
        return call


def fold_tool_calls(records: Iterable[JournalRecord]) -> list[RecordedCall]:
    """Join every request with what followed it, in the order of the requests."""
    open_calls, found = OpenToolCalls(), dict[tuple[str, str, int], RecordedCall]()
    for recorded in records:
        call = open_calls.apply(recorded.event, recorded.seq)
        if call is not None:
            found[call.run, call.id, call.requested_seq] = call
    return list(found.values())


def fold_finished_calls(
    records: Iterable[JournalRecord],
) -> list[tuple[RecordedCall, ToolFinished]]:
    """The calls that have a result, with it, in the order of the results."""
    open_calls, found = OpenToolCalls(), list[tuple[RecordedCall, ToolFinished]]()
    for recorded in records:
        call = open_calls.apply(recorded.event, recorded.seq)
        if call is not None and call.finish is not None:
            found.append((call, call.finish))
    return found


async def read_result_numbers(journal: Journal, run: str) -> dict[str, int]:
    """The numbers of the events with the results of a run, by call id."""
    return {
        recorded.event.result.call_id: recorded.seq
        async for recorded in journal.read(run=run, kinds=("tool.finished",))
        if isinstance(recorded.event, ToolFinished)
    }
