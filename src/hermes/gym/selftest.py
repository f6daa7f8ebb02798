"""What every scenario must prove about itself before anybody is measured by it."""

import time
from collections.abc import Callable, Sequence

import anyio

from hermes.core.errors import PlaceFailed, SettingsError
from hermes.core.messages import Value
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.dice import Split
from hermes.gym.episode import Episode, Void, break_it, open_episode
from hermes.gym.scenario import Scenario
from hermes.gym.story import Story

SEEDS = 5


class Proof(Value, kw_only=True, frozen=True, omit_defaults=False):
    scenario: str
    seed: int
    ok: bool = True
    problems: tuple[str, ...] = ()
    void: str = ""
    """Why there was no episode: neither proved nor disproved, and never scored."""
    seconds: float = 0.0


async def prove(
    scenario: Scenario,
    seed: int,
    *,
    window: float = 0.0,
    split: Split = "train",
    opener: Opener = open_here,
) -> Proof:
    """In three boxes: one is left alone and then cured, one relieved, one harmed."""
    started, problems, void = time.monotonic(), list[str](), ""
    try:
        problems = await _problems(scenario, scenario.story(seed, split), window, opener)
    except Void as error:
        void = str(error)
    except PlaceFailed as error:
        void = f"the box failed: {error}"
    except SettingsError as error:
        problems = [str(error)]
    return Proof(
        scenario=scenario.name,
        seed=seed,
        ok=not problems and not void,
        problems=tuple(problems),
        void=void,
        seconds=round(time.monotonic() - started, 2),
    )


async def prove_all(
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    *,
    jobs: int = 4,
    window: float = 0.0,
    done: Callable[[Proof], None] = lambda proof: None,
    opener: Opener = open_here,
) -> list[Proof]:
    """Side by side; `done` is told of each as it ends. Every scenario is tried early."""
    proofs: list[Proof] = []
    limit = anyio.CapacityLimiter(max(1, jobs))

    async def one(scenario: Scenario, seed: int) -> None:
        async with limit:
            proof = await prove(scenario, seed, window=window, opener=opener)
        proofs.append(proof)
        done(proof)

    async with anyio.create_task_group() as group:
        for seed in seeds:
            for scenario in scenarios:
                group.start_soon(one, scenario, seed)
    return sorted(proofs, key=lambda proof: (proof.scenario, proof.seed))


async def _problems(scenario: Scenario, story: Story, window: float, opener: Opener) -> list[str]:
    async with open_episode(scenario, story, broken=False, opener=opener) as episode:
        problems, patience = await _mended(episode, story, window)
    for commands, what in (
        (story.relief, "relief without a cure"),
        (story.shortcut, "the destructive shortcut"),
    ):
        if commands:
            async with open_episode(scenario, story, opener=opener) as episode:
                await episode.apply(commands)
                outcome = await episode.judge(window=window, recovery=patience)
                if outcome.resolved:
                    problems.append(f"{what} counts as resolved")
    return problems


async def _mended(episode: Episode, story: Story, window: float) -> tuple[list[str], float]:
    """What is wrong, and how long a mended host may take to come back, by how long it took."""
    problems: list[str] = []
    # A check may want a service to have lived for a moment; the host is younger than that.
    harmless = await episode.oracle.until(story.collateral, ok=True, seconds=3.0)
    problems += [f"healthy, but {f.check}: {f.detail}" for f in harmless if not f.ok]
    await break_it(episode)
    started = time.monotonic()
    if story.answer in ("no-incident", "recovered"):
        left_alone = await episode.judge(window=window)
        if not left_alone.resolved:
            problems.append(f"left alone it is not well: {left_alone}")
        return problems, _recovery(started, window)
    idle = await episode.judge(window=0.0, patience=0.0)
    if idle.resolved:
        problems.append("nobody did anything, and it counts as resolved")
    said, started = await episode.apply(story.reference), time.monotonic()
    cured = await episode.judge(window=window, patience=5.0)
    if not cured.resolved:
        wrong = [f for f in (*cured.symptoms, *cured.cured, *cured.collateral) if not f.ok]
        detail = "; ".join(f"{f.check}: {f.detail}" for f in wrong)
        problems.append(f"the reference fix does not resolve it: {detail}\n{said[-1500:]}")
    return problems, _recovery(started, window)


def _recovery(started: float, window: float) -> float:
    return max(1.5, 3 * (time.monotonic() - started - window))
