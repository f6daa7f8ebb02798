"""Verifies a fix or a recovery with checks that are independent of the fix.

Checks that failed before must pass, and those that passed must still pass, for as long as the
symptom may take to return, and after what triggered the problem was run again. At least one of them
must have failed because of the symptom and must not depend on what the fix changed; without such
evidence nothing counts as fixed or recovered.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import anyio

from hermes.core.events.incidents import (
    AlertRaised,
    ChangeBegan,
    CheckTiming,
    IncidentChecked,
    IncidentVerified,
)
from hermes.core.incident import WITHDRAWN_LABEL, Incident, IncidentDetails
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import run_command
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.assessment.symptom_timing import (
    MAX_OUTLIVED_S,
    PERIOD_MARGIN,
    RECOVERY_WINDOWS,
    SymptomTiming,
    highest_failure_share,
    read_alert_period_s,
    read_unit_run_times,
)
from hermes.sre.cause import EXPERIMENT
from hermes.sre.checks import CheckResult, IndependentChecks, ProbeChecks, run_checks
from hermes.sre.context import IncidentWork
from hermes.sre.probes.probe import Probe
from hermes.sre.undo import UnitRestart

TRIGGER_TIMEOUT_S = 30.0
REHEARSAL_FACTOR = 3.0
MAX_REHEARSED_TIMEOUT_S = 180.0
ROLLOUT_TIMEOUT_S = 180.0
"""Nodes pull images, start containers and probe them before a change of a workload shows."""
MAX_EVENTS_BEFORE_OPENING = 500
"""Events before the one that opened an incident among which its alerts are."""
NO_EVIDENCE = "no check that observed the symptom before can show that it is gone"


@dataclass(frozen=True)
class Baseline:
    """The results of all checks before anything was changed."""

    independent_checks: IndependentChecks
    failing: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    """Checks that failed and pass after any restart or edit, whatever the cause."""
    counters: frozenset[str] = frozenset()
    """Checks that fail because of a restart count."""
    unanswered: frozenset[str] = frozenset()
    """Checks that gave no answer before: their later results are ignored."""
    other_failures: frozenset[str] = frozenset()
    """Checks of other services, which began to fail before anything was changed. They belong to
    another problem, so their results say nothing about the fix."""
    failed_before: frozenset[str] = frozenset()
    """Checks that had failed before the incident was reopened: that they still fail says nothing
    about the fix of the new failure."""
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often each check failed, and how often it was run."""
    proposed: tuple[PlaybookCheck, ...] = ()
    """Checks that models proposed and that failed before the fix."""
    symptoms: tuple[PlaybookCheck, ...] = ()
    """Symptom checks of playbooks."""

    @property
    def evidence(self) -> frozenset[str]:
        """Checks that observed the symptom and do not depend on what a fix does."""
        return self.failing - self.weak

    def with_proposed_check(self, check: PlaybookCheck) -> "Baseline":
        failing = self.failing | {check.name}
        return replace(self, proposed=(*self.proposed, check), failing=failing)

    def with_symptoms(self, checks: Sequence[PlaybookCheck]) -> "Baseline":
        failing = self.failing | {check.name for check in checks}
        return replace(self, symptoms=(*self.symptoms, *checks), failing=failing)

    def with_results(self, results: Sequence[CheckResult]) -> "Baseline":
        """Add one more run of the checks before anything is changed."""
        failed = {each.check for each in results if not each.ok and not each.unknown}
        samples = dict(self.samples)
        for each in results:
            times, runs = samples.get(each.check, (0, 0))
            samples[each.check] = (times + (each.check in failed), runs + 1)
        weak = {each.check for each in results if each.check in failed and not each.proves}
        firm = (self.failing - self.weak) | (failed - weak)
        return replace(
            self,
            failing=self.failing | failed,
            weak=(self.weak | weak) - firm,
            counters=self.counters | {each.check for each in results if each.counter},
            unanswered=self.unanswered | {each.check for each in results if each.unknown},
            samples=samples,
        )


