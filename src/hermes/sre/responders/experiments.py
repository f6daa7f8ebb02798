"""Finds the cause by experiments on a copy, and reverts it through the gate like a playbook."""

import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec.structs import replace

from hermes.core.actions import Action
from hermes.core.errors import HermesError, StoreError, innermost_error
from hermes.core.events.experiments import ExperimentRan, ExperimentsEnded, FixTested
from hermes.core.events.incidents import IncidentDiagnosed, IncidentPhase
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import run_command
from hermes.skills.supervisors.units import same_service
from hermes.sre.baseline import Baseline, add_checks, failing_checks
from hermes.sre.cause import (
    EXPERIMENT,
    CauseFinder,
    CauseResult,
    FailingCase,
    FixCandidate,
    ServiceNames,
    unfinished_text,
)
from hermes.sre.checks import CheckResult, ProbeChecks, mentioned_services
from hermes.sre.context import IncidentWork
from hermes.sre.policies import RecentChangePolicy
from hermes.sre.probes.discovery import discover_probes
from hermes.sre.probes.probe import SERVICE_STATE_KINDS, Probe
from hermes.sre.undo import ChangeRecorder, PrepareChange
from hermes.sre.verify import FixRehearsal
from hermes.tools.executor import Executor

STEP_TIMEOUT_S = 60.0
EXPERIMENTS_TIMEOUT_S, OBSERVE_TIMEOUT_S = 120.0, 60.0
PROVED_CONFIDENCE = 0.97
MAX_LOOKS = 4
NO_FAILING_CHECK = "no check that observes the fault fails now"


EnterPhase = Callable[[IncidentPhase, int, str], Awaitable[None]]


class RevertAttempt(Value, kw_only=True, frozen=True):
    """A proved cause that was reverted, completely or in part."""

    failure: str = ""
    """Why a step did not succeed; empty when all did."""
    unit: str = ""
    rehearsal: FixRehearsal


