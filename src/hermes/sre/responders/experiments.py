"""Finds the cause by experiments on a copy, and reverts it through the gate like a playbook."""

import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec.structs import replace

from hermes.core.errors import HermesError, StoreError, innermost_error
from hermes.core.events.experiments import ExperimentsEnded
from hermes.core.events.incidents import IncidentDiagnosed, IncidentPhase
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import run_command
from hermes.sre.cause import EXPERIMENT, CauseResult, FailingCase
from hermes.sre.checks import CheckResult
from hermes.sre.context import IncidentWork
from hermes.sre.policies import RecentChangePolicy
from hermes.sre.undo import ChangeRecorder
from hermes.sre.verify import Baseline

STEP_TIMEOUT_S = 60.0
EXPERIMENTS_TIMEOUT_S = 120.0
PROVED_CONFIDENCE = 0.97
MAX_LOOKS = 4
NO_FAILING_CHECK = "no check that observes the fault fails now"


EnterPhase = Callable[[IncidentPhase, int, str], Awaitable[None]]


class RevertAttempt(Value, kw_only=True, frozen=True):
    """A proved cause that was reverted, completely or in part."""

    failure: str = ""
    """Why a step did not succeed; empty when all did."""
    unit: str = ""


class ExperimentResponder:
    """Runs the experiments of an incident once."""

    def __init__(self, work: IncidentWork) -> None:
        self._work = work
        self._result: CauseResult | None = None

    @property
    def summary(self) -> str:
        """What the experiments showed; empty where there were none."""
        return self._result.summary if self._result is not None else ""

    async def run(
        self,
        number: int,
        baseline: Baseline,
        find_recovery: Callable[[], Awaitable[str]],
        enter: EnterPhase,
    ) -> RevertAttempt | None:
        """None when nothing was changed: no cause was proved, or its revert was refused."""
        finder = self._work.context.cause_finder
        if self._result is not None or finder is None or not finder.available:
            return None
        recorded = await self._work.read()
        if any(change.by == EXPERIMENT for change in recorded.changes):
            return None  # before a crash
        await enter("investigate", number, "experiments on a copy")
        began = time.monotonic()
        self._result = await self._find(number, baseline)
        await self._publish_end(self._result, time.monotonic() - began)
        if self._result.status != "proved":
            return None
        await self._publish_diagnosis(self._result)
        if not self._result.steps:
            self._note_refusal(self._result, "")
            return None
        await enter("remediate", number, self._result.component)
        return await self._revert(self._result, number, find_recovery)

    async def _find(self, number: int, baseline: Baseline) -> CauseResult:
        finder = self._work.context.cause_finder
        assert finder is not None
        looks, failing = MAX_LOOKS if baseline.evidence else 0, list[CheckResult]()
        results: Sequence[CheckResult] = ()
        while looks and not failing:  # a symptom may be intermittent
            looks -= 1
            results = await baseline.independent_checks()
            failing = [each for each in results if _observes(each, baseline)]
        if not failing:
            return CauseResult(status="impossible", why=NO_FAILING_CHECK)
        case = FailingCase(
            details=self._work.details,
            failing=failing,
            passing=[each.check for each in results if each.ok],
            checks=baseline.independent_checks,
            publish=self._work.publish,
            attempt=number,
            daemons=tuple(self._work.context.daemons()),
        )
        try:
            with anyio.move_on_after(EXPERIMENTS_TIMEOUT_S):
                return await finder.find(case)
        except Exception as error:
            cause = innermost_error(error)
            if isinstance(cause, StoreError) or not isinstance(cause, HermesError | OSError):
                raise
            return CauseResult(status="impossible", why=str(cause)[:300])
        why = f"not finished within {EXPERIMENTS_TIMEOUT_S:g} s"
        return CauseResult(status="impossible", why=why)

    async def _revert(
        self, result: CauseResult, number: int, find_recovery: Callable[[], Awaitable[str]]
    ) -> RevertAttempt | None:
        changes = ChangeRecorder(
            self._work, number, find_recovery, playbook=EXPERIMENT, bundled=True
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
            self._note_refusal(result, failure)
            return None
        unit = result.units[0] if result.units else ""
        return RevertAttempt(failure=failure, unit=unit)

    def _note_refusal(self, result: CauseResult, failure: str) -> None:
        why = failure or result.why or "people have to decide how to go on"
        text = f"{result.mechanism}; it was not reverted: {why}"
        self._result = CauseResult(
            status="proved", mechanism=text, suspects=result.suspects, why=why
        )

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
            )
        )


def _observes(result: CheckResult, baseline: Baseline) -> bool:
    return result.check in baseline.evidence and not result.ok and not result.unknown


def with_known_facts(details: IncidentDetails, summary: str) -> IncidentDetails:
    """The incident as models see it, with what the experiments showed."""
    if not summary:
        return details
    return replace(details, text=f"{details.text}\n\nKnown from experiments: {summary}".strip())
