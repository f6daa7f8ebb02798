"""Looks at the cluster for an incident: fixed queries through the executor, before any model.

The findings point at the events of the queries that show them. The same faults decide which
playbooks may apply, and afterwards, asked anew, whether the cluster has recovered.
"""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import anyio
from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed
from hermes.core.events.incidents import IncidentDiagnosed, LayerInvestigated
from hermes.core.foreign_text import clean_line
from hermes.core.incident import AlertFacts, IncidentDetails
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import TerminalResult, busy_timeout, run_command
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.checks import CheckResult, IndependentChecks, run_concurrently
from hermes.sre.cluster.faults import (
    ClusterFault,
    alert_namespace,
    concerns_incident,
    find_faults,
)
from hermes.sre.cluster.queries import (
    CLUSTER_LAYER,
    QUERIES,
    QUERY_TIMEOUT_S,
    kubectl_options,
    query_commands,
)
from hermes.sre.cluster.state import ClusterState, Workload, parse_cluster, selects
from hermes.sre.context import IncidentWork
from hermes.sre.settings import KubernetesSettings

FAULT_LABEL = "cluster_fault"
"""Names the fault for the patterns of playbooks; one in an alert is dropped."""
MAX_INSPECTION_AGE_S = 5.0
MAX_CONCURRENT_QUERIES = 4
MAX_GUARDS = 6
"""Healthy workloads that are checked for side effects of a fix."""
MAX_FINDINGS = 12
_KUBECTL_ERROR = re.compile(r"^(?:error: |Error from server|Unable to connect)", re.MULTILINE)
_CONTEXT_HINT = "sre.kubernetes.context names it, and `kubectl config get-contexts` lists them"


class InspectionResult(Value, kw_only=True, frozen=True):
    state: ClusterState
    faults: tuple[ClusterFault, ...]
    """Those that concern the incident."""
    calls: dict[str, str] = {}
    """Ids of the calls of queries that were answered, by their short names."""
    gaps: tuple[str, ...] = ()
    at: float = 0.0


