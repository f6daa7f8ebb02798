"""Runs a playbook without a model: checks the signature, runs the steps, verifies, undoes.

Signatures may be checked concurrently; a probe that several playbooks share runs once.
"""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from hermes.core.events.skills import PlaybookEnded, PlaybookStarted, PlaybookStepped
from hermes.core.incident import AlertFacts
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import (
    TOOL_GRACE_S,
    PlaybookContext,
    PlaybookOutcome,
    PlaybookPhase,
    PlaybookStepResult,
    PlaybookStopped,
    TerminalResult,
    busy_timeout,
    failure_outcome,
    find_unmet_expectation,
    incomplete_reason,
    missing_program_reason,
    run_command,
    unchecked_reason,
)
from hermes.skills.playbook.parameters import (
    capture_parameters,
    fill_template,
    placeholder_names,
    resolve_parameter,
)
from hermes.skills.playbook.schema import (
    FUNCTIONS_PLACEHOLDER,
    UNDO_FOLDER_PARAMETER,
    Playbook,
    PlaybookCheck,
    PlaybookProbe,
    PlaybookStep,
)
from hermes.skills.supervisors.commands import (
    HostSupervisors,
    UnsupportedActionError,
    parse_action,
)
from hermes.skills.supervisors.units import SCRIPT_TIMEOUT_S, HostUnit, list_units

UNDO_ROOT = "/var/tmp/hermes-undo"
VERIFY_PAUSE_S = 0.1
UNDO_TIMEOUT_S = 30.0


