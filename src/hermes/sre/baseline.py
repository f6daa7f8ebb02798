"""What the independent checks of an incident showed before anything was changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hermes.core.events.incidents import CheckTiming, IncidentChecked
from hermes.core.incident import Incident
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.checks import CheckResult, IndependentChecks, ProbeChecks
from hermes.sre.context import IncidentWork
from hermes.sre.probes.probe import Probe
from hermes.sre.triage.severity import says_no_answer


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
    subjects: frozenset[str] = frozenset()
    """What the incident is about: services, and names of checks."""
    other_failures: frozenset[str] = frozenset()
    """Checks of other services, which began to fail before anything was changed, are in
    maintenance, or have an incident of their own: their results say nothing about the fix."""
    failed_before: frozenset[str] = frozenset()
    """Checks that had failed before the incident was reopened: that they still fail says nothing
    about the fix of the new failure."""
    silent: frozenset[str] = frozenset()
    """Checks that failed because the service gave no answer."""
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often each check failed, and how often it was run."""
    proposed: tuple[PlaybookCheck, ...] = ()
    """Checks that models proposed and that failed before the fix."""
    symptoms: tuple[PlaybookCheck, ...] = ()
    """Symptom checks of playbooks."""

    @property
    def evidence(self) -> frozenset[str]:
        """Checks that observed the symptom and do not depend on what a fix does."""
        return self.failing - self.weak - self.other_failures

    @property
    def unclaimed_failures(self) -> frozenset[str]:
        """Checks that failed before, and that no other incident is known to be about."""
        return self.failing - self.other_failures - self.unanswered

    def about(self, *components: str) -> "Baseline":
        """Add what a fix is about: services, or names of checks."""
        return replace(self, subjects=self.subjects | frozenset(filter(None, components)))

    def without(self, others: Sequence[CheckResult]) -> "Baseline":
        """Leave out the checks of other problems."""
        names = {each.check for each in others}
        return replace(self, other_failures=self.other_failures | names)

    def concerns(self, result: CheckResult) -> bool:
        """Return whether a check is about what the incident is about."""
        return any(check_concerns(result, each) for each in self.subjects)

    def other_problems(self, results: Sequence[CheckResult]) -> frozenset[str]:
        """The checks whose results say nothing about a fix: besides those that are known already,
        those of other things that failed before, where others observe what the incident is
        about."""
        own = {each.name for each in (*self.proposed, *self.symptoms)}
        own |= {each.check for each in results if self.concerns(each)}
        apart = self.unanswered | self.other_failures
        return apart | (self.failing - own) if own & self.evidence else apart

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
            silent=self.silent
            | {e.check for e in results if e.check in failed and says_no_answer(e.detail)},
            samples=samples,
        )


async def take_baseline(
    work: IncidentWork,
    earlier: frozenset[str] | None = None,
    weak: frozenset[str] = frozenset(),
) -> Baseline:
    """`earlier`: the checks that failed before a crash; they are not run again."""
    checks, known = await work.context.checks_for(work.details), await work.read()
    first = Baseline(
        independent_checks=checks,
        failed_before=known.failed_before,
        subjects=_subjects_of(work, known),
    )
    if earlier is not None:
        return replace(first, failing=earlier, weak=weak)
    results = await checks()
    await publish_results(work, results, "before", 0)
    return with_other_problems(work, first, results).with_results(results)


def _subjects_of(work: IncidentWork, known: Incident) -> frozenset[str]:
    """The service of the incident, those that joined it, and the checks that raised its alerts.
    Empty for a cluster: all its checks are about the incident."""
    if work.cluster is not None:
        return frozenset()
    raised = (each.rpartition("/")[2] for each in known.fingerprints)
    return frozenset({work.details.service, *known.parts, *raised} - {""})


def with_other_problems(
    work: IncidentWork, baseline: Baseline, results: Sequence[CheckResult]
) -> Baseline:
    """Leave out the checks of problems that are known to the watch and not of this incident."""
    problems = work.context.other_problems(work.details)
    return baseline.without(
        [
            each
            for each in results
            if problems.include(each.check, each.service) and not baseline.concerns(each)
        ]
    )


def check_concerns(result: CheckResult, component: str) -> bool:
    """Return whether a check is about this component, by its service or its name."""
    name = component.removesuffix(".service")
    if not name:
        return False
    return result.service == name or result.check == name or result.check.endswith(f"-{name}")


async def extend_baseline(work: IncidentWork, baseline: Baseline) -> Baseline:
    """Run the checks once more: an intermittent symptom shows only in some runs."""
    more = baseline.with_results(results := await baseline.independent_checks())
    fresh = more.failing - baseline.failing
    await publish_results(work, [each for each in results if each.check in fresh], "before", 0)
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
    await publish_results(work, fresh, "before", 0)
    known = replace(baseline, other_failures=baseline.other_failures | others)
    return with_other_problems(work, known, results).with_results(own)


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
    await publish_results(work, failed, "before", 0)
    chosen = checks.with_probes([each for each in probes if each.name in names])
    return replace(baseline, independent_checks=chosen).with_results(failed)


async def publish_results(
    work: IncidentWork, results: Sequence[CheckResult], when: CheckTiming, attempt: int
) -> Sequence[int]:
    """Publish the results of checks, and return the numbers of the events."""
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
