"""Replays for skills in gym boxes: the same broken host, with the skill and without it.

A skill is played by the commander of real incidents, so what proves it is what will use it.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from hermes.app.boxed import by_playbooks
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall
from hermes.gym.agents import BASELINES
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.dice import Split
from hermes.gym.episode import Episode, open_episode
from hermes.gym.scenario import find
from hermes.gym.stage import Responder, Stage, bare_stage, rules
from hermes.skills.cards import Root
from hermes.skills.distill.rehearsal import Rehearse, Rehearsed, Seen
from hermes.skills.library import Skill
from hermes.skills.lifecycle.replay import Case, Replay, Replayed
from hermes.skills.playbook.ending import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.gym.story import Story

WINDOW = 1.0
"""Seconds for which a mended host has to stay so."""
PATIENCE, PAUSE, SAME = 8.0, 0.3, 4


async def settle(episode: Episode) -> None:
    """Until the host is as an alert would find it: a unit that is still being restarted by itself
    needs no restart, and one that was given up on does."""
    seen: list[str] = []
    with anyio.move_on_after(PATIENCE):
        while len(seen) < SAME:
            units = (await episode.box.run("systemctl list-units --all")).output
            seen = [*seen, units] if not seen or seen[-1] == units else [units]
            await anyio.sleep(PAUSE)


def rehearse_in_gym(
    scenario: str, seed: int, *, split: Split = "train", opener: Opener = open_here
) -> Rehearse:
    """Each rehearsal gets a host that was broken in just that way."""
    played, book = find(scenario), rules()

    async def rehearse(commands: Sequence[str]) -> Rehearsed:
        story = played.story(seed, split)
        async with (
            open_episode(played, story, opener=opener) as episode,
            bare_stage(episode, book) as stage,
        ):
            await settle(episode)
            seen = [await _run(stage, command) for command in commands]
            outcome = await episode.judge(window=WINDOW)
        return Rehearsed(solved=outcome.resolved, seen=tuple(seen))

    return rehearse


async def _run(stage: Stage, command: str) -> Seen:
    call = ToolCall(new_id("rehearse"), "terminal", {"command": command})
    result = ended(await stage.execute(call), command, 0.0)
    return Seen(result.code, result.output)


def replay_in_gym(
    skill: Skill,
    without: "Callable[[Story], Responder]",
    *,
    split: Split = "train",
    opener: Opener = open_here,
) -> Replay:
    """`without` is who answers when the skill is not there; it also goes on where it declines."""
    book, library = rules(), [_trusted(skill)]

    async def replay(case: Case, using: bool) -> Replayed:
        played = find(case.name)
        story = played.story(case.seed, split)
        async with (
            open_episode(played, story, opener=opener) as episode,
            bare_stage(episode, book) as stage,
        ):
            await settle(episode)
            began, turns = time.monotonic(), 0
            mended = False
            if using:
                mended = (await by_playbooks(library, episode, stage)).outcome == "resolved"
            if not mended:
                before = await stage.bus.journal.last()
                await without(story)(stage.scene(episode))
                turns = await _calls(stage, before)
            seconds = time.monotonic() - began
            outcome = await episode.judge(window=WINDOW)
        return Replayed(
            solved=outcome.resolved,
            seconds=seconds,
            turns=turns,
            harm=outcome.damage,
            by_skill=mended,
        )

    return replay


def _trusted(skill: Skill) -> Skill:
    """As it would be used: what is on trial is not trusted yet."""
    return Skill(skill.folder, Root(skill.folder.parent, skill.origin), skill.text, "trusted")


async def _calls(stage: Stage, after: int) -> int:
    kinds = ("tool.requested",)
    return len([each async for each in stage.bus.journal.read(after=after, kinds=kinds)])


def baseline(name: str) -> "Callable[[Story], Responder]":
    return BASELINES[name]
