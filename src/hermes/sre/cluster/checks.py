"""Asks a cluster each time again whether the objects of an incident are well."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.core.foreign_text import clean_line
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.skills.playbook.commands import TerminalResult, busy_timeout
from hermes.sre.checks import CheckResult, IndependentChecks, run_concurrently
from hermes.sre.cluster.faults import (
    ClusterFault,
    alert_namespace,
    concerns_incident,
    find_faults,
)
from hermes.sre.cluster.queries import (
    KUBECTL_ERROR,
    QUERY_TIMEOUT_S,
    query_commands,
    with_context_hint,
)
from hermes.sre.cluster.state import ClusterState, Workload, parse_cluster, selects
from hermes.sre.probes.host_facts import run_query
from hermes.sre.settings import KubernetesSettings

MAX_CONCURRENT_QUERIES = 4
API_TIMEOUT_S = 60.0
"""How long a cluster that gives no answer is asked again: its silence says nothing about a fix."""
API_PAUSE_S = 2.0
MAX_GUARDS = 6
"""Healthy workloads that are checked for side effects of a fix."""


class InspectionResult(Value, kw_only=True, frozen=True):
    state: ClusterState
    faults: tuple[ClusterFault, ...]
    """Those that concern the incident."""
    calls: dict[str, str] = {}
    """Ids of the calls of queries that were answered, by their short names."""
    gaps: tuple[str, ...] = ()
    at: float = 0.0


def incident_commands(settings: KubernetesSettings, details: IncidentDetails) -> dict[str, str]:
    """The queries in the namespace of the alert; else in those of the settings."""
    namespace = alert_namespace(details)
    return query_commands(settings, (namespace,) if namespace else ())


def open_cluster_checks(
    settings: KubernetesSettings, details: IncidentDetails, environment: Environment
) -> IndependentChecks:
    """Checks of the objects that the incident is about, and of some that are well."""
    return ClusterChecks(incident_commands(settings, details), details, environment)


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
    failed = KUBECTL_ERROR.search(answer.output)
    return answer.status == "ok" and answer.code == 0 and not failed


def _is_labelled(fault: ClusterFault, details: IncidentDetails) -> bool:
    return fault.subject.partition("/")[2] in details.labels.values()


def _gap_text(answer: TerminalResult) -> str:
    """Return why a query was not answered, and what to do."""
    if answer.timed_out:
        return "the cluster gave no answer in time"
    lines = [line for line in answer.output.splitlines() if line.strip()]
    text = clean_line(lines[-1] if lines else "kubectl failed without a word", 200)
    return with_context_hint(text)


def is_available(workload: Workload) -> bool:
    done = workload.kind != "Deployment" or not workload.rollout_incomplete
    return done and workload.available >= workload.desired


def names_workload(workload: Workload, state: ClusterState, details: IncidentDetails) -> bool:
    near = [each for each in state.services if each.namespace == workload.namespace]
    names = tuple(each.name for each in near if selects(each.selector, workload.labels))
    fault = ClusterFault(
        kind="", namespace=workload.namespace, subject=workload.reference, mechanism="",
        related=names,
    )  # fmt: skip
    return concerns_incident(fault, details)


class ClusterChecks:
    """Asks the cluster each time again, apart from any fix."""

    def __init__(
        self, commands: Mapping[str, str], details: IncidentDetails, environment: Environment
    ) -> None:
        self._commands, self._details, self._environment = commands, details, environment
        self._chosen: tuple[tuple[str, str], ...] | None = None

    async def __call__(self) -> Sequence[CheckResult]:
        deadline = time.monotonic() + API_TIMEOUT_S
        result = await self._read()
        while "workloads" not in result.calls and time.monotonic() < deadline:
            await anyio.sleep(API_PAUSE_S)
            result = await self._read()
        if "workloads" not in result.calls:
            why = "; ".join(result.gaps)[:200]
            return [CheckResult(check="kubernetes", ok=False, unknown=True, detail=why)]
        if self._chosen is None:
            self._chosen = self._choose(result)
        everything = find_faults(result.state, datetime.now(UTC))
        return [self._check(subject, result.state, everything) for subject in self._chosen]

    async def _read(self) -> InspectionResult:
        answers = dict(
            zip(
                self._commands,
                await run_concurrently(
                    [partial(self._ask, name) for name in self._commands], MAX_CONCURRENT_QUERIES
                ),
                strict=True,
            )
        )
        return read_answers(answers, self._details)

    def _choose(self, result: InspectionResult) -> tuple[tuple[str, str], ...]:
        faulty = [(fault.namespace, fault.subject) for fault in result.faults]
        workloads = result.state.workloads
        named = [
            (each.namespace, each.reference)
            for each in workloads
            if names_workload(each, result.state, self._details)
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
            done = await run_query(self._environment, self._commands[name], timeout)
        except EnvironmentFailed as error:
            return TerminalResult(name, self._commands[name], "error", None, str(error))
        return TerminalResult(
            name, self._commands[name], "ok", done.exit_code, done.output, timed_out=done.timed_out
        )
