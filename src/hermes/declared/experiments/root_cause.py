"""Finds the root cause of a fault by experiments on copies of the host.

An unchanged copy must fail as the host does, or fail in another way every time: what answers behind
a service may be missing there. With all changes reverted it must pass: otherwise the copy itself
may not be able to pass, and nothing is known. Then the smallest set of changes is
searched that is sufficient for the fault, and it is confirmed that the fault is gone when only
these are reverted. A rehearsal of the revert confirms this, too: it ends with a copy that passes
with only these reverted.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hermes.core.errors import innermost_error
from hermes.core.messages import Value
from hermes.declared.experiments.minimise import MinimalSet, minimise
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import (
    Experiment,
    Revert,
    Trial,
    TrialOutcome,
    TrialPurpose,
    TrialResult,
)

RootCauseStatus = Literal["proved", "ruled-out", "not-reproduced", "untestable", "impossible"]
"""`ruled-out`: nothing has changed. `untestable`: it fails on copies with and without changes."""
MAX_INDEPENDENT_CAUSES = 4
MAX_NAMED = 3
RecordExperiment = Callable[[Experiment], Awaitable[None]]
RehearseRevert = Callable[[Sequence[Revert]], Awaitable[TrialResult]]
"""Tries the revert on a copy in which the services run as on the host."""


class ExperimentLimits(Value, frozen=True, kw_only=True):
    trials: int = 60
    at_once: int = 2
    suspects: int = 600
    """Only the most suspicious ones are examined."""


class RootCause(Value, frozen=True, kw_only=True):
    status: RootCauseStatus
    causes: tuple[Revert, ...] = ()
    """What has to be reverted, and nothing else."""
    suspects: int = 0
    experiments: tuple[Experiment, ...] = ()
    why: str = ""
    """Why there is no proved cause."""
    differences: tuple[str, ...] = ()
    """How the copies failed where none failed as the host."""

    @property
    def explained(self) -> tuple[str, ...]:
        """The checks that failed on an unchanged copy as on the host."""
        unchanged = [each.result for each in self.experiments if each.purpose == "reproduce"]
        return unchanged[-1].failing if unchanged else ()


async def discard_experiment(experiment: Experiment) -> None:
    return None


async def find_root_cause(
    suspects: Sequence[Suspect],
    trial: Trial,
    *,
    limits: ExperimentLimits | None = None,
    record: RecordExperiment = discard_experiment,
    rehearse: RehearseRevert | None = None,
) -> RootCause:
    """`suspects`: the most suspicious first. `rehearse` runs beside the experiments that it may
    spare."""
    limits = limits or ExperimentLimits()
    try:
        async with anyio.create_task_group() as background:
            investigation = _Investigation(
                suspects[: limits.suspects], trial, limits, record, background
            )
            investigation.rehearse = rehearse
            found = await investigation.run()
            background.cancel_scope.cancel()
    except ExceptionGroup as errors:
        raise innermost_error(errors) from errors
    return found


class _Rehearsal:
    """One that runs, or has ended."""

    def __init__(self) -> None:
        self._ended, self._result = anyio.Event(), TrialResult(outcome="unclear")
        self._scope = anyio.CancelScope()

    async def run(self, rehearse: RehearseRevert, causes: Sequence[Revert]) -> TrialResult | None:
        """Return None where it was cancelled."""
        try:
            with self._scope:
                self._result = await rehearse(causes)
                return self._result
        finally:
            self._ended.set()
        return None

    async def wait(self) -> TrialResult:
        """Return an unclear result where it was cancelled."""
        await self._ended.wait()
        return self._result

    def cancel(self) -> None:
        self._scope.cancel()


class _Investigation:
    def __init__(
        self,
        suspects: Sequence[Suspect],
        trial: Trial,
        limits: ExperimentLimits,
        record: RecordExperiment,
        background: TaskGroup,
    ) -> None:
        self._suspects = tuple(suspects)
        self._trial, self._limits, self._record = trial, limits, record
        self._experiments: list[Experiment] = []
        self._results: dict[tuple[str, ...], TrialResult] = {}
        self._sure: set[tuple[str, ...]] = set()
        """Those of the results that were patiently obtained."""
        self._background, self._rehearsals = background, dict[tuple[str, ...], _Rehearsal]()
        self._left_out: tuple[str, ...] = ()
        """Labels of changes that cannot be reverted on a copy."""
        self._accepted: frozenset[str] = frozenset()
        """The differences from the host with which a copy shows the fault all the same."""
        self.rehearse: RehearseRevert | None = None

    async def run(self) -> RootCause:
        everything = [Revert(suspect=each) for each in self._suspects]
        if not everything:
            result = await self._try("reproduce", [])
            return self._without_suspects(result)
        unchanged, reverted = await self._try_both_ways(everything)
        if unchanged.outcome != "fails" and not unchanged.differences:
            return self._not_reproduced(unchanged)
        if reverted.blocked:
            everything = self._leave_out(reverted.blocked)
            if not everything:
                return self._end("impossible", f"no change can be reverted: {reverted.detail}")
            reverted = await self._try("revert-all", everything)
        if unchanged.outcome != "fails" and reverted.outcome == "passes":
            unchanged = await self._accept_differences(unchanged)
        if unchanged.outcome != "fails":
            return self._not_reproduced(unchanged)
        if reverted.outcome == "fails":
            return self._end("untestable", self._untestable_text(reverted))
        if reverted.outcome == "unclear" and len(everything) == 1:
            return self._end("impossible", f"the change cannot be reverted: {reverted.detail}")
        return await self._find_causes()

    async def _try_both_ways(self, everything: Sequence[Revert]) -> tuple[TrialResult, TrialResult]:
        """Without any revert, and with all. The search begins with the likely cases at the same
        time, and the revert of the most likely cause is rehearsed: all of this mostly waits."""
        likely = everything[: max(1, self._limits.at_once - 2)]
        self._begin_rehearsal(everything[:1])
        async with anyio.create_task_group() as group:
            group.start_soon(self._try, "reproduce", [])
            group.start_soon(self._try, "revert-all", everything)
            for each in likely if everything[1:] else ():
                group.start_soon(self._try_likely, each)
        unchanged = await self._try("reproduce", [])
        reverted = await self._try("revert-all", everything)
        shown = unchanged.outcome == "fails" or unchanged.differences
        if not shown or reverted.outcome != "passes":
            self._cancel_rehearsal(everything[:1])
        return unchanged, reverted

    async def _accept_differences(self, unchanged: TrialResult) -> TrialResult:
        """A copy that fails in another way than the host shows the fault where it passes with all
        changes reverted, and fails in that way again with more time."""
        again = await self._try("reproduce", [], patient=True)
        if again.outcome != "fails":
            self._accepted = frozenset(unchanged.differences) & frozenset(again.differences)
        return self._judged(self._results[()])

    def _judged(self, result: TrialResult) -> TrialResult:
        """A difference from the host counts as the fault only where it was accepted."""
        if result.outcome != "differs":
            return result
        accepted = not self._accepted.isdisjoint(result.differences)
        return replace(result, outcome="fails" if accepted else "unclear")

    async def _try_likely(self, kept: Revert) -> None:
        if await self._keep_only([kept]) != "fails":
            self._cancel_rehearsal([kept])

    def _begin_rehearsal(self, causes: Sequence[Revert], *, early: bool = True) -> None:
        """`early`: beside the experiments that tell whether these are the causes. Not for changes
        with several parts then, of which only one may be a cause."""
        labels = _labels(causes)
        if self.rehearse is None or not causes or labels in self._rehearsals:
            return
        if early and any(len(self._trial.part_lines(each.suspect)) > 1 for each in causes):
            return
        self._rehearsals[labels] = begun = _Rehearsal()

        async def run(rehearse: RehearseRevert) -> None:
            if result := await begun.run(rehearse, causes):
                await self._note("rehearse", labels, (), result)

        self._background.start_soon(run, self.rehearse)

    def _cancel_rehearsal(self, causes: Sequence[Revert]) -> None:
        if begun := self._rehearsals.pop(_labels(causes), None):
            begun.cancel()

    async def _finish_rehearsal(self, causes: Sequence[Revert]) -> None:
        """The revert of what is proved must be rehearsed in any case."""
        if begun := self._rehearsals.get(_labels(causes)):
            await begun.wait()

    def _leave_out(self, labels: Sequence[str]) -> list[Revert]:
        """These changes stay in force on every copy; the others are examined."""
        self._left_out = tuple(labels)
        self._suspects = tuple(each for each in self._suspects if each.label not in labels)
        return [Revert(suspect=each) for each in self._suspects]

    def _not_reproduced(self, unchanged: TrialResult) -> RootCause:
        if not unchanged.copied:
            return self._end("impossible", f"no copy could be made: {unchanged.detail}")
        return self._end("not-reproduced", _not_reproduced_text(unchanged))

    def _untestable_text(self, reverted: TrialResult) -> str:
        all_of_them = f"all {len(self._suspects)} changes" if self._suspects[1:] else "this change"
        named, more = self._left_out[:MAX_NAMED], len(self._left_out) - MAX_NAMED
        others = f" and {more} more" if more > 0 else ""
        but = f", except {', '.join(named)}{others}," if named else ""
        return (
            f"a copy with {all_of_them}{but} put back fails, too, so copies do not show whether a"
            f" change is the cause: {reverted.detail}"
        )

    def _without_suspects(self, unchanged: TrialResult) -> RootCause:
        if unchanged.outcome != "fails":
            return self._not_reproduced(unchanged)
        return self._end("ruled-out", "nothing has changed since the last known good state")

    async def _find_causes(self) -> RootCause:
        """One sufficient set after the other, until the rest does not fail any more."""
        causes: list[Revert] = []
        left = list(self._suspects)
        confirmed = TrialResult(outcome="fails")
        for _ in range(MAX_INDEPENDENT_CAUSES):
            candidates = [Revert(suspect=each) for each in left]
            self._begin_rehearsal(likely := self._first_open(candidates))
            found = await self._minimise(candidates)
            if [*found.changes] != likely:
                self._cancel_rehearsal(likely)
            if not found.minimal:
                return self._end("impossible", f"not found in {self._limits.trials} experiments")
            causes += await self._minimise_parts(found.changes)
            left = [each for each in left if all(each != one.suspect for one in causes)]
            confirmed = await self._confirm(causes)
            if confirmed.outcome != "passes":
                confirmed = await self._try("revert-only", causes, patient=True)
            if confirmed.outcome == "passes":
                needed = await self._drop_needless(causes)
                await self._finish_rehearsal(needed)
                return self._end("proved", causes=needed)
            if confirmed.outcome == "unclear" or not left:
                break
        why = "with only the changes reverted that are enough to cause it, it does not pass"
        return self._end("impossible", f"{why}: {confirmed.detail}")

    async def _minimise(self, candidates: Sequence[Revert]) -> MinimalSet[Revert]:
        """Of these, the smallest set that fails on top of the known good state."""
        if candidates and self._known_outcome(candidates[0]) == "fails":
            return MinimalSet(changes=tuple(candidates[:1]), trials=0, minimal=True)

        async def fails_with(kept: Sequence[Revert]) -> bool | None:
            return _as_failure(await self._keep_only(kept))

        return await minimise(
            candidates,
            fails_with,
            at_once=self._limits.at_once,
            max_trials=self._trials_left,
        )

    def _first_open(self, candidates: Sequence[Revert]) -> list[Revert]:
        """The most suspicious of them that is not known to be no cause alone."""
        return [each for each in candidates if self._known_outcome(each) in ("", "fails")][:1]

    def _known_outcome(self, kept: Revert) -> str:
        """Of a trial with only this in force; empty where there was none yet."""
        known = self._results.get(_labels(self._all_but([kept])))
        return self._judged(known).outcome if known is not None else ""

    async def _minimise_parts(self, changes: Sequence[Revert]) -> list[Revert]:
        """The same for the parts of these changes; as a whole where it does not help."""
        divisible = [each for each in changes if len(self._trial.part_lines(each.suspect)) > 1]
        whole = [each for each in changes if each not in divisible]
        parts = [
            self._part_of(each.suspect, number)
            for each in divisible
            for number in range(len(self._trial.part_lines(each.suspect)))
        ]
        if not parts:
            return list(changes)

        async def fails_with(kept: Sequence[Revert]) -> bool | None:
            return _as_failure(await self._keep_only([*whole, *self._join_parts(kept)]))

        found = await minimise(
            parts, fails_with, at_once=self._limits.at_once, max_trials=self._trials_left
        )
        smaller = [*whole, *self._join_parts(found.changes)]
        alone = await self._confirm(smaller)
        if alone.outcome == "passes" or not found.minimal:
            return smaller if alone.outcome == "passes" else list(changes)
        whole_change = await self._try("revert-only", list(changes))
        return list(changes) if whole_change.outcome == "passes" else smaller

    async def _drop_needless(self, causes: Sequence[Revert]) -> list[Revert]:
        """Of several causes each must matter: the fault stays when only the others are reverted, or
        is gone when only the others are in force. A copy that was slow may have said otherwise."""
        needed = list(causes)
        for each in reversed(causes):
            others = [one for one in needed if one != each]
            if others and not await self._matters(others):
                needed = others
        return needed

    async def _matters(self, others: Sequence[Revert]) -> bool:
        """Return whether a cause beside these others does."""
        without = await self._try("revert-only", others, patient=True)
        if without.outcome != "passes":
            return True
        return await self._keep_only(others, patient=True) != "fails"

    def _join_parts(self, parts: Sequence[Revert]) -> list[Revert]:
        """One for each suspect; the whole change where it has all its parts."""
        joined = []
        for suspect in {each.suspect.key: each.suspect for each in parts}.values():
            own = [each for each in parts if each.suspect.key == suspect.key]
            numbers = tuple(sorted(number for each in own for number in each.parts or ()))
            whole = len(numbers) == len(self._trial.part_lines(suspect))
            joined.append(Revert(suspect=suspect) if whole else self._part_of(suspect, *numbers))
        return joined

    def _part_of(self, suspect: Suspect, *numbers: int) -> Revert:
        lines = self._trial.part_lines(suspect)
        own = tuple(lines[number] for number in numbers)
        return Revert(suspect=suspect, parts=numbers, lines=own)

    async def _confirm(self, causes: Sequence[Revert]) -> TrialResult:
        """Test whether the checks pass with only these reverted: by a rehearsal of the revert, or
        on a copy of its own where that is sooner."""
        labels = _labels(causes)
        known = self._results.get(labels)
        # What was not clear by chance, such as when another copy was slow, may be clear now.
        is_open = known is None or self._judged(known).outcome == "unclear"
        if is_open:
            self._begin_rehearsal(causes, early=False)
        rehearsal = self._rehearsals.get(labels)
        if rehearsal is None or not is_open:
            return await self._try("revert-only", causes)
        found = list[TrialResult]()
        async with anyio.create_task_group() as group:

            async def rehearse() -> None:
                result = await rehearsal.wait()
                if result.confirms:
                    self._results[labels] = result
                    found.append(result)
                    group.cancel_scope.cancel()

            async def revert() -> None:
                found.append(await self._try("revert-only", causes, patient=known is not None))
                if found[-1].outcome != "passes":
                    rehearsal.cancel()

            group.start_soon(rehearse)
            group.start_soon(revert)
        return found[0]

    @property
    def _trials_left(self) -> int:
        return max(0, self._limits.trials - len(self._experiments))

    async def _keep_only(self, kept: Sequence[Revert], *, patient: bool = False) -> TrialOutcome:
        """All other changes, and all other parts of these, are reverted."""
        result = await self._try("keep-only", self._all_but(kept), kept, patient=patient)
        return result.outcome

    def _all_but(self, kept: Sequence[Revert]) -> list[Revert]:
        by_suspect = {each.suspect.key: each for each in kept}
        reverted = []
        for suspect in self._suspects:
            one = by_suspect.get(suspect.key)
            if one is None:
                reverted.append(Revert(suspect=suspect))
            elif one.parts is not None:
                numbers = range(len(self._trial.part_lines(suspect)))
                others = [each for each in numbers if each not in one.parts]
                reverted += [self._part_of(suspect, *others)] if others else []
        return reverted

    async def _try(
        self,
        purpose: TrialPurpose,
        reverted: Sequence[Revert],
        kept: Sequence[Revert] = (),
        *,
        patient: bool = False,
    ) -> TrialResult:
        """Each set of reverted changes is tried once; if it did not pass, once more patiently."""
        labels = _labels(reverted)
        known = self._results.get(labels)
        if known is not None and (known.outcome == "passes" or not patient or labels in self._sure):
            return self._judged(known)
        result = await self._trial.run(reverted, patient=patient)
        if patient:
            self._sure.add(labels)
        self._results[labels] = result
        await self._note(purpose, labels, [each.label for each in kept], result)
        return self._judged(result)

    async def _note(
        self,
        purpose: TrialPurpose,
        reverted: tuple[str, ...],
        kept: Sequence[str],
        result: TrialResult,
    ) -> None:
        number = len(self._experiments) + 1
        experiment = Experiment(
            number=number, purpose=purpose, reverted=reverted, kept=tuple(kept), result=result
        )
        self._experiments.append(experiment)
        await self._record(experiment)

    def _end(
        self, status: RootCauseStatus, why: str = "", causes: Sequence[Revert] = ()
    ) -> RootCause:
        return RootCause(
            status=status,
            causes=tuple(causes),
            suspects=len(self._suspects),
            experiments=tuple(self._experiments),
            why=why,
            differences=tuple(sorted(self._accepted)),
        )


def _labels(reverted: Sequence[Revert]) -> tuple[str, ...]:
    return tuple(sorted(each.label for each in reverted))


def _as_failure(outcome: TrialOutcome) -> bool | None:
    return None if outcome == "unclear" else outcome == "fails"


def _not_reproduced_text(result: TrialResult) -> str:
    what = "the checks pass" if result.outcome == "passes" else "it fails in another way"
    return f"in an unchanged copy of the host {what}: {result.detail}"
