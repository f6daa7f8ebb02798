"""Promotion is arithmetic: what passes, what does not, and that the same evidence says the same."""

import pytest

from hermes.skills.lifecycle.evaluation import (
    EvaluationCriteria,
    ReplayCase,
    ReplayCaseKind,
    ReplayPair,
    ReplayResult,
    build_measured_event,
    evaluate_pairs,
    median_upper_bound,
    run_replay_pairs,
)


def pair(
    number: int,
    with_: float | None,
    without: float | None,
    *,
    kind: ReplayCaseKind = "variant",
    harm: tuple[str, ...] = (),
    turns: tuple[int, int] = (0, 0),
) -> ReplayPair:
    """Seconds; None: not solved."""
    return ReplayPair(
        case=ReplayCase(name="disk-full", seed=number, kind=kind),
        using=ReplayResult(
            solved=with_ is not None, seconds=with_ or 0.1, harm=harm, turns=turns[0]
        ),
        without=ReplayResult(solved=without is not None, seconds=without or 0.1, turns=turns[1]),
    )


def test_faster_on_two_variants_and_no_harm_passes() -> None:
    found = evaluate_pairs([pair(1, 1, 10), pair(2, 2, 10), pair(3, None, None, kind="unrelated")])
    assert found.passed, found.reasons
    assert (found.solved_with, found.solved_without, found.variants) == (2, 2, 2)
    assert found.best is not None
    assert found.best.ratio == pytest.approx(0.15)
    assert found.best.upper < 1.0


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "0 variants"),
        ([pair(1, 1, 10)], "1 variants"),
        ([pair(1, 1, 10), pair(1, 1, 10)], "1 variants"),
        ([pair(1, None, 10), pair(2, 1, 10)], "solves 1 of 2"),
        ([pair(1, None, None), pair(2, None, None)], "none of the variants"),
        ([pair(1, 9.5, 10), pair(2, 9.5, 10)], "no gain"),
        ([pair(1, 1, 10), pair(2, 30, 10), pair(3, 8, 10)], "no gain"),
        ([pair(1, 1, 10), pair(2, 1, 10, harm=("its data: changed",))], "its data"),
        (
            [pair(1, 1, 10), pair(2, 1, 10), pair(3, None, 5, kind="look-alike")],
            "solved without it",
        ),
        (
            [pair(1, 1, 10), pair(2, 1, 10), pair(3, 5, 5, kind="unrelated", harm=("x: gone",))],
            "x: gone",
        ),
    ],
)
def test_anything_less_does_not_pass_and_says_why(pairs: list[ReplayPair], why: str) -> None:
    found = evaluate_pairs(pairs)
    assert not found.passed
    assert why in " ".join(found.reasons)


def test_fewer_turns_will_do_when_time_does_not_tell() -> None:
    pairs = [pair(n, 10, 10, turns=(1, 8)) for n in range(4)]
    found = evaluate_pairs(pairs)
    assert found.passed, found.reasons
    assert found.best is not None and found.best.name == "turns"


def test_a_skill_that_solves_what_nobody_could_need_not_be_faster() -> None:
    assert evaluate_pairs([pair(1, 5, None), pair(2, 5, None)]).passed


def test_harm_that_was_there_without_it_is_not_its_own() -> None:
    both = ReplayPair(
        case=ReplayCase(name="x", seed=3, kind="unrelated"),
        using=ReplayResult(solved=False, harm=("data: lost 2 files",)),
        without=ReplayResult(solved=False, harm=("data: lost",)),
    )
    assert evaluate_pairs([pair(1, 1, 10), pair(2, 1, 10), both]).passed


def test_the_bound_is_above_the_median_and_the_same_each_time() -> None:
    ratios = [0.2, 0.5, 0.6, 0.7, 1.4]
    assert 0.6 <= median_upper_bound(ratios) <= 1.4
    assert median_upper_bound(ratios) == median_upper_bound(ratios)
    assert median_upper_bound([0.5, 0.5]) == 0.5
    assert median_upper_bound([0.5] * 30 + [2.0]) == 0.5


def test_the_operator_may_ask_for_more() -> None:
    pairs = [pair(1, 1, 10), pair(2, 1, 10)]
    assert not evaluate_pairs(pairs, EvaluationCriteria(variants=3)).passed
    assert not evaluate_pairs(pairs, EvaluationCriteria(faster=0.05)).passed


def test_what_is_written_down_holds_the_figures() -> None:
    pairs = [pair(1, 1, 10), pair(2, 2, 10)]
    event = build_measured_event("s", "d" * 64, evaluate_pairs(pairs), pairs, run="gate")
    assert (event.passed, event.measure, event.ratio) == (True, "seconds", 0.15)
    assert event.cases == ("variant disk-full #1", "variant disk-full #2")


@pytest.mark.anyio
async def test_each_case_is_played_with_and_without() -> None:
    played: list[tuple[int, bool]] = []

    async def replay(case: ReplayCase, using: bool) -> ReplayResult:
        played.append((case.seed, using))
        return ReplayResult(solved=True, seconds=1.0)

    await run_replay_pairs([ReplayCase(name="x", seed=1), ReplayCase(name="x", seed=2)], replay)
    assert sorted(played) == [(1, False), (1, True), (2, False), (2, True)]
