"""An incident in a box that a scripted engineer mends, as the journal tells it afterwards."""

from collections.abc import Callable

from hermes.app.proving import settle
from hermes.core.events.incidents import IncidentVerified
from hermes.core.protocols import Recorded
from hermes.gym.drill import raise_alert
from hermes.gym.episode import open_episode
from hermes.gym.scenario import Scenario, find
from hermes.gym.stage import AnsweredBy, Responder, Scene, bare_stage, rules
from hermes.gym.story import Story

SCENARIO = "config-typo-after-edit"


def wrong_value(story: Story) -> str:
    return story.fault.value[0]


def seeds(scenario: Scenario, count: int, *, start: int = 0) -> list[int]:
    """Cases in which the value is no number at all: the same cause in other words and names."""
    found: list[int] = []
    seed = start
    while len(found) < count:
        story = scenario.story(seed, "train")
        if not wrong_value(story).isdigit():
            found.append(seed)
        seed += 1
    return found


def engineer(story: Story) -> Responder:
    """Looks around as people do, mends it, and does two things that did not matter."""

    async def respond(scene: Scene) -> AnsweredBy:
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
            await scene.do("terminal", {"command": command})
        await scene.do(
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
    name: str, seed: int, answer: Callable[[Story], Responder], *, verified: bool = True
) -> list[Recorded]:
    """Broken, answered, judged; the run as it stands in the journal."""
    scenario = find(name)
    story = scenario.story(seed, "train")
    async with open_episode(scenario, story) as episode, bare_stage(episode, rules()) as stage:
        await settle(episode)
        await raise_alert(episode, stage)
        await answer(story)(stage.scene(episode))
        outcome = await episode.judge(window=1.0)
        ok = outcome.resolved and verified
        await stage.bus.publish(
            IncidentVerified(run=stage.run, incident=stage.incident, ok=ok, checks=("the oracle",))
        )
        return [each async for each in stage.bus.journal.read()]