class ClusterInspection:
    """Implements `ClusterInspector` for the cluster of the settings."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings
        self._results: dict[str, InspectionResult] = {}
        self._locks: dict[str, anyio.Lock] = {}

    @property
    def kubectl(self) -> str:
        return f"kubectl {kubectl_options(self._settings)}".strip()

    def concerns(self, details: IncidentDetails) -> bool:
        """Whether an alert is about the cluster: it names a namespace of it."""
        namespace, known = alert_namespace(details), self._settings.namespaces
        return bool(namespace) and (not known or namespace in known)

    async def assess(self, work: IncidentWork) -> Assessment:
        result = await self._inspect_once(work)
        if not result.faults:
            return _assessment_without_faults(work.details, result)
        first = result.faults[0]
        return Assessment(
            verdict="wrong",
            evidence=_calls_of(result, first),
            reasons=tuple(fault.claim for fault in result.faults[:MAX_FINDINGS]),
            component=f"{first.namespace}/{first.subject}",
            mechanism=first.mechanism,
            value=first.value,
        )

    async def fault_views(self, work: IncidentWork) -> Sequence[AlertFacts]:
        """The alert once for each fault, with the parameters that its playbooks need."""
        result = await self._inspect_once(work)
        return [self._view(work.details.facts, fault) for fault in result.faults]

    async def _inspect_once(self, work: IncidentWork) -> InspectionResult:
        """The last result while it is fresh; else a new one, whose findings are published."""
        async with self._locks.setdefault(work.details.incident, anyio.Lock()):
            known = self._results.get(work.details.incident)
            if known is not None and time.monotonic() - known.at < MAX_INSPECTION_AGE_S:
                return known
            result = self._results[work.details.incident] = await self.inspect(work)
            if known is None or known.faults != result.faults:
                await self._publish_findings(work, result)
        return result

    async def inspect(self, work: IncidentWork) -> InspectionResult:
        execute, details = work.execute_unattended(), work.details
        commands = self._commands(details)

        async def ask(name: str) -> TerminalResult:
            id = new_id(f"cluster-{name}")
            return await run_command(execute, commands[name], busy_timeout(QUERY_TIMEOUT_S), id=id)

        answers = dict(
            zip(
                commands,
                await run_concurrently(
                    [partial(ask, name) for name in commands], MAX_CONCURRENT_QUERIES
                ),
                strict=True,
            )
        )
        return read_answers(answers, details)

    async def open_checks(
        self, details: IncidentDetails, environment: Environment
    ) -> IndependentChecks:
        """Checks of the objects that the incident is about, and of some that are well."""
        return ClusterChecks(self._commands(details), details, environment)

    def _commands(self, details: IncidentDetails) -> dict[str, str]:
        namespace = alert_namespace(details)
        return query_commands(self._settings, (namespace,) if namespace else ())

    def _view(self, facts: AlertFacts, fault: ClusterFault) -> AlertFacts:
        labels = {key: value for key, value in facts.labels.items() if key != FAULT_LABEL}
        labels[FAULT_LABEL] = fault.kind
        return replace(facts, labels=labels, given={**facts.given, **fault.parameters})

    async def _publish_findings(self, work: IncidentWork, result: InspectionResult) -> None:
        shown = result.faults[:MAX_FINDINGS]
        calls = [call for fault in shown for call in _calls_of(result, fault)]
        faulty = {name for fault in shown for name in fault.evidence}
        details = work.details
        await work.publish(
            LayerInvestigated(
                run=details.run,
                incident=details.incident,
                layer=CLUSTER_LAYER,
                findings=tuple(fault.claim for fault in shown),
                evidence=await work.result_numbers(calls),
                ruled_out=tuple(
                    f"{QUERIES[name].name}: nothing wrong"
                    for name in result.calls
                    if name not in faulty
                ),
                gaps=result.gaps,
            )
        )
        for first in shown[:1]:
            await work.publish(
                IncidentDiagnosed(
                    run=details.run,
                    incident=details.incident,
                    component=f"{first.namespace}/{first.subject}",
                    mechanism=first.mechanism,
                    value=first.value,
                    evidence=await work.result_numbers(_calls_of(result, first)),
                    gaps=result.gaps,
                    confidence=0.8,
                )
            )


def read_answers(
    answers: Mapping[str, TerminalResult], details: IncidentDetails
) -> InspectionResult:
    good = {name: each for name, each in answers.items() if _is_answer(each)}
    state = parse_cluster({name: each.output for name, each in good.items()})
    faults = [
        fault
        for fault in find_faults(state, datetime.now(UTC))
        if concerns_incident(fault, details)
    ]
    return InspectionResult(
        state=state,
        faults=tuple(sorted(faults, key=lambda fault: not _is_labelled(fault, details))),
        calls={name: each.call_id for name, each in good.items()},
        gaps=tuple(
            dict.fromkeys(_gap_text(each) for name, each in answers.items() if name not in good)
        ),
        at=time.monotonic(),
    )


def _is_answer(answer: TerminalResult) -> bool:
    """The exit code alone does not tell: it is that of the last program of a pipe."""
    failed = _KUBECTL_ERROR.search(answer.output)
    return answer.status == "ok" and answer.code == 0 and not failed


def _is_labelled(fault: ClusterFault, details: IncidentDetails) -> bool:
    return fault.subject.partition("/")[2] in details.labels.values()


def _gap_text(answer: TerminalResult) -> str:
    """Why a query was not answered, and what to do."""
    if answer.timed_out:
        return "the cluster gave no answer in time"
    lines = [line for line in answer.output.splitlines() if line.strip()]
    text = clean_line(lines[-1] if lines else "kubectl failed without a word", 200)
    if "context" in text and "does not exist" in text:
        return f"{text}: {_CONTEXT_HINT}"
    return text


def _calls_of(result: InspectionResult, fault: ClusterFault) -> tuple[str, ...]:
    return tuple(result.calls[name] for name in fault.evidence if name in result.calls)


def _assessment_without_faults(details: IncidentDetails, result: InspectionResult) -> Assessment:
    calls = tuple(result.calls.values())
    own = [each for each in result.state.workloads if _is_named(each, result.state, details)]
    if result.gaps or not own or not all(is_available(each) for each in own):
        why = "; ".join(result.gaps) or "nothing wrong was found in the cluster"
        return Assessment(verdict="unknown", evidence=calls, reasons=(why,))
    names = ", ".join(f"{each.namespace}/{each.reference}" for each in own)
    return Assessment(
        verdict="recovered",
        evidence=calls,
        reasons=(f"{names}: every replica is available, and nothing is wrong",),
        component=names,
    )


def is_available(workload: Workload) -> bool:
    done = workload.kind != "Deployment" or not workload.rollout_incomplete
    return done and workload.available >= workload.desired


def _is_named(workload: Workload, state: ClusterState, details: IncidentDetails) -> bool:
    near = [each for each in state.services if each.namespace == workload.namespace]
    names = tuple(each.name for each in near if selects(each.selector, workload.labels))
    fault = ClusterFault(
        kind="", namespace=workload.namespace, subject=workload.reference, mechanism="",
        related=names,
    )  # fmt: skip
    return concerns_incident(fault, details)


class ClusterChecks:
    """Asks the cluster anew each time, apart from any fix."""

    def __init__(
        self, commands: Mapping[str, str], details: IncidentDetails, environment: Environment
    ) -> None:
        self._commands, self._details, self._environment = commands, details, environment
        self._chosen: tuple[tuple[str, str], ...] | None = None

    async def __call__(self) -> Sequence[CheckResult]:
        answers = dict(
            zip(
                self._commands,
                await run_concurrently(
                    [partial(self._ask, name) for name in self._commands], MAX_CONCURRENT_QUERIES
                ),
                strict=True,
            )
        )
        result = read_answers(answers, self._details)
        if "workloads" not in result.calls:
            why = "; ".join(result.gaps)[:200]
            return [CheckResult(check="kubernetes", ok=False, unknown=True, detail=why)]
        if self._chosen is None:
            self._chosen = self._choose(result)
        everything = find_faults(result.state, datetime.now(UTC))
        return [self._check(subject, result.state, everything) for subject in self._chosen]

    def _choose(self, result: InspectionResult) -> tuple[tuple[str, str], ...]:
        faulty = [(fault.namespace, fault.subject) for fault in result.faults]
        workloads = result.state.workloads
        named = [
            (each.namespace, each.reference)
            for each in workloads
            if _is_named(each, result.state, self._details)
        ]
        guards = [(each.namespace, each.reference) for each in workloads if is_available(each)]
        others = [each for each in guards if each not in {*faulty, *named}][:MAX_GUARDS]
        return tuple(dict.fromkeys((*faulty, *named, *others)))

    def _check(
        self, subject: tuple[str, str], state: ClusterState, faults: Sequence[ClusterFault]
    ) -> CheckResult:
        fault = next((each for each in faults if (each.namespace, each.subject) == subject), None)
        workload = next(
            (each for each in state.workloads if (each.namespace, each.reference) == subject), None
        )
        detail = "as expected"
        if fault is not None:
            detail = fault.mechanism[:200]
        elif workload is not None and not is_available(workload):
            detail = f"{workload.available} of {workload.desired} replicas are available"
        return CheckResult(
            check=f"{subject[0]}/{subject[1]}",
            ok=detail == "as expected",
            detail=detail,
            service=subject[1].partition("/")[2],
        )

    async def _ask(self, name: str) -> TerminalResult:
        timeout = busy_timeout(QUERY_TIMEOUT_S)
        try:
            done = await self._environment.run(self._commands[name], timeout=timeout)
        except EnvironmentFailed as error:
            return TerminalResult(name, self._commands[name], "error", None, str(error))
        return TerminalResult(
            name, self._commands[name], "ok", done.exit_code, done.output, timed_out=done.timed_out
        )
