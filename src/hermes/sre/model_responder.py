"""What models are asked for in an incident, and how they answer: as data that can be checked."""

from collections.abc import Sequence
from typing import Protocol

from hermes.core.events.incidents import DiagnosisVerdict
from hermes.core.messages import Value
from hermes.sre.checks import CheckResult
from hermes.sre.incident import IncidentDetails
from hermes.tools.executor import Executor


class Hypothesis(Value, kw_only=True, frozen=True):
    component: str
    mechanism: str = ""
    value: str = ""
    evidence: tuple[int, ...] = ()
    """Numbers of events that show it."""
    confidence: float = 0.0
    check: str = ""
    """A read-only command that fails while it is broken and ends with 0 once it is mended."""
    fix: str = ""
    """The least destructive way to mend it, in words."""


class InvestigationResult(Value, kw_only=True, frozen=True):
    verdict: DiagnosisVerdict = "escalate"
    hypotheses: tuple[Hypothesis, ...] = ()
    """The likeliest first."""
    ruled_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()


class FailedAttempt(Value, kw_only=True, frozen=True):
    """An attempt that did not hold."""

    attempt: int
    by: str
    why: str


class FixResult(Value, kw_only=True, frozen=True):
    """What came of it, by its own account; whether it helped is for others to say."""

    run: str = ""
    summary: str = ""
    check: str = ""
    """A read-only command that should now end with 0."""
    gave_up: str = ""


class ModelResponder(Protocol):
    """Models at work. Raises nothing of its own: a mind that fails is an empty answer."""

    async def investigate(
        self, case: IncidentDetails, baseline: Sequence[CheckResult]
    ) -> InvestigationResult:
        """Read-only by policy; publishes what each layer found, and the diagnosis."""
        ...

    async def remediate(
        self,
        case: IncidentDetails,
        hypothesis: Hypothesis,
        attempt: int,
        tried: Sequence[FailedAttempt],
        executor: Executor,
    ) -> FixResult:
        """Changes go through `executor`, which writes each down with its way back."""
        ...
