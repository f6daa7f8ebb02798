"""Savings by skills are reported for models, from drills resolved with and without skills."""

from hermes.gym.benchmark import skill_savings
from hermes.gym.drill import DrillResult


def result(
    agent: str, seed: int, seconds: float, tokens: int, *, resolved: bool = True
) -> DrillResult:
    return DrillResult(
        scenario="s",
        seed=seed,
        agent=agent,
        resolved=resolved,
        seconds=seconds,
        tokens=tokens,
        model_calls=1 if tokens else 0,
        answered_by="model" if tokens else "playbook",
    )


def test_the_ratio_is_of_cases_that_were_resolved_both_times() -> None:
    found = skill_savings(
        [
            result("m", 1, 2.0, 0),
            result("m", 2, 2.0, 0),
            result("m", 3, 9.0, 500, resolved=False),
            result("m without skills", 1, 40.0, 1000),
            result("m without skills", 2, 80.0, 3000, resolved=False),
            result("m without skills", 3, 10.0, 1000),
        ]
    )
    assert [(each.cases, each.by_playbook, each.seconds, each.tokens) for each in found] == [
        (1, 1, 0.05, 0.0)
    ]


def test_a_script_is_never_quoted_as_a_speed_up() -> None:
    drills = [result("scripted:x", 1, 2.0, 0), result("scripted:x without skills", 1, 4.0, 9)]
    assert skill_savings(drills) == []


def test_without_a_pair_there_is_no_saving() -> None:
    assert skill_savings([result("m", 1, 2.0, 0)]) == []