class ExperimentResponder:
    """Runs the experiments of an incident once."""

    def __init__(self, work: IncidentWork) -> None:
        self._work = work
        self._result: CauseResult | None = None
        self._observed = False
        self._to_revert: CauseResult | None = None
        """A proved cause that was not reverted yet."""
        self.outdated = False
        """Another incident has reverted the cause, and something still fails: the next attempt
        looks for the cause of that."""

    @property
    def not_put_back(self) -> str:
        """Why a proved cause stays in force; empty without one."""
        proved = self._result is not None and self._result.status == "proved"
        return self._result.why if self._result is not None and proved else ""

    @property
    def summary(self) -> str:
        """What the experiments showed; empty where there were none."""
        return self._result.summary if self._result is not None else ""

    async def wait_for_turn(self) -> bool:
        """Return whether it had to wait for the experiments of another incident, before its own."""
        incident = self._work.details.incident
        return await self._due() and await self._work.context.claims.take_turn(incident)

    async def _due(self) -> bool:
        """Return whether experiments are due: not where they have run, or a cause was reverted
        before a crash."""
        finder = self._work.context.cause_finder
        if self._result is not None or finder is None or not finder.available:
            return False
        changes = (await self._work.read()).recent_changes
        return not any(change.by == EXPERIMENT for change in changes)

    async def find_cause(self, number: int, baseline: Baseline, enter: EnterPhase) -> bool:
        """Return whether a proved cause can be reverted. The experiments run once, and once more
        where another incident has reverted the cause meanwhile."""
        if not await self._due():
            return self._to_revert is not None
        await enter("investigate", number, "experiments on a copy")
        await self._work.context.claims.take_turn(self._work.details.incident)
        began = time.monotonic()
        self._result = await self._find(number, baseline)
        await self._publish_end(self._result, time.monotonic() - began)
        if self._result.status != "proved":
            self.end_turn()
            return False
        if not self._result.steps:
            self.end_turn()
            await self._note_refusal(self._result, "")
            return False
        await self._publish_diagnosis(self._result)
        self._to_revert = self._result
        return True

    async def observe(self, number: int, baseline: Baseline, enter: EnterPhase) -> Baseline:
        """Add checks that tell a copy with all changes from one without them, if they fail on the
        host; for a fault that no check observes."""
        finder = self._work.context.cause_finder
        if baseline.evidence or self._observed or finder is None or not finder.available:
            return baseline
        self._observed = True
        await enter("investigate", number, "copies with and without all changes")
        probes = await _observe(finder, _failing_case(self._work, baseline, number))
        return await add_checks(self._work, baseline, probes)

    async def find_unobserved_fault(self, number: int, baseline: Baseline) -> str:
        """Return why the end of the failing checks is not the end of the problem: the alert names
        other services, and one of them fails, or no check has observed what it is named for. Empty
        where all are fine. One that may be named without a fault is fine when its own checks
        pass."""
        finder, failing = self._work.context.cause_finder, failing_services(baseline)
        if finder is None or not finder.available or not failing:
            return ""
        case = _failing_case(self._work, baseline, number)
        host = await finder.list_services(case, failing)
        others = unobserved_services(self._work.details, baseline, host)
        if not others:
            return ""
        results = await self._check_services(others, baseline)
        found = [each for each in results if not each.ok and not each.unknown]
        answered = {each.service for each in results if not each.unknown}
        rest = [each for each in others if each not in host.incidental or each not in answered]
        if rest and not found:
            probes = await _observe(finder, dataclasses.replace(case, services=rest))
            found = await failing_checks(self._work, probes) if probes else []
        if not rest and not found:
            return ""
        shown = "; ".join(f"{each.check} fails: {each.detail}" for each in found)
        names = ", ".join(rest or dict.fromkeys(each.service for each in found))
        return f"the alert also names {names}: {shown or 'no check has observed what fails there'}"

    async def _check_services(
        self, names: Sequence[str], baseline: Baseline
    ) -> Sequence[CheckResult]:
        """Their own checks, and those that the host offers: state, ports and answers."""
        environment = self._work.context.environment
        derived = (await discover_probes(environment)).probes
        probes = {
            each.name: each
            for each in (*derived, *_probes_of(baseline))
            if each.service in names and each.kind in SERVICE_STATE_KINDS
        }
        return await ProbeChecks(tuple(probes.values()), environment)() if probes else ()

    @property
    def may_ask(self) -> bool:
        """Whether the revert may have to wait for a person."""
        steps = self._to_revert.steps if self._to_revert is not None else ()
        recent = any(each.recent_by for each in steps)
        return recent and not self._work.context.environment.isolated

    async def revert(
        self,
        number: int,
        baseline: Baseline,
        prepare: PrepareChange,
        enter: EnterPhase,
    ) -> RevertAttempt | None:
        """Return None when nothing was changed: it was refused, or another incident did it."""
        cause, self._to_revert = self._to_revert, None
        assert cause is not None
        self.outdated = False
        try:
            if await self._waited_for_others(cause.causes):  # another incident has reverted it
                if await find_failing_case(self._work, baseline, number):
                    # The same change again would be no fix; its undo would break what works now.
                    self.outdated, self._result = True, None
                return None
            await enter("remediate", number, cause.component)
            return await self._revert(cause, number, prepare)
        finally:
            self.end_turn()

    def end_turn(self) -> None:
        """Let other incidents experiment: what they find from now on is the host after the
        revert."""
        self._work.context.claims.end_turn(self._work.details.incident)

    async def _waited_for_others(self, causes: Sequence[str]) -> bool:
        return await self._work.context.claims.claim(self._work.details.incident, causes)

    async def _find(self, number: int, baseline: Baseline) -> CauseResult:
        finder = self._work.context.cause_finder
        assert finder is not None
        ran: list[ExperimentRan] = []

        async def publish(*events: object) -> Sequence[int]:
            ran.extend(each for each in events if isinstance(each, ExperimentRan))
            return await self._work.publish(*events)

        async def look() -> FailingCase | None:
            case = await find_failing_case(self._work, baseline, number)
            return dataclasses.replace(case, publish=publish) if case is not None else None

        try:
            with anyio.move_on_after(EXPERIMENTS_TIMEOUT_S):
                found = await finder.find(look, tuple(self._work.context.daemons()))
                return found or CauseResult(status="impossible", why=NO_FAILING_CHECK)
        except Exception as error:
            cause = innermost_error(error)
            if isinstance(cause, StoreError) or not isinstance(cause, HermesError | OSError):
                raise
            return CauseResult(status="impossible", why=str(cause)[:300])
        shown = unfinished_text(ran)
        why = f"not finished within {EXPERIMENTS_TIMEOUT_S:g} s" + (f"; {shown}" if shown else "")
        return CauseResult(status="impossible", why=why, experiments=len(ran))

    async def _revert(
        self, result: CauseResult, number: int, prepare: PrepareChange
    ) -> RevertAttempt | None:
        test = await self._publish_test(result)
        changes = ChangeRecorder(
            self._work,
            number,
            prepare,
            playbook=EXPERIMENT,
            bundled=True,
            find_test=lambda action: test,
            purpose=_purpose_of(result),
        )
        calls = [new_id("revert") for _ in result.steps]
        recent = {
            id: step.recent_by
            for id, step in zip(calls, result.steps, strict=True)
            if step.recent_by
        }
        executor = changes.executor
        executor = executor.with_policy(RecentChangePolicy(executor.policy, recent))
        execute = self._work.context.execute_for_run(self._work.details.run, executor)
        failure = ""
        for id, step in zip(calls, result.steps, strict=True):
            await changes.announce_step(id, step.command, step.undo)
            end = await run_command(
                execute, step.command, STEP_TIMEOUT_S, id=id, grace_s=self._work.settings.time_limit
            )
            if end.status != "ok" or end.code != 0:
                what = end.output.strip()[-200:] or f"exit code {end.code}"
                failure = f"{step.command[:120]}: {what}"
                break
        if not changes.count:
            await self._note_refusal(result, failure)
            return None
        unit = result.units[0] if result.units else ""
        return RevertAttempt(
            failure=failure,
            unit=unit,
            rehearsal=FixRehearsal(seconds=result.rehearsal_s, explained=result.explained),
        )

    async def _publish_test(self, result: CauseResult) -> FixTested:
        """The revert was rehearsed on a copy: otherwise it has no steps."""
        details = self._work.details
        test = FixTested(
            run=details.run,
            incident=details.incident,
            fix=f"revert {', '.join(result.causes)}"[:300],
            by=EXPERIMENT,
            outcome="recovered",
            checks=result.recovered,
            seconds=round(result.rehearsal_s, 3),
        )
        await self._work.publish(test)
        return test

    async def _note_refusal(self, result: CauseResult, failure: str) -> None:
        why = failure or result.why or "people have to decide how to go on"
        self._result = replace(result, steps=(), why=why)
        await self._publish_diagnosis(self._result)

    async def _publish_end(self, result: CauseResult, seconds: float) -> None:
        await self._work.publish(
            ExperimentsEnded(
                run=self._work.details.run,
                incident=self._work.details.incident,
                status=result.status,
                why=result.why[:500],
                causes=result.causes,
                diff=result.diff,
                author=result.author,
                differences=result.differences,
                suspects=result.suspects,
                experiments=result.experiments,
                seconds=round(seconds, 3),
            )
        )

    async def _publish_diagnosis(self, result: CauseResult) -> None:
        details = self._work.details
        await self._work.publish(
            IncidentDiagnosed(
                run=details.run,
                incident=details.incident,
                component=result.component,
                mechanism=result.mechanism[:500],
                value=result.value,
                evidence=result.evidence,
                confidence=PROVED_CONFIDENCE,
                on_copies=True,
                not_put_back=result.why,
            )
        )


