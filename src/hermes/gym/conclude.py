"""The tool with which an agent says what it found: structured, and pointing at what it saw."""

from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.events.incidents import IncidentDiagnosed, ReportWritten, Verdict
from hermes.core.messages import Risk
from hermes.core.protocols import Journal, Recorded, ToolContext
from hermes.gym.tally import Deed, deeds
from hermes.tools.declare import FunctionTool, about, tool


def make_conclude(journal: Journal, incident: str) -> FunctionTool:
    """`journal` is where the evidence is looked up."""

    @tool(risk=Risk.READ, alone=True)
    async def conclude(
        context: ToolContext,
        answer: Annotated[
            Verdict,
            about(
                "fix: something was broken; no-incident: nothing was; recovered: it was, and had "
                "mended itself; escalate: a person must decide or act"
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
        seen = deeds([each async for each in journal.read(run=context.run)])
        numbers = tuple(_number(each, seen) for each in evidence)
        run = context.run.partition("/")[0]  # what is said of an incident stands in its own run
        await context.publish(
            IncidentDiagnosed(
                run=run,
                incident=incident,
                verdict=answer,
                component=component,
                mechanism=mechanism,
                value=value,
                evidence=numbers,
                confidence=max(0.0, min(1.0, confidence)),
            ),
            *([ReportWritten(run=run, incident=incident, text=report)] if report else []),
        )
        return "Written down. Checks that you have no hand in now say whether it holds."

    return conclude


def _number(reference: str, seen: list[Deed]) -> int:
    """By the number of an event, the id of a call, or the words of a command; the latest."""
    wanted = " ".join(reference.split())
    for deed in reversed(seen):
        if wanted in (str(deed.finished), deed.call_id):
            return deed.finished
    for deed in reversed(seen):
        if wanted and wanted in " ".join(deed.command.split()):
            return deed.finished
    raise ToolError(
        f"evidence {reference!r} is nothing that you ran: name commands as you ran them, such as "
        f"{[deed.command[:60] for deed in seen[-3:]]}"
    )


async def of_run(journal: Journal, run: str, *, after: int = 0) -> list[Recorded]:
    """Events of a run and its subagents."""
    return [
        each
        async for each in journal.read(after=after)
        if each.event.run == run or each.event.run.startswith(f"{run}/")
    ]
