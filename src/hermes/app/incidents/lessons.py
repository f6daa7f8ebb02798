"""Learns from people: finds on copies what they changed to end an incident."""

import shlex
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from msgspec.structs import replace

from hermes.app.application import Application
from hermes.app.changes.incident_states import (
    IncidentStates,
    encode_probe,
    kept_probes,
    load_state,
    read_kept_states,
)
from hermes.app.changes.states import HostStates
from hermes.app.copies.contrast_checks import find_contrasts
from hermes.app.copies.copied_checks import expected_readings, run_on_copy
from hermes.app.incidents.people_fixes import describe_fix, fix_diff
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.skills.library import open_library, read_skill_states
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.core.errors import EnvironmentFailed
from hermes.core.events.experiments import IncidentStateKept, KeptReading, LessonLearned
from hermes.core.incident import Incident, IncidentDetails, read_incident
from hermes.core.messages import Value
from hermes.declared.collectors.readers import environment_runner
from hermes.declared.experiments.copy_setup import CopySetup, open_copy
from hermes.declared.experiments.copy_trial import CopyTrial
from hermes.declared.experiments.host_programs import HostPrograms, read_host_programs
from hermes.declared.experiments.put_back import CannotRevertError
from hermes.declared.experiments.rehearsal import RehearsedRevert, rehearse_revert
from hermes.declared.experiments.restored_host import RestoredHost
from hermes.declared.experiments.root_cause import ExperimentLimits, RootCause, find_root_cause
from hermes.declared.experiments.suspects import ServiceContext, Suspect, rank_suspects
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import State, compare
from hermes.environments.copies import CannotCopyError, Copyable, can_be_copied
from hermes.learning.fix_commands import CannotRepeatError
from hermes.learning.people_fix import PeopleFix, draft_from_fix, with_proof
from hermes.skills.distill.distillation import DistilledSkill
from hermes.skills.distill.rehearsal import CommandOutput, RehearsalResult
from hermes.skills.distill.verified_run import DistillationError
from hermes.sre.cause import FailingCase
from hermes.sre.checks import CheckResult, ProbeChecks, open_independent_checks
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe

COMMAND_TIMEOUT_S = 30.0
MAX_DIFF_CHARS, MAX_NAMED = 2000, 12
FIRST_LOOK_S = 1.0
"""How long the services of a copy get to fail before anything is read there."""


class PeopleLesson(Value, frozen=True, kw_only=True):
    event: LessonLearned
    draft: DistilledSkill | None = None
    category: str = ""