class SignatureResult(Value, kw_only=True, frozen=True):
    """Whether the signature of a playbook is present, and if not, where and why."""

    values: dict[str, str] = {}
    units: tuple[HostUnit, ...] = ()
    """The units of the host; none where all are of systemd."""
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
    unanswered: bool = False
    """Its last check gave no answer in time, which says nothing about the fix."""
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
        self._values: dict[str, str] = {}
        self._units: tuple[HostUnit, ...] = ()
        self._results: list[PlaybookStepResult] = []

    async def check_signature(
        self, facts: AlertFacts, probe_cache: ProbeCache | None = None
    ) -> SignatureResult:
        """The result can be passed to `run`. `probe_cache` is shared with other playbooks."""
        began, cache = time.monotonic(), probe_cache or ProbeCache()
        self._values, self._results = {}, []
        stop: PlaybookStopped | None = None
        try:
            self._values = _initial_values(self._playbook, facts)
            if _needs_units(self._playbook):
                await self._list_units(cache)
            for probe in self._playbook.signature.probes:
                await self._run_probe(probe, cache)
            for check in self._playbook.verify:
                if check.symptom:
                    await self._check_symptom(check, cache)
            self._check_actions()
        except PlaybookStopped as error:
            stop = error
        last = self._results[-1].output if self._results else ""
        return SignatureResult(
            values=self._values,
            units=self._units,
            done=tuple(self._results),
            early_outcome=stop.outcome if stop else None,
            step=stop.step if stop else "",
            detail=str(stop) if stop else "",
            unchecked=unchecked_reason(stop, last) if stop else "",
            program_missing=bool(stop and missing_program_reason(last)),
            checked_at=time.monotonic(),
            seconds=time.monotonic() - began,
        )

    async def run(
        self, facts: AlertFacts, *, dry: bool = False, signature: SignatureResult | None = None
    ) -> PlaybookRunResult:
        """`dry`: the probes run, the steps are only filled in. `signature`: checked before."""
        began = time.monotonic()
        signature = signature or await self.check_signature(facts)
        self._values, self._results = dict(signature.values), list(signature.done)
        self._units = signature.units
        outcome: PlaybookOutcome = signature.early_outcome or "applied"
        step, detail, unanswered = signature.step, signature.detail, False
        symptoms: tuple[PlaybookCheck, ...] = ()
        if signature.early_outcome is None:
            try:
                await self._publish_start(dry=dry)
                await self._run_steps_and_checks(dry=dry)
            except PlaybookStopped as stop:
                outcome, step, detail = stop.outcome, stop.step, str(stop)
                unanswered = stop.incomplete
            symptoms = tuple(
                replace(check, command=self._fill(check.command))
                for check in self._playbook.verify
                if check.symptom
            )
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
            unanswered=unanswered,
            symptoms=symptoms,
        )
        await self._publish_end(run_result)
        return run_result

    async def undo(self, run_result: PlaybookRunResult) -> PlaybookRunResult:
        """Undoes the steps, the last first. A failure does not stop the others."""
        began, failed, undo_results = time.monotonic(), [], []
        for each in reversed([one for one in run_result.done if one.phase == "step" and one.undo]):
            result = await self._run(each.name, each.undo, UNDO_TIMEOUT_S)
            why = incomplete_reason(result)
            why = why or ("" if result.code == 0 else f"it ended with exit code {result.code}")
            await self._publish_step(each.name, "undo", result, why)
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
        await self._publish_end(undone)
        return undone

    def step_commands(self, signature: SignatureResult) -> tuple[str, ...]:
        """Return what the steps would run, as far as it is known before. The folder of their copies
        differs in each run, and is left out."""
        self._values = {**signature.values, UNDO_FOLDER_PARAMETER: UNDO_ROOT}
        self._units = signature.units
        return tuple(self._fill(step.command, partial=True) for step in self._playbook.steps)

    def _known_parameters(self) -> dict[str, str]:
        return {
            name: value for name, value in self._values.items() if name != UNDO_FOLDER_PARAMETER
        }

    def _fill(self, command: str, *, partial: bool = False) -> str:
        context = self._context
        supervisors = HostSupervisors(self._units, context.daemons, context.root_commands)
        return fill_template(
            command, self._values, supervisors, partial=partial, kubectl=context.kubectl
        )

    async def _list_units(self, cache: ProbeCache) -> None:
        """Raises `PlaybookStopped` when the units are not known: that is not a host without any."""

        async def run(script: str) -> str:
            lookup = await cache.run_once(
                script, lambda: self._run("units", script, busy_timeout(SCRIPT_TIMEOUT_S))
            )
            if why := incomplete_reason(lookup.result):
                detail = f"the services could not be listed: {why}"
                outcome = failure_outcome(lookup.result, "declined")
                raise PlaybookStopped(outcome, "units", detail, incomplete=True)
            return lookup.result.output

        context = self._context
        listing = await list_units(run, context.daemons, context.root_commands)
        if listing.notes and not listing.units:
            detail = f"the services could not be listed: {listing.notes[0]}"
            raise PlaybookStopped("declined", "units", detail, incomplete=True)
        self._units = listing.units

    def _check_actions(self) -> None:
        """Raises `PlaybookStopped` when the supervisor of a unit cannot do what a step needs."""
        steps = [(step.name, step.command + step.undo) for step in self._playbook.steps]
        checks = [(check.name, check.command) for check in self._playbook.verify]
        for name, text in (*steps, *checks):
            try:
                self._fill(text, partial=True)
            except UnsupportedActionError as error:
                raise PlaybookStopped("declined", name, str(error), incomplete=True) from error

    async def _run_steps_and_checks(self, *, dry: bool) -> None:
        for step in self._playbook.steps:
            await (self._plan(step, "step", step.undo) if dry else self._run_step(step))
        for check in self._playbook.verify:
            await (self._plan(check, "verify") if dry else self._run_check(check))

    async def _plan(
        self, part: PlaybookStep | PlaybookCheck, phase: PlaybookPhase, undo: str = ""
    ) -> None:
        command = self._fill(part.command, partial=True)
        undo = self._fill(undo, partial=True)
        planned = PlaybookStepResult(name=part.name, phase=phase, command=command, undo=undo)
        self._results.append(planned)

    async def _run_step(self, step: PlaybookStep) -> None:
        command = self._fill(step.command)
        undo = self._fill(step.undo, partial=True)
        id = new_id(f"play-{step.name}")
        await self._context.before_step(id, command, undo)
        context = self._context
        result = await run_command(
            context.execute, command, step.timeout, id=id, grace_s=context.step_grace_s
        )
        why = incomplete_reason(result) or find_unmet_expectation(result, step.expect)
        undo = "" if result.status == "denied" else undo
        await self._publish_step(step.name, "step", result, why, undo)
        if result.status != "denied":  # a failed step may have changed something: keep its undo
            self._keep_result(step.name, "step", result, why, undo)
        if why:
            raise PlaybookStopped(failure_outcome(result, "unmet"), step.name, why)
        self._capture(step.name, result, "unmet")

    async def _run_check(self, check: PlaybookCheck) -> None:
        command = self._fill(check.command)
        deadline = time.monotonic() + check.within
        while True:
            result = await self._run(check.name, command, busy_timeout(check.timeout))
            why = incomplete_reason(result) or find_unmet_expectation(result, check.expect)
            if not why or result.status == "denied" or time.monotonic() >= deadline:
                break
            await anyio.sleep(VERIFY_PAUSE_S)
        await self._publish_step(check.name, "verify", result, why)
        self._keep_result(check.name, "verify", result, why)
        if why:
            outcome: PlaybookOutcome = "refused" if result.status == "denied" else "unmet"
            raise PlaybookStopped(outcome, check.name, why, incomplete=result.timed_out)

    async def _run_probe(self, probe: PlaybookProbe, cache: ProbeCache) -> None:
        lookup = await self._look_up(probe, cache)
        # The following probes need the same program: without it, one probe is enough.
        incomplete = incomplete_reason(lookup.result) or missing_program_reason(
            lookup.result.output
        )
        why = incomplete or find_unmet_expectation(lookup.result, probe.expect)
        await self._record_probe(probe.name, lookup, why, incomplete=bool(incomplete))
        self._capture(probe.name, lookup.result, "declined")

    async def _check_symptom(self, check: PlaybookCheck, cache: ProbeCache) -> None:
        """The check must fail before the first step; else it proves nothing afterwards."""
        lookup = await self._look_up(check, cache)
        result = lookup.result
        if result.status != "ok":
            why = incomplete_reason(result)
        else:
            holds = not result.timed_out and not find_unmet_expectation(result, check.expect)
            why = "the symptom is not there" if holds else ""
        await self._record_probe(check.name, lookup, why)

    async def _look_up(self, probe: PlaybookProbe, cache: ProbeCache) -> ProbeLookup:
        command = self._fill(probe.command)
        timeout = busy_timeout(probe.timeout)
        return await cache.run_once(command, lambda: self._run(probe.name, command, timeout))

    async def _record_probe(
        self, name: str, lookup: ProbeLookup, why: str, *, incomplete: bool = False
    ) -> None:
        """Raises `PlaybookStopped` when there is a reason to stop."""
        if lookup.is_new:
            await self._publish_step(name, "probe", lookup.result, why)
        self._keep_result(name, "probe", lookup.result, why)
        if why:
            outcome = failure_outcome(lookup.result, "declined")
            raise PlaybookStopped(outcome, name, why, incomplete=incomplete)

    async def _run(self, name: str, command: str, timeout: float) -> TerminalResult:
        id, execute = new_id(f"play-{name}"), self._context.execute
        return await run_command(execute, command, timeout, id=id, grace_s=TOOL_GRACE_S)

    def _capture(self, source: str, result: TerminalResult, outcome: PlaybookOutcome) -> None:
        """Takes parameters from the output. Raises `PlaybookStopped` when one is missing."""
        found, why = capture_parameters(
            self._playbook.parameters, source, result.output, self._values
        )
        self._values |= found
        if why:
            raise PlaybookStopped(outcome, source, why)

    def _keep_result(
        self, name: str, phase: PlaybookPhase, result: TerminalResult, why: str, undo: str = ""
    ) -> None:
        self._results.append(
            PlaybookStepResult(
                name=name,
                phase=phase,
                command=result.command,
                undo=undo,
                ok=not why,
                output=result.output,
                call_id=result.call_id,
            )
        )

    async def _publish_step(
        self, name: str, phase: PlaybookPhase, result: TerminalResult, why: str, undo: str = ""
    ) -> None:
        await self._context.publish(
            PlaybookStepped(
                run=self._context.run,
                skill=self.skill,
                step=name,
                call_id=result.call_id,
                ok=not why,
                detail=why,
                undo=undo,
                phase=phase,
                seconds=round(result.seconds, 3),
            )
        )

    async def _publish_start(self, *, dry: bool) -> None:
        await self._context.publish(
            PlaybookStarted(
                run=self._context.run,
                skill=self.skill,
                digest=self._digest,
                parameters=tuple(self._known_parameters().items()),
                dry=dry,
            )
        )

    async def _publish_end(self, run_result: PlaybookRunResult) -> None:
        await self._context.publish(
            PlaybookEnded(
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
        )


def _needs_units(playbook: Playbook) -> bool:
    commands = [each.command for each in (*playbook.signature.probes, *playbook.verify)]
    commands += [step.command for step in playbook.steps]
    names = {name for command in commands for name in placeholder_names(command)}
    return FUNCTIONS_PLACEHOLDER in names or any(parse_action(name) for name in names)


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
