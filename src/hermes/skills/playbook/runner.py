"""Whether a host shows what a playbook is for: its probes, in their order. They only look.

Playbooks may look side by side; what more than one of them wants to see is looked at once.
"""

import re
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import (
    PlaybookContext,
    PlaybookOutcome,
    PlaybookPhase,
    PlaybookStepResult,
    PlaybookStopped,
    StepRunner,
    TerminalResult,
    build_step_result,
    failure_outcome,
    find_unmet_expectation,
    incomplete_reason,
)
from hermes.skills.playbook.parameters import (
    AlertFacts,
    capture_parameters,
    fill_template,
    resolve_parameter,
)
from hermes.skills.playbook.schema import (
    UNDO_FOLDER_PARAMETER,
    Playbook,
    PlaybookCheck,
    PlaybookProbe,
    PlaybookStep,
)

UNDO_ROOT = "/var/tmp/hermes-undo"
_UNCHECKED_LINE = re.compile(r"^unchecked=(.{1,160})$", re.MULTILINE)
_COMMAND_NOT_FOUND = re.compile(
    r"^(?:\S+: (?:line \d+|\d+): )?([\w.-]+): (?:command )?not found$", re.MULTILINE
)


class SignatureResult(Value, kw_only=True, frozen=True):
    """What the probes saw: the signature, or where and why it is not there."""

    values: dict[str, str] = {}
    done: tuple[PlaybookStepResult, ...] = ()
    early_outcome: PlaybookOutcome | None = None
    """How the playbook ends without having begun; None when its signature is there."""
    step: str = ""
    detail: str = ""
    unchecked: str = ""
    """Why the signature could not be looked for, or not completely; empty when it was."""
    program_missing: bool = False
    """The host lacks a program that the look needs: looking again shows no more."""
    checked_at: float = 0.0
    """By the monotonic clock: what was seen long ago may no longer be so."""
    seconds: float = 0.0


class ProbeLookup(NamedTuple):
    result: TerminalResult
    is_new: bool
    """Nobody had asked for it before."""


class ProbeCache:
    """What was seen, shared until something is changed."""

    def __init__(self) -> None:
        self._results: dict[str, TerminalResult] = {}
        self._running: dict[str, anyio.Event] = {}

    async def run_once(
        self, command: str, run: Callable[[], Awaitable[TerminalResult]]
    ) -> ProbeLookup:
        while command not in self._results:
            if (other := self._running.get(command)) is not None:
                await other.wait()
                continue  # if that one was called off, this is the one who looks
            over = self._running[command] = anyio.Event()
            try:
                self._results[command] = result = await run()
                return ProbeLookup(result, True)
            finally:
                del self._running[command]
                over.set()
        return ProbeLookup(self._results[command], False)


async def check_signature(
    playbook: Playbook, facts: AlertFacts, step_runner: StepRunner, probe_cache: ProbeCache
) -> SignatureResult:
    began = time.monotonic()
    values: dict[str, str] = {}
    seen: list[PlaybookStepResult] = []
    missing: PlaybookOutcome | None = None
    step = detail = unchecked = ""
    try:
        values |= _initial_values(playbook, facts)
        for probe in playbook.signature.probes:
            result = await _run_probe(
                probe, fill_template(probe.command, values), step_runner, probe_cache, seen
            )
            more, why = capture_parameters(playbook.parameters, probe.name, result.output, values)
            values |= more
            if why:
                raise PlaybookStopped("declined", probe.name, why)
        for check in playbook.verify:
            if check.symptom:
                await _check_symptom(
                    check, fill_template(check.command, values), step_runner, probe_cache, seen
                )
    except PlaybookStopped as stop:
        missing, step, detail = stop.outcome, stop.step, str(stop)
        unchecked = _unchecked_reason(stop, seen)
    return SignatureResult(
        values=values,
        done=tuple(seen),
        early_outcome=missing,
        step=step,
        detail=detail,
        unchecked=unchecked,
        program_missing=missing is not None
        and bool(seen)
        and bool(_missing_program_reason(seen[-1].output)),
        checked_at=time.monotonic(),
        seconds=time.monotonic() - began,
    )


def _unchecked_reason(stop: PlaybookStopped, seen: list[PlaybookStepResult]) -> str:
    """Why the look that ended it was not complete; empty when it was."""
    if seen and (lacking := _missing_program_reason(seen[-1].output)):
        return lacking
    last = seen[-1].output if seen else ""
    if program := _COMMAND_NOT_FOUND.search(last):
        return f"no {program[1]} on this host"
    looked = bool(stop.step) and stop.outcome == "declined" and not stop.incomplete
    return "" if looked else str(stop)


