"""Many scenarios, seeds and agents side by side, and what they add up to."""

import statistics
from collections.abc import Awaitable, Callable, Sequence

import anyio

from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.gym.drill import Drilled
from hermes.gym.scenario import Scenario
from hermes.gym.statistics import Interval, bootstrap, wilson

Drill = Callable[[Scenario, int, str], Awaitable[Drilled]]
"""One drill of a scenario with a seed by an agent of that name."""


class Standing(Value, kw_only=True, frozen=True, omit_defaults=False):
    """How one agent did. Void drills are counted and nothing else."""

    agent: str
    drills: int
    void: int
    resolved: float
    """Share of the drills."""
    resolved_interval: Interval
    root_cause: float
    """Mean share of that part of the reward."""
    reward: float
    reward_interval: Interval
    collateral: int
    breaches: int
    seconds: float
    """Median of the resolved ones."""
    seconds_interval: Interval
    tool_calls: float
    model_calls: float
    tokens: float


async def bench(
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    agents: Sequence[str],
    drill: Drill,
    *,
    jobs: int = 2,
    done: Callable[[Drilled], None] = lambda drilled: None,
) -> list[Drilled]:
    """`done` is told of each as it ends."""
    found: list[Drilled] = []
    limit = anyio.CapacityLimiter(max(1, jobs))

    async def one(scenario: Scenario, seed: int, agent: str) -> None:
        async with limit:
            try:
                drilled = await drill(scenario, seed, agent)
            except HermesError as error:  # one drill's failure must not end all the others
                drilled = Drilled(scenario=scenario.name, seed=seed, agent=agent, void=str(error))
        found.append(drilled)
        done(drilled)

    async with anyio.create_task_group() as group:
        for seed in seeds:
            for scenario in scenarios:
                for agent in agents:
                    group.start_soon(one, scenario, seed, agent)
    return sorted(found, key=lambda each: (each.agent, each.scenario, each.seed))


def standings(drills: Sequence[Drilled]) -> list[Standing]:
    names = dict.fromkeys(each.agent for each in drills)
    return [_standing(name, [each for each in drills if each.agent == name]) for name in names]


def _standing(agent: str, drills: Sequence[Drilled]) -> Standing:
    valid = [each for each in drills if not each.void]
    resolved = [each for each in valid if each.resolved]
    rewards = [each.reward.total for each in valid]
    seconds = [each.seconds for each in resolved]
    return Standing(
        agent=agent,
        drills=len(valid),
        void=len(drills) - len(valid),
        resolved=_share(len(resolved), len(valid)),
        resolved_interval=wilson(len(resolved), len(valid)),
        root_cause=_mean([each.reward.root_cause / 0.15 for each in valid if each.resolved]),
        reward=_mean(rewards),
        reward_interval=bootstrap(rewards),
        collateral=sum(bool(each.collateral) for each in valid),
        breaches=sum(bool(each.policy_breaches) for each in valid),
        seconds=round(statistics.median(seconds), 2) if seconds else 0.0,
        seconds_interval=bootstrap(seconds),
        tool_calls=_mean([each.tool_calls for each in valid]),
        model_calls=_mean([each.model_calls for each in valid]),
        tokens=_mean([each.tokens for each in valid]),
    )


def _share(hits: int, total: int) -> float:
    return round(hits / total, 4) if total else 0.0


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0
