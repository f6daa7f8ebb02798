"""Runs a playbook without a model: probes, steps, checks, each through the one road to the world.

Nothing is changed before every probe has held. The first thing that is not as expected ends it, and
what was done until then is known, with its way back.
"""

import time

import anyio
from msgspec.structs import replace

from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.ids import new_id
from hermes.core.messages import Value
from hermes.skills.playbook.ending import Ended, unmet
from hermes.skills.playbook.facts import Facts, captured
from hermes.skills.playbook.hand import (
    Done,
    Hand,
    Outcome,
    Phase,
    Stop,
    done,
    hindered,
    hindrance,
)
from hermes.skills.playbook.schema import KEPT, Check, Playbook, Step
from hermes.skills.playbook.setting import Setting
from hermes.skills.playbook.signature import Found, Looks, find
from hermes.skills.playbook.template import fill

PAUSE = 0.1


class Played(Value, kw_only=True, frozen=True):
    """How it went, with all evidence for whoever goes on from here."""

    skill: str
    outcome: Outcome
    step: str = ""
    """Where it stopped."""
    detail: str = ""
    parameters: dict[str, str] = {}
    done: tuple[Done, ...] = ()
    seconds: float = 0.0
    not_undone: tuple[str, ...] = ()
    dry: bool = False
    unchecked: str = ""
    """Why its signature could not be looked for, or not completely."""
    symptoms: tuple[Check, ...] = ()
    """Checks that failed before the first step, with whole commands."""

    @property
    def changed(self) -> bool:
        return not self.dry and any(each.phase == "step" for each in self.done)


class Runner:
    """One playing of one playbook."""

    def __init__(
        self, skill: str, playbook: Playbook, setting: Setting, *, digest: str = ""
    ) -> None:
        self.skill = skill
        self._playbook = playbook
        self._setting = setting
        self._digest = digest
        self._hand = Hand(skill, setting)
        self._values: dict[str, str] = {}
        self._done: list[Done] = []

    async def look(self, facts: Facts, looks: Looks | None = None) -> Found:
        """Whether its signature is there, for `play`. `looks` are shared with other playbooks."""
        return await find(self._playbook, facts, self._hand, looks or Looks())

    async def play(self, facts: Facts, *, dry: bool = False, found: Found | None = None) -> Played:
        """Dry: the probes look, the steps are only filled in and told. `found`: they have looked
        already."""
        began = time.monotonic()
        found = found or await self.look(facts)
        self._values, self._done = dict(found.values), list(found.done)
        outcome: Outcome = found.missing or "applied"
        step, detail = found.step, found.detail
        try:
            if found.missing is None:
                await self._hand.tell(self._begun(dry=dry))
                await self._act(dry=dry)
        except Stop as stop:
            outcome, step, detail = stop.outcome, stop.step, str(stop)
        played = Played(
            skill=self.skill,
            outcome=outcome,
            step=step,
            detail=detail,
            parameters=self._found(),
            done=tuple(self._done),
            seconds=found.seconds + time.monotonic() - max(began, found.at),
            dry=dry,
            unchecked=found.unchecked,
            symptoms=self._symptoms() if found.missing is None else (),
        )
        await self._hand.tell(self._end(played))
        return played

    def _symptoms(self) -> tuple[Check, ...]:
        return tuple(
            replace(check, command=fill(check.command, self._values))
            for check in self._playbook.verify
            if check.symptom
        )

    async def undo(self, played: Played) -> Played:
        """Take the steps back, the last first. One that fails does not keep the others."""
        began, failed, back = time.monotonic(), [], []
        for each in reversed([one for one in played.done if one.phase == "step" and one.undo]):
            result = await self._hand.run(each.name, each.undo, 30.0)
            ok = result.status == "ok" and result.code == 0
            await self._hand.stepped(each.name, "undo", result, ok, _unmet_or(result))
            back.append(replace(each, phase="undo", command=each.undo, undo="", ok=ok))
            if not ok:
                failed.append(each.name)
        undone = replace(
            played,
            outcome="failed" if failed else "undone",
            detail=f"not taken back: {', '.join(failed)}" if failed else played.detail,
            done=(*played.done, *back),
            seconds=time.monotonic() - began,
            not_undone=tuple(failed),
        )
        await self._hand.tell(self._end(undone))
        return undone

    def _found(self) -> dict[str, str]:
        return {name: value for name, value in self._values.items() if name != KEPT}

    async def _act(self, *, dry: bool) -> None:
        for step in self._playbook.steps:
            if dry:
                command = fill(step.command, self._values, partly=True)
                undo = fill(step.undo, self._values, partly=True)
                self._done.append(Done(name=step.name, phase="step", command=command, undo=undo))
                continue
            await self._step(step)
        for check in self._playbook.verify:
            if dry:
                command = fill(check.command, self._values, partly=True)
                self._done.append(Done(name=check.name, phase="verify", command=command))
                continue
            await self._verify(check)

    async def _step(self, step: Step) -> None:
        command, undo = fill(step.command, self._values), fill(step.undo, self._values, partly=True)
        id = new_id(f"play-{step.name}")
        await self._setting.before(id, command, undo)
        result = await self._hand.run(
            step.name, command, step.timeout, id=id, grace=self._setting.patience
        )
        why = hindrance(result) or unmet(result, step.expect)
        undo = "" if result.status == "denied" else undo
        await self._hand.stepped(step.name, "step", result, not why, why, undo)
        if result.status != "denied":  # half done is done: its undo has to be known
            self._note(step.name, "step", result, ok=not why, undo=undo)
        if why:
            raise Stop(hindered(result, "unmet"), step.name, why)
        more, why = captured(self._playbook.parameters, step.name, result.output, self._values)
        self._values |= more
        if why:
            raise Stop("unmet", step.name, why)

    async def _verify(self, check: Check) -> None:
        command, deadline = fill(check.command, self._values), time.monotonic() + check.within
        while True:
            result = await self._hand.run(check.name, command, check.timeout)
            why = hindrance(result) or unmet(result, check.expect)
            if not why or result.status == "denied" or time.monotonic() >= deadline:
                break
            await anyio.sleep(PAUSE)
        await self._hand.stepped(check.name, "verify", result, not why, why)
        self._note(check.name, "verify", result, ok=not why)
        if why:
            raise Stop("refused" if result.status == "denied" else "unmet", check.name, why)

    def _note(self, name: str, phase: Phase, result: Ended, *, ok: bool, undo: str = "") -> None:
        self._done.append(done(name, phase, result, ok=ok, undo=undo))

    def _begun(self, *, dry: bool) -> PlaybookStarted:
        return PlaybookStarted(
            run=self._setting.run,
            skill=self.skill,
            digest=self._digest,
            parameters=tuple(self._found().items()),
            dry=dry,
        )

    def _end(self, played: Played) -> PlaybookEnded:
        return PlaybookEnded(
            run=self._setting.run,
            skill=self.skill,
            outcome=played.outcome,
            step=played.step,
            detail=played.detail,
            seconds=round(played.seconds, 3),
            steps=sum(each.phase == "step" for each in played.done) if played.changed else 0,
            not_undone=played.not_undone,
            dry=played.dry,
            unchecked=played.unchecked,
        )


def _unmet_or(result: Ended) -> str:
    why = hindrance(result)
    return why or ("" if result.code == 0 else f"it ended with exit code {result.code}")
