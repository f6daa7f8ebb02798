"""Verifies a fix or a recovery with checks that are independent of the fix.

Checks of what the incident is about that failed before must pass, and all that passed must still
pass, for as long as the symptom may take to return, and after what triggered the problem was run
again. Checks that failed for other reasons say nothing about the fix. At least one of them
must have failed because of the symptom and must not depend on what the fix changed; without such
evidence nothing counts as fixed or recovered.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import anyio
from msgspec.structs import replace as replace_value

from hermes.core.events.incidents import (
    AlertRaised,
    IncidentDiagnosed,
    IncidentVerified,
)
from hermes.core.incident import WITHDRAWN_LABEL, Incident, IncidentDetails
from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import run_command
from hermes.sre.assessment.symptom_timing import (
    MAX_OUTLIVED_S,
    PERIOD_MARGIN,
    RECOVERY_WINDOWS,
    SymptomTiming,
    highest_failure_share,
    read_alert_period_s,
    read_unit_run_times,
)
from hermes.sre.baseline import Baseline, check_concerns, publish_results
from hermes.sre.cause import EXPERIMENT
from hermes.sre.checks import CheckResult, run_checks
from hermes.sre.context import IncidentWork
from hermes.sre.preceding_fix import read_preceding_fix
from hermes.sre.triage.severity import says_no_answer
from hermes.sre.undo import UnitRestart

TRIGGER_TIMEOUT_S = 30.0
REHEARSAL_FACTOR = 3.0
MAX_REHEARSED_TIMEOUT_S = 180.0
ROLLOUT_TIMEOUT_S = 180.0
"""Nodes pull images, start containers and probe them before a change of a workload shows."""
MAX_EVENTS_BEFORE_OPENING = 500
"""Events before the one that opened an incident among which its alerts are."""
NO_EVIDENCE = "no check that observed the symptom before can show that it is gone"


class VerificationResult(Value, kw_only=True, frozen=True):
    ok: bool
    """All checks passed, and evidence shows that the symptom is gone."""
    helped: bool = False
    """The checks of the component pass now and nothing else got worse: the changes stay."""
    symptom_unobserved: bool = False
    """All checks pass, but none of them had observed the symptom."""
    others: tuple[str, ...] = ()
    """Checks of other services that failed before and still fail; no other incident is known to be
    about them."""
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
    others: tuple[str, ...] = ()
    """As of a verification: checks of other services that still fail."""
    why: str = ""
    """What failed again, or could not be observed."""
    fine_since: datetime | None = None
    """When the last of its alerts was resolved, at the latest when the watching began."""


@dataclass(frozen=True)
class ChecksRun:
    results: tuple[CheckResult, ...]
    """Those that say something about the fix."""
    others: tuple[CheckResult, ...] = ()
    """Those of other problems."""

    @property
    def passed(self) -> bool:
        return all(each.ok for each in self.results)

    @property
    def others_fail(self) -> bool:
        return any(not each.ok and not each.unknown for each in self.others)

    @property
    def failures_text(self) -> str:
        failed = (f"{each.check}: {each.detail}" for each in self.results if not each.ok)
        return "; ".join(failed)[:500]

    def failing_others(self, names: frozenset[str]) -> tuple[str, ...]:
        return tuple(each.check for each in self.others if not each.ok and each.check in names)

    def passing_evidence(self, baseline: Baseline) -> tuple[str, ...]:
        passing = {each.check for each in self.results if each.ok and each.proves}
        return tuple(sorted(baseline.evidence & passing))


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
    baseline = baseline.about(component, *rehearsal.explained)
    needed = min(REHEARSAL_FACTOR * rehearsal.seconds, MAX_REHEARSED_TIMEOUT_S)
    if work.cluster is not None:
        needed = max(needed, ROLLOUT_TIMEOUT_S)
    patience, trigger = 0.0 if fix_failure else max(settings.patience, needed), ""
    run = await _run_until_passed(work, baseline, patience)
    unclaimed, baseline = baseline.unclaimed_failures, baseline.without(run.others)
    await publish_results(work, run.results, "after", attempt)
    if not fix_failure and run.passed and settings.trigger and restart_again and restarted:
        trigger = await _restart_again(work, [each.command for each in restarted])
        run = await _run_until_passed(work, baseline, patience)
        await publish_results(work, run.results, "trigger", attempt)
    if not fix_failure and run.passed:
        longest = max(settings.longest_window, MAX_OUTLIVED_S)
        runs = await read_unit_run_times(work.execute, [each.unit for each in restarted], longest)
        timing = await _symptom_timing(work, baseline, runs.onset_s)
        run = await _run_for_window(work, baseline, timing.window_s(settings))
        crashed = runs.lifetime_s and baseline.counters and run.passed
        if crashed and not run.passing_evidence(baseline):
            # The unit crashed repeatedly: it is evidence when it now runs longer than before.
            window = PERIOD_MARGIN * runs.lifetime_s + settings.every
            run = await _run_for_window(work, baseline, window)
            baseline = replace(baseline, weak=baseline.weak - baseline.counters)
        await publish_results(work, [each for each in run.results if not each.ok], "after", attempt)
    about = "" if rehearsal.explained else component or work.details.service
    result = replace_value(
        _verification_result(baseline, run, fix_failure, about, rehearsal.explained),
        others=run.failing_others(unclaimed),
    )
    await work.publish(
        IncidentVerified(
            run=work.details.run,
            incident=work.details.incident,
            ok=result.ok,
            checks=tuple(f"{each.check}: {each.detail}" for each in run.results),
            seconds=round(time.monotonic() - began, 3),
            attempt=attempt,
            trigger=trigger,
            kept=result.helped,
            fine_since=await _fixed_at(work) if result.ok else None,
        )
    )
    return result


async def _fixed_at(work: IncidentWork) -> datetime | None:
    """Return when the last alert of the service was resolved after a change. A playbook may go on
    for a while after its first step has helped."""
    known, over = await work.read(), await _resolved_at(work)
    begun = next((each.at for each in known.changes if each.at is not None), None)
    return over if over is not None and begun is not None and over >= begun else None


async def _resolved_at(work: IncidentWork) -> datetime | None:
    """Return when the last alert of the service was resolved; None while one of them fires."""
    known, last = await work.read(), dict[str, AlertRaised]()
    after = max(0, known.seq - MAX_EVENTS_BEFORE_OPENING)
    async for recorded in work.journal.read(after=after, kinds=("alert.raised",)):
        event = recorded.event
        if isinstance(event, AlertRaised) and event.fingerprint in known.fingerprints:
            own = event.fingerprint == work.details.fingerprint
            if own or dict(event.labels).get("service", "") == work.details.service != "":
                last[event.fingerprint] = event
    over = max((each.at for each in last.values()), default=None)
    if work.details.fingerprint not in last or over is None:
        return None
    proven = all(
        each.resolved and WITHDRAWN_LABEL not in dict(each.labels) for each in last.values()
    )
    return over if proven else None


async def watch_recovery(work: IncidentWork, baseline: Baseline) -> RecoveryResult:
    """Watch whether the checks that observe the symptom pass for as long as it may take to return,
    although nothing was changed."""
    settings = work.settings.verify
    first = await _run_all_checks(work, baseline)
    unclaimed, baseline = baseline.unclaimed_failures, baseline.without(first.others)
    timing = await _symptom_timing(work, baseline)
    needed = timing.recovery_window_s(settings)
    observing = _observing_checks(work.details, baseline, first.results)
    if not observing:
        return RecoveryResult(recovered=False, why="no check observes what the alert is about")
    if not first.passed:
        return RecoveryResult(recovered=False, returned=True, why=first.failures_text)
    if needed > max(settings.longest_window, RECOVERY_WINDOWS * settings.window):
        why = f"the symptom returns after up to {timing.period_s:.0f} s: longer than it is watched"
        return RecoveryResult(recovered=False, checks=observing, why=why)
    last_seq, began, began_at = await work.journal.last(), time.monotonic(), datetime.now(UTC)
    run = await _run_for_window(work, baseline, needed)
    numbers = await publish_results(work, run.results, "after", 0)
    why = run.failures_text or await _alert_fired_again(work, last_seq)
    pairs = zip(numbers, run.results, strict=True)
    return RecoveryResult(
        recovered=not why,
        returned=bool(why),
        checks=observing,
        evidence=tuple(number for number, each in pairs if each.check in observing),
        seconds=time.monotonic() - began,
        others=run.failing_others(unclaimed),
        why=why,
        fine_since=None if why else min(await _resolved_at(work) or began_at, began_at),
    )


async def with_recovery(
    work: IncidentWork, found: IncidentDiagnosed, recovery: RecoveryResult
) -> IncidentDiagnosed:
    """Return the diagnosis of a problem that is over although nothing was changed for it."""
    ended_at, fix = recovery.fine_since, None
    if ended_at is not None:
        fix = await read_preceding_fix(work.journal, await work.read(), ended_at)
    event = replace_value(found, verdict="recovered", fine_since=ended_at, after_fix=fix)
    return replace_value(event, at=datetime.now(UTC))


def _observing_checks(
    details: IncidentDetails, baseline: Baseline, results: Sequence[CheckResult]
) -> tuple[str, ...]:
    """Checks that failed because of the symptom; else those of the service in the alert."""
    passing = [each for each in results if each.proves and not each.unknown]
    if baseline.failing:
        return tuple(each.check for each in passing if each.check in baseline.evidence)
    return tuple(each.check for each in passing if check_concerns(each, details.service))


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
    run: ChecksRun,
    fix_failure: str,
    about: str,
    explained: Sequence[str],
) -> VerificationResult:
    """`about`: the component of the fix. Empty with `explained`: a copy has shown which checks the
    fix is about, and they may be of another service."""
    results, evidence = run.results, run.passing_evidence(baseline)
    bad = [each for each in results if not each.ok]
    lost = baseline.failing - {each.check for each in (*results, *run.others)} - baseline.unanswered
    unseen = _unseen_before(baseline, results)
    worse = any(each.check not in baseline.failing | unseen for each in bad)
    own = _own_checks(baseline, results, about) | (baseline.evidence & set(explained))
    new = [each for each in bad if each.check not in baseline.failed_before]
    still = any(check_concerns(each, about) or each.check in own for each in new)
    # Another outage was there before the change: what still fails here may be because of that.
    better = any(each.check in evidence and check_concerns(each, about) for each in results)
    disturbed = better and run.others_fail and not explained
    # So may be what still fails of a proved cause, beside a problem with another cause.
    apart = run.others_fail or any(each.check not in own for each in new)
    # The service runs again, and what it answers has a reason of its own.
    apart |= bool(new) and {each.check for each in new} <= unseen
    disturbed |= bool(explained) and apart
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


def _unseen_before(baseline: Baseline, results: Sequence[CheckResult]) -> set[str]:
    """Checks of services that gave no answer before and answer now, with errors: these could not
    be seen, and their log of answers could not show any."""
    answers = {e.check for e in results if e.check in baseline.silent and not _is_silent(e)}
    services = {each.service for each in results if each.check in answers} - {""}
    logs = {e.check for e in results if e.past_answers and e.service in services}
    return answers | (logs - baseline.failing)


def _is_silent(result: CheckResult) -> bool:
    return not result.ok and says_no_answer(result.detail)


def _own_checks(baseline: Baseline, results: Sequence[CheckResult], component: str) -> set[str]:
    """Checks that failed before and belong to the component or to the fix itself."""
    mine = {check.name for check in (*baseline.proposed, *baseline.symptoms)}
    about = {each.check for each in results if check_concerns(each, component)}
    return set(baseline.evidence & (mine | about))


async def _run_until_passed(work: IncidentWork, baseline: Baseline, timeout_s: float) -> ChecksRun:
    every, deadline = work.settings.verify.every, time.monotonic() + timeout_s
    pause = min(0.2, every)
    while True:
        run = await _run_all_checks(work, baseline)
        shows_evidence = not baseline.evidence or run.passing_evidence(baseline)
        if (run.passed and shows_evidence) or time.monotonic() >= deadline:
            return run
        await anyio.sleep(pause)
        pause = min(pause * 1.5, every)


async def _run_for_window(work: IncidentWork, baseline: Baseline, window: float) -> ChecksRun:
    deadline = time.monotonic() + window
    while True:
        run = await _run_all_checks(work, baseline)
        left = deadline - time.monotonic()
        if not run.passed or left <= 0:
            return run
        await anyio.sleep(min(work.settings.verify.every, left))


async def _run_all_checks(work: IncidentWork, baseline: Baseline) -> ChecksRun:
    timeout, found = work.settings.verify.timeout, await baseline.independent_checks()
    apart = baseline.other_problems(found)
    return ChecksRun(
        (
            *(each for each in found if each.check not in apart),
            *await run_checks(baseline.proposed, work.execute, timeout=timeout),
            *await run_checks(baseline.symptoms, work.execute_trusted, timeout=timeout),
        ),
        tuple(each for each in found if each.check in apart),
    )


async def _restart_again(work: IncidentWork, commands: Sequence[str]) -> str:
    """Returns the commands, and which of them the policy refused."""
    triggered = []
    for command in commands:
        id = new_id("trigger")
        end = await run_command(work.execute, command, TRIGGER_TIMEOUT_S, id=id)
        triggered.append(command if end.status == "ok" else f"not run: {command}")
    return "; ".join(triggered)
