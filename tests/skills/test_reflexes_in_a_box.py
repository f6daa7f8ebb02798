"""Bundled playbooks alone against broken hosts: they mend what is theirs and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.app.approving import nobody
from hermes.app.gate import Gate
from hermes.app.proving import settle
from hermes.app.skills import open_library, reflex
from hermes.core.bus import Bus
from hermes.core.events.skills import PlaybookEnded, PlaybookStepped
from hermes.core.protocols import ToolContext
from hermes.environments.confinement import probe
from hermes.gym.box.place import place_in
from hermes.gym.episode import Episode, open_episode
from hermes.gym.scenario import find
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.in_memory import InMemoryJournal
from hermes.settings.load import load
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.reflex import Response
from hermes.tools.executor import Executor
from hermes.tools.terminal import terminal

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless())),
]


@asynccontextmanager
async def responded(
    name: str, seed: int, home: Path
) -> AsyncIterator[tuple[Episode, Response, InMemoryJournal]]:
    scenario = find(name)
    story = scenario.story(seed)
    facts = Facts(title=story.alert.title, text=story.alert.text, labels=story.alert.labels)
    loaded, journal = load(home=home, variables={}), InMemoryJournal()
    bus = Bus(journal)
    async with open_episode(scenario, story) as episode, place_in(episode.box) as place:
        await settle(episode)
        gate = Gate(loaded, home, isolated=True)
        executor = Executor({"terminal": terminal}, gate, nobody, bus)
        context = ToolContext(
            run="r",
            environment=place,
            publish=bus.publish,
            call=lambda call: executor.execute(call, context),
            artifacts=FileArtifacts(home / "artifacts"),
            origin="gym",
        )
        yield episode, await reflex(open_library(loaded), facts, executor, context), journal


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
async def test_a_reflex_mends_it_without_a_model_and_without_damage(
    scenario: str, skill: str, tmp_path: Path
) -> None:
    async with responded(scenario, 5, tmp_path) as (episode, response, journal):
        outcome = await episode.judge()
    assert response.played is not None
    assert response.played.skill == skill
    assert outcome.damage == ()
    assert outcome.resolved
    assert any(isinstance(e, PlaybookEnded) and e.outcome == "applied" for e in journal.events)


async def test_two_faults_at_once_are_both_mended(tmp_path: Path) -> None:
    async with responded("two-faults-at-once", 1, tmp_path) as (episode, response, _):
        outcome = await episode.judge()
    assert len(response.mended) == 2
    assert outcome.damage == ()
    assert outcome.resolved


@pytest.mark.parametrize(
    ("scenario", "well"),
    [("false-alarm", True), ("already-recovered", True), ("needs-approval", False)],
)
async def test_what_is_not_theirs_is_left_alone(scenario: str, well: bool, tmp_path: Path) -> None:
    async with responded(scenario, 4, tmp_path) as (episode, response, journal):
        outcome = await episode.judge()
    changed = [e for e in journal.events if isinstance(e, PlaybookStepped) and e.phase == "step"]
    assert changed == [], response.tried
    assert bool(response.all_clear) == well
    assert outcome.damage == ()
