"""Prepares the response to incidents: models, checks, reports and learning."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermes.app.application import Application
from hermes.app.models import is_bundled, lacks_capable_model
from hermes.app.skills.library import open_library, read_skill_states
from hermes.app.skills.playbook_cache import PlaybookCache
from hermes.app.tools.tooling import any_system_configured
from hermes.core.errors import SettingsError
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import ChangeBegan
from hermes.core.events.skills import PlaybookStarted, SkillChanged, SkillUsed
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import JournalRecord, Tool
from hermes.environments.copies import can_be_copied
from hermes.settings.load import LoadedSettings
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.cause import (
    EXPERIMENT,
    CauseFinder,
    CauseResult,
    FailingCase,
    FindFailingCase,
    FixCandidate,
    FixTester,
    ServiceNames,
)
from hermes.sre.checks import IndependentChecks, open_independent_checks
from hermes.sre.context import IncidentContext, MeasureSystems, do_nothing
from hermes.sre.coordination import CauseClaims
from hermes.sre.learned_evidence import LearnedEvidence
from hermes.sre.model_responder import ModelResponder
from hermes.sre.probes.inventory import InventoryStore
from hermes.sre.probes.learned.watching import LearnedObserver
from hermes.sre.probes.probe import Probe
from hermes.sre.reports.lessons import incident_notes
from hermes.sre.reports.report_data import read_earlier_incidents, read_incident_records
from hermes.sre.reports.report_file import write_report_file
from hermes.sre.settings import KubernetesSettings, SreSettings

if TYPE_CHECKING:
    from hermes.app.skills.lifecycle import SkillLifecycle
    from hermes.sre.cluster.inspection import ClusterInspection
    from hermes.sre.responders.single_model import SingleModelResponder


async def learn_from_incident(application: Application, case: IncidentDetails) -> None:
    """Once for each incident, also after a crash. Called for verified fixes only."""
    from hermes.app.skills.lifecycle import SkillLifecycle  # not before a fix is verified

    records = await read_incident_records(application.journal, case.run)
    if any(isinstance(each.event, SkillUsed | SkillChanged) for each in records):
        return
    states = await read_skill_states(application.journal)
    library = open_library(application.loaded, states=states)
    lifecycle = SkillLifecycle(
        application.loaded, application.journal, application.bus.publish, lambda: library
    )
    playbook = _applied_playbook(records)
    if _is_reverted_change(records):
        pass  # what was reverted is particular to this host: no skill follows from it
    elif playbook is not None:
        await lifecycle.record_use(
            playbook.skill, playbook.digest, verified=True, run=case.run, incident=case.incident
        )
    else:
        await _draft_skill(lifecycle, records, case)
    await _note_facts(application, records, case)


async def _draft_skill(
    lifecycle: "SkillLifecycle", records: Sequence[JournalRecord], case: IncidentDetails
) -> None:
    from hermes.skills.distill.distillation import distill_run
    from hermes.skills.distill.verified_run import DistillationError

    try:
        draft = await distill_run(records)
    except DistillationError:  # not every fix can be repeated: that is no error
        return
    await lifecycle.draft(draft, run=case.run)


async def _note_facts(
    application: Application, records: Sequence[JournalRecord], case: IncidentDetails
) -> None:
    before = await read_earlier_incidents(application.journal, records)
    await application.memory.note(case.run, incident_notes(records, earlier=before))


def _applied_playbook(records: Sequence[JournalRecord]) -> PlaybookStarted | None:
    """The playbook whose changes are in force; None when a model made the fix."""
    changes = [each.event for each in records if isinstance(each.event, ChangeBegan)]
    played = [each.event for each in records if isinstance(each.event, PlaybookStarted)]
    last = changes[-1].by if changes else ""
    return next((each for each in reversed(played) if each.skill == last), None)


def _is_reverted_change(records: Sequence[JournalRecord]) -> bool:
    """Return whether the fix was the revert of a cause that experiments proved."""
    changes = [each.event for each in records if isinstance(each.event, ChangeBegan)]
    return bool(changes) and changes[-1].by == EXPERIMENT


class StateCauseFinder:
    """A `CauseFinder` with the states of the home. Experiments are loaded with the first incident
    that needs them: a watch stays small."""

    def __init__(self, application: Application) -> None:
        self._application = application

    @cached_property
    def _finder(self) -> CauseFinder:
        from hermes.app.changes.cause_search import open_cause_finder

        return open_cause_finder(self._application)

    @property
    def available(self) -> bool:
        return self._finder.available

    async def find(
        self, look: FindFailingCase, daemons: Sequence[PlainDaemon]
    ) -> CauseResult | None:
        return await self._finder.find(look, daemons)

    async def observe(self, case: FailingCase) -> Sequence[Probe]:
        return await self._finder.observe(case)

    async def list_services(self, case: FailingCase, failing: Sequence[str]) -> ServiceNames:
        return await self._finder.list_services(case, failing)


class LazyFixTester:
    """A `FixTester`, loaded with the first fix that is tested."""

    def __init__(self, application: Application) -> None:
        self._application = application

    @cached_property
    def _tester(self) -> FixTester:
        from hermes.app.changes.cause_search import open_fix_tester

        return open_fix_tester(self._application)

    @property
    def available(self) -> bool:
        return can_be_copied(self._application.agent_dependencies.environment)

    async def test(
        self, case: FailingCase, candidates: Sequence[FixCandidate]
    ) -> Sequence[FixTested]:
        return await self._tester.test(case, candidates)

    def tool(self, case: FailingCase, record: Callable[[str, FixTested], Awaitable[None]]) -> Tool:
        return self._tester.tool(case, record)


INCIDENT_REPORTS_FOLDER = "incidents"
"""The folder of reports, in the home."""


def build_incident_context(
    application: Application,
    settings: SreSettings,
    *,
    responder: ModelResponder | None = None,
    probes: Sequence[Probe] = (),
    playbook_cache: PlaybookCache | None = None,
    inventory: InventoryStore | None = None,
    learned: LearnedObserver | None = None,
    claims: CauseClaims | None = None,
) -> IncidentContext:
    """`probes` are those of the watch; where there are none, discovery finds some. `learned`: the
    learned checks of the watch, which join them. `claims`: those of all incidents of the watch."""
    dependencies = application.agent_dependencies
    records_states = application.loaded.settings.declared.record
    playbook_cache = playbook_cache or PlaybookCache(application.loaded, application.journal)

    async def document(case: IncidentDetails) -> None:
        from hermes.app.incidents.lessons import follow_people  # not before an incident needs it

        await _write_report(application, case)
        if settings.learn and records_states and await follow_people(application, case, probes):
            await _write_report(application, case)

    cluster = open_cluster(settings.kubernetes)

    async def open_checks(case: IncidentDetails) -> IndependentChecks:
        if cluster is not None and cluster.concerns(case):
            from hermes.sre.cluster.checks import open_cluster_checks

            return open_cluster_checks(settings.kubernetes, case, dependencies.environment)
        return await open_independent_checks(
            case,
            dependencies.environment,
            probes,
            LearnedEvidence(learned, case.service) if learned is not None else None,
        )

    return IncidentContext(
        bus=application.bus,
        executor=dependencies.executor,
        environment=dependencies.environment,
        artifacts=dependencies.artifacts,
        settings=settings,
        skills=playbook_cache.skills,
        index=playbook_cache.index,
        checks_for=open_checks,
        claims=claims or CauseClaims(),
        cluster=cluster,
        measure=_open_measurement(application.loaded),
        report=document,
        learn=partial(learn_from_incident, application) if settings.learn else do_nothing,
        responder=responder,
        processes=dependencies.processes,
        origin=dependencies.origin,
        daemons=lambda: inventory.load().daemons if inventory else (),
        cause_finder=StateCauseFinder(application) if records_states else None,
        fix_tester=LazyFixTester(application),
    )


def _open_measurement(loaded: LoadedSettings) -> MeasureSystems | None:
    """None without a configured system: nothing of it is loaded then."""
    if not any_system_configured(loaded):
        return None
    from hermes.sre.system_questions import measure_systems

    return partial(measure_systems, databases=_databases(loaded))


def _databases(loaded: LoadedSettings) -> dict[str, str]:
    return {name: each.kind for name, each in loaded.settings.tools.databases.items()}


def open_cluster(settings: KubernetesSettings) -> "ClusterInspection | None":
    """None without a kubeconfig or a context in the settings: then nothing of it is loaded."""
    if not settings.configured:
        return None
    from hermes.sre.cluster.inspection import ClusterInspection

    return ClusterInspection(settings)


def open_model_responder(application: Application) -> ModelResponder | None:
    """Responders with models, where one is set up that can use tools; the bundled one cannot.
    A default model without a key is not set up."""
    settings, dependencies = application.loaded.settings, application.agent_dependencies
    if is_bundled(dependencies.model.name) or not settings.sre.agents:
        return None
    with suppress(SettingsError):  # a scripted model
        if lacks_capable_model(application.loaded, dependencies.model.name):
            return None
    if settings.sre.minds == "alone":
        return open_single_model_responder(application)
    from hermes.sre.responders.model_team import ModelTeam, check_team_settings, models_by_role

    crew = settings.sre.crew
    check_team_settings(crew)
    # A model named for this call does everything; otherwise each job has the model of its role.
    named = dependencies.model.name != settings.model.default
    if named or dependencies.open_model is None:
        return ModelTeam(
            dependencies,
            crew,
            kubernetes=settings.sre.kubernetes,
            databases=_databases(application.loaded),
        )
    return ModelTeam(
        dependencies,
        crew,
        models_by_role(crew, settings.model, dependencies.open_model),
        kubernetes=settings.sre.kubernetes,
        databases=_databases(application.loaded),
    )


def open_single_model_responder(application: Application, more: str = "") -> "SingleModelResponder":
    """One model in one conversation, which states the cause at the end."""
    from hermes.gym.episodes.run_summary import make_conclude_tool
    from hermes.sre.responders.single_model import SingleModelResponder

    return SingleModelResponder(
        application.agent_dependencies,
        lambda case: make_conclude_tool(application.journal, case.incident),
        additional_text=more,
    )


async def _write_report(application: Application, case: IncidentDetails) -> None:
    await write_report_file(
        application.journal,
        application.bus,
        case.run,
        application.loaded.home / INCIDENT_REPORTS_FOLDER,
    )
