"""Defines how causes are found and fixes are tested on copies, and the data that this returns."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from hermes.core.events.experiments import ExperimentRan, FixTested
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.core.protocols import Tool
from hermes.skills.playbook.commands import ExecuteCall
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.checks import CheckResult, IndependentChecks
from hermes.sre.probes.probe import Probe

CauseStatus = Literal["proved", "ruled-out", "not-reproduced", "impossible"]
EXPERIMENT = "experiment"
"""Who made a change, in the journal: the revert of a proved cause."""
MAX_NAMED = 3


class CauseFixStep(Value, kw_only=True, frozen=True):
    """A command of the revert, or one that makes the revert take effect."""

    command: str
    undo: str = ""
    recent_by: str = ""
    """Who made the change that it reverts, where it is recent and people must be asked first."""


class CauseResult(Value, kw_only=True, frozen=True):
    status: CauseStatus
    why: str = ""
    """Why there is no proved cause, or why a proved one is not put back."""
    component: str = ""
    mechanism: str = ""
    """The redacted lines that differ, with file, author and time."""
    value: str = ""
    author: str = ""
    changed_at: datetime | None = None
    steps: tuple[CauseFixStep, ...] = ()
    """Empty where a proved cause is left to people; `why` says why."""
    units: tuple[str, ...] = ()
    """Services that the fix is about."""
    causes: tuple[str, ...] = ()
    """The changes that are the cause, as `file /etc/x.conf`."""
    diff: str = ""
    """Redacted."""
    suspects: int = 0
    experiments: int = 0
    evidence: tuple[int, ...] = ()
    """Numbers of the events of the experiments."""
    recovered: tuple[str, ...] = ()
    """Checks that passed when its revert was rehearsed on a copy."""
    rehearsal_s: float = 0.0
    explained: tuple[str, ...] = ()
    """Checks that failed on an unchanged copy as on the host; others have another cause."""
    differences: tuple[str, ...] = ()
    """How checks failed on the copies, where none failed as on the host."""

    @property
    def summary(self) -> str:
        """In one sentence, for people and models."""
        many = f"{self.suspects} change{'' if self.suspects == 1 else 's'}"
        if self.status == "proved":
            left = f"; it was not put back: {self.why}" if self.why else ""
            how = describe_differences(self.differences)
            return f"the cause was proved by experiments on a copy{how}: {self.mechanism}{left}"
        if self.status == "ruled-out":
            return (
                f"experiments on copies found no change as the cause ({many} since the last known"
                f" good state): {self.why}"
            )
        if self.status == "not-reproduced":
            return f"the fault could not be reproduced on a copy of the host: {self.why}"
        if self.experiments:
            return f"the experiments on copies ended without a proof: {self.why}"
        return f"no experiments on a copy were possible: {self.why}"


def describe_differences(differences: Sequence[str]) -> str:
    """For people, in parentheses; empty where the copies failed as the host."""
    return f" (where it fails in another way: {_names(differences)})" if differences else ""


def unfinished_text(ran: Sequence[ExperimentRan]) -> str:
    """Return what experiments have shown although they were stopped before a proof; empty for
    nothing."""
    reverted = [
        each.reverted
        for each in ran
        if each.purpose in ("revert-only", "rehearse") and each.outcome == "passes"
    ]
    if reverted:
        return (
            f"on a copy the checks pass with only this reverted: {_names(min(reverted, key=len))}"
        )
    if not any(each.purpose == "revert-all" and each.outcome == "passes" for each in ran):
        return ""
    failing = [e.kept for e in ran if e.purpose == "keep-only" and e.outcome == "fails"]
    within = f", and fail with only {_names(min(failing, key=len))}" if failing else ""
    return f"on a copy with all changes reverted the checks pass{within}"


def _names(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MAX_NAMED} more" if len(labels) > MAX_NAMED else ""
    return ", ".join(labels[:MAX_NAMED]) + more


@dataclass(frozen=True)
class FailingCase:
    """The failure that a cause has to explain."""

    details: IncidentDetails
    failing: Sequence[CheckResult]
    """Checks that observe the fault, as they are now."""
    passing: Sequence[str]
    checks: IndependentChecks
    publish: Callable[..., Awaitable[Sequence[int]]]
    attempt: int
    daemons: Sequence[PlainDaemon] = ()
    """How services without a supervisor were started."""
    services: Sequence[str] = ()
    """The services to look at; empty: those of the failing checks and of the alert."""


FindFailingCase = Callable[[], Awaitable[FailingCase | None]]
"""Runs the checks now; None when none fails that observes the fault."""


class ServiceNames(Value, kw_only=True, frozen=True):
    """The services of a host, by name."""

    names: tuple[str, ...] = ()
    incidental: tuple[str, ...] = ()
    """Those that a text about the failing ones may name without a fault of their own: they are
    related to these, or part of the system, such as cron."""


class CauseFinder(Protocol):
    """Finds what changed by experiments on copies. Changes nothing on the host, except in the
    folder for undo copies."""

    @property
    def available(self) -> bool:
        """Whether a known good state is recorded: without one nothing can be compared."""
        ...

    async def find(
        self, look: FindFailingCase, daemons: Sequence[PlainDaemon]
    ) -> CauseResult | None:
        """Read the host while `look` runs the checks. Return None where none of them fails."""
        ...

    async def observe(self, case: FailingCase) -> Sequence[Probe]:
        """Return checks that tell an unchanged copy from one in which all changes are reverted; for
        a fault that no check observes. Raises `HermesError`."""
        ...

    async def list_services(self, case: FailingCase, failing: Sequence[str]) -> ServiceNames:
        """All services of the host. `failing`: the names of those that fail."""
        ...


@dataclass(frozen=True)
class FixCandidate:
    """A fix that may be tested."""

    name: str
    by: str
    """`playbook`, `experiment` or `model`."""
    apply: Callable[[ExecuteCall], Awaitable[str]]
    """Runs it with these commands; returns why it failed by its own account, or an empty text."""


class FixTester(Protocol):
    """Tests fixes on copies of the host, beside an unchanged one. Changes nothing on the host."""

    @property
    def available(self) -> bool:
        """Whether the host may be copied."""
        ...

    async def test(
        self, case: FailingCase, candidates: Sequence[FixCandidate]
    ) -> Sequence[FixTested]:
        """The results in the order of the candidates, not yet published. Raises `HermesError`."""
        ...

    def tool(self, case: FailingCase, record: Callable[[str, FixTested], Awaitable[None]]) -> Tool:
        """The tool with which a model tests commands; `record` gets each with its result."""
        ...