class LessonSearch:
    """The search for what of their changes ended one incident."""

    def __init__(
        self,
        states: IncidentStates,
        details: IncidentDetails,
        failing: IncidentStateKept,
        recovered: IncidentStateKept,
        *,
        redact: Callable[[str], str],
        limits: ExperimentLimits,
    ) -> None:
        self._states, self._details, self._kept = states, details, failing
        self._redact, self._limits = redact, limits
        self._environment = states.environment
        self._store = store = states.store
        self._read = store.content
        self._failing = load_state(store, failing.state, "failing")
        self._recovered = load_state(store, recovered.state, "recovered")
        known = failing.known_good
        self._known = load_state(store, known, "known good") if known else None
        self._checks = ProbeChecks(kept_probes(failing), self._environment)
        self._began = time.monotonic()

    async def run(self) -> PeopleLesson:
        programs = await read_host_programs(environment_runner(self._environment))
        services = self._services(programs)
        fixes = _differences(self._recovered, self._failing, services)
        if not fixes:
            return self._unproved(fixes, "no file, service or setting differs since it failed")
        source: object = self._environment
        if not can_be_copied(source):
            kind = self._environment.name
            return self._unproved(fixes, f"an environment of the kind {kind} cannot be copied")
        restored = RestoredHost(source, fixes, programs, services, self._read)
        cause, setup = None, self._setup(restored, fixes, programs, services)
        trial = CopyTrial(setup)
        if setup.expected.failing:
            cause = await find_root_cause(fixes, trial, limits=self._limits)
        if cause is None or cause.status == "not-reproduced":
            plain = self._setup(source, fixes, programs, services)
            if await self._add_contrasts(setup, plain):
                setup = self._setup(restored, fixes, programs, services)
                trial = CopyTrial(setup)
                cause = await find_root_cause(fixes, trial, limits=self._limits)
        if cause is None:
            return self._unproved(fixes, "no check of the incident failed when it was escalated")
        if cause.status != "proved":
            return self._unproved(fixes, f"{_STATUS_TEXTS[cause.status]}: {cause.why}", cause)
        rehearsed = await rehearse_revert(setup, trial, cause.causes)
        return await self._proved(setup, trial, cause, rehearsed)

    def _setup(
        self,
        source: Copyable,
        fixes: Sequence[Suspect],
        programs: HostPrograms,
        services: Sequence[str],
    ) -> CopySetup:
        case = self._case()
        return CopySetup(
            source=source,
            run_checks=partial(run_on_copy, case, self._checks),
            expected=expected_readings(case),
            programs=programs,
            services=services,
            store=self._store,
            suspects=fixes,
            jobs=programs.jobs_of(fixes),
        )

    async def _add_contrasts(self, failing: CopySetup, recovered: CopySetup) -> bool:
        """Checks that tell the failing state from the recovered one, for this lesson and drills, in
        place of those that no copy shows."""
        run, services = environment_runner(self._environment), failing.services
        logs = [
            (await run(f"journalctl -u {shlex.quote(name)} -n 200 -o cat -q --no-pager", b""))[1]
            for name in services[:2]
        ]
        text = f"{self._details.facts.combined_text}\n{b''.join(logs).decode('utf-8', 'replace')}"
        try:
            async with open_copy(failing) as before, open_copy(recovered) as after:
                own = [each for name in services if (each := failing.programs.named(name))]
                found = await find_contrasts(before, after, own, self._checks.probes, text)
        except (CannotCopyError, EnvironmentFailed):
            return False
        if not found:
            return False
        probes = [each.probe for each in found]
        self._checks = self._checks.with_probes([mark_admitted(each) for each in probes])
        readings = [
            KeptReading(check=each.probe.name, ok=False, detail=self._redact(each.detail))
            for each in found
        ]
        passing = [each for each in self._kept.readings if each.ok]
        self._kept = replace(
            self._kept,
            at=datetime.now(UTC),
            readings=(*passing, *readings),
            probes=(*self._kept.probes, *map(encode_probe, probes)),
        )
        await self._states.publish(self._kept)
        return True

    async def _proved(
        self, setup: CopySetup, trial: CopyTrial, cause: RootCause, rehearsed: RehearsedRevert
    ) -> PeopleLesson:
        draft, category, why = None, "", ""
        try:
            fix = describe_fix(self._details, setup, cause.causes, rehearsed, self._checks.probes)
            category = f"{fix.category}-prevention"
            draft = await self._draft(fix, rehearsed, setup, trial)
            draft = with_proof(draft, _proof(cause, self._kept))
        except (DistillationError, CannotRepeatError, CannotRevertError) as error:
            why = f"no draft: {error}"
        except (CannotCopyError, EnvironmentFailed) as error:
            why = f"no draft, because a copy failed: {error}"
        event = replace(
            self._event([each.suspect for each in cause.causes], cause),
            status="proved",
            why=self._redact(why)[:500],
            changed=tuple(each.label for each in cause.causes)[:MAX_NAMED],
            diff=self._diff(cause.causes),
            activated_by=tuple(each.command for each in rehearsed.activations),
            skill=draft.name if draft is not None else "",
        )
        return PeopleLesson(event=event, draft=draft, category=category)

    async def _draft(
        self, fix: PeopleFix, rehearsed: RehearsedRevert, setup: CopySetup, trial: CopyTrial
    ) -> DistilledSkill:
        """Draft a playbook without restarts of services that did not fail, unless the fix needs
        them."""
        rehearsal = self._rehearsal(setup, trial)
        own = tuple(
            each.command
            for each in rehearsed.activations
            if each.kind not in ("restart", "reload") or each.target in setup.services
        )
        if own and own != fix.activations:
            try:
                return await draft_from_fix(replace(fix, activations=own), rehearsal)
            except DistillationError:
                pass
        return await draft_from_fix(fix, rehearsal)

    def _unproved(
        self, fixes: Sequence[Suspect], why: str, cause: RootCause | None = None
    ) -> PeopleLesson:
        diff = self._diff([Revert(suspect=each) for each in fixes[:MAX_NAMED]])
        event = replace(
            self._event(fixes, cause),
            why=self._redact(why)[:500],
            diff=diff,
        )
        return PeopleLesson(event=event)

    def _event(self, fixes: Sequence[Suspect], cause: RootCause | None) -> LessonLearned:
        services = tuple(filter(None, [self._kept.service]))
        wrong = _differences(self._known, self._failing, services) if self._known else ()
        return LessonLearned(
            run=self._details.run,
            incident=self._details.incident,
            status="not-proved",
            wrong=tuple(each.label for each in wrong)[:MAX_NAMED],
            changed=tuple(each.label for each in fixes)[:MAX_NAMED],
            recovered=tuple(each.check for each in self._kept.readings if not each.ok),
            experiments=len(cause.experiments) if cause is not None else 0,
            seconds=round(time.monotonic() - self._began, 2),
        )

    def _services(self, programs: HostPrograms) -> list[str]:
        bad = {each.check for each in self._kept.readings if not each.ok}
        names = [self._kept.service, self._details.service]
        names += [each.service for each in self._checks.probes if each.name in bad]
        plain = dict.fromkeys(each.removesuffix(".service") for each in names if each)
        return [name for name in plain if programs.named(name) is not None]

    def _case(self) -> FailingCase:
        services = {each.name: each.service for each in self._checks.probes}
        failing = [
            CheckResult(
                check=each.check,
                ok=False,
                detail=each.detail,
                service=services.get(each.check, ""),
            )
            for each in self._kept.readings
            if not each.ok
        ]
        return FailingCase(
            details=self._details,
            failing=failing,
            passing=[each.check for each in self._kept.readings if each.ok],
            checks=self._checks,
            publish=self._states.publish,
            attempt=0,
        )

    def _rehearsal(
        self, setup: CopySetup, trial: CopyTrial
    ) -> Callable[[Sequence[str]], Awaitable[RehearsalResult]]:
        async def rehearse(commands: Sequence[str]) -> RehearsalResult:
            async with open_copy(setup) as copy:
                await trial.settle(copy, lambda: FIRST_LOOK_S)
                outputs = []
                for command in commands:
                    ran = await copy.run(command, timeout_s=COMMAND_TIMEOUT_S)
                    outputs.append(CommandOutput(ran.code, ran.output))
                outcome, _ = await trial.settle(copy)
            return RehearsalResult(solved=outcome == "passes", outputs=tuple(outputs))

        return rehearse

    def _diff(self, fixes: Sequence[Revert]) -> str:
        return self._redact(fix_diff(fixes, self._read))[:MAX_DIFF_CHARS]


