"""Runs a playbook without a model: checks the signature, runs the steps, verifies, undoes.

Signatures may be checked concurrently; a probe that several playbooks share runs once.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from hermes.core.events.skills import PlaybookEnded, PlaybookStarted
from hermes.core.incident import AlertFacts
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import (
    PlaybookContext,
    PlaybookOutcome,
    PlaybookStepResult,
    PlaybookStopped,
    StepRunner,
    TerminalResult,
    build_step_result,
    failure_outcome,
    find_unmet_expectation,
    incomplete_reason,
    missing_program_reason,
    unchecked_reason,
)
from hermes.skills.playbook.parameters import (
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
VERIFY_PAUSE_S = 0.1


class SignatureResult(Value, kw_only=True, frozen=True):
    """Whether the signature of a playbook is present, and if not, where and why."""

    values: dict[str, str] = {}
    done: tuple[PlaybookStepResult, ...] = ()
    early_outcome: PlaybookOutcome | None = None
    """The outcome when no step runs; None when the signature is present."""
    step: str = ""
    detail: str = ""
    unchecked: str = ""
    """Why the signature could not be checked completely; empty when it was."""
    program_missing: bool = False
    """The host lacks a program that a probe needs: checking again is useless."""
    checked_at: float = 0.0
    """On the monotonic clock; an old result may no longer be true."""
    seconds: float = 0.0


class ProbeLookup(NamedTuple):
    result: TerminalResult
    is_new: bool
    """Not taken from the cache."""


class ProbeCache:
    """Probe results, shared between playbooks until something is changed."""

    def __init__(self) -> None:
        self._results: dict[str, TerminalResult] = {}
        self._running: dict[str, anyio.Event] = {}

    async def run_once(
        self, command: str, run: Callable[[], Awaitable[TerminalResult]]
    ) -> ProbeLookup:
        while command not in self._results:
            if (other := self._running.get(command)) is not None:
                await other.wait()
                continue  # when the other one was cancelled, this one runs
            finished = self._running[command] = anyio.Event()
            try:
                self._results[command] = result = await run()
                return ProbeLookup(result, True)
            finally:
                del self._running[command]
                finished.set()
        return ProbeLookup(self._results[command], False)


class PlaybookRunResult(Value, kw_only=True, frozen=True):
    """The outcome, with the results of all commands."""

    skill: str
    outcome: PlaybookOutcome
    step: str = ""
    """The step at which it stopped."""
    detail: str = ""
    parameters: dict[str, str] = {}
    done: tuple[PlaybookStepResult, ...] = ()
    seconds: float = 0.0
    not_undone: tuple[str, ...] = ()
    dry: bool = False
    unchecked: str = ""
    """Why the signature could not be checked completely."""
    symptoms: tuple[PlaybookCheck, ...] = ()
    """Checks that failed before the first step, with their commands filled in."""

    @property
    def steps_run(self) -> int:
        return 0 if self.dry else sum(each.phase == "step" for each in self.done)

    @property
    def changed(self) -> bool:
        return self.steps_run > 0


class PlaybookRunner:
    """Runs one playbook once."""

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
        """The result can be passed to `run`. `probe_cache` is shared with other playbooks."""
        return await check_signature(
            self._playbook, facts, self._step_runner, probe_cache or ProbeCache()
        )

    async def run(
        self, facts: AlertFacts, *, dry: bool = False, signature: SignatureResult | None = None
    ) -> PlaybookRunResult:
        """`dry`: the probes run, the steps are only filled in. `signature`: checked before."""
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
        run_result = PlaybookRunResult(
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
        await self._step_runner.publish(self._ended_event(run_result))
        return run_result

    def _symptoms(self) -> tuple[PlaybookCheck, ...]:
        return tuple(
            replace(check, command=fill_template(check.command, self._values))
            for check in self._playbook.verify
            if check.symptom
        )

    async def undo(self, run_result: PlaybookRunResult) -> PlaybookRunResult:
        """Undoes the steps, the last first. A failure does not stop the others."""
        began, failed, undo_results = time.monotonic(), [], []
        for each in reversed([one for one in run_result.done if one.phase == "step" and one.undo]):
            result = await self._step_runner.run(each.name, each.undo, 30.0)
            why = incomplete_reason(result)
            why = why or ("" if result.code == 0 else f"it ended with exit code {result.code}")
            await self._step_runner.publish_step(each.name, "undo", result, not why, why)
            undo_results.append(replace(each, phase="undo", command=each.undo, undo="", ok=not why))
            if why:
                failed.append(each.name)
        undone = replace(
            run_result,
            outcome="failed" if failed else "undone",
            detail=f"not undone: {', '.join(failed)}" if failed else run_result.detail,
            done=(*run_result.done, *undo_results),
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
        if dry:
            self._results += self._planned_results()
            return
        for step in self._playbook.steps:
            await self._run_step(step)
        for check in self._playbook.verify:
            await self._run_check(check)

    def _planned_results(self) -> Iterator[PlaybookStepResult]:
        for step in self._playbook.steps:
            command = fill_template(step.command, self._values, partial=True)
            undo = fill_template(step.undo, self._values, partial=True)
            yield PlaybookStepResult(name=step.name, phase="step", command=command, undo=undo)
        for check in self._playbook.verify:
            command = fill_template(check.command, self._values, partial=True)
            yield PlaybookStepResult(name=check.name, phase="verify", command=command)

    async def _run_step(self, step: PlaybookStep) -> None:
        command = fill_template(step.command, self._values)
        undo = fill_template(step.undo, self._values, partial=True)
        id = new_id(f"play-{step.name}")
        await self._context.before_step(id, command, undo)
        result = await self._step_runner.run(
            step.name, command, step.timeout, id=id, grace_s=self._context.step_grace_s
        )
        why = incomplete_reason(result) or find_unmet_expectation(result, step.expect)
        undo = "" if result.status == "denied" else undo
        await self._step_runner.publish_step(step.name, "step", result, not why, why, undo)
        if result.status != "denied":  # a failed step may have changed something: keep its undo
            self._results.append(
                build_step_result(step.name, "step", result, ok=not why, undo=undo)
            )
        if why:
            raise PlaybookStopped(failure_outcome(result, "unmet"), step.name, why)
        more, why = capture_parameters(
            self._playbook.parameters, step.name, result.output, self._values
        )
        self._values |= more
        if why:
            raise PlaybookStopped("unmet", step.name, why)

    async def _run_check(self, check: PlaybookCheck) -> None:
        command = fill_template(check.command, self._values)
        deadline = time.monotonic() + check.within
        while True:
            result = await self._step_runner.run(check.name, command, check.timeout)
            why = incomplete_reason(result) or find_unmet_expectation(result, check.expect)
            if not why or result.status == "denied" or time.monotonic() >= deadline:
                break
            await anyio.sleep(VERIFY_PAUSE_S)
        await self._step_runner.publish_step(check.name, "verify", result, not why, why)
        self._results.append(build_step_result(check.name, "verify", result, ok=not why))
        if why:
            outcome: PlaybookOutcome = "refused" if result.status == "denied" else "unmet"
            raise PlaybookStopped(outcome, check.name, why)

    def _started_event(self, *, dry: bool) -> PlaybookStarted:
        return PlaybookStarted(
            run=self._context.run,
            skill=self.skill,
            digest=self._digest,
            parameters=tuple(self._known_parameters().items()),
            dry=dry,
        )

    def _ended_event(self, run_result: PlaybookRunResult) -> PlaybookEnded:
        return PlaybookEnded(
            run=self._context.run,
            skill=self.skill,
            outcome=run_result.outcome,
            step=run_result.step,
            detail=run_result.detail,
            seconds=round(run_result.seconds, 3),
            steps=run_result.steps_run,
            not_undone=run_result.not_undone,
            dry=run_result.dry,
            unchecked=run_result.unchecked,
        )


async def check_signature(
    playbook: Playbook, facts: AlertFacts, step_runner: StepRunner, probe_cache: ProbeCache
) -> SignatureResult:
    began = time.monotonic()
    values: dict[str, str] = {}
    results: list[PlaybookStepResult] = []
    outcome: PlaybookOutcome | None = None
    step = detail = unchecked = ""
    program_missing = False
    try:
        values |= _initial_values(playbook, facts)
        for probe in playbook.signature.probes:
            result = await _run_probe(
                probe, fill_template(probe.command, values), step_runner, probe_cache, results
            )
            more, why = capture_parameters(playbook.parameters, probe.name, result.output, values)
            values |= more
            if why:
                raise PlaybookStopped("declined", probe.name, why)
        for check in playbook.verify:
            if check.symptom:
                await _check_symptom(
                    check, fill_template(check.command, values), step_runner, probe_cache, results
                )
    except PlaybookStopped as stop:
        outcome, step, detail = stop.outcome, stop.step, str(stop)
        last = results[-1].output if results else ""
        program_missing = bool(missing_program_reason(last))
        unchecked = unchecked_reason(stop, last)
    return SignatureResult(
        values=values,
        done=tuple(results),
        early_outcome=outcome,
        step=step,
        detail=detail,
        unchecked=unchecked,
        program_missing=program_missing,
        checked_at=time.monotonic(),
        seconds=time.monotonic() - began,
    )


def _initial_values(playbook: Playbook, facts: AlertFacts) -> dict[str, str]:
    # A separate folder for each run, so that undo never restores copies of another run.
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
    step_runner: StepRunner,
    probe_cache: ProbeCache,
    results: list[PlaybookStepResult],
) -> None:
    """The check must fail before the first step; else it proves nothing afterwards."""
    lookup = await probe_cache.run_once(
        command, lambda: step_runner.run(check.name, command, check.timeout)
    )
    result = lookup.result
    denied = result.status != "ok"
    holds = not denied and not result.timed_out and not find_unmet_expectation(result, check.expect)
    why = incomplete_reason(result) if denied else "the symptom is not there" if holds else ""
    await _record_probe(check.name, lookup, why, step_runner, results)


async def _run_probe(
    probe: PlaybookProbe,
    command: str,
    step_runner: StepRunner,
    probe_cache: ProbeCache,
    results: list[PlaybookStepResult],
) -> TerminalResult:
    lookup = await probe_cache.run_once(
        command, lambda: step_runner.run(probe.name, command, probe.timeout)
    )
    result = lookup.result
    # The following probes need the same program: without it, one probe is enough.
    incomplete = incomplete_reason(result) or missing_program_reason(result.output)
    why = incomplete or find_unmet_expectation(result, probe.expect)
    await _record_probe(probe.name, lookup, why, step_runner, results, incomplete=bool(incomplete))
    return result


async def _record_probe(
    name: str,
    lookup: ProbeLookup,
    why: str,
    step_runner: StepRunner,
    results: list[PlaybookStepResult],
    *,
    incomplete: bool = False,
) -> None:
    """Raises `PlaybookStopped` when there is a reason to stop."""
    if lookup.is_new:
        await step_runner.publish_step(name, "probe", lookup.result, not why, why)
    results.append(build_step_result(name, "probe", lookup.result, ok=not why))
    if why:
        outcome = failure_outcome(lookup.result, "declined")
        raise PlaybookStopped(outcome, name, why, incomplete=incomplete)
