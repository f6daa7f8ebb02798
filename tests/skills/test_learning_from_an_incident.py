"""The whole way: broken, fixed, distilled, proven on variants, and then a reflex."""

from pathlib import Path

import pytest
from compiler_fixtures import a_home
from learning_fixtures import SCENARIO, an_incident, engineer, seeds

from hermes.app.gym_commander import run_playbooks
from hermes.app.skills.gym_replay import (
    find_baseline,
    rehearse_in_gym,
    replay_in_gym,
    wait_until_settled,
)
from hermes.app.skills.library import read_skill_states
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.core.bus import Bus
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import PlaybookStarted, SkillChanged, SkillMeasured
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.discovery import SkillRoot
from hermes.skills.distill.distillation import distill_run
from hermes.skills.distill.verified_run import DistillationError
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.lifecycle.evaluation import ReplayCase
from hermes.sre.commander import IncidentResult

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
LOOK_ALIKE = "service-crashed"


def responder(story: ScenarioSpec):  # type: ignore[no-untyped-def]
    """Who answers without the skill: the engineer for this trouble, one who knows for others."""
    known = "workers" in story.fault.value
    return engineer(story) if known else find_baseline("reference")(story)


class School:
    """One home and its journal."""

    def __init__(self, folder: Path) -> None:
        loaded = a_home(folder, **{"skills.live_uses": "1"})
        self.journal = InMemoryJournal()
        self.bus = Bus(self.journal)
        self.root = loaded.home / "skills"
        self.lives = SkillLifecycle(loaded, self.journal, self.bus.publish, self.library)
        self._states: dict[str, str] = {}

    def library(self) -> SkillLibrary:
        return SkillLibrary([SkillRoot(self.root, "user")], self._states)  # type: ignore[arg-type]

    async def skill(self, name: str) -> Skill:
        self._states = dict(await read_skill_states(self.journal))
        return self.library().find(name)

    async def reflex(self, seed: int) -> tuple[IncidentResult, bool, set[type]]:
        """An occurrence answered by trusted playbooks alone; whether it held, and what happened."""
        self._states = dict(await read_skill_states(self.journal))
        scenario = find_scenario(SCENARIO)
        story = scenario.draw_spec(seed, "train")
        async with (
            open_episode(scenario, story) as episode,
            open_bare_run(episode, sandbox_rules()) as stage,
        ):
            await wait_until_settled(episode)
            ending = await run_playbooks(self.library().skills, episode, stage)
            outcome = await episode.judge(window_s=1.0)
            kinds = {type(each.event) async for each in stage.bus.journal.read()}
        return ending, outcome.resolved, kinds


async def test_a_fixed_incident_becomes_a_reflex_once_it_is_proven(tmp_path: Path) -> None:
    school, first = School(tmp_path), seeds(find_scenario(SCENARIO), 5)
    records = await an_incident(SCENARIO, first[0], engineer)

    made = await distill_run(records, run_rehearsal=rehearse_in_gym(SCENARIO, first[0]))
    steps = [step.command for step in made.parse().steps]
    assert len(steps) == 2, steps
    assert "{{" in steps[0] and "mkdir" not in steps[0]
    assert "restart {{service}}" in steps[1]
    service = find_scenario(SCENARIO).draw_spec(first[0], "train").alert.labels["service"]
    assert service not in made.playbook

    drafted = await school.lives.draft(made, run=records[0].event.run)
    assert drafted.extends is None
    skill = await school.skill(drafted.skill)
    assert skill.state == "draft"

    cases = [ReplayCase(name=SCENARIO, seed=seed) for seed in first[1:3]]
    cases.append(ReplayCase(name=LOOK_ALIKE, seed=1, kind="look-alike"))
    replay = replay_in_gym(skill, responder)
    judgement, pairs = await school.lives.evaluate(drafted.folder, cases, replay, run="gate")
    assert judgement.passed, (judgement, pairs)
    assert (judgement.solved_with, judgement.solved_without) == (2, 2)
    assert judgement.best is not None and judgement.best.upper < 1.0
    assert (await school.skill(skill.name)).state == "validated"
    untrusted, _, kinds = await school.reflex(first[3])
    assert untrusted.outcome == "escalated"
    assert PlaybookStarted not in kinds

    trusted = await school.lives.record_use(
        skill.name, skill.digest, verified=True, run="live-1", incident="second"
    )
    assert trusted is not None and trusted.event.state == "trusted"
    ending, held, kinds = await school.reflex(first[4])
    assert (ending.outcome, ending.answered_by) == ("resolved", "playbook"), ending
    assert held
    assert PlaybookStarted in kinds and ModelAnswered not in kinds
    events = [each.event async for each in school.journal.read()]
    life = [e.state for e in events if isinstance(e, SkillChanged)]
    assert life == ["draft", "validated", "trusted"]
    assert [e.passed for e in events if isinstance(e, SkillMeasured)] == [True]


async def test_a_run_that_was_not_verified_teaches_nothing() -> None:
    seed = seeds(find_scenario(SCENARIO), 1)[0]
    records = await an_incident(SCENARIO, seed, engineer, verified=False)
    with pytest.raises(DistillationError, match="not verified"):
        await distill_run(records)
