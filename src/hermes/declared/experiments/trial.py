"""The words of an experiment: which changes it reverted on a copy, and what the checks said."""

from collections.abc import Sequence
from typing import Literal, Protocol

from hermes.core.messages import Value
from hermes.declared.experiments.suspects import Suspect

TrialOutcome = Literal["fails", "differs", "passes", "unclear"]
"""`fails`: as on the host. `differs`: what fails on the host fails in another way. `unclear`:
something else fails, or it could not be tried."""
TrialPurpose = Literal["reproduce", "revert-all", "keep-only", "revert-only", "rehearse"]


class Revert(Value, frozen=True, kw_only=True):
    """A suspect that is reverted, as a whole or some parts of it."""

    suspect: Suspect
    parts: tuple[int, ...] | None = None
    """Numbers of the parts of its text; None for the whole change."""
    lines: tuple[int, ...] = ()
    """The lines of the file at which these parts begin, counted from 1."""

    @property
    def label(self) -> str:
        if self.parts is None:
            return self.suspect.label
        numbers = ", ".join(map(str, self.lines))
        return f"{self.suspect.label} (line{'s' if len(self.lines) > 1 else ''} {numbers})"


class TrialResult(Value, frozen=True, kw_only=True):
    outcome: TrialOutcome
    detail: str = ""
    """What the checks said, or why it could not be tried."""
    seconds: float = 0.0
    blocked: tuple[str, ...] = ()
    """Labels of the changes that cannot be reverted on a copy, where that is why it is unclear."""
    copied: bool = True
    """False where no copy could be made."""
    failing: tuple[str, ...] = ()
    """The checks that failed as on the host."""
    differences: tuple[str, ...] = ()
    """How checks failed in another way than on the host, as `http-80: status 502 instead of status
    404`."""
    confirms: bool = False
    """Of a rehearsal: the copy failed before, and passes with only this reverted."""


class Experiment(Value, frozen=True, kw_only=True):
    """One trial, for the record."""

    number: int
    purpose: TrialPurpose
    reverted: tuple[str, ...]
    kept: tuple[str, ...]
    result: TrialResult


class Trial(Protocol):
    """Runs the failing checks in a fresh copy of the host in which some changes are reverted."""

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        """`patient`: the checks get more time to pass than they needed in other copies."""
        ...

    def part_lines(self, suspect: Suspect) -> tuple[int, ...]:
        """The lines at which the parts begin that can be reverted one by one, counted from 1; with
        fewer than two only the whole change can be reverted."""
        ...
