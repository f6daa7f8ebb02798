"""A root cause is claimed only when experiments show it in both directions."""

from collections.abc import Collection, Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.declared.experiments.root_cause import (
    ExperimentLimits,
    RootCause,
    find_root_cause,
)
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Revert, TrialResult
from hermes.declared.state import Item, ItemId, StateChange


def suspect(number: int) -> Suspect:
    item = ItemId("file", f"/etc/{number:03}.conf")
    return Suspect(change=StateChange(item, Item("old"), Item("new")))


class ScriptedTrial:
    """A host with files that fails while one of `causes` is in force: a cause is a set of
    (file, part). `broken_without`: files that must not be reverted."""

    def __init__(
        self,
        causes: Sequence[Collection[tuple[int, int]]],
        parts: int = 1,
        broken_without: Collection[int] = (),
        on_copy: bool = True,
    ) -> None:
        self._causes, self._parts = [frozenset(each) for each in causes], parts
        self._broken_without, self._on_copy = broken_without, on_copy
        self.runs = 0

    def part_lines(self, suspect: Suspect) -> tuple[int, ...]:
        return tuple(range(1, self._parts + 1))

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        self.runs += 1
        await anyio.lowlevel.checkpoint()
        gone = {
            (int(each.suspect.change.item.key[5:8]), part)
            for each in reverted
            for part in (each.parts if each.parts is not None else range(self._parts))
        }
        if any(file in self._broken_without for file, _ in gone):
            return TrialResult(outcome="unclear", detail="another check fails")
        fails = self._on_copy and any(not cause & gone for cause in self._causes)
        return TrialResult(outcome="fails" if fails else "passes")


def investigate(
    trial: ScriptedTrial, count: int, limits: ExperimentLimits | None = None
) -> RootCause:
    async def run() -> RootCause:
        return await find_root_cause([suspect(n) for n in range(count)], trial, limits=limits)

    return anyio.run(run)


def found(cause: RootCause) -> set[tuple[str, tuple[int, ...] | None]]:
    return {(each.suspect.change.item.key, each.parts) for each in cause.causes}


def test_one_change_among_fifty_is_proved_in_few_experiments() -> None:
    result = investigate(trial := ScriptedTrial([{(30, 0)}]), 50)
    assert result.status == "proved"
    assert found(result) == {("/etc/030.conf", None)}
    assert trial.runs == len(result.experiments) <= 16
    assert result.experiments[-1].purpose == "revert-only"


def test_the_most_suspicious_change_takes_four_experiments() -> None:
    assert investigate(trial := ScriptedTrial([{(0, 0)}]), 50).status == "proved"
    assert trial.runs == 4


def test_a_single_change_takes_two_experiments() -> None:
    assert investigate(trial := ScriptedTrial([{(0, 0)}]), 1).status == "proved"
    assert trial.runs == 2


def test_two_changes_that_fail_only_together_are_both_named() -> None:
    result = investigate(ScriptedTrial([{(3, 0), (17, 0)}]), 40)
    assert result.status == "proved"
    assert found(result) == {("/etc/003.conf", None), ("/etc/017.conf", None)}


def test_two_independent_causes_are_both_named() -> None:
    result = investigate(ScriptedTrial([{(3, 0)}, {(17, 0)}]), 40)
    assert result.status == "proved"
    assert found(result) == {("/etc/003.conf", None), ("/etc/017.conf", None)}


def test_only_the_guilty_part_of_a_file_is_named() -> None:
    result = investigate(ScriptedTrial([{(1, 2)}], parts=5), 3)
    assert result.status == "proved"
    assert found(result) == {("/etc/001.conf", (2,))}


def test_the_line_of_a_part_is_named() -> None:
    result = investigate(ScriptedTrial([{(1, 2)}], parts=5), 3)
    assert [each.label for each in result.causes] == ["file /etc/001.conf (line 3)"]


