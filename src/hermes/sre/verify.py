"""Whether it is fixed, said by checks that the fixer has no hand in.

What failed before must pass, what passed before must still pass, for a window as long as the
symptom's own rhythm, and after the trigger was set off again: that tells a cure from relief. One of
the checks must have seen the symptom before, and must not depend on what the fixer did; without
such evidence nothing is called fixed or recovered.
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from hermes.core.events.incidents import AlertRaised, CheckTiming, IncidentChecked, IncidentVerified
from hermes.core.messages import ToolCall, Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import parse_terminal_result
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.assessment.symptom_timing import (
    MAX_OUTLIVED_S,
    PERIOD_MARGIN,
    RECOVERY_WINDOWS,
    SymptomTiming,
    UnitRunTimes,
    highest_failure_share,
    read_alert_period_s,
    read_unit_run_times,
)
from hermes.sre.checks import CheckResult, IndependentChecks, run_checks
from hermes.sre.context import IncidentContext
from hermes.sre.incident import IncidentDetails
from hermes.sre.policies import TrustedPlaybookPolicy

TERMINAL_TOOL = "terminal"
NO_EVIDENCE = "no check that saw the symptom before can show that it is gone"


@dataclass(frozen=True)
class Baseline:
    """How everything was before anything was changed, and the eyes that saw it."""

    independent_checks: IndependentChecks
    failing: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    """Checks that failed and would pass after a restart or an edit, whatever the cause."""
    counters: frozenset[str] = frozenset()
    """Those of them that count restarts."""
    unseen: frozenset[str] = frozenset()
    """What could not be asked then tells nothing later."""
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often each check failed, and how often it was asked."""
    proposed: tuple[PlaybookCheck, ...] = ()
    """Checks of models; they count because they were seen to fail."""
    symptoms: tuple[PlaybookCheck, ...] = ()
    """The same of playbooks, written by their authors."""

    @property
    def evidence(self) -> frozenset[str]:
        """Checks that saw the symptom and do not depend on what a fixer does."""
        return self.failing - self.weak

    def with_proposed_check(self, check: PlaybookCheck) -> "Baseline":
        failing = self.failing | {check.name}
        return replace(self, proposed=(*self.proposed, check), failing=failing)

    def with_symptoms(self, checks: Sequence[PlaybookCheck]) -> "Baseline":
        failing = self.failing | {check.name for check in checks}
        return replace(self, symptoms=(*self.symptoms, *checks), failing=failing)

    def with_results(self, seen: Sequence[CheckResult]) -> "Baseline":
        """With one look more, still before anything was changed."""
        failed = {each.check for each in seen if not each.ok and not each.unknown}
        samples = dict(self.samples)
        for each in seen:
            times, looks = samples.get(each.check, (0, 0))
            samples[each.check] = (times + (each.check in failed), looks + 1)
        weak = {each.check for each in seen if each.check in failed and not each.proves}
        return replace(
            self,
            failing=self.failing | failed,
            weak=self.weak | (weak - (self.failing - self.weak)),
            counters=self.counters | {each.check for each in seen if each.counter},
            unseen=self.unseen | {each.check for each in seen if each.unknown},
            samples=samples,
        )


class VerificationResult(Value, kw_only=True, frozen=True):
    ok: bool
    """All is well, and evidence shows it."""
    helped: bool = False
    """What this attempt was about passes now, by evidence, and nothing is worse: it stays."""
    regressed: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    """What still fails: the name of each check, and what it saw."""
    evidence: tuple[str, ...] = ()
    """Checks that failed before, pass now, and do not depend on what the fixer did."""
    unseen: bool = False
    """All that was asked passes, but nothing that was asked saw the symptom."""
    why: str = ""


class RecoveryResult(Value, kw_only=True, frozen=True):
    """What came of watching a host on which nothing was changed."""

    recovered: bool
    checks: tuple[str, ...] = ()
    """Those that observe the symptom and passed all the time."""
    evidence: tuple[int, ...] = ()
    """Numbers of the events that show it."""
    seconds: float = 0.0
    returned: bool = False
    """A check failed, or the alert fired, while it was watched."""
    why: str = ""
    """What could not be seen, or failed again."""


