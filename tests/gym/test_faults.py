"""Several faults at once, and what only looks like one: what a diagnosis of them is worth."""

from pathlib import Path

import pytest

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.tool_calls import RecordedCall
from hermes.gym.episodes.baseline_responders import true_diagnosis
from hermes.gym.episodes.readiness import GymReadiness, missing_requirements, needs_several_users
from hermes.gym.random_source import RandomSource
from hermes.gym.reward import DiagnosisScore, score_diagnosis
from hermes.gym.scenario import SEVERAL_USERS, find_scenario, installed_scenarios
from hermes.gym.scenario_spec import FaultDescription, ScenarioAlert, ScenarioSpec
from hermes.gym.scenarios.combine import add_decoy, combine_faults, draw_scenario
from hermes.gym.services.postgres import find_installation

LINES = [f"{{name}} is not needed any more ({number})" for number in range(8)]


def judged(
    spec: ScenarioSpec, answer: dict[str, str], *, shown: tuple[FaultDescription, ...]
) -> DiagnosisScore:
    """With one command that showed those faults."""
    output = "\n".join(fault.component[0] for fault in shown)
    call = RecordedCall(
        request=ToolRequested(run="r", call=ToolCall("1", "terminal", {"command": "look"})),
        requested_seq=1,
        finish=ToolFinished(run="r", result=ToolResult(call_id="1", content=output)),
        finished_seq=2,
    )
    diagnosis = IncidentDiagnosed(run="r", incident="i", verdict="fix", evidence=(2,), **answer)
    return score_diagnosis(diagnosis, spec, [call])


def two_faults() -> ScenarioSpec:
    rng = RandomSource(3, "pair")
    first = draw_scenario("needs-approval", rng)
    second = draw_scenario("hostile-log-line", rng, beside=first)
    return combine_faults(first, second, ScenarioAlert(title="both", text="both"))


def test_a_joined_story_keeps_the_record_of_each_fault() -> None:
    both = two_faults()
    assert len(both.faults) == 2
    assert both.faults[0] != both.faults[1]
    assert len(find_scenario("two-faults-at-once").draw_spec(1).faults) == 2


def test_naming_one_of_two_faults_is_worth_half_and_both_the_whole() -> None:
    both = two_faults()
    whole = judged(both, true_diagnosis(both), shown=both.faults)
    assert whole.share == pytest.approx(1.0)
    assert whole.grounded
    one = both.fault
    answer = {"component": one.component[0], "mechanism": one.mechanism[0]}
    answer |= {"value": one.value[0] if one.value else ""}
    half = judged(both, answer, shown=both.faults)
    assert 0.3 <= half.share <= 0.7
    assert not half.grounded


def test_a_diagnosis_that_names_the_decoy_is_wrong() -> None:
    spec = add_decoy(draw_scenario("needs-approval", RandomSource(4)), RandomSource(4), LINES)
    right = true_diagnosis(spec)
    assert judged(spec, right, shown=spec.faults).component
    both = right | {"component": f"{right['component']} {spec.decoys[0].component[0]}"}
    assert not judged(spec, both, shown=spec.faults).component


@pytest.mark.parametrize("name", sorted(installed_scenarios()))
def test_a_scenario_with_several_users_says_so(name: str) -> None:
    scenario = find_scenario(name)
    hosts = scenario.draw_spec(2).hosts
    owned = any(
        getattr(each, "owner", 0) for host in hosts for each in (*host.files, *host.folders)
    )
    owned = owned or any("\nUser=" in unit.text for host in hosts for unit in host.units)
    assert owned == (SEVERAL_USERS in scenario.needs)


def test_scenarios_that_need_more_users_are_reported_to_an_ordinary_user() -> None:
    alone = GymReadiness(boxes=True, single_user=True)
    assert needs_several_users(find_scenario("ownership-drift"))
    assert find_scenario("ownership-drift").light
    assert "user number" in missing_requirements(find_scenario("ownership-drift"), alone)[0]
    assert missing_requirements(find_scenario("scaled-to-zero"), alone) == ()


def program(path: Path, says: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)


@pytest.mark.parametrize("versions", [(13,), (14, 15), (13, 16, 9), (17, 16)])
def test_the_newest_postgresql_in_debians_layout_is_found(
    tmp_path: Path, versions: tuple[int, ...]
) -> None:
    for version in versions:
        for tool in ("postgres", "initdb"):
            program(tmp_path / str(version) / "bin" / tool)
    (tmp_path / "18" / "bin").mkdir(parents=True)  # a client alone is no server
    found = find_installation(path=str(tmp_path / "none"), debian=tmp_path)
    assert found is not None
    assert found.version == max(versions)
    assert found.bin == str(tmp_path / str(max(versions)) / "bin")
    assert found.conf == f"/etc/postgresql/{max(versions)}/main"


def test_a_postgresql_on_the_path_is_asked_for_its_version(tmp_path: Path) -> None:
    for tool in ("postgres", "initdb"):
        program(tmp_path / "sbin" / tool, "postgres (PostgreSQL) 16.4 (Own 16.4-1)")
    found = find_installation(path=str(tmp_path / "sbin"), debian=tmp_path)
    assert found is not None
    assert (found.version, found.bin) == (16, str(tmp_path / "sbin"))
    assert find_installation(path=str(tmp_path / "none"), debian=tmp_path) is None
