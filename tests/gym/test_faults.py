"""Several faults at once, and what only looks like one: what a diagnosis of them is worth."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.gym.agents import diagnosis
from hermes.gym.dice import Dice
from hermes.gym.parts.compose import drawn, joined, with_decoy
from hermes.gym.parts.pg_found import server
from hermes.gym.readiness import Readiness, lacking, several_users
from hermes.gym.reward_diagnosis import Named, judge_diagnosis
from hermes.gym.scenario import SEVERAL_USERS, find, known
from hermes.gym.story import Alert, Fault, Story
from hermes.gym.tally import Deed

LINES = [f"{{name}} is not needed any more ({number})" for number in range(8)]


def judged(story: Story, said: dict[str, str], *, shown: tuple[Fault, ...]) -> Named:
    """With one command that showed those faults."""
    output = "\n".join(fault.component[0] for fault in shown)
    deed = Deed(
        call_id="1", tool="terminal", command="look", asked=1, finished=2,
        at=datetime.now(UTC), output=output, ok=True,
    )  # fmt: skip
    told = IncidentDiagnosed(run="r", incident="i", verdict="fix", evidence=(2,), **said)
    return judge_diagnosis(told, story, [deed])


def two_faults() -> Story:
    dice = Dice(3, "pair")
    first = drawn("needs-approval", dice)
    second = drawn("hostile-log-line", dice, beside=first)
    return joined(first, second, Alert(title="both", text="both"))


def test_a_joined_story_keeps_the_record_of_each_fault() -> None:
    both = two_faults()
    assert len(both.faults) == 2
    assert both.faults[0] != both.faults[1]
    assert len(find("two-faults-at-once").story(1).faults) == 2


def test_naming_one_of_two_faults_is_worth_half_and_both_the_whole() -> None:
    both = two_faults()
    whole = judged(both, diagnosis(both), shown=both.faults)
    assert whole.share == pytest.approx(1.0)
    assert whole.grounded
    one = both.fault
    said = {"component": one.component[0], "mechanism": one.mechanism[0]}
    said |= {"value": one.value[0] if one.value else ""}
    half = judged(both, said, shown=both.faults)
    assert 0.3 <= half.share <= 0.7
    assert not half.grounded


def test_whoever_names_the_decoy_has_not_found_the_component() -> None:
    story = with_decoy(drawn("needs-approval", Dice(4)), Dice(4), LINES)
    right = diagnosis(story)
    assert judged(story, right, shown=story.faults).component
    both = right | {"component": f"{right['component']} {story.decoys[0].component[0]}"}
    assert not judged(story, both, shown=story.faults).component


@pytest.mark.parametrize("name", sorted(known()))
def test_a_scenario_with_several_users_says_so(name: str) -> None:
    scenario = find(name)
    hosts = scenario.story(2).hosts
    owned = any(
        getattr(each, "owner", 0) for host in hosts for each in (*host.files, *host.folders)
    )
    owned = owned or any("\nUser=" in unit.text for host in hosts for unit in host.units)
    assert owned == (SEVERAL_USERS in scenario.needs)


def test_an_ordinary_user_is_told_which_scenarios_need_more_users() -> None:
    alone = Readiness(boxes=True, single_user=True)
    assert several_users(find("ownership-drift"))
    assert find("ownership-drift").light
    assert "user number" in lacking(find("ownership-drift"), alone)[0]
    assert lacking(find("scaled-to-zero"), alone) == ()


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
    found = server(path=str(tmp_path / "none"), debian=tmp_path)
    assert found is not None
    assert found.version == max(versions)
    assert found.bin == str(tmp_path / str(max(versions)) / "bin")
    assert found.conf == f"/etc/postgresql/{max(versions)}/main"


def test_a_postgresql_on_the_path_is_asked_for_its_version(tmp_path: Path) -> None:
    for tool in ("postgres", "initdb"):
        program(tmp_path / "sbin" / tool, "postgres (PostgreSQL) 16.4 (Own 16.4-1)")
    found = server(path=str(tmp_path / "sbin"), debian=tmp_path)
    assert found is not None
    assert (found.version, found.bin) == (16, str(tmp_path / "sbin"))
    assert server(path=str(tmp_path / "none"), debian=tmp_path) is None
