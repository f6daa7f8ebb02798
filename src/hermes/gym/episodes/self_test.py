"""Proves that a scenario is fair: its reference fix resolves it, and nothing less does."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import anyio

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.messages import Value
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_local_box
from hermes.gym.episodes.episode import Episode, EpisodeVoid, inject_fault, open_episode
from hermes.gym.random_source import Split
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import ScenarioCheck, ScenarioSpec
from hermes.gym.supervisors.hosts import OWN_SYSTEMCTL

DEFAULT_SEED_COUNT = 5
RELIEF_TIMEOUT_S = 5.0
"""How long the symptoms may last after the commands that relieve them."""
HELD_OUT_DRAWS = 8
"""Draws of held-out wordings for each proof; a wording with an error fails only when drawn."""


class ScenarioProof(Value, kw_only=True, frozen=True, omit_defaults=False):
    scenario: str
    seed: int
    split: Split = "train"
    """Which wordings were played."""
    ok: bool = True
    problems: tuple[str, ...] = ()
    void: str = ""
    """Why no episode could be played: the scenario is neither proved nor disproved."""
    seconds: float = 0.0


async def prove_scenario(
    scenario: Scenario,
    seed: int,
    *,
    window: float = 0.0,
    split: Split = "train",
    opener: BoxOpener = open_local_box,
    supervisor: str = OWN_SYSTEMCTL,
) -> ScenarioProof:
    """Uses a box for no action and the reference fix, and one for each other kind of response."""
    started, problems, void = time.monotonic(), list[str](), ""
    try:
        for number in range(HELD_OUT_DRAWS):
            scenario.draw_spec(seed + number, "held-out")
        spec = scenario.draw_spec(seed, split)
        open_hosts = partial(open_episode, scenario, spec, opener=opener, supervisor=supervisor)
        problems = await _find_problems(spec, window, open_hosts)
    except EpisodeVoid as error:
        void = str(error)
    except EnvironmentFailed as error:
        void = f"the box failed: {error}"
    except SettingsError as error:
        problems = [str(error)]
    return ScenarioProof(
        scenario=scenario.name,
        seed=seed,
        split=split,
        ok=not problems and not void,
        problems=tuple(problems),
        void=void,
        seconds=round(time.monotonic() - started, 2),
    )


async def prove_scenarios(
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    *,
    jobs: int = 4,
    window: float = 0.0,
    on_proof: Callable[[ScenarioProof], None] = lambda proof: None,
    opener: BoxOpener = open_local_box,
    supervisor: str = OWN_SYSTEMCTL,
) -> list[ScenarioProof]:
    """Runs `jobs` proofs at a time, all scenarios with the first seed first.

    Every second seed is played with the wordings reserved for evaluation.
    """
    proofs: list[ScenarioProof] = []
    limit = anyio.CapacityLimiter(max(1, jobs))

    async def prove_one(scenario: Scenario, seed: int) -> None:
        async with limit:
            proof = await prove_scenario(
                scenario,
                seed,
                window=window,
                split="held-out" if seed % 2 else "train",
                opener=opener,
                supervisor=supervisor,
            )
        proofs.append(proof)
        on_proof(proof)

    async with anyio.create_task_group() as group:
        for seed in seeds:
            for scenario in scenarios:
                group.start_soon(prove_one, scenario, seed)
    return sorted(proofs, key=lambda proof: (proof.scenario, proof.seed))


async def _find_problems(
    spec: ScenarioSpec,
    window: float,
    open_hosts: Callable[..., AbstractAsyncContextManager[Episode]],
) -> list[str]:
    async with open_hosts(broken=False) as episode:
        problems, recovery_timeout_s = await _check_reference_fix(episode, spec, window)
    for commands, what in (
        (spec.relief, "relief without a fix"),
        (spec.shortcut, "the destructive shortcut"),
        (spec.futile, "the futile attempt"),
    ):
        if not commands:
            continue
        async with open_hosts() as episode:
            transcript = await episode.run_commands(commands)
            outcome = await episode.judge(
                window_s=window,
                symptom_timeout_s=RELIEF_TIMEOUT_S if commands is spec.relief else 1.0,
                recovery_timeout_s=recovery_timeout_s,
            )
            worse = [] if outcome.damage else await episode.oracle.run_checks(_other_checks(spec))
        if outcome.resolved:
            problems.append(f"{what} counts as resolved")
        if commands is spec.relief and not any(each.ok for each in outcome.symptoms):
            failed = "; ".join(f"{f.check}: {f.detail}" for f in outcome.symptoms)
            problems.append(f"the relief relieves nothing: {failed}\n{transcript[-1500:]}")
        if commands is spec.shortcut and not outcome.damage and all(each.ok for each in worse):
            problems.append(f"the shortcut damages nothing that a check sees\n{transcript[-1500:]}")
    return problems


def _other_checks(spec: ScenarioSpec) -> tuple[ScenarioCheck, ...]:
    """Return what the fault itself leaves healthy."""
    return tuple(each for each in spec.healthy if each not in spec.symptoms)


async def _check_reference_fix(
    episode: Episode, spec: ScenarioSpec, window: float
) -> tuple[list[str], float]:
    """The problems found, and the recovery timeout for the other boxes, by the time it took."""
    problems: list[str] = []
    # A check may demand that a service has run for a while; this host has just started.
    unharmed = await episode.oracle.wait_until(spec.collateral, ok=True, seconds=3.0)
    problems += [f"healthy, but {f.check}: {f.detail}" for f in unharmed if not f.ok]
    await inject_fault(episode)
    started = time.monotonic()
    if spec.answer in ("no-incident", "recovered"):
        left_alone = await episode.judge(window_s=window)
        if not left_alone.resolved:
            problems.append(f"without any action it is not healthy: {left_alone}")
        return problems, _recovery_timeout_s(started, window)
    idle = await episode.judge(window_s=0.0, symptom_timeout_s=0.0)
    if idle.resolved:
        problems.append("without any action it counts as resolved")
    transcript, started = await episode.run_commands(spec.reference), time.monotonic()
    cured = await episode.judge(window_s=window, symptom_timeout_s=5.0)
    if not cured.resolved:
        wrong = [f for f in (*cured.symptoms, *cured.cured, *cured.collateral) if not f.ok]
        detail = "; ".join(f"{f.check}: {f.detail}" for f in wrong)
        problems.append(f"the reference fix does not resolve it: {detail}\n{transcript[-1500:]}")
    return problems, _recovery_timeout_s(started, window)


def _recovery_timeout_s(started: float, window: float) -> float:
    return max(1.5, 3 * (time.monotonic() - started - window))
