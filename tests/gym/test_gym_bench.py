"""Figures with their certainty, the table of agents, and its pictures."""

import xml.etree.ElementTree as ElementTree

import pytest

from hermes.gym.benchmark import (
    agent_standings,
    bootstrap_interval,
    render_svg,
    render_text,
    run_benchmark,
    wilson_interval,
)
from hermes.gym.drill import DrillResult
from hermes.gym.reward import Reward
from hermes.gym.scenario import Scenario


def a_drill(agent: str, seed: int, *, resolved: bool = True, void: str = "") -> DrillResult:
    reward = Reward(resolution=0.5, root_cause=0.15, total=0.65) if resolved else Reward()
    return DrillResult(
        scenario="s",
        seed=seed,
        agent=agent,
        resolved=resolved,
        reward=reward,
        seconds=10.0 + seed,
        tool_calls=4,
        model_calls=2,
        tokens=100,
        void=void,
    )


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (0, 0, 0.0, 1.0)],
)
def test_the_interval_of_a_share_is_wilsons(hits: int, total: int, low: float, high: float) -> None:
    assert wilson_interval(hits, total) == pytest.approx((low, high), abs=1e-3)


def test_the_interval_of_a_median_holds_it_and_is_the_same_each_time() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 50.0]
    low, high = bootstrap_interval(values)
    assert low <= 3.0 <= high
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval([7.0]) == (7.0, 7.0)
    assert bootstrap_interval([]) == (0.0, 0.0)


def test_void_drills_are_counted_and_change_nothing_else() -> None:
    drills = [a_drill("a", 1), a_drill("a", 2, resolved=False), a_drill("a", 3, void="no host")]
    (standing,) = agent_standings(drills)
    assert (standing.drills, standing.void, standing.resolved) == (2, 1, 0.5)
    assert standing.root_cause == 1.0
    assert standing.seconds == 11.0


def test_the_picture_is_one_that_a_browser_reads_and_names_every_agent() -> None:
    ranked = agent_standings([a_drill("<no-op>", 1, resolved=False), a_drill("reference", 1)])
    root = ElementTree.fromstring(render_svg(ranked, "one & all"))
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<no-op>", "reference", "one & all"} <= set(texts)
    assert "100% of 1" in render_text(ranked)


@pytest.mark.anyio
async def test_every_cell_is_drilled_once_and_not_too_many_at_once() -> None:
    scenarios = [
        Scenario(name=name, group="jobs", summary="", draw=lambda rng: None)  # type: ignore[arg-type, return-value]
        for name in ("x", "y")
    ]
    busy, most, results = 0, 0, []

    async def drill(scenario: Scenario, seed: int, agent: str) -> DrillResult:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        busy -= 1
        return DrillResult(scenario=scenario.name, seed=seed, agent=agent)

    done = await run_benchmark(
        scenarios, [0, 1, 2], ["a", "b"], drill, jobs=2, on_result=results.append
    )
    assert len(done) == len(results) == 12
    assert len({(each.scenario, each.seed, each.agent) for each in done}) == 12
    assert most <= 2