def _purpose_of(cause: CauseResult) -> str:
    about = f" for {', '.join(cause.units)}" if cause.units else ""
    return f"put back {', '.join(cause.causes)}{about}, as experiments on a copy have proved"


async def find_failing_case(
    work: IncidentWork, baseline: Baseline, number: int
) -> FailingCase | None:
    """Return None when no check that observes the fault fails now."""
    looks = MAX_LOOKS if baseline.evidence else 0
    for _ in range(looks):  # a symptom may be intermittent
        results = await baseline.independent_checks()
        if failing := [each for each in results if _observes(each, baseline)]:
            passing = [each.check for each in results if each.ok]
            return _failing_case(work, baseline, number, failing, passing)
    return None


def _failing_case(
    work: IncidentWork,
    baseline: Baseline,
    number: int,
    failing: Sequence[CheckResult] = (),
    passing: Sequence[str] = (),
) -> FailingCase:
    return FailingCase(
        details=work.details,
        failing=failing,
        passing=passing,
        checks=baseline.independent_checks,
        publish=work.publish,
        attempt=number,
        daemons=tuple(work.context.daemons()),
    )


class FixTests:
    """Tests the fixes of an incident on copies before they run on the host."""

    def __init__(self, work: IncidentWork) -> None:
        self._work = work
        self._useless = False
        """Whether the host cannot be copied, or a copy does not show the failure."""
        self._by_command: dict[str, FixTested] = {}

    @property
    def possible(self) -> bool:
        tester = self._work.context.fix_tester
        wanted = self._work.settings.test_fixes != "off" and not self._useless
        return wanted and tester is not None and tester.available

    async def run(
        self, number: int, baseline: Baseline, candidates: Sequence[FixCandidate]
    ) -> Sequence[FixTested]:
        """The results in the order of the candidates; none where nothing could be tested."""
        tester = self._work.context.fix_tester
        if not self.possible or tester is None:
            return ()
        case = await find_failing_case(self._work, baseline, number)
        if case is None:
            return ()
        try:
            tests = await tester.test(case, candidates)
        except (HermesError, OSError) as error:
            if isinstance(error, StoreError):
                raise
            tests = [self._untested(each, str(error)) for each in candidates]
            self._useless = True
        self._useless = self._useless or all(e.outcome == "not-reproduced" for e in tests)
        await self._work.publish(*tests)
        return tests

    async def add_tool(self, number: int, baseline: Baseline, executor: Executor) -> Executor:
        """Add the tool by which a model tests commands against the checks of the incident."""
        tester = self._work.context.fix_tester
        if not self.possible or tester is None:
            return executor
        case = await find_failing_case(self._work, baseline, number)
        return executor.with_tool(tester.tool(case, self._record)) if case else executor

    def of_command(self, action: Action) -> FixTested | None:
        """The test of a command that a model has tested word for word."""
        return self._by_command.get(str(action.call.arguments.get("command", "")).strip())

    async def _record(self, command: str, test: FixTested) -> None:
        self._by_command[command.strip()] = test
        await self._work.publish(test)

    def _untested(self, candidate: FixCandidate, why: str) -> FixTested:
        details = self._work.details
        return FixTested(
            run=details.run,
            incident=details.incident,
            fix=candidate.name,
            by=candidate.by,
            outcome="unclear",
            detail=why[:300],
        )


