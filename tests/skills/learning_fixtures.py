"""An incident in a box that a scripted engineer fixes, as the journal tells it afterwards."""

from collections.abc import Callable

from hermes.app.skills.gym_replay import wait_until_settled
from hermes.core.events.incidents import IncidentVerified
from hermes.core.protocols import JournalRecord
from hermes.gym.drill import raise_alert
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import (
    AnsweredBy,
    EpisodeResponder,
    ResponderContext,
    open_bare_run,
    sandbox_rules,
)
from hermes.gym.scenario import Scenario, find_scenario
from hermes.gym.scenario_spec import ScenarioSpec

SCENARIO = "config-typo-after-edit"


def wrong_value(story: ScenarioSpec) -> str:
    return story.fault.value[0]


def seeds(scenario: Scenario, count: int, *, start: int = 0) -> list[int]:
    """Cases in which the value is no number at all: the same cause in other words and names."""
    found: list[int] = []
    seed = start
    while len(found) < count:
        story = scenario.draw_spec(seed, "train")
        if not wrong_value(story).isdigit():
            found.append(seed)
        seed += 1
    return found


def engineer(story: ScenarioSpec) -> EpisodeResponder:
    """Looks around as people do, fixes it, and does two things that did not matter."""

    async def respond(scene: ResponderContext) -> AnsweredBy:
        service = scene.alert.labels["service"]
        port = scene.alert.labels["instance"].rpartition(":")[2]
        conf = f"/etc/{service}/{service}.conf"
        for command in (
            "uptime; df -h /",
            f"journalctl -u {service} -n 500 -o cat | grep FATAL | tail -2",
            f"cat {conf}",
            f"diff {conf}.bak {conf}",
            f"mkdir -p /srv/incident && cp {conf} /srv/incident/",
            f"cp {conf}.bak {conf}",
            f"systemctl reset-failed {service}; systemctl restart {service}",
            "sync",
            f"curl -fsS -o /dev/null http://127.0.0.1:{port}/health",
            f"systemctl is-active {service}",
        ):
            await scene.call_tool("terminal", {"command": command})
        await scene.call_tool(
            "conclude",
            {
                "answer": "fix",
                "component": conf,
                "mechanism": "an invalid value in the configuration after an edit",
                "value": wrong_value(story),
                "evidence": [f"journalctl -u {service} -n 500 -o cat | grep FATAL | tail -2"],
                "confidence": 0.9,
            },
        )
        return "person"

    return respond


async def an_incident(
    name: str,
    seed: int,
    answer: Callable[[ScenarioSpec], EpisodeResponder],
    *,
    verified: bool = True,
) -> list[JournalRecord]:
    """Broken, answered, judged; the run as it stands in the journal."""
    scenario = find_scenario(name)
    story = scenario.draw_spec(seed, "train")
    async with (
        open_episode(scenario, story) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        await wait_until_settled(episode)
        await raise_alert(episode, stage)
        await answer(story)(stage.responder_context(episode))
        outcome = await episode.judge(window_s=1.0)
        ok = outcome.resolved and verified
        await stage.bus.publish(
            IncidentVerified(run=stage.run, incident=stage.incident, ok=ok, checks=("the oracle",))
        )
        return [each async for each in stage.bus.journal.read()]