def test_the_revert_is_rehearsed_once_while_the_cause_is_confirmed() -> None:
    rehearsed: list[tuple[str, ...]] = []

    async def rehearse(causes: Sequence[Revert]) -> TrialResult:
        rehearsed.append(tuple(each.label for each in causes))
        return TrialResult(outcome="passes")

    async def run() -> RootCause:
        suspects = [suspect(number) for number in range(9)]
        return await find_root_cause(suspects, ScriptedTrial([{(4, 0)}]), rehearse=rehearse)

    result = anyio.run(run)
    assert result.status == "proved"
    assert rehearsed[-1:] == [("file /etc/004.conf",)]
    likely = {("file /etc/000.conf",), ("file /etc/001.conf",)}
    assert set(rehearsed[:-1]) <= likely, "the first, and the next after it passed"
    assert sorted(each.purpose for each in result.experiments[-2:]) == ["rehearse", "revert-only"]


def test_a_rehearsal_that_failed_before_spares_the_experiment_that_confirms() -> None:
    """Where the most suspicious change is the cause, it runs beside the first experiments."""

    async def rehearse(causes: Sequence[Revert]) -> TrialResult:
        return TrialResult(outcome="passes", confirms=True)

    async def run() -> RootCause:
        suspects = [suspect(number) for number in range(9)]
        return await find_root_cause(suspects, ScriptedTrial([{(0, 0)}]), rehearse=rehearse)

    result = anyio.run(run)
    assert result.status == "proved"
    assert found(result) == {("/etc/000.conf", None)}
    purposes = sorted(each.purpose for each in result.experiments)
    assert purposes == ["keep-only", "rehearse", "reproduce", "revert-all"]


@pytest.mark.parametrize(("cause", "count"), [(0, 1), (1, 2)])
def test_a_rehearsal_that_takes_longer_than_the_experiments_is_not_given_up(
    cause: int, count: int
) -> None:
    """The experiment that would confirm the cause was among the first."""
    ended: list[str] = []

    async def rehearse(causes: Sequence[Revert]) -> TrialResult:
        await anyio.wait_all_tasks_blocked()
        ended.extend(each.label for each in causes)
        return TrialResult(outcome="passes")

    async def run() -> RootCause:
        suspects = [suspect(number) for number in range(count)]
        return await find_root_cause(suspects, ScriptedTrial([{(cause, 0)}]), rehearse=rehearse)

    assert anyio.run(run).status == "proved"
    assert f"file /etc/00{cause}.conf" in ended


def test_a_rehearsal_that_does_not_pass_is_no_confirmation() -> None:
    async def rehearse(causes: Sequence[Revert]) -> TrialResult:
        return TrialResult(outcome="fails")

    async def run() -> RootCause:
        suspects = [suspect(number) for number in range(9)]
        return await find_root_cause(suspects, ScriptedTrial([{(0, 0)}]), rehearse=rehearse)

    result = anyio.run(run)
    assert result.status == "proved"
    assert result.experiments[-1].purpose == "revert-only"


@pytest.mark.parametrize(
    ("causes", "status"),
    [([{(0, 0)}], "proved"), ([{(5, 0)}], "untestable"), ([], "not-reproduced")],
)
def test_the_revert_of_a_single_change_is_rehearsed_beside_the_first_experiments(
    causes: list[set[tuple[int, int]]], status: str
) -> None:
    """One that is of no use is given up."""
    began: list[str] = []

    class WaitingTrial(ScriptedTrial):
        async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
            await rehearsing.wait()
            return await super().run(reverted, patient=patient)

    async def rehearse(causes: Sequence[Revert]) -> TrialResult:
        began.extend(each.label for each in causes)
        rehearsing.set()
        if status != "proved":
            await anyio.sleep_forever()
        return TrialResult(outcome="passes")

    async def run() -> RootCause:
        return await find_root_cause([suspect(0)], WaitingTrial(causes), rehearse=rehearse)

    rehearsing = anyio.Event()
    result = anyio.run(run)
    assert result.status == status
    assert began == ["file /etc/000.conf"]
    purposes = [each.purpose for each in result.experiments]
    assert ("rehearse" in purposes) == (status == "proved")


