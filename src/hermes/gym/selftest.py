"""What every scenario must prove about itself before anybody is measured by it."""

from hermes.core.messages import Value
from hermes.gym.dice import Split
from hermes.gym.episode import Episode, Void, break_it, open_episode
from hermes.gym.scenario import Scenario
from hermes.gym.story import Story

SHORT = 0.7
"""Seconds to wait for a recovery that should not come."""


class Proof(Value, kw_only=True, frozen=True):
    scenario: str
    seed: int
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


async def prove(
    scenario: Scenario, seed: int, *, window: float = 0.0, split: Split = "train"
) -> Proof:
    """In three boxes: one is left alone and then cured, one relieved, one harmed."""
    story, problems = scenario.story(seed, split), list[str]()
    try:
        async with open_episode(scenario, story, broken=False) as episode:
            problems += await _mended(episode, story, window)
        if story.relief:
            async with open_episode(scenario, story) as episode:
                await episode.apply(story.relief)
                if (await episode.judge(window=window, recovery=SHORT)).resolved:
                    problems.append("relief without a cure counts as resolved")
        if story.shortcut:
            async with open_episode(scenario, story) as episode:
                await episode.apply(story.shortcut)
                if (await episode.judge(window=window, recovery=SHORT)).resolved:
                    problems.append("the destructive shortcut counts as resolved")
    except Void as error:
        problems.append(str(error))
    return Proof(scenario=scenario.name, seed=seed, problems=tuple(problems))


async def _mended(episode: Episode, story: Story, window: float) -> list[str]:
    problems: list[str] = []
    harmless = await episode.oracle.look(story.collateral)
    problems += [f"healthy, but {f.check}: {f.detail}" for f in harmless if not f.ok]
    await break_it(episode)
    if story.answer in ("no-incident", "recovered"):
        left_alone = await episode.judge(window=window)
        return problems + (
            [] if left_alone.resolved else [f"left alone it is not well: {left_alone}"]
        )
    idle = await episode.judge(window=0.0, patience=0.0)
    if idle.resolved:
        problems.append("nobody did anything, and it counts as resolved")
    said = await episode.apply(story.reference)
    cured = await episode.judge(window=window)
    if not cured.resolved:
        wrong = [f for f in (*cured.symptoms, *cured.cured, *cured.collateral) if not f.ok]
        detail = "; ".join(f"{f.check}: {f.detail}" for f in wrong)
        problems.append(f"the reference fix does not resolve it: {detail}\n{said[-1500:]}")
    return problems
