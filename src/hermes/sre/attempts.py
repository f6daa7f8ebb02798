"""Ways to mend it, one at a time: playbooks first, then what models make of it.

An attempt ends with the word of checks that it has no hand in. Only then does the next one begin.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from hermes.core.events.incidents import IncidentPhase
from hermes.core.messages import Value
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.checks import run_check
from hermes.sre.context import IncidentContext
from hermes.sre.incident import IncidentDetails
from hermes.sre.model_responder import FailedAttempt, Hypothesis, InvestigationResult
from hermes.sre.reports.statements import playbooks_unchecked
from hermes.sre.responders.playbooks import PlaybookResponder
from hermes.sre.undo import ChangeRecorder, restarted_units
from hermes.sre.verify import Baseline, VerificationResult, restart_commands, verify, watch_recovery

EnterPhase = Callable[[IncidentPhase, int, str], Awaitable[None]]
AttemptedBy = Literal["playbook", "model", "nobody"]
UNOBSERVED_REASON = "no check of ours saw the trouble: whether it is gone is for a person to say"


class AttemptResult(Value, kw_only=True, frozen=True):
    """What came of one attempt."""

    ending: Literal["resolved", "no-incident", "recovered"] | None = None
    attempted_by: AttemptedBy = "nobody"
    why: str = ""
    """Why it did not hold."""
    keep: bool = False
    """It helped, though not enough."""
    last: bool = False
    """There is no other way left to try."""


class Attempts:
    def __init__(
        self,
        context: IncidentContext,
        details: IncidentDetails,
        baseline: Baseline,
        reflexes: PlaybookResponder,
        enter: EnterPhase,
    ) -> None:
        self._context, self._details, self._baseline, self._enter = (
            context,
            details,
            baseline,
            enter,
        )
        self._reflexes = reflexes
        self._synthesis: InvestigationResult | None = None
        self._hypotheses: list[Hypothesis] = []
        self._failed_attempts: list[FailedAttempt] = []
        self._proved = False
        """Checks have said that a fix holds."""
        self.attempted_by: AttemptedBy = "nobody"
        self.why = ""

    async def run(self, number: int) -> AttemptResult:
        made = await self._try_playbook(number)
        if made is None:
            made = await self._try_models(number)
        if made.ending is None and made.last and self._proved:
            made = AttemptResult(ending="resolved", attempted_by="playbook")
        self.attempted_by = (
            made.attempted_by if made.attempted_by != "nobody" else self.attempted_by
        )
        self.why = made.why or self.why
        if made.ending is None:
            self._failed_attempts.append(
                FailedAttempt(attempt=number, by=made.attempted_by, why=made.why)
            )
        return made

    async def _try_playbook(self, number: int) -> AttemptResult | None:
        """None when there is no playbook left that finds its signature."""
        await self._enter("reflex", number, "")
        acted = await self._reflexes.run_next(number)
        if acted is None:
            self.why = self._reflexes.refused or self.why
            return None
        before = self._baseline
        self._baseline = before.with_symptoms(acted.played.symptoms)
        proof = await self._verify(number, (), acted.failure, acted.unit)
        if not proof.ok and not proof.helped:
            self._baseline = before  # what it was about is as it was
            return _result_of(proof, "playbook", acted.failure)
        if not await self._reflexes.find_remaining_faults(acted):
            return _result_of(proof, "playbook", acted.failure)
        self._proved = proof.ok  # and yet the alert speaks of more: what is mended stays
        why = proof.why or "more of what the alert names is sick"
        return AttemptResult(attempted_by="playbook", why=why, keep=True)

    async def _try_models(self, number: int) -> AttemptResult:
        minds = self._context.responder
        if minds is None or not self._context.settings.agents:
            why = self.why or f"{await self._no_match_reason()}, and there is no model to ask"
            if suspects := self._reflexes.suspects:
                why = f"{why}; possible, but its symptom was not observed: {suspects}"
            return AttemptResult(why=why, last=True)
        if self._synthesis is None:
            await self._enter("investigate", number, "")
            self._synthesis = await minds.investigate(
                self._details, await self._baseline.independent_checks()
            )
            self._hypotheses = list(self._synthesis.hypotheses)
        verdict = self._synthesis.verdict
        if verdict in ("no-incident", "recovered"):
            return await self._confirm_no_incident(number, verdict)
        if verdict == "escalate" or not self._hypotheses:
            why = "; ".join(self._synthesis.gaps) or "the models found no cause to act on"
            return AttemptResult(attempted_by="model", why=why, last=True)
        return await self._try_fix(number, self._hypotheses.pop(0))

    async def _no_match_reason(self) -> str:
        """That no playbook matched says little where they could not look."""
        kinds = ("playbook.ended", "playbook.started")
        journal, run = self._context.bus.journal, self._details.run
        skipped = playbooks_unchecked([each async for each in journal.read(run=run, kinds=kinds)])
        count = sum(len(each.skills) for each in skipped)
        why = f" ({count} could not be checked: {skipped[0].why[:160]})" if skipped else ""
        return f"no playbook matched{why}"

    async def _confirm_no_incident(
        self, number: int, verdict: Literal["no-incident", "recovered"]
    ) -> AttemptResult:
        """A model that says all is well is asked for proof like one that says it is fixed."""
        await self._enter("verify", number, "")
        watched = await watch_recovery(self._context, self._details, self._baseline)
        if not watched.recovered:
            return AttemptResult(
                attempted_by="model", why=f"said to be {verdict}, but {watched.why}", last=True
            )
        return AttemptResult(
            ending="recovered" if self._baseline.failing else verdict, attempted_by="model"
        )

    async def _try_fix(self, number: int, hypothesis: Hypothesis) -> AttemptResult:
        minds = self._context.responder
        assert minds is not None  # asked before
        await self._enter("remediate", number, hypothesis.component)
        changes = ChangeRecorder(self._context, self._details, number)
        baseline = await self._with_proposed_check(hypothesis.check)
        remedy = await minds.remediate(
            self._details, hypothesis, number, tuple(self._failed_attempts), changes.executor
        )
        if not changes.count:
            why = remedy.gave_up or "nothing was changed"
            return AttemptResult(attempted_by="model", why=why, last=not self._hypotheses)
        self._baseline = baseline
        commands = await self._commands(number)
        triggers = restart_commands(restarted_units(commands))
        proof = await self._verify(number, triggers, "", hypothesis.component)
        if proof.unseen:
            return AttemptResult(attempted_by="model", why=UNOBSERVED_REASON, keep=True, last=True)
        return _result_of(proof, "model", "")

    async def _with_proposed_check(self, command: str) -> Baseline:
        """A check that the models propose counts if it fails before anything is changed."""
        if not command.strip():
            return self._baseline
        check = PlaybookCheck(name="proposed", command=command)
        seen = await run_check(check, self._context.execute_for_run(self._details.run))
        return self._baseline if seen.ok else self._baseline.with_proposed_check(check)

    async def _commands(self, number: int) -> Sequence[str]:
        journal, run = self._context.bus.journal, self._details.run
        return [
            recorded.event.command
            async for recorded in journal.read(run=run, kinds=("change.began",))
            if getattr(recorded.event, "attempt", 0) == number
            and hasattr(recorded.event, "command")
        ]

    async def _verify(
        self, number: int, triggers: Sequence[str], why: str, concerns: str
    ) -> VerificationResult:
        await self._enter("verify", number, "")
        return await verify(
            self._context,
            self._details,
            self._baseline,
            number,
            triggers=triggers,
            why_not=why,
            concerns=concerns,
            restarted=restarted_units(await self._commands(number)),
        )


def _result_of(proof: VerificationResult, by_whom: AttemptedBy, why: str) -> AttemptResult:
    if proof.ok:
        return AttemptResult(ending="resolved", attempted_by=by_whom)
    return AttemptResult(attempted_by=by_whom, why=proof.why or why, keep=proof.helped)
