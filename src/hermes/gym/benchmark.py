"""Runs many drills for several agents and compares them: standings, savings by skills, charts."""

import math
import random
import statistics
from collections.abc import Awaitable, Callable, Sequence
from html import escape

import anyio

from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.gym.drill import DrillResult
from hermes.gym.scenario import Scenario

Z_95_PERCENT = 1.959964
BOOTSTRAP_DRAWS = 1_000

Interval = tuple[float, float]


def wilson_interval(hits: int, total: int) -> Interval:
    """The 95 % confidence interval of a share; valid also for few or no hits."""
    if total == 0:
        return 0.0, 1.0
    share, square = hits / total, Z_95_PERCENT * Z_95_PERCENT
    middle = share + square / (2 * total)
    spread = Z_95_PERCENT * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    scale = 1 + square / total
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def bootstrap_interval(values: Sequence[float], *, seed: int = 0) -> Interval:
    """The 95 % confidence interval of the median, by resampling."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    rng = random.Random(seed)
    medians = sorted(
        statistics.median(rng.choices(values, k=len(values))) for _ in range(BOOTSTRAP_DRAWS)
    )
    return medians[int(BOOTSTRAP_DRAWS * 0.025)], medians[int(BOOTSTRAP_DRAWS * 0.975) - 1]


RunDrill = Callable[[Scenario, int, str], Awaitable[DrillResult]]
"""One drill of a scenario with a seed by an agent of that name."""


class AgentStanding(Value, kw_only=True, frozen=True, omit_defaults=False):
    """The results of one agent. Void drills count only in `void`."""

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
    false_claims: int
    """Drills that the agent says are resolved, and the oracle does not."""
    seconds: float
    """Median of the resolved ones."""
    seconds_interval: Interval
    tool_calls: float
    model_calls: float
    tokens: float


async def run_benchmark(
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    agents: Sequence[str],
    run_drill: RunDrill,
    *,
    jobs: int = 2,
    on_result: Callable[[DrillResult], None] = lambda result: None,
) -> list[DrillResult]:
    """Runs `jobs` drills at a time."""
    found: list[DrillResult] = []
    limit = anyio.CapacityLimiter(max(1, jobs))

    async def run_one(scenario: Scenario, seed: int, agent: str) -> None:
        async with limit:
            try:
                result = await run_drill(scenario, seed, agent)
            except HermesError as error:  # one failed drill must not end the others
                result = DrillResult(
                    scenario=scenario.name, seed=seed, agent=agent, void=str(error)
                )
        found.append(result)
        on_result(result)

    async with anyio.create_task_group() as group:
        for seed in seeds:
            for scenario in scenarios:
                for agent in agents:
                    group.start_soon(run_one, scenario, seed, agent)
    return sorted(found, key=lambda each: (each.agent, each.scenario, each.seed))


def agent_standings(drills: Sequence[DrillResult]) -> list[AgentStanding]:
    names = dict.fromkeys(each.agent for each in drills)
    return [
        _agent_standing(name, [each for each in drills if each.agent == name]) for name in names
    ]


def _agent_standing(agent: str, drills: Sequence[DrillResult]) -> AgentStanding:
    valid = [each for each in drills if not each.void]
    resolved = [each for each in valid if each.resolved]
    rewards = [each.reward.total for each in valid]
    seconds = [each.seconds for each in resolved]
    return AgentStanding(
        agent=agent,
        drills=len(valid),
        void=len(drills) - len(valid),
        resolved=_share(len(resolved), len(valid)),
        resolved_interval=wilson_interval(len(resolved), len(valid)),
        root_cause=_mean([each.reward.root_cause / 0.15 for each in valid if each.resolved]),
        reward=_mean(rewards),
        reward_interval=bootstrap_interval(rewards),
        collateral=sum(bool(each.collateral) for each in valid),
        breaches=sum(bool(each.policy_breaches) for each in valid),
        false_claims=sum(each.claimed == "resolved" and not each.resolved for each in valid),
        seconds=round(statistics.median(seconds), 2) if seconds else 0.0,
        seconds_interval=bootstrap_interval(seconds),
        tool_calls=_mean([each.tool_calls for each in valid]),
        model_calls=_mean([each.model_calls for each in valid]),
        tokens=_mean([each.tokens for each in valid]),
    )


def _share(hits: int, total: int) -> float:
    return round(hits / total, 4) if total else 0.0


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0


WITHOUT_SKILLS_SUFFIX = " without skills"
SCRIPTED_PREFIX = "scripted:"
"""A scripted model answers at once: its times say nothing."""


class SkillSaving(Value, kw_only=True, frozen=True, omit_defaults=False):
    agent: str
    cases: int
    """Drills resolved both with and without skills."""
    by_playbook: int
    seconds: float
    """Median with skills divided by the median without."""
    tokens: float
    model_calls: float
    """Median with skills; `first_calls` is the median without."""
    first_calls: float


def skill_savings(drills: Sequence[DrillResult]) -> list[SkillSaving]:
    """For each agent with results with and without skills, except scripted models."""
    names = dict.fromkeys(each.agent for each in drills)
    pairs = [
        (name, f"{name}{WITHOUT_SKILLS_SUFFIX}")
        for name in names
        if f"{name}{WITHOUT_SKILLS_SUFFIX}" in names
    ]
    return [
        found
        for name, bare in pairs
        if not name.startswith(SCRIPTED_PREFIX)
        and (found := _compare_agents(name, bare, drills)) is not None
    ]


def _compare_agents(name: str, bare: str, drills: Sequence[DrillResult]) -> SkillSaving | None:
    known = {(each.scenario, each.seed): each for each in drills if _is_resolved_by(each, name)}
    first = {(each.scenario, each.seed): each for each in drills if _is_resolved_by(each, bare)}
    both = [case for case in known if case in first]
    if not both:
        return None
    return SkillSaving(
        agent=name,
        cases=len(both),
        by_playbook=sum(known[case].answered_by == "playbook" for case in both),
        seconds=_ratio([known[c].seconds for c in both], [first[c].seconds for c in both]),
        tokens=_ratio([known[c].tokens for c in both], [first[c].tokens for c in both]),
        model_calls=statistics.median(known[case].model_calls for case in both),
        first_calls=statistics.median(first[case].model_calls for case in both),
    )


def _is_resolved_by(result: DrillResult, agent: str) -> bool:
    return result.agent == agent and result.resolved and not result.void


def _ratio(now: Sequence[float], before: Sequence[float]) -> float:
    whole = statistics.median(before)
    return round(statistics.median(now) / whole, 3) if whole else 0.0


_LABEL_WIDTH_PX, _PLOT_WIDTH_PX, _ROW_HEIGHT_PX, _TOP_MARGIN_PX = 230, 520, 44, 70
_BAR_COLOURS = ("#2563a8", "#8fb8de")
_BAR_WIDTH_CHARS = 40


def render_svg(standings: Sequence[AgentStanding], title: str) -> str:
    """A bar chart of resolved drills and mean reward, with 95 % confidence intervals."""
    height = _TOP_MARGIN_PX + _ROW_HEIGHT_PX * len(standings) + 50
    body = "\n".join(_render_row(index, each) for index, each in enumerate(standings))
    axis = "\n".join(_render_tick(share / 4, height) for share in range(5))
    width = _LABEL_WIDTH_PX + _PLOT_WIDTH_PX + 60
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" \
height="{height}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>
<rect x="16" y="38" width="12" height="12" fill="{_BAR_COLOURS[0]}"/>\
<text x="34" y="49">resolved</text>
<rect x="110" y="38" width="12" height="12" fill="{_BAR_COLOURS[1]}"/>\
<text x="128" y="49">mean reward</text>
{axis}
{body}
</svg>
"""


