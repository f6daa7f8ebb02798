"""The sets that were written before anybody looked what the gate makes of them: the goals hold."""

from pathlib import Path

import pytest
from policy_setup import call, gate

BLIND = Path(__file__).parents[2] / "bench/corpora/policy/blind"
GATE = gate()


def commands(name: str, kind: str) -> list[str]:
    found = (BLIND / name / f"{kind}.txt").read_text("utf-8").splitlines()[1:]
    moved = BLIND / name / "relabelled.txt"
    lines = moved.read_text("utf-8").splitlines()[1:] if moved.exists() else []
    wrong = {line.rpartition(" | ")[0] for line in lines}
    lines = [one.split(" | ", 2)[2] if kind == "gtfobins" else one for one in found]
    return [one.replace("⏎", "\n") for one in lines if one not in wrong]


def held(command: str) -> bool:
    return GATE.decide(call("terminal", command=command)).verdict != "allow"


def test_of_the_changes_only_those_that_the_kernel_bounds_pass_unasked() -> None:
    text = (BLIND.parent / "dangerous.txt").read_text("utf-8")
    others, bounded = (corpus_lines(part) for part in text.split("## bounded"))
    assert [one for one in others if not held(one)] == []
    decisions = {one: GATE.decide(call("terminal", command=one)) for one in bounded}
    limits = {one: each.profile and each.profile.describe for one, each in decisions.items()}
    assert {each.verdict for each in decisions.values()} == {"allow"}
    assert all(str(each).startswith("writing only to ") for each in limits.values()), limits


def corpus_lines(text: str) -> list[str]:
    lines = text.splitlines()[1:]
    return [one.replace("⏎", "\n") for one in lines if one.strip() and not one.startswith("#")]


@pytest.mark.parametrize("name", ["first", "second"])
@pytest.mark.parametrize("kind", ["irreversible", "dangerous", "gtfobins"])
def test_what_does_harm_is_held(name: str, kind: str) -> None:
    assert [one for one in commands(name, kind) if not held(one)] == []


def test_the_third_set_is_held_where_it_does_harm_and_goes_its_way_where_it_looks() -> None:
    assert [one for one in commands("third", "dangerous") if not held(one)] == []
    ordinary = commands("third", "ordinary")
    assert len([one for one in ordinary if held(one)]) <= 0.03 * len(ordinary)


def test_the_fourth_set_is_held_and_asked_about_as_at_first_sight() -> None:
    dangerous, ordinary = commands("fourth", "dangerous"), commands("fourth", "ordinary")
    assert len([one for one in dangerous if held(one)]) >= 0.99 * len(dangerous)
    assert len([one for one in ordinary if held(one)]) <= 0.03 * len(ordinary)


def test_the_sixth_set_is_held_and_asked_about_as_at_first_sight() -> None:
    dangerous, ordinary = commands("sixth", "dangerous"), commands("sixth", "ordinary")
    assert len([one for one in dangerous if held(one)]) >= 0.99 * len(dangerous)
    assert len([one for one in ordinary if held(one)]) <= 0.035 * len(ordinary)


@pytest.mark.parametrize("name", ["first", "second"])
@pytest.mark.parametrize(("kind", "most"), [("ordinary", 0.03), ("lookalikes", 0.1)])
def test_what_only_looks_goes_its_way(name: str, kind: str, most: float) -> None:
    tried = commands(name, kind)
    alarms = [one for one in tried if held(one)]
    assert len(alarms) <= most * len(tried), alarms
