"""Runs a playbook without a model: probes, steps, checks, each through the one road to the world.

Nothing is changed before every probe has held. The first thing that is not as expected ends it, and
what was done until then is known, with its way back.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.events import Event
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted, PlaybookStepped
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.skills.playbook.ending import Ended, ended, unmet
from hermes.skills.playbook.facts import Facts, look_up, take_from
from hermes.skills.playbook.schema import KEPT, Check, Playbook, Probe, Step
from hermes.skills.playbook.setting import GRACE, Setting
from hermes.skills.playbook.template import fill

Outcome = Literal["applied", "declined", "unmet", "refused", "undone", "failed"]
Phase = Literal["probe", "step", "verify", "undo"]
Leave = Callable[[], Awaitable[str]]

TOOL = "terminal"
PAUSE = 0.1
UNDO = "/var/tmp/hermes-undo"


class Done(Value, kw_only=True, frozen=True):
    """Something that was run, or would be."""

    name: str
    phase: Phase
    command: str
    undo: str = ""
    ok: bool = True
    output: str = ""
    call_id: str = ""


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

    @property
    def changed(self) -> bool:
        return not self.dry and any(each.phase == "step" for each in self.done)


class Stop(Exception):
    def __init__(self, outcome: Outcome, step: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome: Outcome = outcome
        self.step = step


class Runner:
    """One playing of one playbook."""

    def __init__(
        self,
        skill: str,
        playbook: Playbook,
        setting: Setting,
        *,
        digest: str = "",
        seen: dict[str, Ended] | None = None,
    ) -> None:
        """`seen` are looks that playbooks share until one of them changes something."""
        self.skill = skill
        self._playbook = playbook
        self._setting = setting
        self._run = setting.run
        self._digest = digest
        self._seen: dict[str, Ended] = {} if seen is None else seen
        self._values: dict[str, str] = {}
        self._done: list[Done] = []

    async def play(self, facts: Facts, *, dry: bool = False, leave: Leave | None = None) -> Played:
        """Dry: the probes look, the steps are only filled in and told. `leave` is asked once the
        probes have held, and says why nothing is to be done, if so."""
        began = time.monotonic()
        self._values, self._done = {}, []
        outcome: Outcome = "applied"
        step = detail = ""
        try:
            self._begin(facts)
            for probe in self._playbook.signature.probes:
                await self._probe(probe)
            if leave is not None and (why := await leave()):
                raise Stop("declined", "", why)
            await self._tell(
                PlaybookStarted(
                    run=self._run,
                    skill=self.skill,
                    digest=self._digest,
                    parameters=tuple(self._found().items()),
                    dry=dry,
                )
            )
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
            seconds=time.monotonic() - began,
            dry=dry,
        )
        await self._tell(self._end(played))
        return played

    async def undo(self, played: Played) -> Played:
        """Take the steps back, the last first. One that fails does not keep the others."""
        began, failed, back = time.monotonic(), [], []
        self._seen.clear()
        for done in reversed([each for each in played.done if each.phase == "step" and each.undo]):
            result = await self._call(done.name, done.undo, 30.0)
            ok = result.status == "ok" and result.code == 0
            await self._stepped(done.name, "undo", result, ok, unmet_or(result))
            back.append(replace(done, phase="undo", command=done.undo, undo="", ok=ok))
            if not ok:
                failed.append(done.name)
        undone = replace(
            played,
            outcome="failed" if failed else "undone",
            detail=f"not taken back: {', '.join(failed)}" if failed else played.detail,
            done=(*played.done, *back),
            seconds=time.monotonic() - began,
            not_undone=tuple(failed),
        )
        await self._tell(self._end(undone))
        return undone

    def _found(self) -> dict[str, str]:
        return {name: value for name, value in self._values.items() if name != KEPT}

    def _begin(self, facts: Facts) -> None:
        # Of this run alone: what another run kept must not be what this one brings back.
        self._values[KEPT] = f"{UNDO}/{new_id('run')}"
        for name, parameter in self._playbook.parameters.items():
            if parameter.source != "alert" and name not in facts.given:
                continue
            value, why = look_up(name, parameter, facts)
            if value is None:
                raise Stop("declined", "", why)
            self._values[name] = value

    async def _probe(self, probe: Probe) -> None:
        command = fill(probe.command, self._values)
        result = self._seen.get(command)
        fresh = result is None
        if result is None:
            result = await self._call(probe.name, command, probe.timeout)
            self._seen[command] = result
        why = _hindrance(result) or unmet(result, probe.expect)
        if fresh:
            await self._stepped(probe.name, "probe", result, not why, why)
        self._note(probe.name, "probe", result, ok=not why)
        if why:
            stops: dict[str, Outcome] = {"denied": "refused", "error": "failed"}
            raise Stop(stops.get(result.status, "declined"), probe.name, why)
        self._capture(probe.name, result, "declined")

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
        self._seen.clear()
        command, undo = fill(step.command, self._values), fill(step.undo, self._values, partly=True)
        id = new_id(f"play-{step.name}")
        await self._setting.before(id, command, undo)
        result = await self._call(
            step.name, command, step.timeout, id=id, grace=self._setting.patience
        )
        why = _hindrance(result) or unmet(result, step.expect)
        undo = "" if result.status == "denied" else undo
        await self._stepped(step.name, "step", result, not why, why, undo)
        if result.status != "denied":  # half done is done: its undo has to be known
            self._note(step.name, "step", result, ok=not why, undo=undo)
        if why:
            outcomes: dict[str, Outcome] = {"denied": "refused", "error": "failed"}
            raise Stop(outcomes.get(result.status, "unmet"), step.name, why)
        self._capture(step.name, result, "unmet")

    async def _verify(self, check: Check) -> None:
        command, deadline = fill(check.command, self._values), time.monotonic() + check.within
        while True:
            result = await self._call(check.name, command, check.timeout)
            why = _hindrance(result) or unmet(result, check.expect)
            if not why or result.status == "denied" or time.monotonic() >= deadline:
                break
            await anyio.sleep(PAUSE)
        await self._stepped(check.name, "verify", result, not why, why)
        self._note(check.name, "verify", result, ok=not why)
        if why:
            raise Stop("refused" if result.status == "denied" else "unmet", check.name, why)

    def _capture(self, source: str, result: Ended, otherwise: Outcome) -> None:
        for name, parameter in self._playbook.parameters.items():
            if parameter.source != source or name in self._values:
                continue
            value, why = take_from(name, parameter, result.output)
            if value is None:
                raise Stop(otherwise, source, why)
            self._values[name] = value

    async def _call(
        self, name: str, command: str, timeout: float, *, id: str = "", grace: float = GRACE
    ) -> Ended:
        id = id or new_id(f"play-{name}")
        call = ToolCall(id, TOOL, {"command": command, "timeout": timeout})
        began = time.monotonic()
        with anyio.move_on_after(timeout + grace):
            result = await self._setting.execute(call)
            return ended(result, command, time.monotonic() - began)
        return Ended(call.id, command, "ok", None, "", timeout + grace, timed_out=True)

    def _note(self, name: str, phase: Phase, result: Ended, *, ok: bool, undo: str = "") -> None:
        self._done.append(
            Done(
                name=name,
                phase=phase,
                command=result.command,
                undo=undo,
                ok=ok,
                output=result.output,
                call_id=result.call_id,
            )
        )

    async def _stepped(
        self, name: str, phase: Phase, result: Ended, ok: bool, detail: str, undo: str = ""
    ) -> None:
        await self._tell(
            PlaybookStepped(
                run=self._run,
                skill=self.skill,
                step=name,
                call_id=result.call_id,
                ok=ok,
                detail=detail,
                undo=undo,
                phase=phase,
                seconds=round(result.seconds, 3),
            )
        )

    def _end(self, played: Played) -> PlaybookEnded:
        return PlaybookEnded(
            run=self._run,
            skill=self.skill,
            outcome=played.outcome,
            step=played.step,
            detail=played.detail,
            seconds=round(played.seconds, 3),
            steps=sum(each.phase == "step" for each in played.done) if played.changed else 0,
            not_undone=played.not_undone,
            dry=played.dry,
        )

    async def _tell(self, event: Event) -> None:
        await self._setting.publish(event)


def unmet_or(result: Ended) -> str:
    why = _hindrance(result)
    return why or ("" if result.code == 0 else f"it ended with exit code {result.code}")


def _hindrance(result: Ended) -> str:
    """Why it did not run to its end, whatever it was expected to do."""
    if result.status == "denied":
        return f"not allowed: {result.output[:300]}"
    if result.status == "error":
        return f"it could not be run: {result.output[:300]}"
    return f"timed out after {result.seconds:.0f} s" if result.timed_out else ""
