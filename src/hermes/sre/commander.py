"""One incident from its first alert to its last line: the story of the house, read it first.

    assess      is anything wrong at all? how is everything before we touch it? Beside that,
                playbooks look for their signatures: to look needs no leave
    reflex      a trusted playbook whose signature is found on the host acts, without a model
    investigate else models look, read-only, side by side; remediate: one acts on what they found
    verify      checks that the fixer has no hand in; what does not hold is taken back
    document    a report from the journal, whatever came of it
    learn       of verified fixes only

Everything is written down before it is done. A commander that is killed is followed by another
one, which reads what was written, repeats no change, and goes on from there.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Literal

import anyio

from hermes.core.actions import HearsText
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.incidents import (
    IncidentClosed,
    IncidentDiagnosed,
    Phase,
    PhaseEntered,
    Verdict,
)
from hermes.core.messages import Value
from hermes.sre.assessing.assess import Assessment
from hermes.sre.attempts import Attempts, Made
from hermes.sre.case import Case
from hermes.sre.changes import take_back
from hermes.sre.ground import Ground
from hermes.sre.handing_over import hand_over
from hermes.sre.incident import Incident, incident
from hermes.sre.reflexes import Reflexes, numbers_of
from hermes.sre.sizing_up import assessment_before, size_up
from hermes.sre.verify import Baseline, Watched, take_baseline, verify, watch_recovery

Outcome = Literal["resolved", "escalated", "no-incident", "recovered"]
AnsweredBy = Literal["playbook", "model", "nobody"]


class Ending(Value, kw_only=True, frozen=True):
    outcome: Outcome
    answered_by: AnsweredBy = "nobody"
    reason: str = ""


class Commander:
    """Works on one incident, alone."""

    def __init__(self, ground: Ground, case: Case) -> None:
        self._ground, self._case = ground, case
        self._resumed, self._gap = False, 0.0
        self._assessment: Assessment | None = None

    async def command(self) -> Ending:
        """Until it is closed. Raises `StoreError` alone: without a journal nothing may go on."""
        past = await incident(self._ground.bus.journal, self._case.run)
        if past is not None and past.closed is not None:
            return _ending_of(past)
        policy = self._ground.executor.policy
        if isinstance(policy, HearsText):  # an alert is text that nobody vouches for
            policy.heard(self._case.run, self._case.facts.words, False)
        if past is not None and past.phase is not None and past.last_at is not None:
            self._resumed = True
            self._gap = max(0.0, (datetime.now(UTC) - past.last_at).total_seconds())
        ending = await self._within_time(past)
        await self._finish(ending)
        return ending

    async def _within_time(self, past: Incident | None) -> Ending:
        try:
            with anyio.move_on_after(self._ground.settings.time_limit):
                return await self._work(past)
            limit = self._ground.settings.time_limit
            return await self._give_up(f"not mended within {limit:g} s")
        except Exception as error:  # whatever it was: changes must be taken back
            cause = _cause(error)
            if isinstance(cause, StoreError):
                raise cause from error
            return await self._give_up(f"the work on it failed: {type(cause).__name__}: {cause}")

    async def _work(self, past: Incident | None) -> Ending:
        if past is not None and past.report:
            return _ending_of(past)
        if past is not None and not past.standing and past.verified and past.verified.ok:
            return Ending(outcome="resolved", answered_by=answered_by(past), reason="verified")
        async with anyio.create_task_group() as group:
            try:
                ending = await self._mend(past, Reflexes(self._ground, self._case, group))
            finally:
                group.cancel_scope.cancel()
        return ending

    async def _mend(self, past: Incident | None, reflexes: Reflexes) -> Ending:
        known = assessment_before(past, self._gap)
        if past is not None:
            reflexes.resume(past, looks=known is not None)
        if known is None or known.all_clear or (past is not None and past.standing):
            await self._enter("assess", past.attempt if past else 0)
        earlier = past.failing if past is not None else None
        if past is not None and past.standing:
            # Nothing else is asked of a host that a cut off attempt has changed.
            baseline = await take_baseline(self._ground, self._case, earlier, past.weak)
            return await self._go_on(past, baseline, reflexes)
        sized = await size_up(self._ground, self._case, earlier, reflexes, known)
        self._assessment = sized.assessment
        baseline = sized.baseline
        if sized.all_clear:
            watched = await watch_recovery(self._ground, self._case, baseline)
            if not watched.returned:
                return await self._all_clear(sized.assessment, watched)
            baseline = await take_baseline(self._ground, self._case, None)
        return await self._attempts(past, baseline, reflexes)

    async def _all_clear(self, assessment: Assessment, watched: Watched) -> Ending:
        """Positive grounds, and checks that observe the symptom and pass for as long as needed."""
        if not watched.well:
            why = f"{'; '.join(assessment.reasons)[:400]}; but {watched.why}"
            return Ending(outcome="escalated", reason=why[:500])
        verdict: Literal["no-incident", "recovered"] = (
            "recovered" if assessment.verdict == "recovered" else "no-incident"
        )
        await self._diagnose(assessment, verdict, watched)
        return Ending(
            outcome=verdict, answered_by="playbook", reason="; ".join(assessment.reasons)[:500]
        )

    async def _diagnose(self, assessment: Assessment, verdict: Verdict, watched: Watched) -> None:
        numbers = await numbers_of(self._ground, self._case.run, assessment.evidence)
        await self._ground.bus.publish(
            IncidentDiagnosed(
                run=self._case.run,
                incident=self._case.incident,
                verdict=verdict,
                component=assessment.component,
                mechanism=assessment.mechanism or "; ".join(assessment.reasons)[:500],
                value=assessment.value,
                evidence=(*numbers, *watched.evidence),
                confidence=0.9 if assessment.evidence else 0.5,
            )
        )

    async def _go_on(self, past: Incident, baseline: Baseline, reflexes: Reflexes) -> Ending:
        """After a crash, with changes about which nobody has said yet whether they help."""
        await self._enter("verify", past.attempt)
        why = f"the playbook {past.playing} was cut off" if past.playing else ""
        if not why and not baseline.failing:
            why = "it was cut off, and no check could see the trouble"
        proof = await verify(self._ground, self._case, baseline, past.attempt, why_not=why)
        if proof.ok:
            return Ending(outcome="resolved", answered_by=answered_by(past), reason="verified")
        left = () if proof.helped else await self._take_back(past.attempt, proof.why)
        if left:
            return _stuck(left)
        return await self._attempts(past, baseline, reflexes)

    async def _attempts(
        self, past: Incident | None, baseline: Baseline, reflexes: Reflexes
    ) -> Ending:
        settings = self._ground.settings
        first = 1 + max((change.attempt for change in past.changes), default=0) if past else 1
        attempts = Attempts(self._ground, self._case, baseline, reflexes, self._enter)
        for number in range(first, first + settings.attempts):
            tried = await attempts.make(number)
            if tried.ending is not None:
                return Ending(
                    outcome=tried.ending, answered_by=tried.by_whom, reason=tried.why[:500]
                )
            if not tried.keep and (left := await self._take_back(number, tried.why)):
                return _stuck(left)
            if tried.last:
                return await self._nothing_left(baseline, tried)
        return Ending(
            outcome="escalated",
            answered_by=attempts.by_whom,
            reason=f"{settings.attempts} attempts did not hold: {attempts.why}",
        )

    async def _nothing_left(self, baseline: Baseline, tried: Made) -> Ending:
        """Nobody knows a way. If nothing was changed, it may still have mended itself meanwhile."""
        now = await incident(self._ground.bus.journal, self._case.run)
        untouched = now is None or not now.changes
        watched = Watched(well=False)
        if untouched and baseline.evidence:
            watched = await watch_recovery(self._ground, self._case, baseline)
        if not watched.well:
            return Ending(outcome="escalated", answered_by=tried.by_whom, reason=tried.why)
        why = f"it passes since, for {watched.seconds:.0f} s: {', '.join(watched.checks)}"
        await self._diagnose(Assessment(verdict="recovered", reasons=(why,)), "recovered", watched)
        return Ending(outcome="recovered", reason=why)

    async def _take_back(self, attempt: int, reason: str) -> tuple[str, ...]:
        now = await incident(self._ground.bus.journal, self._case.run)
        if now is None or not now.standing:
            return ()
        await self._enter("undo", attempt)
        return await take_back(self._ground, now, reason[:500])

    async def _give_up(self, why: str) -> Ending:
        """What stands and was never proved is taken back before people are called."""
        left = await self._take_back(0, why)
        return _stuck(left) if left else Ending(outcome="escalated", reason=why)

    async def _finish(self, ending: Ending) -> None:
        now = await incident(self._ground.bus.journal, self._case.run)
        if now is None or not now.report:
            if ending.outcome == "escalated":
                said = now.diagnosis if now else None
                await hand_over(self._ground, self._case, said, self._assessment, ending.reason)
            await self._unharmed("document", self._ground.report)
        if ending.outcome == "resolved":
            await self._unharmed("learn", self._ground.learn)
        await self._ground.gate.commit()
        await self._ground.bus.publish(
            IncidentClosed(
                run=self._case.run,
                incident=self._case.incident,
                outcome=ending.outcome,
                answered_by=ending.answered_by,
                reason=ending.reason[:1000],
            )
        )

    async def _unharmed(self, phase: Phase, work: Callable[[Case], Awaitable[None]]) -> None:
        """A report that could not be made, or a lesson not learned, is told and undoes no fix."""
        await self._enter(phase)
        try:
            await work(self._case)
        except StoreError:
            raise
        except HermesError as error:
            await self._enter(phase, detail=f"failed: {error}"[:500])

    async def _enter(self, phase: Phase, attempt: int = 0, detail: str = "") -> None:
        resumed, self._resumed = self._resumed, False
        await self._ground.bus.publish(
            PhaseEntered(
                run=self._case.run,
                incident=self._case.incident,
                phase=phase,
                attempt=attempt,
                detail=detail,
                resumed=resumed,
                gap=self._gap if resumed else 0.0,
            )
        )


def _cause(error: Exception) -> Exception:
    """The failure inside the groups of those who work side by side."""
    while isinstance(error, ExceptionGroup):
        lost = error.subgroup(StoreError)
        error = (lost or error).exceptions[0]
    return error


def _stuck(left: tuple[str, ...]) -> Ending:
    return Ending(outcome="escalated", reason=f"could not be taken back: {'; '.join(left)}"[:1000])


def _ending_of(past: Incident) -> Ending:
    """How it ends, where everything but the ending itself had been written."""
    if past.closed is not None and past.closed.outcome != "closed":
        by: AnsweredBy = (
            "nobody" if past.closed.answered_by == "person" else past.closed.answered_by
        )
        return Ending(outcome=past.closed.outcome, answered_by=by, reason=past.closed.reason)
    if past.verified is not None and past.verified.ok:
        return Ending(outcome="resolved", answered_by=answered_by(past), reason="verified")
    verdict = past.diagnosis.verdict if past.diagnosis else "escalate"
    if verdict in ("no-incident", "recovered"):
        return Ending(outcome=verdict, answered_by="playbook")
    return Ending(outcome="escalated", answered_by=answered_by(past), reason="nothing held")


def answered_by(past: Incident) -> AnsweredBy:
    kept = [change for change in past.changes if change.taken_back != "yes"]
    if not kept:
        return "nobody"
    return "model" if kept[-1].by.startswith(past.case.run) else "playbook"