class VerificationResult(Value, kw_only=True, frozen=True):
    ok: bool
    """All checks passed, and evidence shows that the symptom is gone."""
    helped: bool = False
    """The checks of the component pass now and nothing else got worse: the changes stay."""
    symptom_unobserved: bool = False
    """All checks pass, but none of them had observed the symptom."""
    why: str = ""


class FixRehearsal(Value, kw_only=True, frozen=True):
    """The result of a fix on a copy of the host."""

    seconds: float = 0.0
    """How long the fix took there; a slow host gets more time."""
    explained: tuple[str, ...] = ()
    """The checks that failed there because of what the fix is about; empty: not known."""


NOT_REHEARSED = FixRehearsal()


def recorded_rehearsal(incident: Incident) -> FixRehearsal:
    """Return the rehearsal of the last change, if it reverts a cause that experiments have proved:
    for the verification after a crash."""
    last = incident.tests[-1] if incident.tests else None
    reverted = bool(incident.changes) and incident.changes[-1].by == EXPERIMENT
    if not reverted or last is None or (last.by, last.outcome) != (EXPERIMENT, "recovered"):
        return NOT_REHEARSED
    return FixRehearsal(seconds=last.seconds, explained=last.checks)


class RecoveryResult(Value, kw_only=True, frozen=True):
    """The result of watching a host on which nothing was changed."""

    recovered: bool
    checks: tuple[str, ...] = ()
    """Checks that observe the symptom and passed all the time."""
    evidence: tuple[int, ...] = ()
    """Numbers of the events with their results."""
    seconds: float = 0.0
    returned: bool = False
    """Whether a check failed, or the alert fired, in that time."""
    why: str = ""
    """What failed again, or could not be observed."""


async def take_baseline(
    work: IncidentWork,
    earlier: frozenset[str] | None = None,
    weak: frozenset[str] = frozenset(),
) -> Baseline:
    """`earlier`: the checks that failed before a crash; they are not run again."""
    checks = await work.context.checks_for(work.details)
    first = Baseline(independent_checks=checks, failed_before=(await work.read()).failed_before)
    if earlier is not None:
        return replace(first, failing=earlier, weak=weak)
    results = await checks()
    await _publish(work, results, "before", 0)
    return first.with_results(results)


async def extend_baseline(work: IncidentWork, baseline: Baseline) -> Baseline:
    """Run the checks once more: an intermittent symptom shows only in some runs."""
    more = baseline.with_results(results := await baseline.independent_checks())
    fresh = more.failing - baseline.failing
    await _publish(work, [each for each in results if each.check in fresh], "before", 0)
    return more


async def add_later_failures(work: IncidentWork, baseline: Baseline) -> Baseline:
    """Run the checks once more, just before the first change, which did not cause what fails by
    now. Failures of the services that failed at first must be gone after the fix; other services
    have a problem of their own."""
    results = await baseline.independent_checks()
    fresh = [
        each
        for each in results
        if not each.ok and not each.unknown and each.check not in baseline.failing
    ]
    concerned = {each.service for each in results if each.check in baseline.failing}
    concerned |= {work.details.service.removesuffix(".service"), ""}
    own = [each for each in fresh if each.service in concerned]
    others = {each.check for each in fresh if each.service not in concerned}
    await _publish(work, fresh, "before", 0)
    return replace(baseline, other_failures=baseline.other_failures | others).with_results(own)


async def failing_checks(work: IncidentWork, probes: Sequence[Probe]) -> list[CheckResult]:
    """Run the probes on the host and return the results that fail."""
    results = await ProbeChecks(probes, work.context.environment)()
    return [each for each in results if not each.ok and not each.unknown]


async def add_checks(work: IncidentWork, baseline: Baseline, probes: Sequence[Probe]) -> Baseline:
    """Add those of the probes that fail on the host now; the others say nothing about the fault."""
    checks = baseline.independent_checks
    if not probes or not isinstance(checks, ProbeChecks):
        return baseline
    failed = await failing_checks(work, probes)
    names = {each.check for each in failed}
    await _publish(work, failed, "before", 0)
    chosen = checks.with_probes([each for each in probes if each.name in names])
    return replace(baseline, independent_checks=chosen).with_results(failed)


