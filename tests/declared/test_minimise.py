"""A minimal set of changes is found for every kind of fault, in few trials."""

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.declared.experiments.minimise import MinimalSet, minimise


def search(
    count: int,
    causes: Sequence[frozenset[int]],
    *,
    unclear: frozenset[int] = frozenset(),
    at_once: int = 2,
    max_trials: int = 10_000,
) -> tuple[MinimalSet[int], list[tuple[int, ...]]]:
    """Changes 0 to `count` - 1; each of `causes` is enough to fail. `unclear`: numbers of trials
    that give no answer."""
    tried: list[tuple[int, ...]] = []

    async def fails_with(kept: Sequence[int]) -> bool | None:
        number = len(tried)
        tried.append(tuple(kept))
        await anyio.lowlevel.checkpoint()
        return None if number in unclear else any(cause <= set(kept) for cause in causes)

    async def run() -> MinimalSet[int]:
        return await minimise(range(count), fails_with, at_once=at_once, max_trials=max_trials)

    return anyio.run(run), tried


@st.composite
def faults(draw: st.DrawFn) -> tuple[int, list[frozenset[int]]]:
    count = draw(st.integers(1, 60))
    cause = st.frozensets(st.integers(0, count - 1), min_size=1, max_size=4)
    return count, draw(st.lists(cause, min_size=1, max_size=3))


@given(faults(), st.integers(1, 4))
def test_the_result_is_one_of_the_smallest_causes(
    fault: tuple[int, list[frozenset[int]]], at_once: int
) -> None:
    count, causes = fault
    found, _ = search(count, causes, at_once=at_once)
    smallest = [each for each in causes if not any(other < each for other in causes)]
    assert frozenset(found.changes) in smallest
    assert found.minimal


@given(faults(), st.frozensets(st.integers(0, 30)))
def test_the_result_always_fails_also_when_trials_give_no_answer(
    fault: tuple[int, list[frozenset[int]]], unclear: frozenset[int]
) -> None:
    count, causes = fault
    found, _ = search(count, causes, unclear=unclear)
    assert any(cause <= set(found.changes) for cause in causes)


@given(faults(), st.integers(0, 12))
def test_the_number_of_trials_is_bounded_and_the_result_still_fails(
    fault: tuple[int, list[frozenset[int]]], most: int
) -> None:
    count, causes = fault
    found, tried = search(count, causes, max_trials=most)
    assert len(tried) == found.trials <= most
    assert any(cause <= set(found.changes) for cause in causes)


@given(faults(), st.integers(1, 4))
def test_the_same_trials_in_the_same_order_every_time(
    fault: tuple[int, list[frozenset[int]]], at_once: int
) -> None:
    count, causes = fault
    assert search(count, causes, at_once=at_once) == search(count, causes, at_once=at_once)


@given(faults())
def test_no_set_is_tried_twice(fault: tuple[int, list[frozenset[int]]]) -> None:
    _, tried = search(*fault)
    assert len(tried) == len(set(tried))


@given(st.integers(2, 500), st.data())
def test_one_cause_takes_a_logarithmic_number_of_trials(count: int, data: st.DataObject) -> None:
    cause = data.draw(st.integers(0, count - 1))
    found, _ = search(count, [frozenset({cause})])
    assert found.changes == (cause,)
    likely = 2  # tried one by one before the search in groups
    assert found.trials <= 2 * count.bit_length() + 2 + likely


@pytest.mark.parametrize("count", [1, 2, 50, 500])
def test_the_most_suspicious_change_is_tried_first(count: int) -> None:
    found, tried = search(count, [frozenset({0})])
    assert found.changes == (0,)
    assert len(tried) <= 2


def test_two_changes_that_fail_only_together_are_both_found() -> None:
    found, _ = search(50, [frozenset({3, 41})])
    assert found.changes == (3, 41)
    assert found.minimal


def test_a_fault_that_returns_with_fewer_changes_is_still_minimal() -> None:
    """Not monotone: 2 alone fails, 2 with 1 passes, and 0, 1 and 2 fail."""
    failing = {(2,), (0, 2), (0, 1, 2)}

    async def fails_with(kept: Sequence[int]) -> bool:
        return tuple(kept) in failing

    async def run() -> MinimalSet[int]:
        return await minimise(range(3), fails_with)

    assert anyio.run(run).changes == (2,)
