"""Runs trusted playbooks whose signature is found on the host."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup

from hermes.core.actions import Action
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.incident import AlertFacts, Incident
from hermes.core.messages import Value
from hermes.skills.matching import extract_terms
from hermes.skills.playbook.commands import ExecuteCall, PlaybookContext, find_root_commands
from hermes.skills.playbook.runner import (
    PlaybookRunner,
    PlaybookRunResult,
    SignatureResult,
)
from hermes.skills.playbook.schema import Playbook
from hermes.sre.assessment.remaining_faults import find_remaining_faults
from hermes.sre.cause import FixCandidate
from hermes.sre.context import IncidentWork
from hermes.sre.coordination import names_of
from hermes.sre.responders.signature_scan import (
    MatchOrder,
    PlaybookCandidate,
    SignatureMatch,
    SignatureScan,
)
from hermes.sre.triage.severity import SEPARATE_PROBLEM_KINDS
from hermes.sre.undo import ChangeRecorder, PrepareChange, changed_files

PROCESSOR_KINDS = ("cpu", "load")
MAX_TESTED_AT_ONCE = 3
"""Playbooks that are tested on copies at the same time."""
RunFixTests = Callable[[Sequence[FixCandidate]], Awaitable[Sequence[FixTested]]]
"""Tests fixes on copies; returns nothing where that is not possible."""
CLUSTER_CATEGORY = "kubernetes"
"""Skills that are about a cluster, and not about this host."""
COMPONENT_KEYS = (
    *("file", "path", "config", "files"),
    *("unit", "service", "mount", "table", "host", "process"),
)
VALUE_KEYS = ("wrong", "found", "old", "was", "key", "value", "port", "name")
FACT_KEYS = ("name", "key", *VALUE_KEYS[:4], "now", "new", "right", "job")
"""Parameters of a playbook that say what its summary is about here, in the order of a sentence."""
MAX_FACT_CHARS = 80


def _same_test(test: FixTested | None, action: Action) -> FixTested | None:
    """A playbook is tested as a whole."""
    return test


def found_facts(found: Mapping[str, str]) -> str:
    """Return what the probes of a playbook found, for people: its summary fits every host."""
    facts = {name: found[name] for name in FACT_KEYS if name in found}
    listed = ", ".join(f"{n} {text}" for n, text in facts.items() if len(text) <= MAX_FACT_CHARS)
    return f" (found here: {listed})" if listed else ""


def may_explain(playbook: Playbook, facts: AlertFacts) -> bool:
    """Return whether what the playbook finds may be evidence about this problem. A full disk, an
    expired certificate or a busy processor is measured: another fault of the host, such as what
    fills a disk, says nothing about a certificate. A service may fail because of anything."""
    signature, kind = playbook.signature, facts.labels.get("kind", "")
    measured = (*SEPARATE_PROBLEM_KINDS, *PROCESSOR_KINDS)
    if kind not in measured or signature.alert or not signature.words:
        return True
    # The title about a load tells of processes that wait: locks are another matter.
    terms = {*extract_terms(kind if kind in PROCESSOR_KINDS else f"{kind} {facts.title}")}
    return any(terms & {*extract_terms(words)} for words in signature.words)


class PlaybookAttempt(Value, kw_only=True, frozen=True):
    """A playbook that has run, with or without changes."""

    skill: str
    played: PlaybookRunResult

    @property
    def unit(self) -> str:
        return self.played.parameters.get("unit", "").removesuffix(".service")

    @property
    def failure(self) -> str:
        """Why its own checks failed; empty when they passed. No answer in time is no failure: then
        the independent checks decide."""
        ok = self.played.outcome == "applied" or self.played.unanswered
        return "" if ok else f"{self.skill}: {self.played.detail}"


class PlaybookResponder:
    """`group`: runs the scans in the background."""

    def __init__(self, work: IncidentWork, group: TaskGroup) -> None:
        self._work, self._group = work, group
        self._views: Sequence[AlertFacts] = (work.details.facts,)
        self._fixed_units: list[str] = []
        self._waited, self._scanned_at = False, 0.0
        self._early_scan: SignatureScan | None = None
        self._unsupported: set[str] = set()
        """Playbooks that need a program which this host does not have."""
        self._declined: frozenset[str] = frozenset()
        """Playbooks that did not match shortly before a crash: skipped in the first scan."""
        self.used: set[str] = set()
        """Playbooks that have run, also before a crash: each runs once."""
        self._test: RunFixTests | None = None
        self._tests: dict[str, FixTested] = {}
        """By playbook, how it did on a copy."""
        self.refuted = ""
        """Why the last playbook was not run: it failed on a copy, in words."""
        self.refused = ""
        """Why the last playbook was refused, in words."""
        self.suspects = ""
        """Possible causes whose symptom was not observed, in words."""

    def resume(self, recorded: Incident, *, keep_scan_results: bool) -> None:
        """Restore what playbooks did before a crash. `keep_scan_results`: their checks are recent
        enough to be used."""
        self.used.update(change.by for change in recorded.recent_changes)
        # A playbook that was interrupted before it changed anything may run again.
        if keep_scan_results and not recorded.recent_changes:
            self._declined = recorded.declined
            # Only a test that permits nothing counts again: one that may permit a fix is repeated.
            self._tests = {
                each.fix: each
                for each in recorded.tests
                if each.by == "playbook" and each.outcome not in ("recovered", "helped")
            }

    def start_scan(self) -> None:
        """Start checking signatures before any playbook may run."""
        if self._work.settings.reflex:
            self._early_scan = self._new_scan()

    async def discard_scan(self) -> None:
        """Stop the scan and forget its results."""
        if self._early_scan is not None:
            await self._early_scan.stop_and_wait()
            self._early_scan = None

    async def run_next(
        self, number: int, prepare: PrepareChange, test: RunFixTests
    ) -> PlaybookAttempt | None:
        """Run the next playbook that matches; None when none does. `prepare`: see
        `ChangeRecorder`."""
        if not self._work.settings.reflex:
            return None
        self._test = test
        attempt = await self._scan_and_run(number, prepare)
        self._scanned_at = anyio.current_time()
        return attempt

    async def look_again(
        self, number: int, prepare: PrepareChange, after_wait: bool
    ) -> PlaybookAttempt | None:
        """Once, before any playbook has run: a fault may leave its traces some time after the
        alert. `after_wait`: and once more, after another incident."""
        first = not self.used and (after_wait or not self._waited) and not self.refused
        if not self._work.settings.reflex or not first or not await self.candidates():
            return None
        self._waited = self._waited or not after_wait
        passed_s = anyio.current_time() - self._scanned_at
        await anyio.sleep(max(0.0, self._work.settings.traces - passed_s))
        return await self._scan_and_run(number, prepare)

    async def others_still_fail(self, attempt: PlaybookAttempt) -> bool:
        """Return whether other components of the alert still fail after this fix."""
        if self._work.cluster is not None:  # the checks of the incident cover all its objects
            return False
        self._fixed_units += [attempt.unit] if attempt.unit else []
        facts = self._work.details.facts
        views = await find_remaining_faults(
            facts,
            self._work.execute_unattended(),
            self._fixed_units,
            self._work.context.daemons(),
            await find_root_commands(self._work.context.environment),
        )
        if not any(view != facts for view in views):
            return False
        self._views = views
        return True

    async def _scan_and_run(self, number: int, prepare: PrepareChange) -> PlaybookAttempt | None:
        scan, self._early_scan = self._early_scan or self._new_scan(), None
        order = MatchOrder(self._work, scan)
        try:
            while (matched := await order.next_match()) is not None:
                skill = matched.candidate.skill
                test = await self._tested(matched, scan)
                if test is not None and test.outcome == "failed":
                    self.refuted = f"{skill.name} failed on a copy: {test.detail}"[:300]
                    continue
                changes = ChangeRecorder(
                    self._work,
                    number,
                    prepare,
                    playbook=skill.name,
                    bundled=skill.origin == "bundled",
                    find_test=partial(_same_test, test),
                    purpose=self._purpose_of(matched),
                )
                if (attempt := await self._run_matched(matched, scan, changes)) is not None:
                    self.used.add(attempt.skill)
                    return attempt
            self.refused = scan.refused or self.refused
            self.refuted = order.left_to_others or self.refuted
            self.suspects = "; ".join(scan.suspects) or self.suspects
            return None
        finally:
            scan.stop()
            self._unsupported |= scan.unsupported
            self._declined = frozenset()

    async def _tested(self, matched: SignatureMatch, scan: SignatureScan) -> FixTested | None:
        """Return how it did on a copy. Others that match are tested at the same time."""
        name = matched.candidate.skill.name
        if self._work.cluster is not None or not matched.candidate.playbook.testable:
            return None  # on a copy of this host it would change the cluster, or nothing
        if name not in self._tests and self._test is not None:
            others = [
                each
                for each in scan.further_matches()
                if each.found.done and each.candidate.playbook.testable
            ]
            chosen = {each.candidate.skill.name: each for each in (matched, *others)}
            new = [each for each in chosen if each not in self._tests][:MAX_TESTED_AT_ONCE]
            root_commands = await find_root_commands(self._work.context.environment)
            tests = await self._test(
                [
                    FixCandidate(each, "playbook", self._apply_to(chosen[each], root_commands))
                    for each in new
                ]
            )
            self._tests |= dict(zip(new, tests, strict=False))
        return self._tests.get(name)

    def _apply_to(
        self, matched: SignatureMatch, root_commands: Sequence[str]
    ) -> Callable[[ExecuteCall], Awaitable[str]]:
        """Runs the playbook elsewhere, such as on a copy, without a word in the journal."""

        async def publish(*events: object) -> Sequence[int]:
            return ()

        async def apply(execute: ExecuteCall) -> str:
            candidate, daemons = matched.candidate, tuple(self._work.context.daemons())
            context = PlaybookContext(
                execute, publish, daemons=daemons, root_commands=root_commands
            )
            runner = PlaybookRunner(candidate.skill.name, candidate.playbook, context)
            played = await runner.run(candidate.facts, signature=matched.found)
            return "" if played.outcome == "applied" else played.detail

        return apply

    def _new_scan(self) -> SignatureScan:
        scan = SignatureScan(self._work, self.candidates)
        self._group.start_soon(scan.run)
        return scan

    async def candidates(self) -> Sequence[PlaybookCandidate]:
        """Playbooks that may match, the most likely first."""
        left_out = self.used | self._unsupported | self._declined
        context = self._work.context
        matcher = await context.index.matcher(await context.skills())
        cluster = self._work.cluster
        views = self._views if cluster is None else await cluster.fault_views(self._work)
        return [
            PlaybookCandidate(skill, skill.playbook, facts)
            for facts in views
            for skill in matcher.candidates(facts)
            if skill.playbook is not None
            and may_explain(skill.playbook, facts)
            and skill.name not in left_out
            and (skill.category == CLUSTER_CATEGORY) == (cluster is not None)
        ]

    def _purpose_of(self, matched: SignatureMatch) -> str:
        about = self._work.details.service
        text = f"{matched.candidate.playbook.summary}{found_facts(matched.found.values)}"
        return f"{about}: {text}" if about else text

    async def _run_matched(
        self, matched: SignatureMatch, scan: SignatureScan, changes: ChangeRecorder
    ) -> PlaybookAttempt | None:
        """Return None when it did nothing, so that the next one is tried."""
        current = await scan.scan_again(matched) if matched.expired else matched
        if current is None:
            return None
        candidate, work = current.candidate, self._work
        name = candidate.skill.name
        if ended := await changes.problem_ended():
            self.refuted = f"the problem ended before {name} began: {ended}"
            return None
        context = PlaybookContext(
            work.context.execute_for_run(work.details.run, changes.executor),
            work.publish,
            work.details.run,
            before_step=changes.announce_step,
            step_grace_s=work.settings.time_limit,
            daemons=tuple(work.context.daemons()),
            root_commands=await find_root_commands(work.context.environment),
            kubectl=work.cluster.kubectl if work.cluster is not None else "kubectl",
        )
        digest = candidate.skill.digest
        runner = PlaybookRunner(name, candidate.playbook, context, digest=digest)
        if owner := self._claim(runner, current.found):
            self.refuted = f"{name} found a fault that {owner} is about"
            return None
        played = await runner.run(candidate.facts, signature=current.found)
        if changes.count or played.outcome == "applied":
            if played.outcome == "applied":
                await self._publish_diagnosis(candidate, played)
            return PlaybookAttempt(skill=name, played=played)
        if played.outcome == "refused":  # people who are notified should know what was found
            await self._publish_diagnosis(candidate, played)
            self.refused = f"{name} may not go on: {played.detail}"
        return None

    def _claim(self, runner: PlaybookRunner, found: SignatureResult) -> str:
        """Return the other incident that does the same already, or changes the same files. What the
        probes print depends on the words of the alert; what the steps do does not."""
        details, claims = self._work.details, self._work.context.claims
        steps = runner.step_commands(found)
        files = [f"file {each}" for each in changed_files(steps)]
        owner = claims.claim_fault(details.incident, "\n".join(steps), files)
        if not owner:
            claims.begin_fix(details.incident, names_of(details))
        return owner

    async def _publish_diagnosis(
        self, candidate: PlaybookCandidate, played: PlaybookRunResult
    ) -> None:
        """Publish a diagnosis: the signature of the playbook was found."""
        if self._work.cluster is not None and (await self._work.read()).diagnosis is not None:
            return  # the queries of the cluster tell more than a signature
        calls = [done.call_id for done in played.done if done.phase == "probe"]
        details = self._work.details
        # Probes print `none` for what a host does not have.
        found = {n: e for n, e in played.parameters.items() if e.strip() not in ("", "none")}
        component = next((found[name] for name in COMPONENT_KEYS if name in found), "")
        await self._work.publish(
            IncidentDiagnosed(
                run=details.run,
                incident=details.incident,
                component=component or details.service,
                mechanism=f"{candidate.playbook.summary}{found_facts(found)}",
                value=next((found[name] for name in VALUE_KEYS if name in found), ""),
                evidence=await self._work.result_numbers(calls),
                confidence=0.8,
            )
        )
