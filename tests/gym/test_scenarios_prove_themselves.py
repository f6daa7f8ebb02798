"""Every scenario that is installed keeps the rules that make it worth anything."""

import os

import anyio
import msgspec
import pytest

from hermes.environments.boxes.local_backend import open_forkserver
from hermes.environments.sandboxing import support
from hermes.gym.episodes.readiness import (
    GymReadiness,
    check_readiness,
    list_scenarios,
    missing_requirements,
)
from hermes.gym.episodes.self_test import ScenarioProof, prove_scenario, prove_scenarios
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, installed_scenarios, load_scenario
from hermes.gym.scenario_spec import ScenarioSpec

pytestmark = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
SEEDS = (0,)
JOBS = max(4, 3 * (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def here() -> GymReadiness:
    return check_readiness()


@pytest.fixture(scope="module")
def proofs(here: GymReadiness) -> dict[str, list[ScenarioProof]]:
    """All of them side by side: most of the time they wait for services to come up. One whose
    folder is broken fails a test of its own."""
    playable = [
        each.name for each in list_scenarios(here=here) if not each.broken and not each.missing
    ]

    async def work() -> list[ScenarioProof]:
        chosen = [load_scenario(installed_scenarios()[name]) for name in playable]
        async with open_forkserver() as opener:
            return await prove_scenarios(chosen, SEEDS, jobs=JOBS, opener=opener)

    found: dict[str, list[ScenarioProof]] = {}
    for proof in anyio.run(work):
        found.setdefault(proof.scenario, []).append(proof)
    return found


@pytest.mark.parametrize("name", installed_scenarios())
def test_a_scenario_proves_itself(
    name: str, here: GymReadiness, proofs: dict[str, list[ScenarioProof]]
) -> None:
    missing = missing_requirements(load_scenario(installed_scenarios()[name]), here)
    if missing:
        pytest.skip(f"{name}: {'; '.join(missing)}")
    for proof in proofs[name]:
        assert proof.ok, f"seed {proof.seed}: {proof.void or proof.problems}"


@pytest.mark.parametrize("name", installed_scenarios())
def test_its_alert_does_not_give_the_answer_away(name: str) -> None:
    scenario = load_scenario(installed_scenarios()[name])
    for seed in range(5):
        spec = scenario.draw_spec(seed)
        alert = f"{spec.alert.title} {spec.alert.text}".lower()
        told = [value for value in spec.fault.value if len(value) > 3 and value.lower() in alert]
        services = [value for pair in spec.alert.labels.items() for value in pair]
        assert not [value for value in told if value not in services], (seed, alert)


@pytest.mark.parametrize("name", installed_scenarios())
def test_a_seed_is_drawn_the_same_again_and_another_one_differs(name: str) -> None:
    scenario = load_scenario(installed_scenarios()[name])
    assert scenario.draw_spec(3) == scenario.draw_spec(3)
    assert scenario.draw_spec(3).hosts != scenario.draw_spec(4).hosts


@pytest.mark.anyio
async def test_the_problem_of_an_unfair_scenario_is_reported() -> None:
    real = load_scenario(installed_scenarios()["config-typo-after-edit"])
    spec = real.draw_spec(1)
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__}
    unfixed = type(spec)(**{**fields, "reference": ("true",), "relief": (), "shortcut": ()})
    proof = await prove_scenario(
        Scenario(name="wrong", group="process", summary="", draw=lambda rng: unfixed), 0
    )
    assert not proof.ok
    assert "the reference fix does not resolve it" in proof.problems[0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("relief", "the relief relieves nothing: "),
        ("shortcut", "the shortcut damages nothing that a check sees"),
    ],
)
async def test_commands_without_the_effect_that_they_stand_for_are_reported(
    part: str, problem: str
) -> None:
    real = load_scenario(installed_scenarios()["config-typo-after-edit"])
    spec = msgspec.structs.replace(real.draw_spec(1), relief=(), shortcut=(), futile=())
    idle = msgspec.structs.replace(spec, **{part: ("true",)})
    proof = await prove_scenario(
        Scenario(name="idle", group="process", summary="", draw=lambda rng: idle), 0
    )
    assert [each.startswith(problem) for each in proof.problems] == [True]


@pytest.mark.anyio
async def test_an_error_in_a_held_out_wording_is_found_and_every_second_seed_plays_them() -> None:
    real = load_scenario(installed_scenarios()["config-typo-after-edit"])
    wordings = [*["good"] * 7, "{unknown}"]

    def draw(rng: RandomSource) -> ScenarioSpec:
        rng.wording(wordings).format()
        return real.draw_spec(0)

    wrong = Scenario(name="wrong", group="process", summary="", draw=draw)
    proof = await prove_scenario(wrong, 0)
    assert "KeyError" in " ".join(proof.problems)

    def draw_well(rng: RandomSource) -> ScenarioSpec:
        rng.wording([*"abcdefgh"])
        return msgspec.structs.replace(real.draw_spec(0), relief=(), shortcut=())

    well = Scenario(name="well", group="process", summary="", draw=draw_well)
    proofs = await prove_scenarios([well], (0, 1))
    assert [(each.split, each.ok) for each in proofs] == [("train", True), ("held-out", True)]


@pytest.mark.anyio
async def test_code_that_fails_is_a_finding_and_not_a_crash() -> None:
    def draw(rng: object) -> None:
        raise ValueError("no such wording")

    scenario = Scenario(name="wrong", group="process", summary="", draw=draw)  # type: ignore[arg-type]
    proof = await prove_scenario(scenario, 0)
    assert proof.problems == ("wrong: its code failed: ValueError: no such wording",)
