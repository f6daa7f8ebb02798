"""Tests fixes on copies of a host: each on a separate copy, beside one that stays unchanged.

A test counts only if the failure shows on the copies before, and is still there on the unchanged
one afterwards: otherwise the copy has recovered for other reasons.
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.declared.experiments.copy_setup import CopySetup, open_copy
from hermes.declared.experiments.copy_trial import LONGEST_POLL_S, SHORTEST_POLL_S, CopyTrial
from hermes.declared.experiments.processor_load import overload_factor
from hermes.declared.experiments.trial import TrialOutcome
from hermes.environments.copies import CannotCopyError, HostCopy

FixOutcome = Literal["recovered", "helped", "failed", "not-reproduced", "unclear"]
"""`helped`: some of the failing checks pass. `unclear`: it could not be tried, took too long, or
other checks fail with it."""
MAX_TEST_S = 12.0
START_S = 1.0
"""How long the services of a copy may take to show how they are."""
REPRODUCE_TIMEOUT_S = 3.0
"""How long the failure may take to show on a copy."""
SETTLE_TIMEOUT_S, LATE_SETTLE_TIMEOUT_S = 4.0, 0.8
"""How long checks may take to pass after a fix, and after one that reports its own failure."""

_MISSING_PATH = re.compile(r"(/[\w./@+-]+)['\"]?: No such file or directory")


@dataclass(frozen=True)
class Fix:
    name: str
    apply: Callable[[HostCopy], Awaitable[str]]
    """Applies it in a copy; returns why it failed by its own account, or an empty text."""


class FixTestResult(Value, kw_only=True, frozen=True):
    """How a fix did on a copy."""

    name: str
    outcome: FixOutcome
    passed: tuple[str, ...] = ()
    """Checks that fail on the host and passed."""
    detail: str = ""
    """What the checks said, or why it could not be tested."""
    recovery_s: float = 0.0
    """From the start of the fix until the checks passed."""
    seconds: float = 0.0
    """Of the whole test."""


class FixTrial:
    """One test of several fixes for the same failure."""

    def __init__(self, setup: CopySetup, *, limit_s: float = MAX_TEST_S) -> None:
        self._setup, self._limit_s = setup, limit_s
        self._trial = CopyTrial(setup)
        self._tested = anyio.Event()
        self._left = 0
        self._unstable = False
        """Whether the unchanged copy passed at the end."""
        self._why = ""
        """Why the failure could not be reproduced."""

    async def run(self, fixes: Sequence[Fix]) -> tuple[FixTestResult, ...]:
        """The results in the order of the fixes."""
        began, self._left = time.monotonic(), len(fixes)
        results: dict[int, FixTestResult] = {}
        with anyio.move_on_after(self._limit_s):
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_unchanged, group.cancel_scope)
                for number, fix in enumerate(fixes):
                    group.start_soon(self._test, fix, partial(results.__setitem__, number))
        seconds = time.monotonic() - began
        return tuple(
            self._result_of(fix, results.get(number), seconds) for number, fix in enumerate(fixes)
        )

    def _result_of(self, fix: Fix, found: FixTestResult | None, seconds: float) -> FixTestResult:
        if self._why or (found is not None and self._unstable):
            why = self._why or "the unchanged copy recovered as well"
            return FixTestResult(
                name=fix.name, outcome="not-reproduced", detail=why, seconds=seconds
            )
        if found is None:
            why = f"not finished within {self._limit_s:g} s"
            return FixTestResult(name=fix.name, outcome="unclear", detail=why, seconds=seconds)
        return found

    async def _watch_unchanged(self, others: anyio.CancelScope) -> None:
        """End all tests as soon as it is known that a copy does not show the failure."""
        began = time.monotonic()
        try:
            async with open_copy(self._setup) as copy:
                self._why = await self._wait_for_failure(copy)
                if self._why:
                    others.cancel()
                    return
                await self._tested.wait()
                await anyio.sleep(max(0.0, began + START_S * overload_factor() - time.monotonic()))
                readings = await self._setup.run_checks(copy, self._setup.expected.failing_names)
                self._unstable = self._setup.expected.judge(readings) != "fails"
        except (CannotCopyError, EnvironmentFailed) as error:
            self._why = str(error)[:300]
            others.cancel()

    async def _test(self, fix: Fix, report: Callable[[FixTestResult], None]) -> None:
        began = time.monotonic()
        try:
            async with open_copy(self._setup) as copy:
                if why := await self._wait_for_failure(copy):
                    report(FixTestResult(name=fix.name, outcome="not-reproduced", detail=why))
                else:
                    await anyio.sleep(
                        max(0.0, began + START_S * overload_factor() - time.monotonic())
                    )
                    report(await self._apply(fix, copy, began))
        except (CannotCopyError, EnvironmentFailed) as error:
            report(FixTestResult(name=fix.name, outcome="unclear", detail=str(error)[:300]))
        finally:
            self._left -= 1
            if not self._left:
                self._tested.set()

    async def _apply(self, fix: Fix, copy: HostCopy, began: float) -> FixTestResult:
        applied_at = time.monotonic()
        failure = await fix.apply(copy)
        limit = LATE_SETTLE_TIMEOUT_S if failure else SETTLE_TIMEOUT_S
        outcome, readings = await self._trial.settle(copy, lambda: limit * overload_factor())
        now, expected = time.monotonic(), self._setup.expected
        good = {each.name for each in readings if each.ok}
        passed = tuple(name for name in expected.failing_names if name in good)
        detail = expected.describe(readings)
        if outcome != "passes" and (lacking := lacking_path(failure)):
            why = f"the copy lacks {lacking} of the host, so this says nothing about the fix"
            return FixTestResult(name=fix.name, outcome="unclear", detail=why, seconds=now - began)
        return FixTestResult(
            name=fix.name,
            outcome=_outcome_of(outcome, passed),
            passed=passed,
            detail=detail if outcome == "passes" or not failure else f"{failure[:150]}; {detail}",
            recovery_s=now - applied_at if outcome == "passes" else 0.0,
            seconds=now - began,
        )

    async def _wait_for_failure(self, copy: HostCopy) -> str:
        """Return why the failure does not show; empty as soon as it does."""
        expected, pause = self._setup.expected, SHORTEST_POLL_S
        until = time.monotonic() + REPRODUCE_TIMEOUT_S * overload_factor()
        while True:
            readings = await self._setup.run_checks(copy, expected.failing_names)
            if expected.judge(readings) == "fails":
                return ""
            if time.monotonic() > until:
                return expected.describe(readings)
            await anyio.sleep(pause)
            pause = min(LONGEST_POLL_S, pause * 1.5)


def lacking_path(failure: str) -> str:
    """A path that a fix did not find on the copy, and that exists on the host; else empty."""
    paths = (found[1] for found in _MISSING_PATH.finditer(failure))
    return next((each for each in paths if Path(each).exists()), "")


def _outcome_of(outcome: TrialOutcome, passed: Sequence[str]) -> FixOutcome:
    """Where other checks fail with it, the fix is not said to help."""
    if outcome == "passes":
        return "recovered"
    if outcome in ("differs", "unclear"):
        return "unclear"
    return "helped" if passed else "failed"
