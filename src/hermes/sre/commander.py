"""Works on one incident from its assessment to its end, and resumes it after a crash."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import anyio

from hermes.core.actions import TracksText
from hermes.core.errors import HermesError, StoreError, innermost_error
from hermes.core.events.incidents import (
    DiagnosisVerdict,
    IncidentClosed,
    IncidentDiagnosed,
    IncidentPhase,
    PhaseEntered,
)
from hermes.core.incident import Incident, IncidentDetails
from hermes.core.messages import Value
from hermes.skills.playbook.commands import find_root_commands
from hermes.sre.assessment.assess import assess_host
from hermes.sre.assessment.grading import assessment_events
from hermes.sre.assessment.symptoms import Assessment
from hermes.sre.attempts import (
    AttemptedBy,
    Attempts,
    changes_made_by,
    recorded_responder,
)
from hermes.sre.baseline import Baseline, extend_baseline, take_baseline
from hermes.sre.context import IncidentContext, IncidentWork
from hermes.sre.escalation.collect import publish_escalation
from hermes.sre.responders.playbooks import PlaybookResponder
from hermes.sre.undo import undo_changes
from hermes.sre.verify import (
    RecoveryResult,
    recorded_rehearsal,
    verify,
    watch_recovery,
    with_recovery,
)

MAX_RESUME_GAP_S = 300.0
"""Seconds after a crash within which the earlier assessment is still valid."""
BASELINE_SAMPLES, BASELINE_PAUSE_S = 6, 0.4
"""How often all checks are run before anything is changed, and the pause between."""
IncidentOutcome = Literal["resolved", "escalated", "no-incident", "recovered"]


@dataclass(frozen=True)
class InitialAssessment:
    baseline: Baseline
    assessment: Assessment

    @property
    def all_clear(self) -> bool:
        """The assessment finds nothing wrong, and no check fails."""
        return self.assessment.all_clear and not self.baseline.failing


async def assess_incident(
    work: IncidentWork,
    earlier: frozenset[str] | None,
    playbooks: PlaybookResponder,
    known: Assessment | None = None,
) -> InitialAssessment:
    """`earlier`: checks that failed before a crash; `known`: the assessment from before it."""
    found: list[Assessment] = [known] if known is not None else []
    baselines: list[Baseline] = []
    enough, measured = anyio.Event(), anyio.Event()

    async def wait_until_alone() -> None:
        """Wait for our own checks to end: their requests would look like those of users."""
        enough.set()
        await measured.wait()
        await playbooks.discard_scan()

    async def assess() -> Assessment:
        if work.cluster is not None:
            return await work.cluster.assess(work)
        return await assess_host(
            work.details.facts,
            work.execute_unattended(),
            wait_until_alone=wait_until_alone,
            daemons=work.context.daemons(),
            root_commands=await find_root_commands(work.context.environment),
        )

    async def judge() -> None:
        if known is None:
            found.append(await assess())
            weights = work.settings.triage.services
            await work.publish(*assessment_events(await work.read(), found[0], weights))
        enough.set()

    async def measure() -> None:
        """Run the checks several times while the host is assessed: a symptom may be
        intermittent."""
        try:
            baselines.append(await take_baseline(work, earlier))
            for _ in range(BASELINE_SAMPLES - 1):
                with anyio.move_on_after(min(BASELINE_PAUSE_S, work.settings.verify.every)):
                    await enough.wait()
                if enough.is_set() or earlier is not None:
                    break
                baselines.append(await extend_baseline(work, baselines[-1]))
        finally:
            measured.set()

    async with anyio.create_task_group() as group:
        group.start_soon(measure)
        group.start_soon(judge)
        playbooks.start_scan()
    return InitialAssessment(baselines[-1], found[0])


def earlier_assessment(recorded: Incident, gap_s: float) -> Assessment | None:
    """The assessment from before a crash; None when it is too old or there is none."""
    event = recorded.assessed
    if event is None or gap_s > MAX_RESUME_GAP_S:
        return None
    return Assessment(
        verdict=event.verdict,
        evidence=event.calls,
        reasons=event.reasons,
        component=event.component,
        mechanism=event.mechanism,
        value=event.value,
    )


class IncidentResult(Value, kw_only=True, frozen=True):
    outcome: IncidentOutcome
    answered_by: AttemptedBy = "nobody"
    reason: str = ""


class Commander:
    """Works on one incident."""

    def __init__(self, context: IncidentContext, details: IncidentDetails) -> None:
        self._work = IncidentWork(context, details)
        self._resumed, self._gap_s = False, 0.0
        self._assessment = Assessment(verdict="unknown")
        self._baseline: Baseline | None = None

    async def run(self) -> IncidentResult:
        """Work until it is closed. Raises only `StoreError`: nothing is done without a journal."""
        recorded, details = await self._work.read(), self._work.details
        if recorded.closed is not None:
            return _result_of(recorded)
        policy = self._work.context.executor.policy
        if isinstance(policy, TracksText):  # the text of an alert is not trusted
            policy.record_text(details.run, details.facts.combined_text, False)
        if recorded.phase is not None and recorded.last_at is not None:
            self._resumed = True
            self._gap_s = max(0.0, (datetime.now(UTC) - recorded.last_at).total_seconds())
        with self._work.context.claims.release_after(details.incident):
            result = await self._resolve_within_limit(recorded)
        return await self._finish(result)

    async def _resolve_within_limit(self, recorded: Incident) -> IncidentResult:
        limit = self._work.settings.time_limit
        try:
            with anyio.move_on_after(limit):
                return await self._resolve(recorded)
            return await self._give_up(f"not fixed within {limit:g} s")
        except Exception as error:  # whatever it was: changes must be undone
            cause = innermost_error(error)
            if isinstance(cause, StoreError):
                raise cause from error
            return await self._give_up(f"the work on it failed: {type(cause).__name__}: {cause}")

    async def _resolve(self, recorded: Incident) -> IncidentResult:
        verified = recorded.verified is not None and recorded.verified.ok
        if recorded.report or (verified and not recorded.unverified_changes):
            return _result_of(recorded)
        async with anyio.create_task_group() as group:
            try:
                playbooks = PlaybookResponder(self._work, group)
                if recorded.unverified_changes:
                    result = await self._resume_attempt(recorded, playbooks)
                else:
                    result = await self._assess_and_fix(recorded, playbooks)
            finally:
                group.cancel_scope.cancel()
        return result

    async def _assess_and_fix(
        self, recorded: Incident, playbooks: PlaybookResponder
    ) -> IncidentResult:
        known = earlier_assessment(recorded, self._gap_s)
        playbooks.resume(recorded, keep_scan_results=known is not None)
        if known is None or known.all_clear:
            await self._enter("assess", recorded.attempt)
        initial = await assess_incident(self._work, recorded.failing, playbooks, known)
        self._assessment = initial.assessment
        baseline = initial.baseline
        if initial.all_clear:
            recovery = await watch_recovery(self._work, baseline)
            if not recovery.returned:
                return await self._all_clear(recovery)
            baseline = await take_baseline(self._work)
        return await self._run_attempts(recorded, baseline, playbooks)

    async def _all_clear(self, recovery: RecoveryResult) -> IncidentResult:
        """Close it if the checks confirm the assessment; otherwise escalate."""
        assessment, reasons = self._assessment, "; ".join(self._assessment.reasons)
        if not recovery.recovered:
            why = f"{reasons[:400]}; but {recovery.why}"
            return IncidentResult(outcome="escalated", reason=why[:500])
        verdict: Literal["no-incident", "recovered"] = (
            "recovered" if assessment.verdict == "recovered" else "no-incident"
        )
        await self._diagnose(assessment, verdict, recovery)
        return IncidentResult(outcome=verdict, answered_by="playbook", reason=reasons[:500])

    async def _diagnose(
        self, assessment: Assessment, verdict: DiagnosisVerdict, recovery: RecoveryResult
    ) -> None:
        numbers = await self._work.result_numbers(assessment.evidence)
        found = IncidentDiagnosed(
            run=self._work.details.run,
            incident=self._work.details.incident,
            verdict=verdict,
            component=assessment.component,
            mechanism=assessment.mechanism or "; ".join(assessment.reasons)[:500],
            value=assessment.value,
            evidence=(*numbers, *recovery.evidence),
            confidence=0.9 if assessment.evidence else 0.5,
        )
        if verdict == "recovered":
            found = await with_recovery(self._work, found, recovery)
        await self._work.publish(found)

    async def _resume_attempt(
        self, recorded: Incident, playbooks: PlaybookResponder
    ) -> IncidentResult:
        """Verify the changes of an attempt that a crash interrupted, and undo them if needed. The
        host is not assessed again: it was changed."""
        playbooks.resume(recorded, keep_scan_results=False)
        await self._enter("assess", recorded.attempt)
        baseline = await take_baseline(self._work, recorded.failing, recorded.weak)
        await self._enter("verify", recorded.attempt)
        # What was done before may be enough, also of an interrupted playbook: the checks tell.
        why = "" if baseline.failing else "it was interrupted, and no check observed the problem"
        rehearsal = recorded_rehearsal(recorded)
        verification = await verify(
            self._work, baseline, recorded.attempt, fix_failure=why, rehearsal=rehearsal
        )
        if verification.ok and not verification.others:
            return _verified_result(recorded)
        stays = verification.ok or verification.helped
        left = () if stays else await self._undo(recorded.attempt, verification.why)
        if left:
            return _undo_failed_result(left)
        return await self._run_attempts(recorded, baseline, playbooks)

    async def _run_attempts(
        self, recorded: Incident, baseline: Baseline, playbooks: PlaybookResponder
    ) -> IncidentResult:
        max_attempts = self._work.settings.attempts
        first = 1 + max((change.attempt for change in recorded.changes), default=0)
        self._baseline = baseline
        attempts = Attempts(self._work, baseline, playbooks, self._enter)
        for number in range(first, first + max_attempts):
            attempt = await attempts.run(number)
            if attempt.ending is not None:
                return IncidentResult(
                    outcome=attempt.ending,
                    answered_by=attempt.attempted_by,
                    reason=attempt.why[:500],
                )
            if not attempt.keep_changes and (left := await self._undo(number, attempt.why)):
                return _undo_failed_result(left)
            if attempt.final:
                return IncidentResult(
                    outcome="escalated", answered_by=attempt.attempted_by, reason=attempt.why
                )
        return IncidentResult(
            outcome="escalated",
            answered_by=attempts.attempted_by,
            reason=f"{max_attempts} attempts did not help: {attempts.why}",
        )

    async def _ended_meanwhile(self, now: Incident) -> IncidentResult | None:
        """Ask the checks once more before people are called: what failed may pass by now."""
        known, baseline = now.diagnosis, self._baseline
        told = known is not None and bool(known.escalation)
        left = any(change.undone != "yes" for change in now.changes)
        if told or left or baseline is None or not baseline.evidence:
            return None
        recovery = await watch_recovery(self._work, baseline)
        if not recovery.recovered or recovery.others:
            return None
        why = f"it passes since, for {recovery.seconds:.0f} s: {', '.join(recovery.checks)}"
        await self._diagnose(Assessment(verdict="recovered", reasons=(why,)), "recovered", recovery)
        return IncidentResult(outcome="recovered", reason=why)

    async def _undo(self, attempt: int, reason: str) -> tuple[str, ...]:
        now = await self._work.read()
        if not now.unverified_changes:
            return ()
        await self._enter("undo", attempt)
        return await undo_changes(self._work, now, reason[:500])

    async def _give_up(self, why: str) -> IncidentResult:
        """Undo changes that were not verified, then escalate."""
        if left := await self._undo(0, why):
            return _undo_failed_result(left)
        return IncidentResult(outcome="escalated", reason=why)

    async def _finish(self, result: IncidentResult) -> IncidentResult:
        now = await self._work.read()
        if not now.report:
            if result.outcome == "escalated":
                result = await self._ended_meanwhile(now) or result
            if result.outcome == "escalated":
                await publish_escalation(self._work, now, self._assessment, result.reason)
            await self._run_final_phase("document", self._work.context.report)
        if result.outcome == "resolved":
            await self._run_final_phase("learn", self._work.context.learn)
        await self._work.context.withdrawal.commit()
        await self._work.publish(
            IncidentClosed(
                run=self._work.details.run,
                incident=self._work.details.incident,
                outcome=result.outcome,
                answered_by=recorded_responder(result.answered_by),
                reason=result.reason[:1000],
            )
        )
        return result

    async def _run_final_phase(
        self, phase: IncidentPhase, work: Callable[[IncidentDetails], Awaitable[None]]
    ) -> None:
        """A failure here is recorded and does not change the outcome."""
        await self._enter(phase)
        try:
            await work(self._work.details)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - the host is as fixed as it was before
            what = error if isinstance(error, HermesError) else f"{type(error).__name__}: {error}"
            await self._enter(phase, detail=f"failed: {what}"[:500])

    async def _enter(self, phase: IncidentPhase, attempt: int = 0, detail: str = "") -> None:
        resumed, self._resumed = self._resumed, False
        await self._work.publish(
            PhaseEntered(
                run=self._work.details.run,
                incident=self._work.details.incident,
                phase=phase,
                attempt=attempt,
                detail=detail,
                resumed=resumed,
                gap=self._gap_s if resumed else 0.0,
            )
        )


def _undo_failed_result(left: tuple[str, ...]) -> IncidentResult:
    reason = f"could not be undone: {'; '.join(left)}"[:1000]
    return IncidentResult(outcome="escalated", reason=reason)


def _verified_result(recorded: Incident) -> IncidentResult:
    by = changes_made_by(recorded)
    return IncidentResult(outcome="resolved", answered_by=by, reason="verified")


def _result_of(recorded: Incident) -> IncidentResult:
    """The result of an incident whose last event was lost in a crash."""
    closed = recorded.closed
    if closed is not None and closed.outcome != "closed":
        by: AttemptedBy = "nobody" if closed.answered_by == "person" else closed.answered_by
        return IncidentResult(outcome=closed.outcome, answered_by=by, reason=closed.reason)
    if recorded.verified is not None and recorded.verified.ok:
        return _verified_result(recorded)
    verdict = recorded.diagnosis.verdict if recorded.diagnosis else "escalate"
    if verdict in ("no-incident", "recovered"):
        return IncidentResult(outcome=verdict, answered_by="playbook")
    by = changes_made_by(recorded)
    return IncidentResult(outcome="escalated", answered_by=by, reason="no attempt helped")
