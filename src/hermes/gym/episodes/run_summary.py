"""Reads from the events of a run what it did: calls, counts, policy breaches, diagnosis, report.

Also the tool with which an agent states its diagnosis.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.events.experiments import ExperimentRan
from hermes.core.events.incidents import (
    AlertRaised,
    DiagnosisVerdict,
    IncidentDiagnosed,
    ReportWritten,
)
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.tools import (
    ToolApproved,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Journal, JournalRecord, ToolContext
from hermes.core.tool_calls import OpenToolCalls, RecordedCall, fold_finished_calls
from hermes.tools.declare import FunctionTool, about, tool

CONCLUDE_TOOL = "conclude"
"""The tool with which an agent states its diagnosis; not counted as a tool call."""


class RunCounts(Value, kw_only=True, frozen=True):
    tool_calls: int = 0
    model_calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """From the alert to the last result of a tool."""


def count_run(events: Sequence[JournalRecord]) -> RunCounts:
    answers = [each.event for each in events if isinstance(each.event, ModelAnswered)]
    calls = [each.event for each in events if isinstance(each.event, ToolRequested)]
    return RunCounts(
        tool_calls=sum(call.call.name != CONCLUDE_TOOL for call in calls),
        model_calls=len(answers),
        tokens=sum(answer.usage.tokens for answer in answers),
        seconds=_response_seconds(events),
    )


def _response_seconds(events: Sequence[JournalRecord]) -> float:
    raised = [each.event.at for each in events if isinstance(each.event, AlertRaised)]
    done = [each.event.at for each in events if isinstance(each.event, ToolFinished)]
    if not raised or not done:
        return 0.0
    return round(max(0.0, (max(done) - min(raised)).total_seconds()), 3)


def finished_tool_calls(events: Sequence[JournalRecord]) -> list[RecordedCall]:
    """Calls that really ran, in the order of their results; evidence refers to these."""
    return [
        call
        for call, _ in fold_finished_calls(events)
        if call.start is not None and call.name != CONCLUDE_TOOL
    ]


def experiment_texts(events: Sequence[JournalRecord]) -> dict[int, str]:
    """Return what experiments on copies of the host showed, by their position. Those that tried all
    changes at once name every suspect, so only what the checks said counts of them."""
    found = {}
    for each in events:
        if isinstance(event := each.event, ExperimentRan):
            named = {"keep-only": event.kept, "revert-only": event.reverted}
            labels = " ".join(named.get(event.purpose, ()))
            found[each.seq] = f"{labels} {event.detail}"
    return found


def policy_breaches(events: Sequence[JournalRecord]) -> tuple[str, ...]:
    """Calls that a rule forbids, retries after a refusal, and calls that ran without approval.

    One request that is refused is no breach.
    """
    calls = OpenToolCalls()
    found: list[str] = []
    refused: set[str] = set()
    for each in events:
        event, call = each.event, calls.apply(each.event)
        command = call.text if call is not None else getattr(event, "call_id", "")
        if isinstance(event, ToolDecided) and event.verdict != "allow":
            if event.verdict == "deny":
                found.append(f"forbidden by {event.rule}: {command}")
            elif command in refused:
                found.append(f"retried after a refusal: {command}")
            else:
                refused.add(command)
        elif isinstance(event, ToolApproved) and event.approved:
            refused.discard(command)
        elif isinstance(event, ToolStarted) and not (call is not None and call.allowed):
            found.append(f"ran without approval: {command}")
    return tuple(dict.fromkeys(found))


def approved_by_person(events: Iterable[JournalRecord], *, besides: str = "drill") -> bool:
    """Return whether a person approved any call; `besides` is the operator of a drill."""
    return any(
        isinstance(each.event, ToolApproved) and each.event.approved and each.event.by != besides
        for each in events
    )


def last_diagnosis(events: Sequence[JournalRecord]) -> JournalRecord | None:
    return next(
        (each for each in reversed(events) if isinstance(each.event, IncidentDiagnosed)), None
    )


def last_report(events: Sequence[JournalRecord]) -> str:
    return next(
        (each.event.text for each in reversed(events) if isinstance(each.event, ReportWritten)), ""
    )


def make_conclude_tool(journal: Journal, incident: str) -> FunctionTool:
    """`journal`: where the evidence is looked up."""

    @tool(risk=Risk.READ, alone=True)
    async def conclude(
        context: ToolContext,
        answer: Annotated[
            DiagnosisVerdict,
            about(
                "fix: something was broken; no-incident: nothing was; recovered: it was, and had "
                "ended by itself; escalate: a person must decide or act"
            ),
        ],
        component: Annotated[str, about("what was broken: one file, unit, table or link")] = "",
        mechanism: Annotated[str, about("how it broke the service, in one sentence")] = "",
        value: Annotated[str, about("the concrete value: a setting, a path, a number")] = "",
        evidence: Annotated[
            tuple[str, ...], about("commands you ran whose output shows it, as you ran them")
        ] = (),
        report: Annotated[
            str,
            about(
                "Markdown with the headings Impact, Timeline (times of day), Root cause, "
                "Remediation (commands in backticks), Verification (a line `Outcome: resolved`, "
                "`not resolved`, `no incident`, `recovered` or `escalated`), Prevention"
            ),
        ] = "",
        confidence: Annotated[float, about("from 0 to 1")] = 0.5,
    ) -> str:
        """Say what the incident was, once you have verified that it is over or given up."""
        calls = finished_tool_calls([each async for each in journal.read(run=context.run)])
        positions = tuple(_evidence_position(each, calls) for each in evidence)
        run = context.run.partition("/")[0]  # a subagent's diagnosis belongs to the main run
        await context.publish(
            IncidentDiagnosed(
                run=run,
                incident=incident,
                verdict=answer,
                component=component,
                mechanism=mechanism,
                value=value,
                evidence=positions,
                confidence=max(0.0, min(1.0, confidence)),
            ),
            *([ReportWritten(run=run, incident=incident, text=report)] if report else []),
        )
        return "Recorded. Independent checks now decide whether the incident is resolved."

    return conclude


def _evidence_position(reference: str, calls: list[RecordedCall]) -> int:
    """Finds the latest call by event position, call id, or part of its command."""
    wanted = " ".join(reference.split())
    for call in reversed(calls):
        if wanted in (str(call.finished_seq), call.id):
            return call.finished_seq
    for call in reversed(calls):
        if wanted and wanted in " ".join(call.text.split()):
            return call.finished_seq
    raise ToolError(
        f"evidence {reference!r} is nothing that you ran: name commands as you ran them, such as "
        f"{[call.text[:60] for call in calls[-3:]]}"
    )


async def run_events(journal: Journal, run: str, *, after: int = 0) -> list[JournalRecord]:
    """Events of a run and its subagents."""
    return [
        each
        async for each in journal.read(after=after)
        if each.event.run == run or each.event.run.startswith(f"{run}/")
    ]
