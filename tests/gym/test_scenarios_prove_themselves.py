"""Every scenario that is installed keeps the rules that make it worth anything."""

import os

import anyio
import pytest

from hermes.environments.confinement import probe
from hermes.gym.readiness import Readiness, lacking, listed, readiness
from hermes.gym.scenario import Scenario, known, load_scenario
from hermes.gym.selftest import Proof, prove, prove_all

pytestmark = pytest.mark.skipif(bool(probe.hopeless()), reason=str(probe.hopeless()))
SEEDS = (0,)
JOBS = max(4, 3 * (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def here() -> Readiness:
    return readiness()


@pytest.fixture(scope="module")
def proofs(here: Readiness) -> dict[str, list[Proof]]:
    """All of them side by side: most of the time they wait for services to come up. One whose
    folder is broken fails a test of its own."""
    playable = [each.name for each in listed(here=here) if not each.broken and not each.missing]

    async def work() -> list[Proof]:
        chosen = [load_scenario(known()[name]) for name in playable]
        return await prove_all(chosen, SEEDS, jobs=JOBS)

    found: dict[str, list[Proof]] = {}
    for proof in anyio.run(work):
        found.setdefault(proof.scenario, []).append(proof)
    return found


@pytest.mark.parametrize("name", known())
def test_a_scenario_proves_itself(
    name: str, here: Readiness, proofs: dict[str, list[Proof]]
) -> None:
    missing = lacking(load_scenario(known()[name]), here)
    if missing:
        pytest.skip(f"{name}: {'; '.join(missing)}")
    for proof in proofs[name]:
        assert proof.ok, f"seed {proof.seed}: {proof.void or proof.problems}"


@pytest.mark.parametrize("name", known())
def test_its_alert_does_not_give_the_answer_away(name: str) -> None:
    for seed in range(5):
        story = load_scenario(known()[name]).story(seed)
        alert = f"{story.alert.title} {story.alert.text}".lower()
        told = [value for value in story.fault.value if len(value) > 3 and value.lower() in alert]
        services = [value for pair in story.alert.labels.items() for value in pair]
        assert not [value for value in told if value not in services], (seed, alert)


@pytest.mark.parametrize("name", known())
def test_a_seed_is_drawn_the_same_again_and_another_one_differs(name: str) -> None:
    scenario = load_scenario(known()[name])
    assert scenario.story(3) == scenario.story(3)
    assert scenario.story(3).hosts != scenario.story(4).hosts


@pytest.mark.anyio
async def test_a_scenario_that_breaks_a_rule_is_told_which() -> None:
    real = load_scenario(known()["config-typo-after-edit"])
    story = real.story(1)
    fields = {name: getattr(story, name) for name in story.__struct_fields__}
    unmended = type(story)(**{**fields, "reference": ("true",), "relief": (), "shortcut": ()})
    proof = await prove(
        Scenario(name="wrong", group="process", summary="", draw=lambda dice: unmended), 0
    )
    assert not proof.ok
    assert "the reference fix does not resolve it" in proof.problems[0]


@pytest.mark.anyio
async def test_code_that_fails_is_a_finding_and_not_a_crash() -> None:
    def draw(dice: object) -> None:
        raise ValueError("no such wording")

    scenario = Scenario(name="wrong", group="process", summary="", draw=draw)  # type: ignore[arg-type]
    proof = await prove(scenario, 0)
    assert proof.problems == ("wrong: its code failed: ValueError: no such wording",)
