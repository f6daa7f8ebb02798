"""What the work on an incident stands on: one road to the world, one stream, what is known.

The house lays it out for a real host, the gym for a broken box; the commander cannot tell which.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from hermes.core.bus import Bus
from hermes.core.events.happening import Origin
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import Artifacts, Environment, Processes, ToolContext
from hermes.skills.library import Skill
from hermes.skills.matching import Index
from hermes.sre.case import Case
from hermes.sre.eyes import Eyes, blind
from hermes.sre.looking import Execute
from hermes.sre.minds import Minds
from hermes.sre.settings import SreSettings
from hermes.tools.executor import Executor

Report = Callable[[Case], Awaitable[None]]
Learn = Callable[[Case], Awaitable[None]]


async def no_skills() -> Sequence[Skill]:
    return ()


async def no_eyes(case: Case) -> Eyes:
    return blind(case)


async def nothing(case: Case) -> None:
    return None


class WorkGate:
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
class Ground:
    bus: Bus
    executor: Executor
    environment: Environment
    artifacts: Artifacts
    settings: SreSettings = field(default_factory=SreSettings)
    skills: Callable[[], Awaitable[Sequence[Skill]]] = no_skills
    """The library as it is now, with the state of each skill."""
    index: Index = field(default_factory=Index)
    """Which of them an alert may be about; shared by the incidents of one library."""
    eyes: Callable[[Case], Awaitable[Eyes]] = no_eyes
    """Checks that the fixer has no hand in, for a case."""
    minds: Minds | None = None
    """Models, for what no playbook knows; None where there is none to ask."""
    processes: Processes | None = None
    report: Report = nothing
    """Written from the journal at the end of every incident, also of escalated ones."""
    learn: Learn = nothing
    """Called for verified fixes only."""
    origin: Origin = "incident"
    gate: WorkGate = field(default_factory=WorkGate)
    """Of the work on one incident."""

    def road(self, run: str, executor: Executor | None = None) -> Execute:
        """The executor as one run sees it: looks up, decides, asks, runs, records."""
        chosen = executor or self.executor

        async def execute(call: ToolCall) -> ToolResult:
            return await chosen.execute(call, self.context(run, execute))

        return execute

    def context(self, run: str, execute: Execute) -> ToolContext:
        return ToolContext(
            run,
            self.environment,
            self.bus.publish,
            execute,
            self.artifacts,
            processes=self.processes,
            origin=self.origin,
        )