def _missing_program_reason(output: str) -> str:
    """A probe that lacks a program says so with a line `unchecked=REASON`."""
    said = _UNCHECKED_LINE.search(output)
    return said[1].strip() if said else ""


def _initial_values(playbook: Playbook, facts: AlertFacts) -> dict[str, str]:
    # Of this run alone: what another run kept must not be what this one brings back.
    values = {UNDO_FOLDER_PARAMETER: f"{UNDO_ROOT}/{new_id('run')}"}
    for name, parameter in playbook.parameters.items():
        if parameter.source != "alert" and name not in facts.given:
            continue
        value, why = resolve_parameter(name, parameter, facts)
        if value is None:
            raise PlaybookStopped("declined", "", why)
        values[name] = value
    return values


async def _check_symptom(
    check: PlaybookCheck,
    command: str,
    hand: StepRunner,
    looks: ProbeCache,
    seen: list[PlaybookStepResult],
) -> None:
    """A check that holds before anything was done could prove nothing afterwards."""
    result, fresh = await looks.run_once(
        command, lambda: hand.run(check.name, command, check.timeout)
    )
    denied = result.status != "ok"
    holds = not denied and not result.timed_out and not find_unmet_expectation(result, check.expect)
    why = incomplete_reason(result) if denied else "the symptom is not there" if holds else ""
    if fresh:
        await hand.publish_step(check.name, "probe", result, not why, why)
    seen.append(build_step_result(check.name, "probe", result, ok=not why))
    if why:
        raise PlaybookStopped(failure_outcome(result, "declined"), check.name, why)


async def _run_probe(
    probe: PlaybookProbe,
    command: str,
    hand: StepRunner,
    looks: ProbeCache,
    seen: list[PlaybookStepResult],
) -> TerminalResult:
    result, fresh = await looks.run_once(
        command, lambda: hand.run(probe.name, command, probe.timeout)
    )
    # What follows would look with the same program: on a host without it, one look is enough.
    late = incomplete_reason(result) or _missing_program_reason(result.output)
    why = late or find_unmet_expectation(result, probe.expect)
    if fresh:
        await hand.publish_step(probe.name, "probe", result, not why, why)
    seen.append(build_step_result(probe.name, "probe", result, ok=not why))
    if why:
        raise PlaybookStopped(
            failure_outcome(result, "declined"), probe.name, why, incomplete=bool(late)
        )
    return result


VERIFY_PAUSE_S = 0.1


class PlaybookRunResult(Value, kw_only=True, frozen=True):
    """How it went, with all evidence for whoever goes on from here."""

    skill: str
    outcome: PlaybookOutcome
    step: str = ""
    """Where it stopped."""
    detail: str = ""
    parameters: dict[str, str] = {}
    done: tuple[PlaybookStepResult, ...] = ()
    seconds: float = 0.0
    not_undone: tuple[str, ...] = ()
    dry: bool = False
    unchecked: str = ""
    """Why its signature could not be looked for, or not completely."""
    symptoms: tuple[PlaybookCheck, ...] = ()
    """Checks that failed before the first step, with whole commands."""

    @property
    def changed(self) -> bool:
        return not self.dry and any(each.phase == "step" for each in self.done)


