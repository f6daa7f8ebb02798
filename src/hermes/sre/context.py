"""Everything that the work on one incident uses: the executor, the event bus, skills, checks.

The application builds it for a real host, the gym for a box; the commander does not know which.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hermes.agent.dependencies import execute_for_run
from hermes.core.actions import Policy
from hermes.core.bus import Bus
from hermes.core.events.base import RunOrigin
from hermes.core.events.incidents import EscalationLine
from hermes.core.incident import AlertFacts, Incident, IncidentDetails, read_incident
from hermes.core.protocols import (
    ArtifactStore,
    BackgroundProcesses,
    Environment,
    Journal,
)
from hermes.core.tool_calls import read_result_numbers
from hermes.skills.library import Skill
from hermes.skills.matching import SkillMatcherCache
from hermes.skills.playbook.commands import ExecuteCall, PublishEvents
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.cause import CauseFinder, FixTester
from hermes.sre.checks import IndependentChecks
from hermes.sre.coordination import CauseClaims, WorkWithdrawal
from hermes.sre.model_responder import ModelResponder
from hermes.sre.policies import (
    BundledTextPolicy,
    KnownDaemonPolicy,
    RecordedUndoPolicy,
    TrustedPlaybookPolicy,
    UnattendedPolicy,
)
from hermes.sre.settings import SreSettings
from hermes.sre.triage.other_problems import NO_OTHER_PROBLEMS, OtherProblems
from hermes.tools.executor import Executor

ReportWriter = Callable[[IncidentDetails], Awaitable[None]]
IncidentLearner = Callable[[IncidentDetails], Awaitable[None]]


async def no_skills() -> Sequence[Skill]:
    return ()


async def do_nothing(details: IncidentDetails) -> None:
    return None


def no_other_problems(details: IncidentDetails) -> OtherProblems:
    return NO_OTHER_PROBLEMS


class ClusterInspector(Protocol):
    """Looks at a cluster for the incidents that are about it."""

    @property
    def kubectl(self) -> str:
        """The program with the options of its connection."""
        ...

    def concerns(self, details: IncidentDetails) -> bool: ...

    async def assess(self, work: "IncidentWork") -> Assessment:
        """Read-only. Publishes what the queries show."""
        ...

    async def fault_views(self, work: "IncidentWork") -> Sequence[AlertFacts]:
        """The alert once for each fault, with the parameters that playbooks need."""
        ...

    async def escalation_lines(self, work: "IncidentWork") -> Sequence[EscalationLine]:
        """Describe for the people who take over what is broken, and what they may look at."""
        ...


MeasureSystems = Callable[
    [ExecuteCall, Collection[str], Journal, str],
    Awaitable[tuple[Sequence[EscalationLine], frozenset[str]]],
]
"""Given how to call tools, their names, the journal and the run: what is wrong, and the ids of the
calls that show it."""


@dataclass(frozen=True)
class IncidentContext:
    bus: Bus
    executor: Executor
    environment: Environment
    artifacts: ArtifactStore
    checks_for: Callable[[IncidentDetails], Awaitable[IndependentChecks]]
    """Opens the independent checks for an incident."""
    settings: SreSettings = field(default_factory=SreSettings)
    skills: Callable[[], Awaitable[Sequence[Skill]]] = no_skills
    """Reads the library with the current state of each skill."""
    index: SkillMatcherCache = field(default_factory=SkillMatcherCache)
    """Finds the skills that match an alert; shared by all incidents."""
    claims: CauseClaims = field(default_factory=CauseClaims)
    """Which incident reverts which cause; shared by all incidents."""
    cause_finder: CauseFinder | None = None
    """Finds causes by experiment; None where no known good state is recorded."""
    fix_tester: FixTester | None = None
    """Tests fixes on copies; None where no copy is possible."""
    responder: ModelResponder | None = None
    """The models; None where no model is configured."""
    processes: BackgroundProcesses | None = None
    report: ReportWriter = do_nothing
    """Writes the report at the end of every incident."""
    learn: IncidentLearner = do_nothing
    """Called for verified fixes only."""
    origin: RunOrigin = "incident"
    withdrawal: WorkWithdrawal = field(default_factory=WorkWithdrawal)
    cluster: ClusterInspector | None = None
    """None where no cluster is configured."""
    other_problems: Callable[[IncidentDetails], OtherProblems] = no_other_problems
    """Tells what else fails, as far as the watch knows."""
    measure: MeasureSystems | None = None
    """Asks the configured systems what is wrong; None where none is configured."""
    daemons: Callable[[], Sequence[PlainDaemon]] = tuple
    """Reads how the daemons of the host that have no supervisor were started."""

    def execute_for_run(self, run: str, executor: Executor | None = None) -> ExecuteCall:
        return execute_for_run(self, run, executor or self.executor)


@dataclass(frozen=True)
class IncidentWork:
    """An incident together with everything that the work on it uses."""

    context: IncidentContext
    details: IncidentDetails

    @property
    def settings(self) -> SreSettings:
        return self.context.settings

    @property
    def cluster(self) -> ClusterInspector | None:
        """The cluster, where the incident is about it and not about this host."""
        cluster = self.context.cluster
        return cluster if cluster is not None and cluster.concerns(self.details) else None

    @property
    def journal(self) -> Journal:
        return self.context.bus.journal

    @property
    def execute(self) -> ExecuteCall:
        return self.context.execute_for_run(self.details.run)

    @property
    def execute_trusted(self) -> ExecuteCall:
        """Returns an executor for commands of playbooks: rules about untrusted text do not
        apply."""
        return self._execute_with(self.trusted_policy(self.context.executor.policy))

    @property
    def execute_undo(self) -> ExecuteCall:
        """Returns an executor for the undo commands of bundled playbooks."""
        trusted = self.trusted_policy(self.context.executor.policy)
        return self._execute_with(RecordedUndoPolicy(BundledTextPolicy(trusted)))

    def execute_unattended(self, *, bundled: bool = True) -> ExecuteCall:
        """Return an executor for our own checks and the signatures of playbooks: what needs an
        approval is refused at once. `bundled` says that the text is part of this program."""
        policy: Policy = TrustedPlaybookPolicy(self.context.executor.policy)
        return self._execute_with(
            UnattendedPolicy(BundledTextPolicy(policy) if bundled else policy)
        )

    def _execute_with(self, policy: Policy) -> ExecuteCall:
        executor = self.context.executor.with_policy(policy)
        return self.context.execute_for_run(self.details.run, executor)

    def trusted_policy(self, policy: Policy) -> Policy:
        """Return the policy for the steps of playbooks and for what undoes them."""
        return KnownDaemonPolicy(TrustedPlaybookPolicy(policy), self.context.daemons())

    @property
    def publish(self) -> PublishEvents:
        return self.context.bus.publish

    async def read(self) -> Incident:
        """Read the state of the incident from the journal."""
        recorded = await read_incident(self.journal, self.details.run)
        return recorded or Incident(details=self.details)

    async def result_numbers(self, calls: Sequence[str]) -> tuple[int, ...]:
        """Numbers of the events with the results of these calls, for the evidence."""
        numbers = await read_result_numbers(self.journal, self.details.run)
        return tuple(number for call, number in numbers.items() if call in calls)
