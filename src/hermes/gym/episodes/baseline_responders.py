"""Agents without a model, to measure others by: one does nothing, one restarts, one knows."""

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
from hermes.gym.scenario_spec import ScenarioSpec

OVERVIEW_COMMAND = "journalctl -n 60; date"
RESTART_ALL_COMMAND = (
    "for unit in /etc/systemd/system/*.service; do name=$(basename $unit); "
    "systemctl reset-failed $name; systemctl restart $name; done; systemctl list-units"
)
VERDICT_BY_RESPONSE = {"fix": "fix", "no-incident": "no-incident", "recovered": "recovered"}
OUTCOME_BY_RESPONSE = {"fix": "resolved", "no-incident": "no incident", "recovered": "recovered"}


class TimedCommand(Value, kw_only=True, frozen=True):
    at: datetime
    command: str


async def do_nothing(scene: ResponderContext) -> AnsweredBy:
    return "nobody"


async def restart_everything(scene: ResponderContext) -> AnsweredBy:
    await scene.call_tool("terminal", {"command": RESTART_ALL_COMMAND})
    return "person"


def reference_responder(spec: ScenarioSpec) -> EpisodeResponder:
    """One who knows the answer: what the best possible agent would get."""

    async def respond(scene: ResponderContext) -> AnsweredBy:
        named = [each for fault in spec.faults for each in fault.component]
        files = " ".join(each for each in named if each.startswith("/"))
        shown = f"{OVERVIEW_COMMAND}; head -c 20000 {files}" if files else OVERVIEW_COMMAND
        ran = [TimedCommand(at=datetime.now(UTC), command=shown)]
        await scene.call_tool("terminal", {"command": shown})
        for command in spec.reference if spec.answer == "fix" else ():
            number, script = split_host_prefix(command)
            ran.append(TimedCommand(at=datetime.now(UTC), command=script))
            await run_on_host(scene, number, script)
        answer = VERDICT_BY_RESPONSE.get(spec.answer, "escalate")
        await scene.call_tool(
            "conclude",
            {
                "answer": answer,
                **true_diagnosis(spec),
                "evidence": [shown],
                "report": render_report(spec, ran),
                "confidence": 1.0,
            },
        )
        return "person"

    return respond


def true_diagnosis(spec: ScenarioSpec) -> dict[str, str]:
    """What was broken, how and by which value, as briefly as it can be said."""
    faults = spec.faults
    return {
        "component": "; ".join(each.component[0] for each in faults),
        "mechanism": "; ".join(each.mechanism[0] for each in faults),
        "value": "; ".join(each.value[0] for each in faults if each.value),
    }


async def run_on_host(scene: ResponderContext, number: int, script: str) -> None:
    if number:
        await scene.call_tool(HOST_TERMINAL_TOOL, {"host": scene.hosts[number], "command": script})
    else:
        await scene.call_tool("terminal", {"command": script})


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


def _fits_in_backticks(ran: TimedCommand) -> bool:
    """A command that can be quoted in backticks."""
    return "`" not in ran.command and "\n" not in ran.command and len(ran.command) <= 400


BASELINE_RESPONDERS: Mapping[str, Callable[[ScenarioSpec], EpisodeResponder]] = {
    "no-op": lambda story: do_nothing,
    "restart-everything": lambda story: restart_everything,
    "reference": reference_responder,
}
