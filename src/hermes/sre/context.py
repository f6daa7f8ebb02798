"""What the work on an incident stands on: one road to the world, one stream, what is known.

The house lays it out for a real host, the gym for a broken box; the commander cannot tell which.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from hermes.core.bus import Bus
from hermes.core.events.base import RunOrigin
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ArtifactStore, BackgroundProcesses, Environment, ToolContext
from hermes.skills.library import Skill
from hermes.skills.matching import SkillMatcherCache
from hermes.sre.checks import Execute, IndependentChecks, no_independent_checks
from hermes.sre.incident import IncidentDetails
from hermes.sre.model_responder import ModelResponder
from hermes.sre.settings import SreSettings
from hermes.tools.executor import Executor

ReportWriter = Callable[[IncidentDetails], Awaitable[None]]
IncidentLearner = Callable[[IncidentDetails], Awaitable[None]]


async def no_skills() -> Sequence[Skill]:
    return ()


async def no_checks_for(details: IncidentDetails) -> IndependentChecks:
    return no_independent_checks(details)


async def do_nothing(details: IncidentDetails) -> None:
    return None


class WorkWithdrawal:
    """Decides between a change, or the end of the work, and its withdrawal: the first one wins."""

    def __init__(self) -> None:
        self._committed = self._withdrawn = False

    @property
    def withdrawn(self) -> bool:
        return self._withdrawn

    def withdraw(self) -> bool:
        """False when it is too late: a change has begun, or the end is being written. Who gets True
        cancels the work."""
        self._withdrawn = self._withdrawn or not self._committed
        return self._withdrawn

    async def commit(self) -> None:
        """From here on the work cannot be withdrawn. Does not return where it has been."""
        if self._withdrawn:
            await anyio.sleep_forever()
        self._committed = True


@dataclass(frozen=True)
class IncidentContext:
    bus: Bus
    executor: Executor
    environment: Environment
    artifacts: ArtifactStore
    settings: SreSettings = field(default_factory=SreSettings)
    skills: Callable[[], Awaitable[Sequence[Skill]]] = no_skills
    """The library as it is now, with the state of each skill."""
    index: SkillMatcherCache = field(default_factory=SkillMatcherCache)
    """Which of them an alert may be about; shared by the incidents of one library."""
    checks_for: Callable[[IncidentDetails], Awaitable[IndependentChecks]] = no_checks_for
    """Checks that the fixer has no hand in, for a case."""
    responder: ModelResponder | None = None
    """Models, for what no playbook knows; None where there is none to ask."""
    processes: BackgroundProcesses | None = None
    report: ReportWriter = do_nothing
    """Written from the journal at the end of every incident, also of escalated ones."""
    learn: IncidentLearner = do_nothing
    """Called for verified fixes only."""
    origin: RunOrigin = "incident"
    gate: WorkWithdrawal = field(default_factory=WorkWithdrawal)
    """Of the work on one incident."""

    def execute_for_run(self, run: str, executor: Executor | None = None) -> Execute:
        """The executor as one run sees it: looks up, decides, asks, runs, records."""
        chosen = executor or self.executor

        async def execute(call: ToolCall) -> ToolResult:
            return await chosen.execute(call, self.tool_context(run, execute))

        return execute

    def tool_context(self, run: str, execute: Execute) -> ToolContext:
        return ToolContext(
            run,
            self.environment,
            self.bus.publish,
            execute,
            self.artifacts,
            processes=self.processes,
            origin=self.origin,
        )
