"""One trial: a fresh copy of the host, some changes reverted in it, and the checks run there."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.declared.experiments.copied_checks import CheckReading, fails_alike
from hermes.declared.experiments.copy_changes import (
    START_LEAD_S,
    clear_growth,
    put_back,
    repeat_jobs,
    restart_services,
    send_requests,
    start_jobs_first,
)
from hermes.declared.experiments.copy_setup import CopySetup, open_copy
from hermes.declared.experiments.processor_load import overload_factor
from hermes.declared.experiments.put_back import CannotRevertError, text_parts_of
from hermes.declared.experiments.suspects import Suspect, service_reversal
from hermes.declared.experiments.trial import Revert, TrialOutcome, TrialResult
from hermes.declared.state import ItemId
from hermes.environments.copies import CannotCopyError, HostCopy

FIRST_TIMEOUT_S = 8.0
"""How long checks may take to pass while it is not known how long that takes in a copy."""
LONGEST_TIMEOUT_S, PASS_TIME_FACTOR = 12.0, 1.8
PATIENT_TIMEOUT_S, PATIENT_FACTOR = 5.0, 4.0
"""At least, and times what it took in another copy, where a wrong result would name a wrong cause:
supervisors wait a second or more between two starts, so the time to pass varies."""
ANSWER_GRACE_S, SILENCE_GRACE_S = 0.4, 0.8
"""Added to the time in which it passed on another copy: for a wrong answer, and for none, which a
service that is about to start gives as well."""
MAX_ANSWER_OVERLOAD = 2.0
"""A service that answers has started: what load delays is mostly the start."""
HOLD_S = 0.7
"""How long checks must keep passing."""
SHORTEST_POLL_S, LONGEST_POLL_S = 0.15, 0.6
"""The pause between two runs of the checks."""


class CopyTrial:
    """A `Trial` on copies of one host."""

    def __init__(self, setup: CopySetup) -> None:
        self._setup = setup
        self._part_lines: dict[tuple[int, ItemId], tuple[int, ...]] = {}
        self._passing_unchanged: dict[str, bool] = {}
        """Checks of the rest of the host that failed in some copy: whether they pass in a copy in
        which nothing is reverted."""
        self.pass_seconds: float | None = None
        """How long the checks took to pass in a copy, where they did."""

    def part_lines(self, suspect: Suspect) -> tuple[int, ...]:
        if suspect.key not in self._part_lines:
            parts = text_parts_of(suspect.change, self._setup.store.content)
            self._part_lines[suspect.key] = tuple(each.first_after + 1 for each in parts)
        return self._part_lines[suspect.key]

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        began, timeout = time.monotonic(), self.patient_timeout_s if patient else self.timeout_s
        try:
            async with self.open(reverted) as copy:
                outcome, readings = await self.settle(copy, timeout)
        except (CannotCopyError, CannotRevertError, EnvironmentFailed) as error:
            paths = set(error.paths) if isinstance(error, CannotRevertError) else set()
            return TrialResult(
                outcome="unclear",
                detail=str(error)[:300],
                seconds=time.monotonic() - began,
                blocked=tuple(e.suspect.label for e in reverted if paths & set(e.suspect.paths)),
                copied=not isinstance(error, CannotCopyError),
            )
        return TrialResult(
            outcome=outcome,
            detail=self._setup.expected.describe(readings),
            seconds=time.monotonic() - began,
            failing=self._setup.expected.alike(readings),
            differences=self._setup.expected.differences(readings),
        )

    @asynccontextmanager
    async def open(self, reverted: Sequence[Revert]) -> AsyncGenerator[HostCopy, None]:
        """A copy in which these changes are reverted, with the services that read them restarted.
        Raises `CannotCopyError`, `CannotRevertError`, `EnvironmentFailed`."""
        async with open_copy(self._setup) as copy:
            if started := self._started_services(reverted):
                await self._start_first(copy, started)
            affected = self._affected_units(reverted)
            if reverted:
                await put_back(copy, self._setup, reverted)
                await clear_growth(copy, self._setup, reverted, affected)
            jobs = self._setup.table_jobs(reverted)
            await start_jobs_first(copy, self._setup, jobs.in_force)
            if reverted or started or jobs.in_force:
                await restart_services(copy, affected)
            await repeat_jobs(copy, self._setup, jobs)
            await send_requests(copy, self._setup)
            yield copy

    async def settle(
        self,
        copy: HostCopy,
        timeout: Callable[[], float] | None = None,
        before: Sequence[CheckReading] = (),
    ) -> tuple[TrialOutcome, Sequence[CheckReading]]:
        """Run the failing checks until they keep passing and no other fails, until they had enough
        time to, or until their services have failed for good. `before`: what the others said in
        this copy before anything was reverted."""
        limit_s, expected = timeout or self.timeout_s, self._setup.expected
        began, pause, polls, passed_s = time.monotonic(), SHORTEST_POLL_S, 0, 0.0
        while True:
            polls += 1
            readings = await self._setup.run_checks(copy, expected.failing_names)
            now, outcome = time.monotonic(), expected.judge(readings)
            if outcome == "passes":
                readings, others = await self._hold(copy)
                outcome = expected.judge(readings)
                if outcome == "passes":
                    passed_s = passed_s or now - began
                    self.pass_seconds = max(passed_s, self.pass_seconds or 0.0)
                    others = await self._leave_out_missing(_leave_out_failing(others, before))
                    readings = [*readings, *others]
                    outcome = expected.judge(readings)
                if outcome == "passes":
                    return outcome, readings
            ended = now - began >= limit_s() or (polls > 1 and await self._have_failed(copy))
            if ended:
                return outcome, readings
            await anyio.sleep(pause)
            pause = min(LONGEST_POLL_S, pause * 1.5)

    async def _hold(self, copy: HostCopy) -> tuple[Sequence[CheckReading], Sequence[CheckReading]]:
        """The failing checks, which must keep passing, and all others, for side effects. Others
        that fail are run again: on a busy host one may take too long by chance."""
        expected, until = self._setup.expected, time.monotonic() + HOLD_S
        failing, passing = expected.failing_names, expected.passing
        found = await self._setup.run_checks(copy, [*failing, *passing])
        readings = [each for each in found if each.name in failing]
        others = [each for each in found if each.name not in failing]
        if expected.judge(readings) != "passes":
            return readings, others
        await anyio.sleep(max(0.0, until - time.monotonic()))
        late = [each.name for each in others if not each.ok and not each.unknown]
        found = await self._setup.run_checks(copy, [*failing, *late])
        readings = [each for each in found if each.name in failing]
        again = [each for each in found if each.name in late]
        return readings, [*(each for each in others if each.name not in late), *again]

    async def _leave_out_missing(self, others: Sequence[CheckReading]) -> Sequence[CheckReading]:
        """Leave out the checks that fail in any copy: what they observe does not run there, so they
        say nothing about a revert."""
        bad = {each.name for each in others if not each.ok and not each.unknown}
        if asked := sorted(bad - self._passing_unchanged.keys()):
            self._passing_unchanged |= await self._run_unchanged(asked)
        missing = {each for each in bad if not self._passing_unchanged[each]}
        return [each for each in others if each.name not in missing]

    async def _run_unchanged(self, names: Sequence[str]) -> dict[str, bool]:
        """Tell which of the checks pass in an unchanged copy, with the time that others took."""
        until, pause = time.monotonic() + self.timeout_s(), SHORTEST_POLL_S
        async with self.open(()) as copy:
            while True:
                readings = await self._setup.run_checks(copy, names)
                passed = {each.name for each in readings if each.ok}
                if len(passed) == len(names) or time.monotonic() >= until:
                    return {each: each in passed for each in names}
                await anyio.sleep(pause)
                pause = min(LONGEST_POLL_S, pause * 1.5)

    async def _have_failed(self, copy: HostCopy) -> bool:
        """Return whether all failing services have failed in the copy too, after all permitted
        starts: no supervisor starts them again."""
        services = [self._setup.programs.named(name) for name in self._setup.services]
        if not services or any(each is None or each.commands for each in services):
            return False
        states = await copy.unit_states()
        return all(states.get(name) == "failed" for name in self._setup.services)

    def timeout_s(self) -> float:
        """Shrinks as soon as another trial has shown how long passing takes."""
        if self.pass_seconds is None:
            return FIRST_TIMEOUT_S * overload_factor()
        overload = overload_factor()
        grace = SILENCE_GRACE_S * overload
        if self._setup.expected.is_answered:
            grace = ANSWER_GRACE_S * min(MAX_ANSWER_OVERLOAD, overload)
        wanted = PASS_TIME_FACTOR * self.pass_seconds + grace
        return min(LONGEST_TIMEOUT_S, wanted)

    def patient_timeout_s(self) -> float:
        longest = max(PATIENT_TIMEOUT_S, PATIENT_FACTOR * (self.pass_seconds or 0.0))
        return max(self.timeout_s(), longest * overload_factor())

    def _started_services(self, reverted: Sequence[Revert]) -> list[str]:
        """Services that were started since the known good state and are not reverted."""
        gone = {each.suspect.key for each in reverted}
        return [
            each.change.item.key
            for each in self._setup.suspects
            if each.change.item.kind == "service"
            and each.key not in gone
            and "stop" in service_reversal(each.change)
        ]

    async def _start_first(self, copy: HostCopy, started: Sequence[str]) -> None:
        """On the host they ran before the failing services were started again, and may hold what
        these need; in a copy all start at the same time."""
        for name in self._setup.services:
            await copy.stop(name)
        await restart_services(copy, started)
        await anyio.sleep(START_LEAD_S * overload_factor())

    def _affected_units(self, reverted: Sequence[Revert]) -> list[str]:
        """Those that name what is reverted, then the failing ones, but none that was stopped."""
        paths = [path for each in reverted for path in each.suspect.paths]
        named = [each.name for each in self._setup.programs.services_of(paths)]
        stopped = self._setup.stopped_by(reverted)
        return [
            each for each in dict.fromkeys([*named, *self._setup.services]) if each not in stopped
        ]


def _leave_out_failing(
    others: Sequence[CheckReading], before: Sequence[CheckReading]
) -> list[CheckReading]:
    """Leave out those that failed alike before anything was reverted."""
    known = {each.name: each for each in before if not each.ok and not each.unknown}
    return [
        each for each in others if each.name not in known or not fails_alike(known[each.name], each)
    ]