_STATUS_TEXTS = {
    "untestable": "with all that people changed, a copy of the failing state still fails",
    "not-reproduced": "a copy of the failing state does not fail",
    "impossible": "no experiment was possible",
}


def _differences(before: State, after: State, services: Sequence[str]) -> tuple[Suspect, ...]:
    return rank_suspects(compare(before, after), ServiceContext(names=tuple(services)))


def _proof(cause: RootCause, kept: IncidentStateKept) -> list[str]:
    bad = ", ".join(each.check for each in kept.readings if not each.ok)
    what = ", ".join(each.label for each in cause.causes)
    return [
        f"On a copy with the recorded failing state, {bad} failed as on the host.",
        f"With what people changed ({what}) and nothing else, all checks passed.",
        f"{len(cause.experiments)} experiments; without this change the checks failed.",
    ]


class LessonWriter:
    """Writes the lesson of one incident that people ended. Changes nothing on the host."""

    def __init__(
        self,
        states: IncidentStates,
        *,
        redact: Callable[[str], str],
        limits: ExperimentLimits | None = None,
    ) -> None:
        self.states, self.redact = states, redact
        self.limits = limits or ExperimentLimits()

    async def write(self, details: IncidentDetails) -> PeopleLesson | None:
        """Return None where a state was not kept. The event is not published yet."""
        kept = await read_kept_states(self.states.journal, details)
        failing = kept.get("failing")
        if failing is None:
            return None
        recovered = await self.states.keep_recovered(details)
        if recovered is None:
            return None
        search = LessonSearch(
            self.states,
            details,
            failing,
            recovered,
            redact=self.redact,
            limits=self.limits,
        )
        return await search.run()


def lesson_lines(event: LessonLearned) -> tuple[str, ...]:
    """The lesson as notes for later incidents."""
    what = ", ".join(event.changed) or "nothing that a state shows"
    proof = "proved on a copy" if event.status == "proved" else f"not proved: {event.why}"
    return (f"people ended {event.incident} by changing {what} ({proof})",)


async def follow_people(
    application: Application, case: IncidentDetails, probes: Sequence[Probe]
) -> bool:
    """Called when an incident is documented: at its escalation, and when it has recovered. Returns
    whether the report has more to say.

    The change is known from states alone. Shell history is not read.
    """
    incident = await read_incident(application.journal, case.run)
    if incident is None or (incident.verified is not None and incident.verified.ok):
        return False
    dependencies = application.agent_dependencies
    own = HostStates(application.loaded, dependencies.environment)
    states = IncidentStates(
        dependencies.environment,
        own.store,
        own.host,
        application.journal,
        application.bus.publish,
        collect=own.collect,
    )
    if incident.recovered is None:
        checks = await open_independent_checks(case, dependencies.environment, probes)
        await states.keep_failing(case, checks)
        return False
    if not _was_fixed_by_people(incident) or await _has_lesson(application, case):
        return False
    lesson = await LessonWriter(states, redact=SecretRedactor(application.loaded)).write(case)
    if lesson is None:
        return False
    await _keep_lesson(application, case, lesson)
    return True


def _was_fixed_by_people(incident: Incident) -> bool:
    """Escalated, and no change of ours is in force."""
    escalated = incident.closed is not None and incident.closed.outcome == "escalated"
    return escalated and all(each.undone == "yes" for each in incident.changes)


async def _has_lesson(application: Application, case: IncidentDetails) -> bool:
    records = application.journal.read(run=case.run, kinds=("lesson.learned",))
    found = [each async for each in records if isinstance(each.event, LessonLearned)]
    return bool(found)


async def _keep_lesson(
    application: Application, case: IncidentDetails, lesson: PeopleLesson
) -> None:
    if lesson.draft is not None:
        known = await read_skill_states(application.journal)
        library = open_library(application.loaded, states=known)
        lifecycle = SkillLifecycle(
            application.loaded, application.journal, application.bus.publish, lambda: library
        )
        evidence = (f"{lesson.event.experiments} experiments on copies of the failing state",)
        await lifecycle.draft(
            lesson.draft, run=case.run, category=lesson.category, evidence=evidence
        )
    await application.bus.publish(lesson.event)
    await application.memory.note(case.run, lesson_lines(lesson.event))