async def take_baseline(
    context: IncidentContext,
    details: IncidentDetails,
    earlier: frozenset[str] | None,
    weak: frozenset[str] = frozenset(),
) -> Baseline:
    """`earlier` are the checks that failed when a life of ours that ended too soon looked."""
    eyes = await context.checks_for(details)
    if earlier is not None:
        return Baseline(independent_checks=eyes, failing=earlier, weak=weak)
    seen = await eyes()
    await _publish(context, details, seen, "before", 0)
    return Baseline(independent_checks=eyes).with_results(seen)


async def extend_baseline(
    context: IncidentContext, details: IncidentDetails, baseline: Baseline
) -> Baseline:
    """A further sample: a symptom that comes and goes is seen by some looks only."""
    more = baseline.with_results(seen := await baseline.independent_checks())
    fresh = more.failing - baseline.failing
    await _publish(context, details, [each for each in seen if each.check in fresh], "before", 0)
    return more


async def verify(
    context: IncidentContext,
    details: IncidentDetails,
    baseline: Baseline,
    attempt: int,
    *,
    triggers: Sequence[str] = (),
    why_not: str = "",
    concerns: str = "",
    restarted: Sequence[str] = (),
) -> VerificationResult:
    """`why_not`: the fixer itself found that it did not help; then one look is enough. `concerns`:
    the component that the attempt was about. `restarted`: units that the fixer restarted."""
    began, settings = time.monotonic(), context.settings.verify
    seen = await _run_until_passed(
        context, details, baseline, 0.0 if why_not else settings.patience
    )
    await _publish(context, details, seen, "after", attempt)
    trigger = ""
    if not why_not and _all_passed(seen) and settings.trigger and triggers:
        trigger = await _run_triggers(context, details, triggers)
        seen = await _run_until_passed(context, details, baseline, settings.patience)
        await _publish(context, details, seen, "trigger", attempt)
    if not why_not and _all_passed(seen):
        runs = await _unit_run_times(context, details, restarted)
        rhythm = await _symptom_timing(context, details, baseline, runs.onset_s)
        seen = await _run_for_window(context, details, baseline, rhythm.window_s(settings))
        if (
            runs.lifetime_s
            and _all_passed(seen)
            and baseline.counters
            and not _passing_evidence(baseline, seen)
        ):
            # It ended again and again: that it lives longer than before is what can be seen.
            seen = await _run_for_window(
                context, details, baseline, PERIOD_MARGIN * runs.lifetime_s + settings.every
            )
            baseline = replace(baseline, weak=baseline.weak - baseline.counters)
        await _publish(context, details, [each for each in seen if not each.ok], "after", attempt)
    proof = _verification_result(baseline, seen, why_not, concerns)
    await context.bus.publish(
        IncidentVerified(
            run=details.run,
            incident=details.incident,
            ok=proof.ok,
            checks=tuple(f"{each.check}: {each.detail}" for each in seen),
            seconds=round(time.monotonic() - began, 3),
            attempt=attempt,
            trigger=trigger,
            kept=proof.helped,
        )
    )
    return proof


