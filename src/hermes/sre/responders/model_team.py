"""Works on an incident with several models: investigators, a synthesis, and a remediator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated

from msgspec.structs import replace as restructured

from hermes.agent.dependencies import AgentDependencies, execute_for_run
from hermes.core.errors import PermanentModelError, SettingsError
from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.foreign_text import clean_line
from hermes.core.incident import IncidentDetails, read_hints, read_incident
from hermes.core.messages import Completion, Message, Risk, ToolSpec
from hermes.core.protocols import Model, ToolContext
from hermes.core.run_ids import new_id
from hermes.models.catalog import ModelRole, reference_for_role
from hermes.models.settings import ModelSettings
from hermes.skills.playbook.commands import ExecuteCall
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.checks import CheckResult, run_check, run_concurrently
from hermes.sre.cluster.queries import CLUSTER_LAYER
from hermes.sre.model_responder import FailedAttempt, FixResult, Hypothesis, InvestigationResult
from hermes.sre.policies import is_read_only
from hermes.sre.responders.agent_run import AgentRun, run_agent
from hermes.sre.responders.host_facts import (
    FACTS_RUN,
    HostFact,
    cluster_collectors,
    collect_facts,
    fact_collectors,
    list_child_runs,
    next_free_run,
    read_finished_actions,
    render_evidence,
    system_collectors,
)
from hermes.sre.responders.investigation import (
    SYNTHESIS_ROLE,
    InvestigationFindings,
    LayerInvestigator,
    LayerNotes,
    read_only_executor,
    run_synthesis,
)
from hermes.sre.responders.prompts import (
    DONE_REMINDER,
    LAYER_DESCRIPTIONS,
    render_alert,
    render_attempts,
    render_hypothesis,
    render_remediator_prompt,
)
from hermes.sre.settings import CrewSettings, KubernetesSettings
from hermes.sre.system_questions import Databases
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.executor import Executor

FIX_TOOLS = frozenset(
    {"terminal", "host_terminal", "read_file", "search_files", "write_file", "patch", "process"}
    | {"try_on_copy"}
)
REMEDIATOR_ROLE = "remediator"
MAX_CHANGES_WINDOW_MIN = 24 * 60.0
"""Minutes back in which changes are listed at most."""
PROPOSED_CHECK_TIMEOUT_S = 5.0
"""Seconds for one run of a proposed check."""
ModelForRole = Callable[[str], Model]
"""The model for a job: the name of a layer, `synthesis` or `remediator`."""
_MODEL_ROLES: dict[str, ModelRole] = {"default": "default", "cheap": "cheap", "strong": "strong"}


def make_done_tool(reports: list[FixResult]) -> FunctionTool:
    """The tool adds the result that the model reports; it is verified by checks."""

    @tool(risk=Risk.READ, alone=True)
    async def done(
        context: ToolContext,
        summary: Annotated[str, about("what you changed and why, in a few sentences")],
        check: Annotated[str, about("a command that only looks and now ends with 0")] = "",
        gave_up: Annotated[str, about("why nothing could be done; else empty")] = "",
    ) -> str:
        """End your work. Checks that you have no hand in then say whether it holds."""
        reports.append(FixResult(gave_up=clean_line(gave_up, 500)))
        return "Written down."

    return done


class UnavailableModel:
    """Stands for a model that could not be opened. Implements `Model`."""

    window = 8192

    def __init__(self, job: str, why: str) -> None:
        self.name, self._why = f"none for {job}", why

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        raise PermanentModelError(self._why)


@dataclass(frozen=True)
class ModelTeam:
    """Implements `ModelResponder`."""

    dependencies: AgentDependencies
    settings: CrewSettings = field(default_factory=CrewSettings)
    model_for: ModelForRole | None = None
    """None: the model of `dependencies` is used for all jobs."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    databases: Databases = field(default_factory=dict)

    @property
    def layers(self) -> tuple[str, ...]:
        """Those of the settings, and the cluster where one is configured."""
        found = self.settings.layers
        more = self.kubernetes.configured and CLUSTER_LAYER not in found
        return (*found, CLUSTER_LAYER) if more else found

    async def investigate(
        self, details: IncidentDetails, baseline: Sequence[CheckResult]
    ) -> InvestigationResult:
        journal = self.dependencies.bus.journal
        run = await next_free_run(journal, f"{details.run}/{FACTS_RUN}")
        executor = read_only_executor(self.dependencies.executor)
        wanted = [
            each
            for each in (
                *system_collectors(executor.classed_reads, self.databases),
                *cluster_collectors(self.kubernetes, details),
                *fact_collectors(details, _changes_window_min(details, self.settings)),
            )
            if each.layer in self.layers
        ]
        facts = await collect_facts(wanted, self.dependencies, executor, run, self.settings)
        notes = await self._investigate_layers(details, baseline, facts, run)
        actions = await read_finished_actions(journal, (run, *(each.run for each in notes)))
        model, found = self._model(SYNTHESIS_ROLE), InvestigationFindings(notes, facts, actions)

        async def find_objection(command: str) -> str:
            return await _check_objection(
                command, execute_for_run(self.dependencies, run, executor)
            )

        synthesis = await run_synthesis(
            self.dependencies, model, self.settings, details, baseline, found, find_objection
        )
        await self.dependencies.bus.publish(diagnosis_event(details, synthesis))
        return synthesis

    async def remediate(
        self,
        details: IncidentDetails,
        hypothesis: Hypothesis,
        attempt: int,
        failed_attempts: Sequence[FailedAttempt],
        executor: Executor,
    ) -> FixResult:
        """Raises only `StoreError`. If the model fails, its changes are verified all the same."""
        await self._publish_new_diagnosis(details, hypothesis)
        journal, reports = self.dependencies.bus.journal, list[FixResult]()
        agent = AgentRun(
            dependencies=self.dependencies,
            model=self._model(REMEDIATOR_ROLE),
            executor=executor.with_only(set(FIX_TOOLS)).with_tool(make_done_tool(reports)),
            budget=self.settings.mending,
            run=await next_free_run(journal, f"{details.run}/fix-{attempt}"),
            parent=details.run,
            title=f"fix {attempt}: {details.title}",
            system=render_remediator_prompt(),
            finished=lambda: bool(reports),
            reminder=DONE_REMINDER,
            use_memory=True,
        )
        runs = await list_child_runs(journal, details.run, (FACTS_RUN, *self.layers))
        actions = await read_finished_actions(journal, runs)
        evidence = render_evidence(hypothesis.evidence, actions, details.run)
        parts = (
            render_alert(details, hints=await read_hints(journal, details.run)),
            render_hypothesis(hypothesis, details.run),
            f"What shows it:\n{evidence}" if evidence else "",
            render_attempts(failed_attempts, details.run),
        )
        result = await run_agent(agent, "\n\n".join(part for part in parts if part))
        if reports:
            return reports[-1]
        return FixResult(gave_up=result.error or "it ended without a report")

    async def _publish_new_diagnosis(
        self, details: IncidentDetails, hypothesis: Hypothesis
    ) -> None:
        """Publish the hypothesis of this attempt as the diagnosis, if it is another one."""
        known = await read_incident(self.dependencies.bus.journal, details.run)
        diagnosis = known.diagnosis if known is not None else None
        if diagnosis is None or (diagnosis.component, diagnosis.mechanism) == (
            hypothesis.component,
            hypothesis.mechanism,
        ):
            return
        await self.dependencies.bus.publish(
            restructured(
                diagnosis,
                at=datetime.now(UTC),
                component=hypothesis.component,
                mechanism=hypothesis.mechanism,
                value=hypothesis.value,
                evidence=hypothesis.evidence,
                confidence=hypothesis.confidence,
            )
        )

    async def _investigate_layers(
        self,
        details: IncidentDetails,
        baseline: Sequence[CheckResult],
        facts: Sequence[HostFact],
        run: str,
    ) -> list[LayerNotes]:
        def investigator(layer: str) -> LayerInvestigator:
            return LayerInvestigator(self.dependencies, self._model(layer), self.settings, run)

        layers = self.layers
        return await run_concurrently(
            [
                partial(investigator(layer).investigate, layer, details, baseline, facts)
                for layer in layers
            ],
            len(layers),
        )

    def _model(self, job: str) -> Model:
        if self.model_for is None:
            return self.dependencies.model
        try:
            return self.model_for(job)
        except SettingsError as error:  # reported as the error of this model
            return UnavailableModel(job, str(error))


