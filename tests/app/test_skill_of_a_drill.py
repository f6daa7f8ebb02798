"""The part of a reward that is for learning: earned only by a playbook that mends another host."""

from functools import partial

import pytest

from hermes.app.skill_trial import skill_trial
from hermes.environments.confinement import probe
from hermes.gym.agents import reference
from hermes.gym.drill import Terms, run_drill
from hermes.gym.reward import SKILL
from hermes.gym.scenario import find
from hermes.gym.stage import AnsweredBy, Responder, Scene, bare_stage, rules
from hermes.gym.story import Story

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless())),
]
NAME = "config-typo-after-edit"
TERMS = Terms(window=0.2, patience=5.0)


def careful(story: Story) -> Responder:
    """Looks where the answer is, and puts back what was there before."""

    async def respond(scene: Scene) -> AnsweredBy:
        service = scene.alert.labels["service"]
        conf = f"/etc/{service}/{service}.conf"
        look = f"journalctl -u {service} -n 500 -o cat | grep FATAL | tail -2"
        for command in (
            look,
            f"diff {conf}.bak {conf}",
            f"cp {conf}.bak {conf}",
            f"systemctl reset-failed {service}; systemctl restart {service}",
            f"systemctl is-active {service}",
        ):
            await scene.do("terminal", {"command": command})
        said = {"component": conf, "mechanism": "an invalid value", "value": story.fault.value[0]}
        await scene.do("conclude", {"answer": "fix", **said, "evidence": [look]})
        return "model"

    return respond


def the_same_trouble(start: int) -> int:
    """A seed whose fresh variant has a value that is no number either."""
    scenario = find(NAME)
    for seed in range(start, start + 100):
        values = [scenario.story(each).fault.value[0] for each in (seed, seed + 500_009)]
        if not any(value.isdigit() for value in values):
            return seed
    raise AssertionError("no seed fits")


async def test_what_mends_a_fresh_variant_is_paid_and_what_does_not_is_not() -> None:
    stages, seed = partial(bare_stage, book=rules()), the_same_trouble(0)
    trial = skill_trial(NAME)
    learned = await run_drill(find(NAME), seed, stages, careful, TERMS, learned=trial)
    assert learned.resolved, learned
    assert learned.reward.skill == SKILL
    # One who writes down the number of this host has learned nothing for the next.
    by_heart = await run_drill(find(NAME), seed, stages, reference, TERMS, learned=trial)
    assert by_heart.resolved, by_heart
    assert by_heart.reward.skill == 0.0