async def watch_recovery(
    context: IncidentContext, details: IncidentDetails, baseline: Baseline
) -> RecoveryResult:
    """Nothing was changed, and it may be over: do checks that observe the symptom pass for as long
    as it takes to see it come back?"""
    settings = context.settings.verify
    rhythm = await _symptom_timing(context, details, baseline)
    needed = rhythm.recovery_window_s(settings)
    first = await _run_all_checks(context, details, baseline)
    observing = _observing_checks(details, baseline, first)
    if not observing:
        return RecoveryResult(recovered=False, why="no check observes what the alert is about")
    if not _all_passed(first):
        return RecoveryResult(recovered=False, returned=True, why=_failures_text(first))
    if needed > max(settings.longest_window, RECOVERY_WINDOWS * settings.window):
        why = f"the symptom returns after up to {rhythm.period_s:.0f} s: longer than it is watched"
        return RecoveryResult(recovered=False, checks=observing, why=why)
    heard, began = await context.bus.journal.last(), time.monotonic()
    seen = await _run_for_window(context, details, baseline, needed)
    numbers = await _publish(context, details, seen, "after", 0)
    why = _failures_text(seen) or await _alert_fired_again(context, details, heard)
    return RecoveryResult(
        recovered=not why,
        returned=bool(why),
        checks=observing,
        evidence=tuple(
            number for number, each in zip(numbers, seen, strict=True) if each.check in observing
        ),
        seconds=time.monotonic() - began,
        why=why,
    )


def _observing_checks(
    details: IncidentDetails, baseline: Baseline, seen: Sequence[CheckResult]
) -> tuple[str, ...]:
    """Checks that saw the symptom; where none did, those of the service that the alert names."""
    passing = [each for each in seen if each.proves and not each.unknown]
    if baseline.failing:
        return tuple(each.check for each in passing if each.check in baseline.evidence)
    return tuple(each.check for each in passing if check_concerns(each, details.service))


def check_concerns(seen: CheckResult, component: str) -> bool:
    """Whether a check is about this component: by its service, or by its name."""
    name = component.removesuffix(".service")
    if not name:
        return False
    return seen.service == name or seen.check == name or seen.check.endswith(f"-{name}")


async def _alert_fired_again(context: IncidentContext, details: IncidentDetails, heard: int) -> str:
    async for recorded in context.bus.journal.read(after=heard, kinds=("alert.raised",)):
        event = recorded.event
        same = isinstance(event, AlertRaised) and event.fingerprint == details.fingerprint
        if details.fingerprint and same and not getattr(event, "resolved", False):
            return "the alert fired again while it was watched"
    return ""


async def _unit_run_times(
    context: IncidentContext, details: IncidentDetails, restarted: Sequence[str]
) -> UnitRunTimes:
    longest = max(context.settings.verify.longest_window, MAX_OUTLIVED_S)
    return await read_unit_run_times(context.execute_for_run(details.run), restarted, longest)


async def _symptom_timing(
    context: IncidentContext, details: IncidentDetails, baseline: Baseline, onset: float = 0.0
) -> SymptomTiming:
    found = [baseline.samples[name] for name in baseline.evidence if name in baseline.samples]
    steady = any(check.name in baseline.evidence for check in baseline.symptoms)
    share = 1.0 if steady and not found else highest_failure_share(found)
    if share >= 1.0:
        return SymptomTiming(share=share, onset_s=onset)
    period = await read_alert_period_s(context.bus.journal, details.fingerprint)
    return SymptomTiming(share=share, period_s=period, onset_s=onset)


def _verification_result(
    baseline: Baseline, seen: Sequence[CheckResult], why_not: str, component: str
) -> VerificationResult:
    bad = [each for each in seen if not each.ok]
    lost = baseline.failing - {each.check for each in seen} - baseline.unseen
    worse = tuple(each.check for each in bad if each.check not in baseline.failing)
    evidence = _passing_evidence(baseline, seen)
    own = _own_checks(baseline, seen, component)
    still = any(check_concerns(each, component) or each.check in own for each in bad)
    helped = bool(own & set(evidence)) and not still and not worse and not why_not
    failing = tuple(f"{each.check}: {each.detail}" for each in bad)
    words = [*failing[:5], *(f"{name}: it could not be asked again" for name in sorted(lost))]
    if not words and not why_not:
        if evidence:
            return VerificationResult(ok=True, evidence=evidence)
        return VerificationResult(ok=False, unseen=True, why=NO_EVIDENCE)
    return VerificationResult(
        ok=False,
        helped=helped,
        regressed=worse,
        failing=failing,
        evidence=evidence,
        why="; ".join([why_not, *words]).strip("; "),
    )


