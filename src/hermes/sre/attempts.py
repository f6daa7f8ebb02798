"""Ways to mend it, one at a time: playbooks first, then what models make of it.

An attempt ends with the word of checks that it has no hand in. Only then does the next one begin.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from hermes.core.events.incidents import IncidentDiagnosed, Phase
from hermes.core.messages import Value
from hermes.skills.library import Skill
from hermes.skills.matching import Matcher
from hermes.skills.playbook.ending import Ended
from hermes.skills.playbook.runner import Played, Runner
from hermes.skills.playbook.schema import Check
from hermes.sre.case import Case
from hermes.sre.changes import Changes
from hermes.sre.ground import Ground
from hermes.sre.looking import look
from hermes.sre.minds import Hypothesis, Synthesis, Tried
from hermes.sre.snapshot import units_in
from hermes.sre.verify import Baseline, Proof, restarts, verify

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
    def __init__(self, ground: Ground, case: Case, baseline: Baseline, enter: Enter) -> None:
        self._ground, self._case, self._baseline, self._enter = ground, case, baseline, enter
        self._synthesis: Synthesis | None = None
        self._hypotheses: list[Hypothesis] = []
        self._tried: list[Tried] = []
        self.played: set[str] = set()
        self.by_whom: ByWhom = "nobody"
        self.why = ""

    async def make(self, number: int) -> Made:
        made = await self._reflex(number)
        if made is None:
            made = await self._model(number)
        self.by_whom = made.by_whom if made.by_whom != "nobody" else self.by_whom
        self.why = made.why or self.why
        if made.ending is None:
            self._tried.append(Tried(attempt=number, by=made.by_whom, why=made.why))
        return made

    async def _reflex(self, number: int) -> Made | None:
        """The first playbook whose signature the host shows; None when there is none left."""
        if not self._ground.settings.reflex:
            return None
        candidates = Matcher(await self._ground.skills()).candidates(self._case.facts)
        left = [skill for skill in candidates if skill.name not in self.played]
        if not left:
            return None
        await self._enter("reflex", number, "")
        seen: dict[str, Ended] = {}
        for skill in left:
            self.played.add(skill.name)
            changes = Changes(self._ground, self._case, number, playbook=skill.name)
            played = await self._play(skill, changes, seen)
            if played is not None and (changes.made or played.outcome == "applied"):
                return await self._settled(number, skill, played)
            if played is not None and played.outcome == "refused":
                self.why = f"{skill.name} may not go on: {played.detail}"
        return None

    async def _play(self, skill: Skill, changes: Changes, seen: dict[str, Ended]) -> Played | None:
        if skill.playbook is None:
            return None
        runner = Runner(
            skill.name,
            skill.playbook,
            self._ground.road(self._case.run, changes.executor),
            publish=self._ground.bus.publish,
            run=self._case.run,
            digest=skill.digest,
            seen=seen,
            before=changes.announce,
        )
        return await runner.play(self._case.facts)

    async def _settled(self, number: int, skill: Skill, played: Played) -> Made:
        why = "" if played.outcome == "applied" else f"{skill.name}: {played.detail}"
        if not why:
            await self._told_by(skill, played)
        proof = await self._verified(number, (), why)
        return _made(proof, "playbook", why)

    async def _told_by(self, skill: Skill, played: Played) -> None:
        """A playbook that was right about the host is a diagnosis: its signature was found."""
        looks = [done.call_id for done in played.done if done.phase == "probe"]
        numbers = []
        async for recorded in self._ground.bus.journal.read(
            run=self._case.run, kinds=("tool.finished",)
        ):
            result = getattr(recorded.event, "result", None)
            if result is not None and result.call_id in looks:
                numbers.append(recorded.seq)
        component, value = _subject(played)
        await self._ground.bus.publish(
            IncidentDiagnosed(
                run=self._case.run,
                incident=self._case.incident,
                component=component or self._case.service,
                mechanism=skill.playbook.summary if skill.playbook else skill.description,
                value=value,
                evidence=tuple(numbers),
                confidence=0.8,
            )
        )

    async def _model(self, number: int) -> Made:
        minds = self._ground.minds
        if minds is None or not self._ground.settings.agents:
            why = self.why or "no playbook knows it, and there is no model to ask"
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

    async def _nothing(self, number: int, verdict: Literal["no-incident", "recovered"]) -> Made:
        """A model that says all is well is asked for proof like one that says it is fixed."""
        if not self._baseline.failing:
            return Made(ending=verdict, by_whom="model")
        proof = await self._verified(number, (), "")
        if proof.ok:
            return Made(ending="recovered", by_whom="model")
        return Made(by_whom="model", why=f"said to be {verdict}, but {proof.why}", last=True)

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
        proof = await self._verified(number, restarts(units_in(commands)), "")
        if proof.ok and not baseline.failing:
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

    async def _verified(self, number: int, triggers: Sequence[str], why: str) -> Proof:
        await self._enter("verify", number, "")
        return await verify(
            self._ground, self._case, self._baseline, number, triggers=triggers, why_not=why
        )


def _made(proof: Proof, by_whom: ByWhom, why: str) -> Made:
    if proof.ok:
        return Made(ending="resolved", by_whom=by_whom)
    return Made(by_whom=by_whom, why=proof.why or why, keep=proof.helped)


def _subject(played: Played) -> tuple[str, str]:
    """Of what the probes found: the thing itself, and the value that was wrong with it."""
    found = played.parameters
    component = next((found[name] for name in THINGS if found.get(name)), "")
    value = next((found[name] for name in VALUES if found.get(name)), "")
    return component, value


THINGS = ("file", "path", "config", "unit", "service", "mount", "table", "host", "process")
VALUES = ("wrong", "found", "old", "key", "value", "port", "name")
