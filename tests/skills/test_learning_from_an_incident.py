"""The whole way: broken, mended, distilled, proven on variants, and then a reflex."""

from pathlib import Path

import pytest
from compiler_house import a_home
from learning_house import SCENARIO, an_incident, engineer, seeds

from hermes.app.boxed import by_playbooks
from hermes.app.lifecycle import Lives
from hermes.app.proving import baseline, rehearse_in_gym, replay_in_gym, settle
from hermes.app.skills import states_in
from hermes.core.bus import Bus
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import PlaybookStarted, SkillChanged, SkillMeasured
from hermes.environments.confinement import probe
from hermes.gym.episode import open_episode
from hermes.gym.scenario import find
from hermes.gym.stage import bare_stage, rules
from hermes.gym.story import Story
from hermes.memory.in_memory import InMemoryJournal
from hermes.skills.cards import Root
from hermes.skills.distill.deeds import NotDistilled
from hermes.skills.distill.distil import distil
from hermes.skills.library import Library, Skill
from hermes.skills.lifecycle.replay import Case
from hermes.sre.commander import Ending

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless())),
]
LOOK_ALIKE = "service-crashed"


def responder(story: Story):  # type: ignore[no-untyped-def]
    """Who answers without the skill: the engineer for this trouble, one who knows for others."""
    known = "workers" in story.fault.value
    return engineer(story) if known else baseline("reference")(story)


class School:
    """One home and its journal."""

    def __init__(self, folder: Path) -> None:
        loaded = a_home(folder, **{"skills.live_uses": "1"})
        self.journal = InMemoryJournal()
        self.bus = Bus(self.journal)
        self.root = loaded.home / "skills"
        self.lives = Lives(loaded, self.journal, self.bus.publish, self.library)
        self._states: dict[str, str] = {}

    def library(self) -> Library:
        return Library([Root(self.root, "user")], self._states)  # type: ignore[arg-type]

    async def skill(self, name: str) -> Skill:
        self._states = dict(await states_in(self.journal))
        return self.library().find(name)

    async def reflex(self, seed: int) -> tuple[Ending, bool, set[type]]:
        """An occurrence answered by trusted playbooks alone; whether it held, and what happened."""
        self._states = dict(await states_in(self.journal))
        scenario = find(SCENARIO)
        story = scenario.story(seed, "train")
        async with open_episode(scenario, story) as episode, bare_stage(episode, rules()) as stage:
            await settle(episode)
            ending = await by_playbooks(self.library().skills, episode, stage)
            outcome = await episode.judge(window=1.0)
            kinds = {type(each.event) async for each in stage.bus.journal.read()}
        return ending, outcome.resolved, kinds


async def test_a_mended_incident_becomes_a_reflex_once_it_is_proven(tmp_path: Path) -> None:
    school, first = School(tmp_path), seeds(find(SCENARIO), 5)
    records = await an_incident(SCENARIO, first[0], engineer)

    made = await distil(records, rehearse=rehearse_in_gym(SCENARIO, first[0]))
    steps = [step.command for step in made.parsed().steps]
    assert len(steps) == 2, steps
    assert "{{" in steps[0] and "mkdir" not in steps[0]
    assert "restart {{service}}" in steps[1]
    service = find(SCENARIO).story(first[0], "train").alert.labels["service"]
    assert service not in made.playbook

    drafted = await school.lives.draft(made, run=records[0].event.run)
    assert drafted.extends is None
    skill = await school.skill(drafted.skill)
    assert skill.state == "draft"

    cases = [Case(name=SCENARIO, seed=seed) for seed in first[1:3]]
    cases.append(Case(name=LOOK_ALIKE, seed=1, kind="look-alike"))
    replay = replay_in_gym(skill, responder)
    judgement, pairs = await school.lives.prove(drafted.folder, cases, replay, run="gate")
    assert judgement.passed, (judgement, pairs)
    assert (judgement.solved_with, judgement.solved_without) == (2, 2)
    assert judgement.best is not None and judgement.best.upper < 1.0
    assert (await school.skill(skill.name)).state == "validated"
    untrusted, _, kinds = await school.reflex(first[3])
    assert untrusted.outcome == "escalated"
    assert PlaybookStarted not in kinds

    trusted = await school.lives.used(
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
    seed = seeds(find(SCENARIO), 1)[0]
    records = await an_incident(SCENARIO, seed, engineer, verified=False)
    with pytest.raises(NotDistilled, match="not verified"):
        await distil(records)
