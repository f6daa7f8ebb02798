"""Bundled playbooks alone against broken hosts: they fix what is theirs and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from hermes.app.gym_commander import run_playbooks
from hermes.app.skills.gym_replay import wait_until_settled
from hermes.app.skills.library import open_library
from hermes.core.events.skills import PlaybookEnded, PlaybookStepped
from hermes.core.incident import AlertFacts
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import EpisodeOutcome, open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.settings.load import load
from hermes.skills.playbook.commands import PlaybookContext
from hermes.skills.playbook.runner import PlaybookRunner
from hermes.sre.commander import IncidentResult

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]


@dataclass(frozen=True)
class Answered:
    ending: IncidentResult
    outcome: EpisodeOutcome
    events: Sequence[object]

    @property
    def fixed(self) -> list[str]:
        """By which playbooks."""
        ended = [event for event in self.events if isinstance(event, PlaybookEnded)]
        return [event.skill for event in ended if event.outcome == "applied"]


async def answered(name: str, seed: int, home: Path) -> Answered:
    scenario = find_scenario(name)
    skills = open_library(load(home=home, variables={})).skills
    async with (
        open_episode(scenario, scenario.draw_spec(seed)) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        await wait_until_settled(episode)
        ending = await run_playbooks(skills, episode, stage)
        outcome = await episode.judge()
        events = [each.event async for each in stage.bus.journal.read()]
    return Answered(ending, outcome, events)


@pytest.mark.parametrize(
    ("scenario", "skill"),
    [
        ("service-crashed", "poison-record"),
        ("hung-worker", "stale-lock"),
        ("cron-failing-silently", "job-failing"),
        ("dns-wrong", "stale-name"),
        ("red-herring-deploy", "switched-off"),
    ],
)
async def test_a_reflex_fixes_it_without_a_model_and_without_damage(
    scenario: str, skill: str, tmp_path: Path
) -> None:
    found = await answered(scenario, 5, tmp_path)
    assert (found.ending.outcome, found.fixed) == ("resolved", [skill])
    assert found.outcome.damage == ()
    assert found.outcome.resolved


async def test_two_faults_at_once_are_both_fixed(tmp_path: Path) -> None:
    found = await answered("two-faults-at-once", 1, tmp_path)
    assert len(found.fixed) == 2
    assert found.outcome.damage == ()
    assert found.outcome.resolved


@pytest.mark.parametrize(
    ("scenario", "ending"),
    [
        ("false-alarm", "no-incident"),
        ("already-recovered", "recovered"),
        ("needs-approval", "escalated"),
    ],
)
async def test_what_is_not_theirs_is_left_alone(scenario: str, ending: str, tmp_path: Path) -> None:
    found = await answered(scenario, 4, tmp_path)
    stepped = [event for event in found.events if isinstance(event, PlaybookStepped)]
    assert [event for event in stepped if event.phase == "step"] == []
    assert found.ending.outcome == ending
    assert found.outcome.damage == ()


async def test_a_stray_unit_that_port_taken_stopped_runs_again_after_the_undo(
    tmp_path: Path,
) -> None:
    scenario = find_scenario("port-taken")
    stories = (scenario.draw_spec(seed) for seed in range(50))
    story = next(each for each in stories if "cron" not in each.fault.component)
    skill = open_library(load(home=tmp_path, variables={})).skills_by_name["port-taken"]
    assert skill.playbook is not None
    facts = AlertFacts(
        title=story.alert.title, text=story.alert.text, labels=dict(story.alert.labels)
    )
    async with (
        open_episode(scenario, story) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        runner = PlaybookRunner(
            "port-taken", skill.playbook, PlaybookContext(stage.execute, stage.bus.publish)
        )
        played = await runner.run(facts)
        assert played.outcome == "applied", played.detail
        stray = played.parameters["what"]
        count = f"cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx '[/]{stray[1:]}'"
        assert (await episode.box.run(count)).output.strip() == "0"
        undone = await runner.undo(played)
        assert undone.outcome == "undone", undone.detail
        with anyio.fail_after(120):
            while (await episode.box.run(count)).output.strip() == "0":  # noqa: ASYNC110 - a process
                await anyio.sleep(0.1)
