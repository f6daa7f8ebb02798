"""Looks at the cluster for an incident: fixed queries through the executor, before any model.

The findings point at the events of the queries that show them. The same faults decide which
playbooks may apply.
"""

import time
from collections.abc import Sequence
from functools import partial

import anyio
from msgspec.structs import replace

from hermes.core.events.incidents import EscalationLine, IncidentDiagnosed, LayerInvestigated
from hermes.core.incident import AlertFacts, IncidentDetails
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import TerminalResult, busy_timeout, run_command
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.checks import run_concurrently
from hermes.sre.cluster.checks import (
    MAX_CONCURRENT_QUERIES,
    InspectionResult,
    incident_commands,
    is_available,
    names_workload,
    read_answers,
)
from hermes.sre.cluster.faults import ClusterFault, alert_namespace, healthy_parts
from hermes.sre.cluster.queries import (
    CLUSTER_LAYER,
    OWN_ALERTS,
    QUERY_TIMEOUT_S,
    kubectl_options,
)
from hermes.sre.context import IncidentWork
from hermes.sre.settings import KubernetesSettings

FAULT_LABEL = "cluster_fault"
"""Names the fault for the patterns of playbooks; one in an alert is dropped."""
MAX_INSPECTION_AGE_S = 5.0
MAX_FINDINGS = 12


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
        """Return whether an alert is about the cluster: one of ours, or one that names a
        namespace."""
        namespace, known = alert_namespace(details), self._settings.namespaces
        if not namespace and details.labels.get("alertname") in OWN_ALERTS:
            return True
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

    async def escalation_lines(self, work: IncidentWork) -> Sequence[EscalationLine]:
        """For the people who take over. This host is not asked: the incident is not about it."""
        result = await self._inspect_once(work)
        lines = [
            EscalationLine(
                about="cluster",
                text=fault.claim,
                evidence=await work.result_numbers(_calls_of(result, fault)),
            )
            for fault in result.faults[:MAX_FINDINGS]
        ]
        for fault in result.faults[:1]:
            scope = f"{self.kubectl} -n {fault.namespace}" if fault.namespace else self.kubectl
            lines.append(EscalationLine(about="command", text=f"{scope} describe {fault.subject}"))
            if fault.parameters.get("workload"):
                text = f"{scope} logs {fault.subject} --all-containers --tail=50"
                lines.append(EscalationLine(about="command", text=text))
        return [*lines, *(EscalationLine(about="unchecked", text=gap) for gap in result.gaps)]

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
        commands = incident_commands(self._settings, details)

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

    def _view(self, facts: AlertFacts, fault: ClusterFault) -> AlertFacts:
        labels = {key: value for key, value in facts.labels.items() if key != FAULT_LABEL}
        labels[FAULT_LABEL] = fault.kind
        return replace(facts, labels=labels, given={**facts.given, **fault.parameters})

    async def _publish_findings(self, work: IncidentWork, result: InspectionResult) -> None:
        shown = result.faults[:MAX_FINDINGS]
        calls = [call for fault in shown for call in _calls_of(result, fault)]
        details, clear = work.details, []
        for name, text in healthy_parts(result.state).items():
            if name in result.calls:
                numbers = await work.result_numbers((result.calls[name],))
                clear += [f"{text} (event {number})" for number in numbers]
        await work.publish(
            LayerInvestigated(
                run=details.run,
                incident=details.incident,
                layer=CLUSTER_LAYER,
                findings=tuple(fault.claim for fault in shown),
                evidence=await work.result_numbers(calls),
                ruled_out=tuple(clear),
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


def _calls_of(result: InspectionResult, fault: ClusterFault) -> tuple[str, ...]:
    return tuple(result.calls[name] for name in fault.evidence if name in result.calls)


def _assessment_without_faults(details: IncidentDetails, result: InspectionResult) -> Assessment:
    calls = tuple(result.calls.values())
    own = [each for each in result.state.workloads if names_workload(each, result.state, details)]
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