def _passing_evidence(baseline: Baseline, seen: Sequence[CheckResult]) -> tuple[str, ...]:
    passing = {each.check for each in seen if each.ok and each.proves}
    return tuple(sorted(baseline.evidence & passing))


def _own_checks(baseline: Baseline, seen: Sequence[CheckResult], component: str) -> set[str]:
    """Of what failed before: checks of the component, and those that the fixer's author wrote."""
    mine = {check.name for check in (*baseline.proposed, *baseline.symptoms)}
    about = {each.check for each in seen if check_concerns(each, component)}
    return set(baseline.evidence & (mine | about))


def _all_passed(seen: Sequence[CheckResult]) -> bool:
    return all(each.ok for each in seen)


def _failures_text(seen: Sequence[CheckResult]) -> str:
    return "; ".join(f"{each.check}: {each.detail}" for each in seen if not each.ok)[:500]


async def _run_until_passed(
    context: IncidentContext, details: IncidentDetails, baseline: Baseline, timeout_s: float
) -> tuple[CheckResult, ...]:
    settings, deadline = context.settings.verify, time.monotonic() + timeout_s
    pause = min(0.2, settings.every)
    while True:
        seen = await _run_all_checks(context, details, baseline)
        shown = not baseline.evidence or _passing_evidence(baseline, seen)
        if (_all_passed(seen) and shown) or time.monotonic() >= deadline:
            return seen
        await anyio.sleep(pause)
        pause = min(pause * 1.5, settings.every)


async def _run_for_window(
    context: IncidentContext, details: IncidentDetails, baseline: Baseline, window: float
) -> tuple[CheckResult, ...]:
    every, deadline = context.settings.verify.every, time.monotonic() + window
    while True:
        seen = await _run_all_checks(context, details, baseline)
        left = deadline - time.monotonic()
        if not _all_passed(seen) or left <= 0:
            return seen
        await anyio.sleep(min(every, left))


async def _run_all_checks(
    context: IncidentContext, details: IncidentDetails, baseline: Baseline
) -> tuple[CheckResult, ...]:
    seen = [
        each for each in await baseline.independent_checks() if each.check not in baseline.unseen
    ]
    timeout = context.settings.verify.timeout
    if baseline.proposed:
        seen += await run_checks(
            baseline.proposed, context.execute_for_run(details.run), timeout=timeout
        )
    if baseline.symptoms:
        executor = context.executor.with_policy(TrustedPlaybookPolicy(context.executor.policy))
        road = context.execute_for_run(details.run, executor)
        seen += await run_checks(baseline.symptoms, road, timeout=timeout)
    return tuple(seen)


async def _publish(
    context: IncidentContext,
    details: IncidentDetails,
    seen: Sequence[CheckResult],
    when: CheckTiming,
    attempt: int,
) -> Sequence[int]:
    return await context.bus.publish(
        *(_checked_event(details, each, when, attempt) for each in seen)
    )


async def _run_triggers(
    context: IncidentContext, details: IncidentDetails, triggers: Sequence[str]
) -> str:
    """What was set off, and what may not be: a rule that says no is no reason to call it cured."""
    said = []
    for command in triggers:
        call = ToolCall(new_id("trigger"), TERMINAL_TOOL, {"command": command, "timeout": 30.0})
        end = parse_terminal_result(await context.execute_for_run(details.run)(call), command, 0.0)
        said.append(command if end.status == "ok" else f"not set off: {command}")
    return "; ".join(said)


def restart_commands(units: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"systemctl restart {shlex.quote(unit)}" for unit in units)


def _checked_event(
    details: IncidentDetails, seen: CheckResult, when: CheckTiming, attempt: int
) -> IncidentChecked:
    return IncidentChecked(
        run=details.run,
        incident=details.incident,
        check=seen.check,
        ok=seen.ok,
        detail=seen.detail,
        when=when,
        attempt=attempt,
        unknown=seen.unknown,
        proves=seen.proves,
    )
