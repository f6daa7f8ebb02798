"""Ways to mend it, one at a time: playbooks first, then what models make of it.

An attempt ends with the word of checks that it has no hand in. Only then does the next one begin.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from hermes.core.events.incidents import Phase
from hermes.core.messages import Value
from hermes.skills.playbook.schema import Check
from hermes.sre.case import Case
from hermes.sre.changes import Changes
from hermes.sre.ground import Ground
from hermes.sre.looking import look
from hermes.sre.minds import Hypothesis, Synthesis, Tried
from hermes.sre.reflexes import Reflexes
from hermes.sre.report.statements import unchecked
from hermes.sre.snapshot import units_in
from hermes.sre.verify import Baseline, Proof, restarts, verify, watch_recovery

Enter = Callable[[Phase, int, str], Awaitable[None]]
ByWhom = Literal["playbook", "model", "nobody"]
UNSEEN = "no check of ours saw the trouble: whether it is gone is for a person to say"


class Made(Value, kw_only=True, frozen=True):
    """What came of one attempt."""

    ending: Literal["resolved", "no-incident", "recovered"] | None = None
    by_whom: ByWhom = "nobody"
    why: str = ""
    """Why it did not hold."""
    keep: bool = False
    """It helped, though not enough."""
    last: bool = False
    """There is no other way left to try."""


class Attempts:
    def __init__(
        self, ground: Ground, case: Case, baseline: Baseline, reflexes: Reflexes, enter: Enter
    ) -> None:
        self._ground, self._case, self._baseline, self._enter = ground, case, baseline, enter
        self._reflexes = reflexes
        self._synthesis: Synthesis | None = None
        self._hypotheses: list[Hypothesis] = []
        self._tried: list[Tried] = []
        self._proved = False
        """Checks have said that a fix holds."""
        self.by_whom: ByWhom = "nobody"
        self.why = ""

    async def make(self, number: int) -> Made:
        made = await self._reflex(number)
        if made is None:
            made = await self._model(number)
        if made.ending is None and made.last and self._proved:
            made = Made(ending="resolved", by_whom="playbook")
        self.by_whom = made.by_whom if made.by_whom != "nobody" else self.by_whom
        self.why = made.why or self.why
        if made.ending is None:
            self._tried.append(Tried(attempt=number, by=made.by_whom, why=made.why))
        return made

    async def _reflex(self, number: int) -> Made | None:
        """None when there is no playbook left that finds its signature."""
        await self._enter("reflex", number, "")
        acted = await self._reflexes.act(number)
        if acted is None:
            self.why = self._reflexes.refused or self.why
            return None
        before = self._baseline
        self._baseline = before.with_symptoms(acted.played.symptoms)
        proof = await self._verified(number, (), acted.why_not, acted.unit)
        if not proof.ok and not proof.helped:
            self._baseline = before  # what it was about is as it was
            return _made(proof, "playbook", acted.why_not)
        if not await self._reflexes.more(acted):
            return _made(proof, "playbook", acted.why_not)
        self._proved = proof.ok  # and yet the alert speaks of more: what is mended stays
        why = proof.why or "more of what the alert names is sick"
        return Made(by_whom="playbook", why=why, keep=True)

    async def _model(self, number: int) -> Made:
        minds = self._ground.minds
        if minds is None or not self._ground.settings.agents:
            why = self.why or f"{await self._no_match()}, and there is no model to ask"
            if suspects := self._reflexes.suspects:
                why = f"{why}; possible, but its symptom was not observed: {suspects}"
            return Made(why=why, last=True)
        if self._synthesis is None:
            await self._enter("investigate", number, "")
            self._synthesis = await minds.investigate(self._case, await self._baseline.eyes())
            self._hypotheses = list(self._synthesis.hypotheses)
        verdict = self._synthesis.verdict
        if verdict in ("no-incident", "recovered"):
            return await self._nothing(number, verdict)
        if verdict == "escalate" or not self._hypotheses:
            why = "; ".join(self._synthesis.gaps) or "the models found no cause to act on"
            return Made(by_whom="model", why=why, last=True)
        return await self._remedy(number, self._hypotheses.pop(0))

    async def _no_match(self) -> str:
        """That no playbook matched says little where they could not look."""
        kinds = ("playbook.ended", "playbook.started")
        journal, run = self._ground.bus.journal, self._case.run
        skipped = unchecked([each async for each in journal.read(run=run, kinds=kinds)])
        count = sum(len(each.skills) for each in skipped)
        why = f" ({count} could not be checked: {skipped[0].why[:160]})" if skipped else ""
        return f"no playbook matched{why}"

    async def _nothing(self, number: int, verdict: Literal["no-incident", "recovered"]) -> Made:
        """A model that says all is well is asked for proof like one that says it is fixed."""
        await self._enter("verify", number, "")
        watched = await watch_recovery(self._ground, self._case, self._baseline)
        if not watched.well:
            return Made(by_whom="model", why=f"said to be {verdict}, but {watched.why}", last=True)
        return Made(ending="recovered" if self._baseline.failing else verdict, by_whom="model")

    async def _remedy(self, number: int, hypothesis: Hypothesis) -> Made:
        minds = self._ground.minds
        assert minds is not None  # asked before
        await self._enter("remediate", number, hypothesis.component)
        changes = Changes(self._ground, self._case, number)
        baseline = await self._with_check(hypothesis.check)
        remedy = await minds.remediate(
            self._case, hypothesis, number, tuple(self._tried), changes.executor
        )
        if not changes.made:
            why = remedy.gave_up or "nothing was changed"
            return Made(by_whom="model", why=why, last=not self._hypotheses)
        self._baseline = baseline
        commands = await self._commands(number)
        triggers = restarts(units_in(commands))
        proof = await self._verified(number, triggers, "", hypothesis.component)
        if proof.unseen:
            return Made(by_whom="model", why=UNSEEN, keep=True, last=True)
        return _made(proof, "model", "")

    async def _with_check(self, command: str) -> Baseline:
        """A check that the models propose counts if it fails before anything is changed."""
        if not command.strip():
            return self._baseline
        check = Check(name="proposed", command=command)
        seen = await look(check, self._ground.road(self._case.run))
        return self._baseline if seen.ok else self._baseline.plus(check)

    async def _commands(self, number: int) -> Sequence[str]:
        journal, run = self._ground.bus.journal, self._case.run
        return [
            recorded.event.command
            async for recorded in journal.read(run=run, kinds=("change.began",))
            if getattr(recorded.event, "attempt", 0) == number
            and hasattr(recorded.event, "command")
        ]

    async def _verified(
        self, number: int, triggers: Sequence[str], why: str, concerns: str
    ) -> Proof:
        await self._enter("verify", number, "")
        return await verify(
            self._ground,
            self._case,
            self._baseline,
            number,
            triggers=triggers,
            why_not=why,
            concerns=concerns,
            restarted=units_in(await self._commands(number)),
        )


def _made(proof: Proof, by_whom: ByWhom, why: str) -> Made:
    if proof.ok:
        return Made(ending="resolved", by_whom=by_whom)
    return Made(by_whom=by_whom, why=proof.why or why, keep=proof.helped)