async def verify(
    work: IncidentWork,
    baseline: Baseline,
    attempt: int,
    *,
    fix_failure: str = "",
    component: str = "",
    restarted: Sequence[UnitRestart] = (),
    restart_again: bool = False,
    rehearsal: FixRehearsal = NOT_REHEARSED,
) -> VerificationResult:
    """Run the checks until they pass, and then for as long as the symptom may take to return.

    `fix_failure` says why the fix failed by its own checks; then the checks run only once.
    `component` is what the attempt was about. `restarted` lists the units that the fix restarted;
    with `restart_again` they are restarted once more, to see whether the problem returns.
    """
    began, settings = time.monotonic(), work.settings.verify
    needed = min(REHEARSAL_FACTOR * rehearsal.seconds, MAX_REHEARSED_TIMEOUT_S)
    if work.cluster is not None:
        needed = max(needed, ROLLOUT_TIMEOUT_S)
    patience, trigger = 0.0 if fix_failure else max(settings.patience, needed), ""
    results = await _run_until_passed(work, baseline, patience)
    await _publish(work, results, "after", attempt)
    if (
        not fix_failure
        and _all_passed(results)
        and settings.trigger
        and restart_again
        and restarted
    ):
        trigger = await _restart_again(work, [each.command for each in restarted])
        results = await _run_until_passed(work, baseline, patience)
        await _publish(work, results, "trigger", attempt)
    if not fix_failure and _all_passed(results):
        longest = max(settings.longest_window, MAX_OUTLIVED_S)
        runs = await read_unit_run_times(work.execute, [each.unit for each in restarted], longest)
        timing = await _symptom_timing(work, baseline, runs.onset_s)
        results = await _run_for_window(work, baseline, timing.window_s(settings))
        crashed = runs.lifetime_s and baseline.counters and _all_passed(results)
        if crashed and not _passing_evidence(baseline, results):
            # The unit crashed repeatedly: it is evidence when it now runs longer than before.
            window = PERIOD_MARGIN * runs.lifetime_s + settings.every
            results = await _run_for_window(work, baseline, window)
            baseline = replace(baseline, weak=baseline.weak - baseline.counters)
        await _publish(work, [each for each in results if not each.ok], "after", attempt)
    result = _verification_result(baseline, results, fix_failure, component, rehearsal.explained)
    await work.publish(
        IncidentVerified(
            run=work.details.run,
            incident=work.details.incident,
            ok=result.ok,
            checks=tuple(f"{each.check}: {each.detail}" for each in results),
            seconds=round(time.monotonic() - began, 3),
            attempt=attempt,
            trigger=trigger,
            kept=result.helped,
            fine_since=await _resolved_at(work) if result.ok else None,
        )
    )
    return result


async def _resolved_at(work: IncidentWork) -> datetime | None:
    """Return when the last alert of the service was resolved after a change; None while one of them
    fires. A playbook may go on for a while after its first step has helped."""
    known, last, begun = await work.read(), dict[str, AlertRaised](), list[datetime]()
    after = max(0, known.seq - MAX_EVENTS_BEFORE_OPENING)
    async for recorded in work.journal.read(after=after, kinds=("alert.raised", "change.began")):
        event = recorded.event
        if isinstance(event, ChangeBegan) and event.incident == work.details.incident:
            begun.append(event.at)
        elif isinstance(event, AlertRaised) and event.fingerprint in known.fingerprints:
            own = event.fingerprint == work.details.fingerprint
            if own or dict(event.labels).get("service", "") == work.details.service != "":
                last[event.fingerprint] = event
    over = max((each.at for each in last.values()), default=None)
    if work.details.fingerprint not in last or over is None or not begun or over < begun[0]:
        return None
    proven = all(
        each.resolved and WITHDRAWN_LABEL not in dict(each.labels) for each in last.values()
    )
    return over if proven else None


