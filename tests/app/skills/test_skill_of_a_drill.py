"""The part of a reward that is for learning: earned only by a playbook that fixes another host."""

from functools import partial

import pytest

from hermes.app.skills.gym_replay import make_skill_trial
from hermes.environments.sandboxing import support
from hermes.gym.drill import DrillTerms, run_drill
from hermes.gym.episodes.baseline_responders import reference_responder
from hermes.gym.episodes.responder_context import (
    AnsweredBy,
    EpisodeResponder,
    ResponderContext,
    open_bare_run,
    sandbox_rules,
)
from hermes.gym.reward import SKILL_WEIGHT
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import ScenarioSpec

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
NAME = "config-typo-after-edit"
TERMS = DrillTerms(window_s=0.2, symptom_timeout_s=5.0)


def careful(story: ScenarioSpec) -> EpisodeResponder:
    """Looks where the answer is, and puts back what was there before."""

    async def respond(scene: ResponderContext) -> AnsweredBy:
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
            await scene.call_tool("terminal", {"command": command})
        said = {"component": conf, "mechanism": "an invalid value", "value": story.fault.value[0]}
        await scene.call_tool("conclude", {"answer": "fix", **said, "evidence": [look]})
        return "model"

    return respond


def the_same_trouble(start: int) -> int:
    """A seed whose fresh variant has a value that is no number either."""
    scenario = find_scenario(NAME)
    for seed in range(start, start + 100):
        values = [scenario.draw_spec(each).fault.value[0] for each in (seed, seed + 500_009)]
        if not any(value.isdigit() for value in values):
            return seed
    raise AssertionError("no seed fits")


async def test_what_fixes_a_fresh_variant_is_paid_and_what_does_not_is_not() -> None:
    stages, seed = partial(open_bare_run, rules=sandbox_rules()), the_same_trouble(0)
    trial = make_skill_trial(NAME)
    learned = await run_drill(find_scenario(NAME), seed, stages, careful, TERMS, skill_trial=trial)
    assert learned.resolved, learned
    assert learned.reward.skill == SKILL_WEIGHT
    # One who writes down the number of this host has learned nothing for the next.
    by_heart = await run_drill(
        find_scenario(NAME), seed, stages, reference_responder, TERMS, skill_trial=trial
    )
    assert by_heart.resolved, by_heart
    assert by_heart.reward.skill == 0.0
