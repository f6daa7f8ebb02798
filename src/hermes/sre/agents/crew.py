"""Models that share the work: facts first, layers side by side, one judgement, one who mends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

import anyio
from msgspec.structs import replace as restructured

from hermes.agent.means import Means
from hermes.core.errors import PermanentModelError, SettingsError, StoreError
from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.ids import new_id
from hermes.core.messages import Completion, Message, ToolCall, ToolResult, ToolSpec
from hermes.core.protocols import Model, ToolContext
from hermes.models.reference import Role, for_role
from hermes.models.settings import ModelSettings
from hermes.skills.playbook.schema import Check
from hermes.sre.agents.collectors import collectors
from hermes.sre.agents.evidence import FACTS, free_run, ran
from hermes.sre.agents.facts import Fact, collect
from hermes.sre.agents.investigator import Investigator, Notebook, looking
from hermes.sre.agents.read_only import looks_only
from hermes.sre.agents.remediator import mended
from hermes.sre.agents.settings import CrewSettings
from hermes.sre.agents.synthesis import NAME, Found, judged
from hermes.sre.agents.wording import LAYERS
from hermes.sre.case import Case
from hermes.sre.incident import incident
from hermes.sre.looking import Seen, look
from hermes.sre.minds import Hypothesis, Remedy, Synthesis, Tried
from hermes.tools.executor import Executor

REMEDIATOR = "remediator"
LONGEST = 24 * 60.0
"""Minutes: older changes are too many to be shown."""
PATIENCE = 5.0
"""Seconds for a proposed check to fail."""
ModelFor = Callable[[str], Model]
"""By whose job it is: the name of a layer, `synthesis` or `remediator`."""


class Absent:
    """A model that could not be opened. Fulfils `Model`."""

    window = 8192

    def __init__(self, job: str, why: str) -> None:
        self.name, self._why = f"none for {job}", why

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        raise PermanentModelError(self._why)


@dataclass(frozen=True)
class Crew:
    """Fulfils `Minds`."""

    means: Means
    settings: CrewSettings = field(default_factory=CrewSettings)
    model_for: ModelFor | None = None
    """None: the one model of `means` does everything."""

    async def investigate(self, case: Case, baseline: Sequence[Seen]) -> Synthesis:
        journal = self.means.bus.journal
        run = await free_run(journal, f"{case.run}/{FACTS}")
        road = looking(self.means.executor)
        wanted = [
            each
            for each in collectors(case, _minutes(case, self.settings))
            if each.layer in self.settings.layers
        ]
        facts = await collect(wanted, self.means, road, run, self.settings)
        notes = await self._side_by_side(case, baseline, facts, run)
        seen = await ran(journal, (run, *(each.run for each in notes)))
        model, found = self._model(NAME), Found(notes, facts, seen)

        async def useless(command: str) -> str:
            return await _useless(command, self.means, road, run)

        synthesis = await judged(self.means, model, self.settings, case, baseline, found, useless)
        await self.means.bus.publish(diagnosis(case, synthesis))
        return synthesis

    async def remediate(
        self,
        case: Case,
        hypothesis: Hypothesis,
        attempt: int,
        tried: Sequence[Tried],
        executor: Executor,
    ) -> Remedy:
        await self._restate(case, hypothesis)
        model = self._model(REMEDIATOR)
        return await mended(
            self.means, model, self.settings, case, hypothesis, attempt, tried, executor
        )

    async def _restate(self, case: Case, hypothesis: Hypothesis) -> None:
        """The diagnosis is what is acted on: a later attempt follows another hypothesis."""
        known = await incident(self.means.bus.journal, case.run)
        said = known.diagnosis if known is not None else None
        if said is None or (said.component, said.mechanism) == (
            hypothesis.component,
            hypothesis.mechanism,
        ):
            return
        await self.means.bus.publish(
            restructured(
                said,
                at=datetime.now(UTC),
                component=hypothesis.component,
                mechanism=hypothesis.mechanism,
                value=hypothesis.value,
                evidence=hypothesis.evidence,
                confidence=hypothesis.confidence,
            )
        )

    async def _side_by_side(
        self, case: Case, baseline: Sequence[Seen], facts: Sequence[Fact], run: str
    ) -> list[Notebook]:
        found: dict[str, Notebook] = {}
        lost: list[StoreError] = []

        async def one(layer: str) -> None:
            mind = Investigator(self.means, self._model(layer), self.settings, run)
            try:
                found[layer] = await mind.look_into(layer, case, baseline, facts)
            except StoreError as error:  # raised bare, not as a group of one
                lost.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for layer in self.settings.layers:
                group.start_soon(one, layer)
        if lost:
            raise lost[0]
        return [found[layer] for layer in self.settings.layers if layer in found]

    def _model(self, job: str) -> Model:
        if self.model_for is None:
            return self.means.model
        try:
            return self.model_for(job)
        except SettingsError as error:  # told where its answer would be, and to nobody else
            return Absent(job, str(error))


def models_by_role(
    settings: CrewSettings, models: ModelSettings, open_model: Callable[[str], Model]
) -> ModelFor:
    """Each opened once, when it is first needed. A role that was not set is the default model."""
    opened = cache(open_model)

    def model_for(job: str) -> Model:
        wish = {NAME: settings.synthesis, REMEDIATOR: settings.remediator}
        return opened(_reference(wish.get(job, settings.investigator), models))

    return model_for


def check_settings(settings: CrewSettings) -> None:
    """Raises `SettingsError`."""
    unknown = [layer for layer in settings.layers if layer not in LAYERS]
    if unknown or not settings.layers:
        raise SettingsError(
            f"sre.crew.layers: there is no {', '.join(unknown) or 'layer'}; "
            f"there are: {', '.join(LAYERS)}"
        )


def diagnosis(case: Case, synthesis: Synthesis) -> IncidentDiagnosed:
    first = synthesis.hypotheses[0] if synthesis.hypotheses else Hypothesis(component=case.service)
    return IncidentDiagnosed(
        run=case.run,
        incident=case.incident,
        verdict=synthesis.verdict,
        component=first.component,
        mechanism=first.mechanism,
        value=first.value,
        evidence=first.evidence,
        ruled_out=synthesis.ruled_out,
        gaps=synthesis.gaps,
        confidence=first.confidence,
    )


_ROLES: dict[str, Role] = {"default": "default", "cheap": "cheap", "strong": "strong"}


def _reference(wish: str, models: ModelSettings) -> str:
    return for_role(_ROLES[wish], models) if wish in _ROLES else wish


def _minutes(case: Case, settings: CrewSettings) -> float:
    since = min(filter(None, (case.since, case.opened_at)))
    gone = (datetime.now(UTC) - since).total_seconds() / 60
    return min(LONGEST, max(1.0, gone + settings.window))


async def _useless(command: str, means: Means, road: Executor, run: str) -> str:
    """A check counts if it looks, and fails while it is broken."""
    if not looks_only(command):
        return "it does more than look"

    async def execute(call: ToolCall) -> ToolResult:
        context = ToolContext(
            run, means.environment, means.bus.publish, execute, means.artifacts, origin=means.origin
        )
        return await road.execute(call, context)

    check = Check(name=new_id("proposed"), command=command)
    seen = await look(check, execute, timeout=PATIENCE)
    if seen.ok:
        return "it holds already, while it is broken"
    if "no answer within" in seen.detail or "could not be asked" in seen.detail:
        return seen.detail
    return ""