async def watch_recovery(work: IncidentWork, baseline: Baseline) -> RecoveryResult:
    """Watch whether the checks that observe the symptom pass for as long as it may take to return,
    although nothing was changed."""
    settings = work.settings.verify
    timing = await _symptom_timing(work, baseline)
    needed = timing.recovery_window_s(settings)
    first = await _run_all_checks(work, baseline)
    observing = _observing_checks(work.details, baseline, first)
    if not observing:
        return RecoveryResult(recovered=False, why="no check observes what the alert is about")
    if not _all_passed(first):
        return RecoveryResult(recovered=False, returned=True, why=_failures_text(first))
    if needed > max(settings.longest_window, RECOVERY_WINDOWS * settings.window):
        why = f"the symptom returns after up to {timing.period_s:.0f} s: longer than it is watched"
        return RecoveryResult(recovered=False, checks=observing, why=why)
    last_seq, began = await work.journal.last(), time.monotonic()
    results = await _run_for_window(work, baseline, needed)
    numbers = await _publish(work, results, "after", 0)
    why = _failures_text(results) or await _alert_fired_again(work, last_seq)
    return RecoveryResult(
        recovered=not why,
        returned=bool(why),
        checks=observing,
        evidence=tuple(
            number for number, each in zip(numbers, results, strict=True) if each.check in observing
        ),
        seconds=time.monotonic() - began,
        why=why,
    )


def _observing_checks(
    details: IncidentDetails, baseline: Baseline, results: Sequence[CheckResult]
) -> tuple[str, ...]:
    """Checks that failed because of the symptom; else those of the service in the alert."""
    passing = [each for each in results if each.proves and not each.unknown]
    if baseline.failing:
        return tuple(each.check for each in passing if each.check in baseline.evidence)
    return tuple(each.check for each in passing if check_concerns(each, details.service))


def check_concerns(result: CheckResult, component: str) -> bool:
    """Return whether a check is about this component, by its service or its name."""
    name = component.removesuffix(".service")
    if not name:
        return False
    return result.service == name or result.check == name or result.check.endswith(f"-{name}")


async def _alert_fired_again(work: IncidentWork, after: int) -> str:
    fingerprint = work.details.fingerprint
    async for recorded in work.journal.read(after=after, kinds=("alert.raised",)):
        event = recorded.event
        same = isinstance(event, AlertRaised) and event.fingerprint == fingerprint
        if fingerprint and same and not getattr(event, "resolved", False):
            return "the alert fired again while it was watched"
    return ""


async def _symptom_timing(
    work: IncidentWork, baseline: Baseline, onset: float = 0.0
) -> SymptomTiming:
    found = [baseline.samples[name] for name in baseline.evidence if name in baseline.samples]
    steady = any(check.name in baseline.evidence for check in baseline.symptoms)
    share = 1.0 if steady and not found else highest_failure_share(found)
    if share >= 1.0:
        return SymptomTiming(share=share, onset_s=onset)
    period = await read_alert_period_s(work.journal, work.details.fingerprint)
    return SymptomTiming(share=share, period_s=period, onset_s=onset)