class SlowTrial(ScriptedTrial):
    """On its copies these sets of files, when reverted, do not give a clear result in time unless
    the trial is patient."""

    def __init__(
        self, causes: Sequence[Collection[tuple[int, int]]], slow: Collection[frozenset[int]]
    ) -> None:
        super().__init__(causes)
        self._slow = slow

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        files = frozenset(int(each.suspect.change.item.key[5:8]) for each in reverted)
        result = await super().run(reverted)
        if patient or files not in self._slow:
            return result
        return TrialResult(outcome="unclear" if result.outcome == "fails" else "fails")


@pytest.mark.parametrize("slow", [{0}, {1}, {2}, {1, 2}, {0, 1}, {0, 2}])
def test_a_slow_copy_adds_no_cause(slow: set[int]) -> None:
    result = investigate(SlowTrial([{(0, 0)}], [frozenset(slow)]), 3)
    assert result.status == "proved"
    assert found(result) == {("/etc/000.conf", None)}


class UnclearOnceTrial(ScriptedTrial):
    """On its first copy with these files reverted another check fails by chance."""

    def __init__(self, causes: Sequence[Collection[tuple[int, int]]], files: Collection[int]):
        super().__init__(causes)
        self._files: set[int] | None = set(files)

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        result = await super().run(reverted)
        if {int(each.suspect.change.item.key[5:8]) for each in reverted} != self._files:
            return result
        self._files = None
        return TrialResult(outcome="unclear", detail="another check fails")


def test_a_cause_is_confirmed_where_another_check_failed_by_chance_before() -> None:
    """Of two changes, only the cause reverted is only the other one kept."""
    result = investigate(UnclearOnceTrial([{(1, 0)}], files={1}), 2)
    assert (result.status, found(result)) == ("proved", {("/etc/001.conf", None)})


class ReadOnlyTrial(ScriptedTrial):
    """On its copies some files cannot be changed."""

    def __init__(self, causes: Sequence[Collection[tuple[int, int]]], fixed: Collection[int]):
        super().__init__(causes)
        self._fixed = fixed

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        labels = [each.suspect.label for each in reverted]
        blocked = [each for each in labels if any(f"{file:03}" in each for file in self._fixed)]
        if blocked:
            return TrialResult(outcome="unclear", detail="read-only", blocked=tuple(blocked))
        return await super().run(reverted)


def test_what_cannot_be_reverted_on_a_copy_stays_in_force_on_all() -> None:
    result = investigate(ReadOnlyTrial([{(4, 0)}], fixed=(0, 7)), 9)
    assert (result.status, found(result)) == ("proved", {("/etc/004.conf", None)})


def test_changes_are_not_ruled_out_where_some_cannot_be_reverted() -> None:
    result = investigate(ReadOnlyTrial([{(7, 0)}], fixed=(0, 7)), 9)
    assert result.status == "untestable"
    assert "except file /etc/000.conf, file /etc/007.conf, put back" in result.why


def test_no_cause_is_claimed_where_nothing_can_be_reverted() -> None:
    result = investigate(ReadOnlyTrial([{(0, 0)}], fixed=(0,)), 1)
    assert (result.status, result.why) == ("impossible", "no change can be reverted: read-only")


def test_parts_of_two_files_that_fail_only_together() -> None:
    result = investigate(ScriptedTrial([{(0, 1), (2, 3)}], parts=4), 5)
    assert found(result) == {("/etc/000.conf", (1,)), ("/etc/002.conf", (3,))}


def test_nothing_is_ruled_out_by_copies_that_never_pass() -> None:
    result = investigate(ScriptedTrial([{(99, 0)}]), 5)
    assert result.status == "untestable"
    assert "all 5 changes put back" in result.why


def test_changes_are_ruled_out_when_there_are_none() -> None:
    assert investigate(ScriptedTrial([{(99, 0)}]), 0).status == "ruled-out"


