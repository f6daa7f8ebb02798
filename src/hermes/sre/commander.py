"""What people who take over an incident get to know: what was seen, and what could not be."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.actions import TracksText
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.incidents import (
    DiagnosisVerdict,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentPhase,
    PhaseEntered,
)
from hermes.core.messages import Value
from hermes.sre.assessment.assess import Assessment
from hermes.sre.assessment.host_state import LastError, read_last_error
from hermes.sre.attempts import AttemptResult, Attempts
from hermes.sre.context import IncidentContext
from hermes.sre.incident import Incident, IncidentDetails, read_incident
from hermes.sre.initial_assessment import assess_incident, earlier_assessment
from hermes.sre.responders.playbooks import PlaybookResponder, read_result_numbers
from hermes.sre.undo import undo_changes
from hermes.sre.verify import Baseline, RecoveryResult, take_baseline, verify, watch_recovery

ESCALATION_TIMEOUT_S = 20.0


async def publish_escalation(
    context: IncidentContext,
    details: IncidentDetails,
    diagnosis: IncidentDiagnosed | None,
    assessment: Assessment | None,
    reason: str,
) -> None:
    """What was thought of it until then stays: not proved, and with why it ended here."""
    if diagnosis is not None and diagnosis.verdict == "escalate":
        return
    told = diagnosis or await _unproved_diagnosis(
        context, details, assessment or Assessment(verdict="unknown")
    )
    await context.bus.publish(
        replace(
            told,
            at=datetime.now(UTC),
            verdict="escalate",
            gaps=(*told.gaps, reason[:300]),
            confidence=told.confidence / 2,
        )
    )


async def _unproved_diagnosis(
    context: IncidentContext, details: IncidentDetails, first: Assessment
) -> IncidentDiagnosed:
    """Where nobody has a diagnosis: what the first look saw, and what the service says itself."""
    component, reasons = first.component or details.service, "; ".join(first.reasons)
    # Why nothing could be seen is not what was seen: it belongs to the gaps.
    seen = first.verdict != "unknown"
    mechanism, looks = first.mechanism or (reasons if seen else ""), first.evidence
    if words := await _last_error(context, details, component):
        mechanism = f"{mechanism[:300]}; {words}" if mechanism else str(words)
        looks = (*looks, words.call)
    return IncidentDiagnosed(
        run=details.run,
        incident=details.incident,
        component=component,
        mechanism=mechanism[:500],
        value=first.value,
        evidence=await read_result_numbers(context, details.run, looks) if mechanism else (),
        gaps=(reasons[:300],) if reasons and not seen else (),
        confidence=0.2 if mechanism else 0.0,
    )


async def _last_error(
    context: IncidentContext, details: IncidentDetails, component: str
) -> LastError | None:
    """A host that cannot be asked any more keeps nobody from being called."""
    try:
        with anyio.move_on_after(ESCALATION_TIMEOUT_S):
            return await read_last_error(context.execute_for_run(details.run), component)
    except StoreError:
        raise
    except HermesError:
        pass
    return None


IncidentOutcome = Literal["resolved", "escalated", "no-incident", "recovered"]
AnsweredBy = Literal["playbook", "model", "nobody"]


class IncidentResult(Value, kw_only=True, frozen=True):
    outcome: IncidentOutcome
    answered_by: AnsweredBy = "nobody"
    reason: str = ""


class Commander:
    """Works on one incident, alone."""

    def __init__(self, context: IncidentContext, details: IncidentDetails) -> None:
        self._context, self._details = context, details
        self._resumed, self._gap = False, 0.0
        self._assessment: Assessment | None = None

    async def run(self) -> IncidentResult:
        """Until it is closed. Raises `StoreError` alone: without a journal nothing may go on."""
        past = await read_incident(self._context.bus.journal, self._details.run)
        if past is not None and past.closed is not None:
            return _result_of(past)
        policy = self._context.executor.policy
        if isinstance(policy, TracksText):  # an alert is text that nobody vouches for
            policy.heard(self._details.run, self._details.facts.combined_text, False)
        if past is not None and past.phase is not None and past.last_at is not None:
            self._resumed = True
            self._gap = max(0.0, (datetime.now(UTC) - past.last_at).total_seconds())
        ending = await self._within_time(past)
        await self._finish(ending)
        return ending

    async def _within_time(self, past: Incident | None) -> IncidentResult:
        try:
            with anyio.move_on_after(self._context.settings.time_limit):
                return await self._work(past)
            limit = self._context.settings.time_limit
            return await self._give_up(f"not mended within {limit:g} s")
        except Exception as error:  # whatever it was: changes must be taken back
            cause = _innermost_error(error)
            if isinstance(cause, StoreError):
                raise cause from error
            return await self._give_up(f"the work on it failed: {type(cause).__name__}: {cause}")

    async def _work(self, past: Incident | None) -> IncidentResult:
        if past is not None and past.report:
            return _result_of(past)
        if past is not None and not past.unverified_changes and past.verified and past.verified.ok:
            return IncidentResult(
                outcome="resolved", answered_by=changes_made_by(past), reason="verified"
            )
        async with anyio.create_task_group() as group:
            try:
                ending = await self._resolve(
                    past, PlaybookResponder(self._context, self._details, group)
                )
            finally:
                group.cancel_scope.cancel()
        return ending

    async def _resolve(self, past: Incident | None, reflexes: PlaybookResponder) -> IncidentResult:
        known = earlier_assessment(past, self._gap)
        if past is not None:
            reflexes.resume(past, looks=known is not None)
        if known is None or known.all_clear or (past is not None and past.unverified_changes):
            await self._enter("assess", past.attempt if past else 0)
        earlier = past.failing if past is not None else None
        if past is not None and past.unverified_changes:
            # Nothing else is asked of a host that a cut off attempt has changed.
            baseline = await take_baseline(self._context, self._details, earlier, past.weak)
            return await self._resume_attempt(past, baseline, reflexes)
        sized = await assess_incident(self._context, self._details, earlier, reflexes, known)
        self._assessment = sized.assessment
        baseline = sized.baseline
        if sized.all_clear:
            watched = await watch_recovery(self._context, self._details, baseline)
            if not watched.returned:
                return await self._all_clear(sized.assessment, watched)
            baseline = await take_baseline(self._context, self._details, None)
        return await self._attempts(past, baseline, reflexes)

    async def _all_clear(self, assessment: Assessment, watched: RecoveryResult) -> IncidentResult:
        """Positive grounds, and checks that observe the symptom and pass for as long as needed."""
        if not watched.recovered:
            why = f"{'; '.join(assessment.reasons)[:400]}; but {watched.why}"
            return IncidentResult(outcome="escalated", reason=why[:500])
        verdict: Literal["no-incident", "recovered"] = (
            "recovered" if assessment.verdict == "recovered" else "no-incident"
        )
        await self._diagnose(assessment, verdict, watched)
        return IncidentResult(
            outcome=verdict, answered_by="playbook", reason="; ".join(assessment.reasons)[:500]
        )

    async def _diagnose(
        self, assessment: Assessment, verdict: DiagnosisVerdict, watched: RecoveryResult
    ) -> None:
        numbers = await read_result_numbers(self._context, self._details.run, assessment.evidence)
        await self._context.bus.publish(
            IncidentDiagnosed(
                run=self._details.run,
                incident=self._details.incident,
                verdict=verdict,
                component=assessment.component,
                mechanism=assessment.mechanism or "; ".join(assessment.reasons)[:500],
                value=assessment.value,
                evidence=(*numbers, *watched.evidence),
                confidence=0.9 if assessment.evidence else 0.5,
            )
        )

    async def _resume_attempt(
        self, past: Incident, baseline: Baseline, reflexes: PlaybookResponder
    ) -> IncidentResult:
        """After a crash, with changes about which nobody has said yet whether they help."""
        await self._enter("verify", past.attempt)
        why = f"the playbook {past.playing} was cut off" if past.playing else ""
        if not why and not baseline.failing:
            why = "it was cut off, and no check could see the trouble"
        proof = await verify(self._context, self._details, baseline, past.attempt, why_not=why)
        if proof.ok:
            return IncidentResult(
                outcome="resolved", answered_by=changes_made_by(past), reason="verified"
            )
        left = () if proof.helped else await self._undo(past.attempt, proof.why)
        if left:
            return _undo_failed_result(left)
        return await self._attempts(past, baseline, reflexes)

    async def _attempts(
        self, past: Incident | None, baseline: Baseline, reflexes: PlaybookResponder
    ) -> IncidentResult:
        settings = self._context.settings
        first = 1 + max((change.attempt for change in past.changes), default=0) if past else 1
        attempts = Attempts(self._context, self._details, baseline, reflexes, self._enter)
        for number in range(first, first + settings.attempts):
            tried = await attempts.run(number)
            if tried.ending is not None:
                return IncidentResult(
                    outcome=tried.ending, answered_by=tried.attempted_by, reason=tried.why[:500]
                )
            if not tried.keep and (left := await self._undo(number, tried.why)):
                return _undo_failed_result(left)
            if tried.last:
                return await self._end_without_fix(baseline, tried)
        return IncidentResult(
            outcome="escalated",
            answered_by=attempts.attempted_by,
            reason=f"{settings.attempts} attempts did not hold: {attempts.why}",
        )

    async def _end_without_fix(self, baseline: Baseline, tried: AttemptResult) -> IncidentResult:
        """Nobody knows a way. If nothing was changed, it may still have mended itself meanwhile."""
        now = await read_incident(self._context.bus.journal, self._details.run)
        untouched = now is None or not now.changes
        watched = RecoveryResult(recovered=False)
        if untouched and baseline.evidence:
            watched = await watch_recovery(self._context, self._details, baseline)
        if not watched.recovered:
            return IncidentResult(
                outcome="escalated", answered_by=tried.attempted_by, reason=tried.why
            )
        why = f"it passes since, for {watched.seconds:.0f} s: {', '.join(watched.checks)}"
        await self._diagnose(Assessment(verdict="recovered", reasons=(why,)), "recovered", watched)
        return IncidentResult(outcome="recovered", reason=why)

    async def _undo(self, attempt: int, reason: str) -> tuple[str, ...]:
        now = await read_incident(self._context.bus.journal, self._details.run)
        if now is None or not now.unverified_changes:
            return ()
        await self._enter("undo", attempt)
        return await undo_changes(self._context, now, reason[:500])

    async def _give_up(self, why: str) -> IncidentResult:
        """What stands and was never proved is taken back before people are called."""
        left = await self._undo(0, why)
        return (
            _undo_failed_result(left) if left else IncidentResult(outcome="escalated", reason=why)
        )

    async def _finish(self, ending: IncidentResult) -> None:
        now = await read_incident(self._context.bus.journal, self._details.run)
        if now is None or not now.report:
            if ending.outcome == "escalated":
                said = now.diagnosis if now else None
                await publish_escalation(
                    self._context, self._details, said, self._assessment, ending.reason
                )
            await self._run_final_phase("document", self._context.report)
        if ending.outcome == "resolved":
            await self._run_final_phase("learn", self._context.learn)
        await self._context.gate.commit()
        await self._context.bus.publish(
            IncidentClosed(
                run=self._details.run,
                incident=self._details.incident,
                outcome=ending.outcome,
                answered_by=ending.answered_by,
                reason=ending.reason[:1000],
            )
        )

    async def _run_final_phase(
        self, phase: IncidentPhase, work: Callable[[IncidentDetails], Awaitable[None]]
    ) -> None:
        """A report that could not be made, or a lesson not learned, is told and undoes no fix."""
        await self._enter(phase)
        try:
            await work(self._details)
        except StoreError:
            raise
        except HermesError as error:
            await self._enter(phase, detail=f"failed: {error}"[:500])

    async def _enter(self, phase: IncidentPhase, attempt: int = 0, detail: str = "") -> None:
        resumed, self._resumed = self._resumed, False
        await self._context.bus.publish(
            PhaseEntered(
                run=self._details.run,
                incident=self._details.incident,
                phase=phase,
                attempt=attempt,
                detail=detail,
                resumed=resumed,
                gap=self._gap if resumed else 0.0,
            )
        )


def _innermost_error(error: Exception) -> Exception:
    """The failure inside the groups of those who work side by side."""
    while isinstance(error, ExceptionGroup):
        lost = error.subgroup(StoreError)
        error = (lost or error).exceptions[0]
    return error


def _undo_failed_result(left: tuple[str, ...]) -> IncidentResult:
    return IncidentResult(
        outcome="escalated", reason=f"could not be taken back: {'; '.join(left)}"[:1000]
    )


def _result_of(past: Incident) -> IncidentResult:
    """How it ends, where everything but the ending itself had been written."""
    if past.closed is not None and past.closed.outcome != "closed":
        by: AnsweredBy = (
            "nobody" if past.closed.answered_by == "person" else past.closed.answered_by
        )
        return IncidentResult(
            outcome=past.closed.outcome, answered_by=by, reason=past.closed.reason
        )
    if past.verified is not None and past.verified.ok:
        return IncidentResult(
            outcome="resolved", answered_by=changes_made_by(past), reason="verified"
        )
    verdict = past.diagnosis.verdict if past.diagnosis else "escalate"
    if verdict in ("no-incident", "recovered"):
        return IncidentResult(outcome=verdict, answered_by="playbook")
    return IncidentResult(
        outcome="escalated", answered_by=changes_made_by(past), reason="nothing held"
    )


def changes_made_by(past: Incident) -> AnsweredBy:
    kept = [change for change in past.changes if change.undone != "yes"]
    if not kept:
        return "nobody"
    return "model" if kept[-1].by.startswith(past.details.run) else "playbook"
