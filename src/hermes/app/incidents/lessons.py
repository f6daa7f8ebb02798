"""Learns from people: what they changed to end an incident that Hermes had escalated."""

from collections.abc import Callable, Sequence

from hermes.app.application import Application
from hermes.app.changes.incident_states import (
    IncidentStates,
    read_kept_states,
)
from hermes.app.changes.states import HostStates
from hermes.app.incidents.lesson_search import LessonSearch, PeopleLesson
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.skills.library import open_library, read_skill_states
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.core.events.experiments import LessonLearned
from hermes.core.incident import Incident, IncidentDetails, read_incident
from hermes.declared.experiments.root_cause import ExperimentLimits
from hermes.sre.checks import open_independent_checks
from hermes.sre.probes.probe import Probe


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
        """Return None where no failing state was kept. The event is not published yet."""
        kept = await read_kept_states(self.states.journal, details)
        failing = kept.get("failing")
        if failing is None:
            return None
        recovered = await self.states.keep_recovered(details)
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
