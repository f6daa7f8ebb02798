"""Finds a minimal set of changes that still causes a fault, by delta debugging.

The changes come in an order, the most suspicious first. Most faults have one cause: first the most
suspicious changes are tried one by one, then groups of the others, each without the rest. Where no
group fails alone, several changes fail only together: the search looks for the shortest beginning
of the order that fails, keeps its last change, and repeats with the changes before it. Both take
about log2(n) trials for each change of the result. Trials run several at a time. The order of
trials, and so the result, does not depend on which of them ends first.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import anyio
import msgspec

ChangeT = TypeVar("ChangeT")
FailsWith = Callable[[Sequence[ChangeT]], Awaitable[bool | None]]
"""Whether the fault is there with only these changes in force; None: it could not be tried, or
something else fails."""


class TrialsUsedUpError(Exception):
    """The permitted number of trials was reached."""


class MinimalSet(msgspec.Struct, Generic[ChangeT], frozen=True, kw_only=True):
    changes: tuple[ChangeT, ...]
    """In the order in which they were given."""
    trials: int
    minimal: bool
    """Without any one of them the fault is not there; false when the trials were used up."""


async def minimise(
    changes: Sequence[ChangeT],
    fails_with: FailsWith[ChangeT],
    *,
    at_once: int = 2,
    max_trials: int = 40,
) -> MinimalSet[ChangeT]:
    """`changes`: all of them together fail, and the fault is not there without any."""
    search = _Search(changes, fails_with, max(1, at_once), max_trials)
    return await search.run()


class _Search(Generic[ChangeT]):
    """Changes are numbered; a set of numbers is tried at most once."""

    def __init__(
        self,
        changes: Sequence[ChangeT],
        fails_with: FailsWith[ChangeT],
        at_once: int,
        max_trials: int,
    ) -> None:
        self._changes, self._fails_with = changes, fails_with
        self._at_once, self._max_trials = at_once, max_trials
        self._smallest = frozenset(range(len(changes)))
        self._known: dict[frozenset[int], bool] = {frozenset(): False, self._smallest: True}
        self._trials = 0

    async def run(self) -> MinimalSet[ChangeT]:
        minimal = True
        try:
            await self._narrow()
            await self._shorten()
            await self._remove_needless()
        except TrialsUsedUpError:
            minimal = False
        found = tuple(self._changes[number] for number in sorted(self._smallest))
        return MinimalSet(changes=found, trials=self._trials, minimal=minimal)

    async def _narrow(self) -> None:
        """To a single change that fails alone, if there is one."""
        groups, assumed = self._first_groups(sorted(self._smallest)), False
        while len(groups) > 1:
            # If no other fails it is the last group, unless several changes fail only together.
            tried = groups if len(groups) <= self._at_once else groups[:-1]
            failing = await self._failing_group(tried)
            if failing is None:
                failing = groups[-1]
                must_try = assumed or len(failing) == 1 or frozenset(failing) in self._known
                if must_try and not await self._fails(frozenset(failing)):
                    return
            assumed = frozenset(failing) not in self._known
            self._note(frozenset(failing))
            groups = _split_equally(failing, self._at_once + 1)

    def _first_groups(self, changes: Sequence[int]) -> list[Sequence[int]]:
        """Single changes first, then larger and larger groups."""
        groups: list[Sequence[int]] = [[each] for each in changes[: self._at_once]]
        left, size = changes[self._at_once :], 2 * self._at_once
        while left:
            groups.append(left[:size])
            left, size = left[size:], 3 * size
        return groups

    async def _failing_group(self, groups: Sequence[Sequence[int]]) -> Sequence[int] | None:
        """The first that fails."""
        for start in range(0, len(groups), self._at_once):
            now = groups[start : start + self._at_once]
            results = await self._fail_each([frozenset(each) for each in now])
            for group, failed in zip(now, results, strict=True):
                if failed:
                    return group
        return None

    async def _shorten(self) -> None:
        """Repeat: the last change of the shortest failing beginning belongs to the result."""
        kept: frozenset[int] = frozenset()
        before = sorted(self._smallest)
        while not await self._fails(kept):
            length = await self._shortest_beginning(before, kept)
            kept |= {before[length - 1]}
            before = before[: length - 1]
            self._note(kept | frozenset(before))
        self._note(kept)

    async def _shortest_beginning(self, before: Sequence[int], kept: frozenset[int]) -> int:
        """The length of a beginning of `before` that fails together with `kept`, while the one that
        is shorter by one does not."""
        passes, fails = 0, len(before)
        step = 1
        while fails - passes > 1:
            lengths = self._next_lengths(passes, fails, step)
            results = await self._fail_each([kept | frozenset(before[:each]) for each in lengths])
            step *= 2 ** len(lengths)
            for length, failed in zip(lengths, results, strict=True):
                if failed:
                    fails = length
                    break
                passes = length
        return fails

    def _next_lengths(self, passes: int, fails: int, step: int) -> list[int]:
        """Short beginnings first, then equal parts of the rest."""
        doubled = [passes + step * (2**number) for number in range(self._at_once)]
        if doubled[0] < (passes + fails) // 2:
            return [each for each in doubled if each < fails]
        parts = self._at_once + 1
        equal = {passes + (fails - passes) * number // parts for number in range(1, parts)}
        return sorted(each for each in equal if passes < each < fails) or [passes + 1]

    async def _remove_needless(self) -> None:
        """Where results are not monotone, single changes may still be needless."""
        while len(self._smallest) > 1:
            smaller = [self._smallest - {each} for each in sorted(self._smallest, reverse=True)]
            failing = [
                each
                for each, failed in zip(smaller, await self._fail_each(smaller), strict=True)
                if failed
            ]
            if not failing:
                return
            self._note(failing[0])

    async def _fails(self, numbers: frozenset[int]) -> bool:
        return (await self._fail_each([numbers]))[0]

    async def _fail_each(self, sets: Sequence[frozenset[int]]) -> list[bool]:
        left = [each for each in dict.fromkeys(sets) if each not in self._known]
        while left:
            now, left = left[: self._at_once], left[self._at_once :]
            if self._trials + len(now) > self._max_trials:
                raise TrialsUsedUpError
            self._trials += len(now)
            async with anyio.create_task_group() as group:
                for each in now:
                    group.start_soon(self._try, each)
        return [self._known[each] for each in sets]

    async def _try(self, numbers: frozenset[int]) -> None:
        kept = [self._changes[number] for number in sorted(numbers)]
        self._known[numbers] = await self._fails_with(kept) is True

    def _note(self, numbers: frozenset[int]) -> None:
        """Remember the smallest failing set, also for a search that is cut off."""
        if self._known.get(numbers) and len(numbers) < len(self._smallest):
            self._smallest = numbers


def _split_equally(changes: Sequence[int], count: int) -> list[Sequence[int]]:
    ends = [len(changes) * number // count for number in range(count + 1)]
    parts = [changes[first:end] for first, end in itertools.pairwise(ends)]
    return [part for part in parts if part]
