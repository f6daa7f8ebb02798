"""Responders without a model, for comparison: no-op, restart everything, reference fix."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from hermes.core.messages import Value
from hermes.gym.episodes.episode import split_host_prefix
from hermes.gym.episodes.responder_context import (
    HOST_TERMINAL_TOOL,
    AnsweredBy,
    EpisodeResponder,
    ResponderContext,
)
from hermes.gym.episodes.run_summary import CONCLUDE_TOOL
from hermes.gym.scenario_spec import EXPECTED_VERDICTS, ScenarioSpec

OVERVIEW_COMMAND = "journalctl -n 60; date"
RESTART_ALL_COMMAND = (
    "for unit in /etc/systemd/system/*.service; do name=$(basename $unit); "
    "systemctl reset-failed $name; systemctl restart $name; done; systemctl list-units"
)
OUTCOME_BY_RESPONSE = {"fix": "resolved", "no-incident": "no incident", "recovered": "recovered"}


class TimedCommand(Value, kw_only=True, frozen=True):
    at: datetime
    command: str


async def do_nothing(context: ResponderContext) -> AnsweredBy:
    return "nobody"


async def restart_everything(context: ResponderContext) -> AnsweredBy:
    await context.call_tool("terminal", {"command": RESTART_ALL_COMMAND})
    return "person"


def reference_responder(spec: ScenarioSpec) -> EpisodeResponder:
    """Knows the fault and its fix: gets the highest reward that an agent can."""

    async def respond(context: ResponderContext) -> AnsweredBy:
        components = [each for fault in spec.faults for each in fault.component]
        files = " ".join(each for each in components if each.startswith("/"))
        evidence = f"{OVERVIEW_COMMAND}; head -c 20000 {files}" if files else OVERVIEW_COMMAND
        commands = [TimedCommand(at=datetime.now(UTC), command=evidence)]
        await context.call_tool("terminal", {"command": evidence})
        for command in spec.reference if spec.answer == "fix" else ():
            number, script = split_host_prefix(command)
            commands.append(TimedCommand(at=datetime.now(UTC), command=script))
            await run_on_host(context, number, script)
        await context.call_tool(
            CONCLUDE_TOOL,
            {
                "answer": EXPECTED_VERDICTS[spec.answer],
                **true_diagnosis(spec),
                "evidence": [evidence],
                "report": render_report(spec, commands),
                "confidence": 1.0,
            },
        )
        return "person"

    return respond


def true_diagnosis(spec: ScenarioSpec) -> dict[str, str]:
    """Component, mechanism and value of all faults, as arguments of `conclude`."""
    faults = spec.faults
    return {
        "component": "; ".join(each.component[0] for each in faults),
        "mechanism": "; ".join(each.mechanism[0] for each in faults),
        "value": "; ".join(each.value[0] for each in faults if each.value),
    }


async def run_on_host(context: ResponderContext, number: int, script: str) -> None:
    if number:
        arguments = {"host": context.hosts[number], "command": script}
        await context.call_tool(HOST_TERMINAL_TOOL, arguments)
    else:
        await context.call_tool("terminal", {"command": script})


def render_report(spec: ScenarioSpec, commands: Sequence[TimedCommand]) -> str:
    outcome = OUTCOME_BY_RESPONSE.get(spec.answer, "escalated")
    causes = "\n".join(
        f"{each.component[0]}: {each.mechanism[0]} ({', '.join(each.value) or 'no one value'})."
        for each in spec.faults
    )
    times = "\n".join(f"- {each.at:%H:%M:%S} ran a command" for each in commands)
    now = f"- {datetime.now(UTC):%H:%M:%S} verified"
    steps = "\n".join(
        f"- `{' '.join(each.command.split())}`" for each in commands if _fits_in_backticks(each)
    )
    return f"""# {spec.alert.title}

## Impact
{spec.alert.text} ({spec.alert.severity}).

## Timeline
{times}
{now}

## Root cause
{causes}

## Remediation
{steps or "- nothing had to be changed"}

## Verification
The failing check was run again by the responder.
Outcome: {outcome}

## Prevention
Check such a change before it is applied, and alert on its first sign.
"""


def _fits_in_backticks(timed: TimedCommand) -> bool:
    command = timed.command
    return "`" not in command and "\n" not in command and len(command) <= 400


BASELINE_RESPONDERS: Mapping[str, Callable[[ScenarioSpec], EpisodeResponder]] = {
    "no-op": lambda spec: do_nothing,
    "restart-everything": lambda spec: restart_everything,
    "reference": reference_responder,
}
