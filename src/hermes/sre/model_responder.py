"""Defines what models do in an incident, and the data that they return."""

from collections.abc import Sequence
from typing import Protocol

from hermes.core.events.incidents import DiagnosisVerdict
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.sre.checks import CheckResult
from hermes.tools.executor import Executor


class Hypothesis(Value, kw_only=True, frozen=True):
    component: str
    mechanism: str = ""
    value: str = ""
    evidence: tuple[int, ...] = ()
    """Numbers of the events that show it."""
    confidence: float = 0.0
    check: str = ""
    """A read-only command that fails while it is broken and exits with 0 once it is fixed."""
    fix: str = ""
    """The least destructive fix, in words."""


class InvestigationResult(Value, kw_only=True, frozen=True):
    verdict: DiagnosisVerdict = "escalate"
    hypotheses: tuple[Hypothesis, ...] = ()
    """The most likely first."""
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


class FailedAttempt(Value, kw_only=True, frozen=True):
    attempt: int
    by: str
    why: str


class FixResult(Value, kw_only=True, frozen=True):
    """The account of a model about its fix; checks decide whether it helped."""

    gave_up: str = ""
    """Why nothing could be done; empty when it tried."""


class ModelResponder(Protocol):
    """Models that work on an incident. A model that fails gives an empty result, no exception."""

    async def investigate(
        self, details: IncidentDetails, baseline: Sequence[CheckResult]
    ) -> InvestigationResult:
        """Find the cause, read-only; publishes the findings of each layer and the diagnosis."""

    async def remediate(
        self,
        details: IncidentDetails,
        hypothesis: Hypothesis,
        attempt: int,
        failed_attempts: Sequence[FailedAttempt],
        executor: Executor,
    ) -> FixResult:
        """Try to fix it. `executor` records each change with its undo command."""
