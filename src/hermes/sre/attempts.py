"""Tries to fix an incident, one attempt after the other: playbooks, experiments, then models.

Independent checks verify each attempt before the next one begins.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from hermes.core.events.incidents import IncidentPhase
from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.policy.approvals.history import read_approval_history
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.baseline import Baseline, add_later_failures, extend_baseline
from hermes.sre.cause import EXPERIMENT
from hermes.sre.checks import run_check
from hermes.sre.context import IncidentWork
from hermes.sre.model_responder import (
    FailedAttempt,
    Hypothesis,
    InvestigationResult,
    ModelResponder,
)
from hermes.sre.reports.statements import playbooks_unchecked
from hermes.sre.responders.experiments import ExperimentResponder, FixTests, with_known_facts
from hermes.sre.responders.playbooks import PlaybookAttempt, PlaybookResponder
from hermes.sre.undo import ChangeRecorder, find_restarts
from hermes.sre.verify import (
    NOT_REHEARSED,
    FixRehearsal,
    VerificationResult,
    verify,
    watch_recovery,
    with_recovery,
)

EnterPhase = Callable[[IncidentPhase, int, str], Awaitable[None]]
AttemptedBy = Literal["playbook", "experiment", "model", "nobody"]
REVERTED_BY_ANOTHER = "another incident has reverted the cause, and something still fails"
UNOBSERVED_REASON = (
    "none of our checks observed the problem: a person has to decide whether it is over"
)


def recorded_responder(by: AttemptedBy) -> Literal["playbook", "model", "nobody"]:
    """Return the responder for `incident.closed`, which earlier versions read too: they know no
    experiments. This version sees from the changes that it was an experiment."""
    return "playbook" if by == "experiment" else by


def changes_made_by(recorded: Incident) -> AttemptedBy:
    """Return who made the changes that are in force."""
    kept = [change for change in recorded.changes if change.undone != "yes"]
    if not kept:
        return "nobody"
    if kept[-1].by == EXPERIMENT:
        return "experiment"
    return "model" if kept[-1].by.startswith(recorded.details.run) else "playbook"


class AttemptResult(Value, kw_only=True, frozen=True):
    ending: Literal["resolved", "no-incident", "recovered"] | None = None
    attempted_by: AttemptedBy = "nobody"
    why: str = ""
    """Why it failed."""
    keep_changes: bool = False
    """The changes stay in force: they helped, but not enough."""
    final: bool = False
    """Nothing else is left to try."""


class Attempts:
    def __init__(
        self,
        work: IncidentWork,
        baseline: Baseline,
        playbooks: PlaybookResponder,
        enter: EnterPhase,
    ) -> None:
        self._work, self._baseline = work, baseline
        self._playbooks, self._enter = playbooks, enter
        self._experiments, self._tests = ExperimentResponder(work), FixTests(work)
        self._investigation: InvestigationResult | None = None
        self._hypotheses: list[Hypothesis] = []
        self._failed_attempts: list[FailedAttempt] = []
        self._proved = False
        """Whether checks have verified a fix."""
        self.attempted_by: AttemptedBy = "nobody"
        self.why = ""

    async def run(self, number: int) -> AttemptResult:
        result = await self._try_playbook(number)
        if result is None:
            await self._work.context.claims.wait_for_owners(self._work.details.incident)
            result = await self._try_experiments(number)
        if result is None:
            result = await self._try_playbook_again(number)
        if result is None:
            result = await self._try_models(number)
        if result.ending is None and result.final and self._proved:
            result = AttemptResult(ending="resolved", attempted_by="playbook")
        self.attempted_by = (
            result.attempted_by if result.attempted_by != "nobody" else self.attempted_by
        )
        self.why = result.why or self.why
        self._work.context.claims.end_fix(self._work.details.incident)
        if result.ending is None and result.final:
            await self._wait_for_other_fixes(number)
        if result.ending is None:
            self._failed_attempts.append(
                FailedAttempt(attempt=number, by=result.attempted_by, why=result.why)
            )
        return result

    async def _wait_for_other_fixes(self, number: int) -> None:
        """Nothing is left to try here, but what another incident is about to fix may end this
        problem, too: people are called after it."""
        claims, incident = self._work.context.claims, self._work.details.incident
        if others := claims.fixes_of_others(incident):
            waits = [await self._describe_fix(each) for each in others]
            await self._enter("investigate", number, f"waits for {'; '.join(waits)}"[:500])
            await claims.wait_for_fixes(incident, await self._known_text())

    async def _known_text(self) -> str:
        """The alert, and what the assessment has seen: it may name what the problem comes from."""
        assessed = (await self._work.read()).assessed
        seen = (*assessed.reasons, assessed.component) if assessed is not None else ()
        return "\n".join((self._work.details.facts.combined_text, *seen))

    async def _describe_fix(self, incident: str) -> str:
        """Say what the fix of another incident waits for. Its run is named after it."""
        asked = await read_approval_history(self._work.journal, run=incident)
        for question in asked.open_questions(datetime.now(UTC)):
            if not question.seconds:
                request = question.request
                people = " or ".join((*request.approvers, *question.tally.escalated)) or "a person"
                return f"{incident}, which waits for an answer of {people} ({request.approval})"
        return f"{incident}, where a fix is under way"

    async def _try_playbook(self, number: int) -> AttemptResult | None:
        """Try the next playbook. Return None when no remaining playbook finds its signature."""
        await self._enter("reflex", number, "")
        test = partial(self._tests.run, number, self._baseline)
        return await self._verify_playbook(
            number, await self._playbooks.run_next(number, self._prepare_change, test)
        )

    async def _try_playbook_again(
        self, number: int, *, after_wait: bool = False
    ) -> AttemptResult | None:
        """Check the playbooks once more: a fault may leave its traces some time after the alert,
        and experiments use that time."""
        return await self._verify_playbook(
            number, await self._playbooks.look_again(number, self._prepare_change, after_wait)
        )

    async def _verify_playbook(
        self, number: int, attempt: PlaybookAttempt | None
    ) -> AttemptResult | None:
        if attempt is None:
            self.why = self._playbooks.refused or self._playbooks.refuted or self.why
            return None
        before = self._baseline
        self._baseline = before.with_symptoms(attempt.played.symptoms)
        verification = await self._verify(number, attempt.failure, attempt.unit)
        if not verification.ok and not verification.helped:
            self._baseline = before  # it changed nothing about the symptom
            return _result_of(verification, "playbook", attempt.failure)
        others = ", ".join(verification.others) if verification.ok else ""
        if not others and not await self._playbooks.others_still_fail(attempt):
            return _result_of(verification, "playbook", attempt.failure)
        self._proved = verification.ok  # there are further faults: what is fixed stays
        why = verification.why or f"{others or 'other components that the alert names'} still fail"
        return AttemptResult(attempted_by="playbook", why=why, keep_changes=True)

    async def _try_experiments(self, number: int) -> AttemptResult | None:
        """Find the cause by experiments and revert it. Return None when no cause was proved, or its
        revert was refused. Before people are asked, the playbooks are checked again."""
        if self._work.cluster is not None:  # a copy of this host has no cluster
            return None
        waited = await self._experiments.wait_for_turn()
        # Meanwhile more may have failed, or left its traces.
        if waited and (again := await self._try_playbook_again(number, after_wait=True)):
            self._experiments.end_turn()
            return again
        if self._baseline.failing and not self._baseline.evidence:
            self._baseline = await extend_baseline(self._work, self._baseline)
        self._baseline = await self._experiments.observe(number, self._baseline, self._enter)
        if not await self._experiments.find_cause(number, self._baseline, self._enter):
            return None
        if self._experiments.may_ask and (again := await self._try_playbook_again(number)):
            return again
        attempt = await self._experiments.revert(
            number, self._baseline, self._prepare_change, self._enter
        )
        if attempt is None:
            if not self._experiments.outdated:
                return None
            return AttemptResult(
                attempted_by="experiment", why=REVERTED_BY_ANOTHER, keep_changes=True
            )
        verification = await self._verify(
            number,
            attempt.failure,
            attempt.unit,
            rehearsal=attempt.rehearsal,
        )
        if verification.ok and (
            rest := await self._experiments.find_unobserved_fault(number, self._baseline)
        ):
            return AttemptResult(attempted_by="experiment", why=rest, keep_changes=True)
        return _result_of(verification, "experiment", attempt.failure)

    async def _try_models(self, number: int) -> AttemptResult:
        responder = self._work.context.responder
        if responder is None or not self._work.settings.agents:
            why = self.why or f"{await self._no_match_reason()}, and there is no model to ask"
            if suspects := self._playbooks.suspects:
                why = f"{why}; possible, but its symptom was not observed: {suspects}"
            if left := self._experiments.not_put_back:
                why = f"the cause is proved on copies, not put back: {left}; {why}"
            elif shown := self._experiments.summary:
                why = f"{why}; {shown}"
            return AttemptResult(why=why, final=True)
        if self._investigation is None:
            await self._enter("investigate", number, "")
            self._investigation = await responder.investigate(
                with_known_facts(self._work.details, self._experiments.summary),
                await self._baseline.independent_checks(),
            )
            self._hypotheses = list(self._investigation.hypotheses)
        verdict = self._investigation.verdict
        if verdict in ("no-incident", "recovered"):
            return await self._confirm_no_incident(number, verdict)
        if verdict == "escalate" or not self._hypotheses:
            why = "; ".join(self._investigation.gaps) or "the models found no cause to act on"
            return AttemptResult(attempted_by="model", why=why, final=True)
        return await self._try_fix(number, responder, self._hypotheses.pop(0))

    async def _no_match_reason(self) -> str:
        """Names the playbooks that could not be checked: these may have matched."""
        if not self._work.settings.reflex:
            return "playbooks are switched off (sre.reflex)"
        kinds = ("playbook.ended", "playbook.started")
        records = self._work.journal.read(run=self._work.details.run, kinds=kinds)
        skipped = playbooks_unchecked([each async for each in records])
        count = sum(len(each.skills) for each in skipped)
        why = f" ({count} could not be checked: {skipped[0].why[:160]})" if skipped else ""
        return f"no playbook matched{why}"

    async def _confirm_no_incident(
        self, number: int, verdict: Literal["no-incident", "recovered"]
    ) -> AttemptResult:
        """Verify a model's verdict that nothing is wrong, just like a fix."""
        await self._enter("verify", number, "")
        recovery = await watch_recovery(self._work, self._baseline)
        if not recovery.recovered:
            return AttemptResult(
                attempted_by="model",
                why=f"the model concluded {verdict}, but {recovery.why}",
                final=True,
            )
        if not self._baseline.failing:
            return AttemptResult(ending=verdict, attempted_by="model")
        if known := (await self._work.read()).diagnosis:
            await self._work.publish(await with_recovery(self._work, known, recovery))
        return AttemptResult(ending="recovered", attempted_by="model")

    async def _try_fix(
        self, number: int, responder: ModelResponder, hypothesis: Hypothesis
    ) -> AttemptResult:
        await self._enter("remediate", number, hypothesis.component)
        changes = ChangeRecorder(
            self._work, number, self._prepare_change, find_test=self._tests.of_command
        )
        baseline = await self._with_proposed_check(hypothesis.check)
        executor = await self._tests.add_tool(number, self._baseline, changes.executor)
        fix = await responder.remediate(
            self._work.details, hypothesis, number, tuple(self._failed_attempts), executor
        )
        if not changes.count:
            why = fix.gave_up or "nothing was changed"
            return AttemptResult(attempted_by="model", why=why, final=not self._hypotheses)
        self._baseline = baseline
        verification = await self._verify(number, "", hypothesis.component, by_model=True)
        if verification.symptom_unobserved:
            return AttemptResult(
                attempted_by="model", why=UNOBSERVED_REASON, keep_changes=True, final=True
            )
        return _result_of(verification, "model", "")

    async def _prepare_change(self, asked: bool) -> str:
        """Run the checks before a change. Return those that pass although nothing was changed;
        empty while the problem is there. What fails by now was not caused by the change that
        follows."""
        if asked and self._baseline.evidence:
            recovery = await watch_recovery(self._work, self._baseline)
            if recovery.recovered and not recovery.others:
                return f"{', '.join(recovery.checks)} passed"
        self._baseline = await add_later_failures(self._work, self._baseline)
        return ""

    async def _with_proposed_check(self, command: str) -> Baseline:
        """Add the check that a model proposed, if it fails before anything is changed."""
        if not command.strip():
            return self._baseline
        check = PlaybookCheck(name="proposed", command=command)
        result = await run_check(check, self._work.execute)
        return self._baseline if result.ok else self._baseline.with_proposed_check(check)

    async def _verify(
        self,
        number: int,
        why: str,
        component: str,
        *,
        by_model: bool = False,
        rehearsal: FixRehearsal = NOT_REHEARSED,
    ) -> VerificationResult:
        """Verify the attempt. After a fix by a model, the units that it restarted are restarted
        again."""
        await self._enter("verify", number, "")
        changes = (await self._work.read()).changes
        return await verify(
            self._work,
            self._baseline,
            number,
            fix_failure=why,
            component=component,
            restarted=find_restarts([c.command for c in changes if c.attempt == number]),
            restart_again=by_model,
            rehearsal=rehearsal,
        )


def _result_of(
    verification: VerificationResult, attempted_by: AttemptedBy, why: str
) -> AttemptResult:
    if verification.ok:
        return AttemptResult(ending="resolved", attempted_by=attempted_by)
    return AttemptResult(
        attempted_by=attempted_by, why=verification.why or why, keep_changes=verification.helped
    )