class PlaybookRunner:
    """One playing of one playbook."""

    def __init__(
        self, skill: str, playbook: Playbook, context: PlaybookContext, *, digest: str = ""
    ) -> None:
        self.skill = skill
        self._playbook = playbook
        self._context = context
        self._digest = digest
        self._step_runner = StepRunner(skill, context)
        self._values: dict[str, str] = {}
        self._results: list[PlaybookStepResult] = []

    async def check_signature(
        self, facts: AlertFacts, probe_cache: ProbeCache | None = None
    ) -> SignatureResult:
        """Whether its signature is there, for `play`. `looks` are shared with other playbooks."""
        return await check_signature(
            self._playbook, facts, self._step_runner, probe_cache or ProbeCache()
        )

    async def run(
        self, facts: AlertFacts, *, dry: bool = False, signature: SignatureResult | None = None
    ) -> PlaybookRunResult:
        """Dry: the probes look, the steps are only filled in and told. `found`: they have looked
        already."""
        began = time.monotonic()
        signature = signature or await self.check_signature(facts)
        self._values, self._results = dict(signature.values), list(signature.done)
        outcome: PlaybookOutcome = signature.early_outcome or "applied"
        step, detail = signature.step, signature.detail
        try:
            if signature.early_outcome is None:
                await self._step_runner.publish(self._started_event(dry=dry))
                await self._run_steps_and_checks(dry=dry)
        except PlaybookStopped as stop:
            outcome, step, detail = stop.outcome, stop.step, str(stop)
        played = PlaybookRunResult(
            skill=self.skill,
            outcome=outcome,
            step=step,
            detail=detail,
            parameters=self._known_parameters(),
            done=tuple(self._results),
            seconds=signature.seconds + time.monotonic() - max(began, signature.checked_at),
            dry=dry,
            unchecked=signature.unchecked,
            symptoms=self._symptoms() if signature.early_outcome is None else (),
        )
        await self._step_runner.publish(self._ended_event(played))
        return played

    def _symptoms(self) -> tuple[PlaybookCheck, ...]:
        return tuple(
            replace(check, command=fill_template(check.command, self._values))
            for check in self._playbook.verify
            if check.symptom
        )

    async def undo(self, played: PlaybookRunResult) -> PlaybookRunResult:
        """Take the steps back, the last first. One that fails does not keep the others."""
        began, failed, back = time.monotonic(), [], []
        for each in reversed([one for one in played.done if one.phase == "step" and one.undo]):
            result = await self._step_runner.run(each.name, each.undo, 30.0)
            ok = result.status == "ok" and result.code == 0
            await self._step_runner.publish_step(
                each.name, "undo", result, ok, _undo_failure(result)
            )
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
        await self._step_runner.publish(self._ended_event(undone))
        return undone

    def _known_parameters(self) -> dict[str, str]:
        return {
            name: value for name, value in self._values.items() if name != UNDO_FOLDER_PARAMETER
        }

    async def _run_steps_and_checks(self, *, dry: bool) -> None:
        for step in self._playbook.steps:
            if dry:
                command = fill_template(step.command, self._values, partial=True)
                undo = fill_template(step.undo, self._values, partial=True)
                self._results.append(
                    PlaybookStepResult(name=step.name, phase="step", command=command, undo=undo)
                )
                continue
            await self._run_step(step)
        for check in self._playbook.verify:
            if dry:
                command = fill_template(check.command, self._values, partial=True)
                self._results.append(
                    PlaybookStepResult(name=check.name, phase="verify", command=command)
                )
                continue
            await self._run_check(check)

    async def _run_step(self, step: PlaybookStep) -> None:
        command, undo = (
            fill_template(step.command, self._values),
            fill_template(step.undo, self._values, partial=True),
        )
        id = new_id(f"play-{step.name}")
        await self._context.before_step(id, command, undo)
        result = await self._step_runner.run(
            step.name, command, step.timeout, id=id, grace_s=self._context.step_grace_s
        )
        why = incomplete_reason(result) or find_unmet_expectation(result, step.expect)
        undo = "" if result.status == "denied" else undo
        await self._step_runner.publish_step(step.name, "step", result, not why, why, undo)
        if result.status != "denied":  # half done is done: its undo has to be known
            self._add_result(step.name, "step", result, ok=not why, undo=undo)
        if why:
            raise PlaybookStopped(failure_outcome(result, "unmet"), step.name, why)
        more, why = capture_parameters(
            self._playbook.parameters, step.name, result.output, self._values
        )
        self._values |= more
        if why:
            raise PlaybookStopped("unmet", step.name, why)

    async def _run_check(self, check: PlaybookCheck) -> None:
        command, deadline = (
            fill_template(check.command, self._values),
            time.monotonic() + check.within,
        )
        while True:
            result = await self._step_runner.run(check.name, command, check.timeout)
            why = incomplete_reason(result) or find_unmet_expectation(result, check.expect)
            if not why or result.status == "denied" or time.monotonic() >= deadline:
                break
            await anyio.sleep(VERIFY_PAUSE_S)
        await self._step_runner.publish_step(check.name, "verify", result, not why, why)
        self._add_result(check.name, "verify", result, ok=not why)
        if why:
            raise PlaybookStopped(
                "refused" if result.status == "denied" else "unmet", check.name, why
            )

    def _add_result(
        self, name: str, phase: PlaybookPhase, result: TerminalResult, *, ok: bool, undo: str = ""
    ) -> None:
        self._results.append(build_step_result(name, phase, result, ok=ok, undo=undo))

    def _started_event(self, *, dry: bool) -> PlaybookStarted:
        return PlaybookStarted(
            run=self._context.run,
            skill=self.skill,
            digest=self._digest,
            parameters=tuple(self._known_parameters().items()),
            dry=dry,
        )

    def _ended_event(self, played: PlaybookRunResult) -> PlaybookEnded:
        return PlaybookEnded(
            run=self._context.run,
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


def _undo_failure(result: TerminalResult) -> str:
    why = incomplete_reason(result)
    return why or ("" if result.code == 0 else f"it ended with exit code {result.code}")