async def _observe(finder: CauseFinder, case: FailingCase) -> Sequence[Probe]:
    try:
        with anyio.move_on_after(OBSERVE_TIMEOUT_S):
            return await finder.observe(case)
    except (HermesError, OSError) as error:
        if isinstance(error, StoreError):
            raise
    return ()


def unobserved_services(
    details: IncidentDetails, baseline: Baseline, host: ServiceNames
) -> list[str]:
    """Services that the alert names in any way, and that had no failing check. Where no check of
    any service failed, nothing is expected of the others."""
    failing = failing_services(baseline)
    if not failing:
        return []
    known = {*host.names, *(each.service for each in _probes_of(baseline) if each.service)}
    mentioned = mentioned_services(details.facts.combined_text, known)
    return sorted(
        other for other in mentioned if not any(same_service(other, each) for each in failing)
    )


def failing_services(baseline: Baseline) -> list[str]:
    probes = _probes_of(baseline)
    return sorted({e.service for e in probes if e.service and e.name in baseline.failing})


def _probes_of(baseline: Baseline) -> Sequence[Probe]:
    checks = baseline.independent_checks
    return checks.probes if isinstance(checks, ProbeChecks) else ()


def _observes(result: CheckResult, baseline: Baseline) -> bool:
    return result.check in baseline.evidence and not result.ok and not result.unknown


def with_known_facts(details: IncidentDetails, summary: str) -> IncidentDetails:
    """The incident as models see it, with what the experiments showed."""
    if not summary:
        return details
    return replace(details, text=f"{details.text}\n\nKnown from experiments: {summary}".strip())
