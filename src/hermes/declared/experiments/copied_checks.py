"""Judges the checks in a copy by what they said on the host."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from hermes.core.messages import Value
from hermes.declared.experiments.trial import TrialOutcome
from hermes.environments.copies import HostCopy

_STATUS = re.compile(r"(?:status(?: is)?|bad:) (\d{3})\b")
_NO_ANSWER = re.compile(r"no answer|nothing answers|refused|failed to connect|reset by peer", re.I)
_TOO_LATE = re.compile(r"timed? ?out|too slow|within \d", re.I)
_FULL = re.compile(r"\d+ percent of .+ are (?:in use|used)\b")
FailureKind = Literal["status", "no-answer", "too-late", "other"]


class CheckReading(Value, frozen=True, kw_only=True):
    """What one check said."""

    name: str
    ok: bool
    unknown: bool = False
    detail: str = ""


RunChecks = Callable[[HostCopy, Sequence[str]], Awaitable[Sequence[CheckReading]]]
"""Runs the checks of these names in a copy."""


class ExpectedReadings(Value, frozen=True, kw_only=True):
    """What the checks said on the host."""

    failing: tuple[CheckReading, ...]
    """Those that observed the fault."""
    passing: tuple[str, ...] = ()

    @property
    def failing_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.failing)

    @property
    def is_answered(self) -> bool:
        """Whether all failing checks got an answer, with a wrong status."""
        return all(failure_kind(each.detail)[0] == "status" for each in self.failing)

    @property
    def full_stores(self) -> tuple[str, ...]:
        """What is full, by the failing checks: no revert empties it."""
        return tuple(found[0] for each in self.failing if (found := _FULL.search(each.detail)))

    def judge(self, readings: Sequence[CheckReading]) -> TrialOutcome:
        """`fails`: one of the failing checks fails in the same way. `differs`: one of them fails in
        another way. `passes`: all of them pass, and so do all others that pass on the host."""
        if self.alike(readings):
            return "fails"
        if self.differences(readings):
            return "differs"
        now = {each.name: each for each in readings}
        same = [each for each in self.failing if each.name in now]
        bad = [
            each
            for each in readings
            if not each.ok and not each.unknown and self._counts(each.name)
        ]
        lost = len(same) < len(self.failing) or any(now[each.name].unknown for each in same)
        return "unclear" if bad or lost else "passes"

    def alike(self, readings: Sequence[CheckReading]) -> tuple[str, ...]:
        """The names of the checks that fail as on the host."""
        now = {each.name: each for each in readings}
        return tuple(
            each.name
            for each in self.failing
            if each.name in now and fails_alike(each, now[each.name])
        )

    def differences(self, readings: Sequence[CheckReading]) -> tuple[str, ...]:
        """How checks fail in another way than on the host."""
        now = {each.name: each for each in readings if not each.ok and not each.unknown}
        return tuple(
            f"{each.name}: {_kind_text(now[each.name])} instead of {_kind_text(each)}"
            for each in self.failing
            if each.name in now and not fails_alike(each, now[each.name])
        )

    def _counts(self, name: str) -> bool:
        return name in self.passing or any(each.name == name for each in self.failing)

    def describe(self, readings: Sequence[CheckReading]) -> str:
        """Those that fail; else those that failed on the host and pass."""
        bad = [f"{e.name}: {e.detail}" for e in readings if not e.ok and self._counts(e.name)]
        good = [each.name for each in self.failing]
        return "; ".join(bad)[:300] if bad else f"{', '.join(good)} passed"


def fails_alike(on_host: CheckReading, in_copy: CheckReading) -> bool:
    if in_copy.ok or in_copy.unknown:
        return False
    kinds = failure_kind(on_host.detail), failure_kind(in_copy.detail)
    return kinds[0] == kinds[1] or "other" in (kinds[0][0], kinds[1][0])


def failure_kind(detail: str) -> tuple[FailureKind, str]:
    """By status code where there is one, else by how there was no answer."""
    if statuses := _STATUS.findall(detail):
        return "status", statuses[-1]
    if _NO_ANSWER.search(detail):
        return "no-answer", ""
    return ("too-late", "") if _TOO_LATE.search(detail) else ("other", "")


def _kind_text(reading: CheckReading) -> str:
    kind, status = failure_kind(reading.detail)
    return {"no-answer": "no answer", "too-late": "an answer too late"}.get(
        kind, f"{kind} {status}"
    )