def models_by_role(
    settings: CrewSettings, models: ModelSettings, open_model: Callable[[str], Model]
) -> ModelForRole:
    """Models are opened when first needed. A role that is not configured uses the default."""
    opened = cache(open_model)

    def model_for(job: str) -> Model:
        settings_by_role = {
            SYNTHESIS_ROLE: settings.synthesis,
            REMEDIATOR_ROLE: settings.remediator,
        }
        return opened(_model_reference(settings_by_role.get(job, settings.investigator), models))

    return model_for


def check_team_settings(settings: CrewSettings) -> None:
    """Raises `SettingsError`."""
    unknown = [layer for layer in settings.layers if layer not in LAYER_DESCRIPTIONS]
    if unknown or not settings.layers:
        raise SettingsError(
            f"sre.crew.layers: there is no {', '.join(unknown) or 'layer'}; "
            f"there are: {', '.join(LAYER_DESCRIPTIONS)}"
        )


def diagnosis_event(details: IncidentDetails, synthesis: InvestigationResult) -> IncidentDiagnosed:
    first = (
        synthesis.hypotheses[0] if synthesis.hypotheses else Hypothesis(component=details.service)
    )
    return IncidentDiagnosed(
        run=details.run,
        incident=details.incident,
        verdict=synthesis.verdict,
        component=first.component,
        mechanism=first.mechanism,
        value=first.value,
        evidence=first.evidence,
        ruled_out=synthesis.ruled_out,
        gaps=synthesis.gaps,
        confidence=first.confidence,
    )


def _model_reference(setting: str, models: ModelSettings) -> str:
    return reference_for_role(_MODEL_ROLES[setting], models) if setting in _MODEL_ROLES else setting


def _changes_window_min(details: IncidentDetails, settings: CrewSettings) -> float:
    since = min(filter(None, (details.since, details.opened_at)))
    gone = (datetime.now(UTC) - since).total_seconds() / 60
    return min(MAX_CHANGES_WINDOW_MIN, max(1.0, gone + settings.window))


async def _check_objection(command: str, execute: ExecuteCall) -> str:
    """Return why a proposed check is useless; empty when it only reads and fails now."""
    if not is_read_only(command):
        return "it does more than read"
    check = PlaybookCheck(name=new_id("proposed"), command=command)
    result = await run_check(check, execute, timeout=PROPOSED_CHECK_TIMEOUT_S)
    if result.ok:
        return "it passes already, although nothing is fixed"
    if "no answer within" in result.detail or "could not be asked" in result.detail:
        return result.detail
    return ""