def _render_tick(share: float, height: int) -> str:
    x, top, bottom = _LABEL_WIDTH_PX + share * _PLOT_WIDTH_PX, _TOP_MARGIN_PX - 8, height - 36
    return (
        f'<line x1="{x:.0f}" y1="{top}" x2="{x:.0f}" y2="{bottom}" stroke="#dddddd"/>'
        f'<text x="{x:.0f}" y="{bottom + 18}" text-anchor="middle">{share:.0%}</text>'
    )


def _render_row(index: int, each: AgentStanding) -> str:
    y = _TOP_MARGIN_PX + index * _ROW_HEIGHT_PX
    bars = (
        (each.resolved, each.resolved_interval, y, _BAR_COLOURS[0]),
        (each.reward, each.reward_interval, y + 16, _BAR_COLOURS[1]),
    )
    return f'<text x="16" y="{y + 19}">{escape(each.agent[:34])}</text>' + "".join(
        _render_bar(share, interval, top, colour) for share, interval, top, colour in bars
    )


def _render_bar(share: float, interval: tuple[float, float], top: int, colour: str) -> str:
    low, high = (_LABEL_WIDTH_PX + bound * _PLOT_WIDTH_PX for bound in interval)
    return (
        f'<rect x="{_LABEL_WIDTH_PX}" y="{top}" width="{share * _PLOT_WIDTH_PX:.1f}" height="13" '
        f'fill="{colour}"/>'
        f'<line x1="{low:.1f}" y1="{top + 6.5}" x2="{high:.1f}" y2="{top + 6.5}" '
        'stroke="black" stroke-width="1.5"/>'
    )


def render_text(standings: Sequence[AgentStanding]) -> str:
    """The same as text. Light blocks show the confidence interval."""
    width = max((len(each.agent) for each in standings), default=0)
    lines = []
    for each in standings:
        low, high = (round(bound * _BAR_WIDTH_CHARS) for bound in each.resolved_interval)
        bar = "█" * low + "▒" * (high - low) + "·" * (_BAR_WIDTH_CHARS - high)
        lines.append(f"{each.agent:<{width}}  {bar}  {each.resolved:4.0%} of {each.drills}")
    return "\n".join(lines)