@pytest.mark.parametrize("count", [0, 5])
def test_a_fault_that_the_copy_does_not_show_is_not_reproduced(count: int) -> None:
    result = investigate(ScriptedTrial([{(0, 0)}], on_copy=False), count)
    assert result.status == "not-reproduced"
    assert not result.causes


def test_a_change_that_cannot_be_reverted_is_no_proof() -> None:
    result = investigate(ScriptedTrial([{(0, 0)}], broken_without=[0]), 1)
    assert result.status == "impossible"


def test_experiments_end_at_their_limit_without_a_claim() -> None:
    limits = ExperimentLimits(trials=4)
    result = investigate(trial := ScriptedTrial([{(400, 0)}]), 500, limits)
    assert result.status == "impossible"
    assert trial.runs <= 5


@given(
    st.lists(
        st.frozensets(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=3),
        max_size=3,
    ),
    st.frozensets(st.integers(0, 9), max_size=2),
    st.integers(0, 10),
)
def test_what_is_proved_passes_without_it_and_fails_with_it_alone(
    causes: list[frozenset[tuple[int, int]]], broken_without: frozenset[int], count: int
) -> None:
    trial = ScriptedTrial(causes, parts=3, broken_without=broken_without)
    result = investigate(trial, count)
    if result.status != "proved":
        return

    async def run_again(reverted: Sequence[Revert]) -> TrialResult:
        return await trial.run(reverted)

    assert anyio.run(run_again, result.causes).outcome == "passes"
    kept = {
        (each.suspect.key, part)
        for each in result.causes
        for part in (each.parts if each.parts is not None else range(3))
    }
    others = [
        Revert(
            suspect=suspect(n), parts=tuple(p for p in range(3) if (suspect(n).key, p) not in kept)
        )
        for n in range(count)
    ]
    assert anyio.run(run_again, [each for each in others if each.parts]).outcome == "fails"


class OtherwiseTrial(ScriptedTrial):
    """Its copies fail in another way than the host; `ways`: how, copy by copy, the last one for the
    rest."""

    def __init__(self, causes: Sequence[Collection[tuple[int, int]]], *ways: str):
        super().__init__(causes)
        self._ways = list(ways)

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        result = await super().run(reverted)
        if result.outcome != "fails":
            return result
        way = self._ways.pop(0) if self._ways[1:] else self._ways[0]
        return TrialResult(outcome="differs", differences=(way,))


OTHERWISE = "http: status 502 instead of status 404"


@pytest.mark.parametrize("count", [5, 6, 40])
def test_a_copy_that_always_fails_in_another_way_shows_the_fault(count: int) -> None:
    result = investigate(OtherwiseTrial([{(4, 0)}], OTHERWISE), count)
    assert (result.status, found(result)) == ("proved", {("/etc/004.conf", None)})
    assert result.differences == (OTHERWISE,)
    assert result.explained == (), "no check failed as on the host"


def test_a_copy_that_fails_in_another_way_each_time_shows_nothing() -> None:
    late = "http: no answer instead of status 404"
    result = investigate(OtherwiseTrial([{(4, 0)}], late, OTHERWISE, OTHERWISE), 5)
    assert (result.status, result.differences) == ("not-reproduced", ())


def test_a_copy_that_fails_in_another_way_with_all_reverted_shows_nothing() -> None:
    assert investigate(OtherwiseTrial([{(99, 0)}], OTHERWISE), 5).status == "not-reproduced"
    assert investigate(OtherwiseTrial([{(99, 0)}], OTHERWISE), 0).status == "not-reproduced"


class UncopiedTrial(ScriptedTrial):
    """A host of which no copy can be made now."""

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        return TrialResult(outcome="unclear", detail="out of memory", copied=False)


@pytest.mark.parametrize("count", [0, 3])
def test_a_host_that_cannot_be_copied_is_not_said_to_fail_in_another_way(count: int) -> None:
    found = investigate(UncopiedTrial([]), count)
    assert (found.status, found.why) == ("impossible", "no copy could be made: out of memory")