def _verification_result(
    baseline: Baseline,
    results: Sequence[CheckResult],
    fix_failure: str,
    component: str,
    explained: Sequence[str],
) -> VerificationResult:
    bad = [each for each in results if not each.ok]
    lost = baseline.failing - {each.check for each in results} - baseline.unanswered
    worse = any(each.check not in baseline.failing for each in bad)
    evidence = _passing_evidence(baseline, results)
    # A copy has shown which checks the fix is about: they may be of another service.
    about = "" if explained else component
    own = _own_checks(baseline, results, about) | (baseline.evidence & set(explained))
    new = [each for each in bad if each.check not in baseline.failed_before]
    still = any(check_concerns(each, about) or each.check in own for each in new)
    # Another outage has begun before the change: what still fails here may be because of that.
    better = any(each.check in evidence and check_concerns(each, about) for each in results)
    disturbed = better and bool(baseline.other_failures) and not explained
    # So may be what still fails of a proved cause, beside a problem with another cause.
    disturbed |= bool(explained) and any(each.check not in own for each in new)
    helped = (
        bool(own & set(evidence)) and (not still or disturbed) and not worse and not fix_failure
    )
    problems = [f"{each.check}: {each.detail}" for each in bad[:5]]
    problems += [f"{name}: it could not be asked again" for name in sorted(lost)]
    if not problems and not fix_failure:
        if evidence:
            return VerificationResult(ok=True)
        return VerificationResult(ok=False, symptom_unobserved=True, why=NO_EVIDENCE)
    why = "; ".join([fix_failure, *problems]).strip("; ")
    return VerificationResult(ok=False, helped=helped, why=why)


def _passing_evidence(baseline: Baseline, results: Sequence[CheckResult]) -> tuple[str, ...]:
    passing = {each.check for each in results if each.ok and each.proves}
    return tuple(sorted(baseline.evidence & passing))


def _own_checks(baseline: Baseline, results: Sequence[CheckResult], component: str) -> set[str]:
    """Checks that failed before and belong to the component or to the fix itself."""
    mine = {check.name for check in (*baseline.proposed, *baseline.symptoms)}
    about = {each.check for each in results if check_concerns(each, component)}
    return set(baseline.evidence & (mine | about))


def _all_passed(results: Sequence[CheckResult]) -> bool:
    return all(each.ok for each in results)


def _failures_text(results: Sequence[CheckResult]) -> str:
    return "; ".join(f"{each.check}: {each.detail}" for each in results if not each.ok)[:500]


async def _run_until_passed(
    work: IncidentWork, baseline: Baseline, timeout_s: float
) -> tuple[CheckResult, ...]:
    every, deadline = work.settings.verify.every, time.monotonic() + timeout_s
    pause = min(0.2, every)
    while True:
        results = await _run_all_checks(work, baseline)
        shows_evidence = not baseline.evidence or _passing_evidence(baseline, results)
        if (_all_passed(results) and shows_evidence) or time.monotonic() >= deadline:
            return results
        await anyio.sleep(pause)
        pause = min(pause * 1.5, every)


async def _run_for_window(
    work: IncidentWork, baseline: Baseline, window: float
) -> tuple[CheckResult, ...]:
    deadline = time.monotonic() + window
    while True:
        results = await _run_all_checks(work, baseline)
        left = deadline - time.monotonic()
        if not _all_passed(results) or left <= 0:
            return results
        await anyio.sleep(min(work.settings.verify.every, left))


async def _run_all_checks(work: IncidentWork, baseline: Baseline) -> tuple[CheckResult, ...]:
    timeout, results = work.settings.verify.timeout, await baseline.independent_checks()
    return (
        *(
            each
            for each in results
            if each.check not in baseline.unanswered | baseline.other_failures
        ),
        *await run_checks(baseline.proposed, work.execute, timeout=timeout),
        *await run_checks(baseline.symptoms, work.execute_trusted, timeout=timeout),
    )


async def _publish(
    work: IncidentWork, results: Sequence[CheckResult], when: CheckTiming, attempt: int
) -> Sequence[int]:
    events = [
        IncidentChecked(
            run=work.details.run,
            incident=work.details.incident,
            check=each.check,
            ok=each.ok,
            detail=each.detail,
            when=when,
            attempt=attempt,
            unknown=each.unknown,
            proves=each.proves,
        )
        for each in results
    ]
    return await work.publish(*events)


async def _restart_again(work: IncidentWork, commands: Sequence[str]) -> str:
    """Returns the commands, and which of them the policy refused."""
    triggered = []
    for command in commands:
        id = new_id("trigger")
        end = await run_command(work.execute, command, TRIGGER_TIMEOUT_S, id=id)
        triggered.append(command if end.status == "ok" else f"not run: {command}")
    return "; ".join(triggered)
