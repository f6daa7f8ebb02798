"""Replays skills in gym boxes: the same broken host, with the skill and without it.

A skill is run by the commander of real incidents, so it is evaluated by the code that uses it.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from hermes.app.gym_commander import run_playbooks
from hermes.core.errors import HermesError
from hermes.core.messages import ToolCall
from hermes.core.run_ids import new_id
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_local_box
from hermes.gym.drill import SkillTrial
from hermes.gym.episodes.baseline_responders import BASELINE_RESPONDERS
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.responder_context import (
    EpisodeResponder,
    EpisodeRun,
    open_bare_run,
    sandbox_rules,
)
from hermes.gym.episodes.run_summary import run_events
from hermes.gym.random_source import Split
from hermes.gym.scenario import Scenario, find_scenario
from hermes.skills.discovery import SkillRoot
from hermes.skills.distill.distillation import distill_run, write_distilled_skill
from hermes.skills.distill.rehearsal import CommandOutput, RehearsalResult, RunRehearsal
from hermes.skills.library import Skill, SkillLibrary
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayResult, RunReplay
from hermes.skills.playbook.commands import parse_terminal_result

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.gym.scenario_spec import ScenarioSpec

REPLAY_VERIFY_WINDOW_S = 1.0
"""Seconds for which a fixed host has to stay healthy."""
SETTLE_TIMEOUT_S, SETTLE_PAUSE_S, SETTLED_AFTER_EQUAL_CHECKS = 8.0, 0.3, 4


async def wait_until_settled(episode: Episode) -> None:
    """Wait until the host is as an alert would find it: a unit that systemd still restarts needs
    no restart, and one that systemd gave up on does."""
    states: list[str] = []
    with anyio.move_on_after(SETTLE_TIMEOUT_S):
        while len(states) < SETTLED_AFTER_EQUAL_CHECKS:
            units = (await episode.box.run("systemctl list-units --all")).output
            states = [*states, units] if not states or states[-1] == units else [units]
            await anyio.sleep(SETTLE_PAUSE_S)


def rehearse_in_gym(
    scenario: str, seed: int, *, split: Split = "train", opener: BoxOpener = open_local_box
) -> RunRehearsal:
    """Each rehearsal gets a host that was broken in exactly that way."""
    played, rules = find_scenario(scenario), sandbox_rules()

    async def rehearse(commands: Sequence[str]) -> RehearsalResult:
        spec = played.draw_spec(seed, split)
        async with (
            open_episode(played, spec, opener=opener) as episode,
            open_bare_run(episode, rules) as stage,
        ):
            await wait_until_settled(episode)
            outputs = [await _run_command(stage, command) for command in commands]
            outcome = await episode.judge(window_s=REPLAY_VERIFY_WINDOW_S)
        return RehearsalResult(solved=outcome.resolved, outputs=tuple(outputs))

    return rehearse


async def _run_command(stage: EpisodeRun, command: str) -> CommandOutput:
    call = ToolCall(new_id("rehearse"), "terminal", {"command": command})
    result = parse_terminal_result(await stage.execute(call), command, 0.0)
    return CommandOutput(result.code, result.output)


def replay_in_gym(
    skill: Skill,
    without: "Callable[[ScenarioSpec], EpisodeResponder]",
    *,
    split: Split = "train",
    opener: BoxOpener = open_local_box,
) -> RunReplay:
    """`without` responds when the skill is absent, and continues where the skill declines."""
    rules, library = sandbox_rules(), [_as_trusted(skill)]

    async def replay(case: ReplayCase, using: bool) -> ReplayResult:
        played = find_scenario(case.name)
        spec = played.draw_spec(case.seed, split)
        async with (
            open_episode(played, spec, opener=opener) as episode,
            open_bare_run(episode, rules) as stage,
        ):
            await wait_until_settled(episode)
            began, turns = time.monotonic(), 0
            resolved = False
            if using:
                resolved = (await run_playbooks(library, episode, stage)).outcome == "resolved"
            if not resolved:
                before = await stage.bus.journal.last()
                await without(spec)(stage.responder_context(episode))
                turns = await _count_calls(stage, before)
            seconds = time.monotonic() - began
            outcome = await episode.judge(window_s=REPLAY_VERIFY_WINDOW_S)
        return ReplayResult(
            solved=outcome.resolved,
            seconds=seconds,
            turns=turns,
            harm=outcome.damage,
            by_skill=resolved,
        )

    return replay


def _as_trusted(skill: Skill) -> Skill:
    """Return the skill as if it were trusted: on trial it is not trusted yet."""
    return Skill(skill.folder, SkillRoot(skill.folder.parent, skill.origin), skill.text, "trusted")


async def _count_calls(stage: EpisodeRun, after: int) -> int:
    kinds = ("tool.requested",)
    return len([each async for each in stage.bus.journal.read(after=after, kinds=kinds)])


def find_baseline(name: str) -> "Callable[[ScenarioSpec], EpisodeResponder]":
    return BASELINE_RESPONDERS[name]


UNSEEN_SEED_OFFSET = 500_009
"""Distance to the seed of the fresh variant: no bench uses seeds that large."""


def make_skill_trial(
    reference: str, *, split: Split = "train", opener: BoxOpener = open_local_box
) -> SkillTrial:
    """`reference` finds the scenario again: its name, or the path of its folder. Nothing is
    kept: the home decides with several cases whether a skill stays."""

    async def learned(scenario: Scenario, seed: int, stage: EpisodeRun) -> bool:
        records = await run_events(stage.bus.journal, stage.run, after=stage.since)
        rehearse = rehearse_in_gym(reference, seed, split=split, opener=opener)
        try:
            draft = await distill_run(records, run_rehearsal=rehearse)
            with tempfile.TemporaryDirectory(prefix="hermes-draft-") as folder:
                write_distilled_skill(draft, Path(folder) / draft.name)
                skill = SkillLibrary([SkillRoot(Path(folder), "user")], {}).find(draft.name)
                replay = replay_in_gym(skill, find_baseline("no-op"), split=split, opener=opener)
                result = await replay(
                    ReplayCase(name=reference, seed=seed + UNSEEN_SEED_OFFSET), True
                )
        except HermesError:  # nothing to learn, or no host to try it on
            return False
        return result.solved and not result.harm

    return learned
