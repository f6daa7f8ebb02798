"""Agents without a model, to measure others by: one does nothing, one restarts, one knows."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from hermes.core.messages import Value
from hermes.gym.episode import on_host
from hermes.gym.hosts import NAME
from hermes.gym.stage import AnsweredBy, Responder, Scene
from hermes.gym.story import Story

LOOK = "journalctl -n 60; date"
RESTART = (
    "for unit in /etc/systemd/system/*.service; do name=$(basename $unit); "
    "systemctl reset-failed $name; systemctl restart $name; done; systemctl list-units"
)
VERDICTS = {"fix": "fix", "no-incident": "no-incident", "recovered": "recovered"}
OUTCOMES = {"fix": "resolved", "no-incident": "no incident", "recovered": "recovered"}


class Ran(Value, kw_only=True, frozen=True):
    at: datetime
    command: str


async def do_nothing(scene: Scene) -> AnsweredBy:
    return "nobody"


async def restart_everything(scene: Scene) -> AnsweredBy:
    await scene.do("terminal", {"command": RESTART})
    return "person"


def reference(story: Story) -> Responder:
    """One who knows the answer: what the best possible agent would get."""

    async def respond(scene: Scene) -> AnsweredBy:
        named = [each for fault in story.faults for each in fault.component]
        files = " ".join(each for each in named if each.startswith("/"))
        shown = f"{LOOK}; head -c 20000 {files}" if files else LOOK
        ran = [Ran(at=datetime.now(UTC), command=shown)]
        await scene.do("terminal", {"command": shown})
        for command in story.reference if story.answer == "fix" else ():
            number, script = on_host(command)
            ran.append(Ran(at=datetime.now(UTC), command=script))
            await act(scene, number, script)
        answer = VERDICTS.get(story.answer, "escalate")
        await scene.do(
            "conclude",
            {
                "answer": answer,
                **diagnosis(story),
                "evidence": [shown],
                "report": written(story, ran),
                "confidence": 1.0,
            },
        )
        return "person"

    return respond


def diagnosis(story: Story) -> dict[str, str]:
    """What was broken, how and by which value, as briefly as it can be said."""
    faults = story.faults
    return {
        "component": "; ".join(each.component[0] for each in faults),
        "mechanism": "; ".join(each.mechanism[0] for each in faults),
        "value": "; ".join(each.value[0] for each in faults if each.value),
    }


async def act(scene: Scene, number: int, script: str) -> None:
    if number:
        await scene.do(NAME, {"host": scene.hosts[number], "command": script})
    else:
        await scene.do("terminal", {"command": script})


def written(story: Story, ran: Sequence[Ran]) -> str:
    outcome = OUTCOMES.get(story.answer, "escalated")
    causes = "\n".join(
        f"{each.component[0]}: {each.mechanism[0]} ({', '.join(each.value) or 'no one value'})."
        for each in story.faults
    )
    times = "\n".join(f"- {each.at:%H:%M:%S} ran a command" for each in ran)
    now = f"- {datetime.now(UTC):%H:%M:%S} verified"
    steps = "\n".join(f"- `{' '.join(each.command.split())}`" for each in ran if _plain(each))
    return f"""# {story.alert.title}

## Impact
{story.alert.text} ({story.alert.severity}).

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


def _plain(ran: Ran) -> bool:
    """A command that can be quoted in backticks."""
    return "`" not in ran.command and "\n" not in ran.command and len(ran.command) <= 400


BASELINES: Mapping[str, Callable[[Story], Responder]] = {
    "no-op": lambda story: do_nothing,
    "restart-everything": lambda story: restart_everything,
    "reference": reference,
}
