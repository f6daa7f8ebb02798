"""A broken box, or a bare folder, investigated by scripted models through the real executor."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import anyio

from hermes.agent.dependencies import AgentDependencies
from hermes.agent.settings import AgentSettings
from hermes.core.actions import Action, Approval, Approver, Decision
from hermes.core.bus import Bus
from hermes.core.events.incidents import IncidentOpened
from hermes.core.incident import IncidentDetails, incident_details
from hermes.core.messages import Completion, Message, ToolCall, ToolSpec
from hermes.core.protocols import Environment, Model
from hermes.environments.local import LocalEnvironment
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.responder_context import (
    EpisodeArtifacts,
    answer_as_operator,
    sandbox_policy,
    sandbox_rules,
)
from hermes.gym.scenario import find_scenario
from hermes.gym.scenario_spec import ScenarioSpec
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel, ScriptedReply
from hermes.policy.rules.evaluation import RuleSet
from hermes.sre.checks import open_independent_checks
from hermes.sre.context import IncidentContext
from hermes.sre.responders.model_team import ModelForRole, ModelTeam
from hermes.sre.settings import AgentBudget, CrewSettings, SreSettings, VerifySettings
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

Kind = TypeVar("Kind")
SETTINGS = CrewSettings(
    looking=AgentBudget(seconds=120.0), judging=AgentBudget(turns=2, seconds=120.0)
)
QUICK = SreSettings(
    reflex=False,
    verify=VerifySettings(window=0.3, patience=8.0, every=0.1, timeout=60.0),
    time_limit=120.0,
)


@cache
def book() -> RuleSet:
    return sandbox_rules()


async def nobody(action: Action, decision: Decision) -> Approval:
    return Approval(approved=False, by="nobody")


def calls(*wanted: tuple[str, dict[str, Any]]) -> Message:
    """One answer that calls these tools."""
    made = tuple(ToolCall(f"c{at}", name, given) for at, (name, given) in enumerate(wanted))
    return Message(role="assistant", calls=made)


def runs(command: str) -> Message:
    return calls(("terminal", {"command": command}))


def finds(claim: str, *evidence: str, **more: object) -> Message:
    given = {"claim": claim, "evidence": list(evidence), "last": True, **more}
    return calls(("finding", given))


def well(layer: str = "") -> Message:
    return calls(("finding", {"ruled_out": [f"{layer or 'it'} is well"], "last": True}))


def concludes(verdict: str, *hypotheses: Mapping[str, object], **more: object) -> Message:
    return calls(("conclude", {"verdict": verdict, "hypotheses": list(hypotheses), **more}))


def says(text: str) -> Message:
    return Message(role="assistant", text=text)


class HangingModel(ScriptedModel):
    """Plays its replies, and then never answers again."""

    def __init__(self, replies: Iterable[ScriptedReply] = ()) -> None:
        super().__init__(replies, name="hangs")
        self._count = len(list(replies))

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        if len(self.seen) >= self._count:
            await anyio.sleep_forever()
        return await super().complete(messages, tools)


class DyingModel(ScriptedModel):
    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        raise RuntimeError("a bug of its own")


@dataclass
class InvestigationSetup:
    """The parts of one test. `models` by job; a layer without one is well."""

    models: Mapping[str, Model] = field(default_factory=dict)
    settings: CrewSettings = SETTINGS
    approver: Approver = answer_as_operator
    journal: InMemoryJournal = field(default_factory=InMemoryJournal)

    def model_for(self, job: str) -> Model:
        return self.models.get(job) or ScriptedModel([well(job)], name=f"calm-{job}")

    def events(self, kind: type[Kind], run: str = "") -> list[Kind]:
        return [
            each
            for each in self.journal.events
            if isinstance(each, kind) and (not run or getattr(each, "run", "") == run)
        ]

    def crew(self, place: Environment) -> ModelTeam:
        bus = Bus(self.journal)
        tools = {"terminal": make_terminal()}
        means = AgentDependencies(
            model=ScriptedModel([]),
            executor=Executor(tools, sandbox_policy(book()), self.approver, bus),
            environment=place,
            bus=bus,
            artifacts=EpisodeArtifacts(),
            settings=AgentSettings(),
            origin="incident",
        )
        return ModelTeam(means, self.settings, self.model_for)

    async def opened(self, title: str = "web is down", **more: Any) -> IncidentDetails:
        given = {"service": "web", "severity": "P1", **more}
        opened = IncidentOpened(run="incident-1", incident="incident-1", title=title, **given)
        await Bus(self.journal).publish(opened)
        return incident_details(opened)

    @asynccontextmanager
    async def folder(
        self, at: Path, *, path: str = "/usr/bin:/bin", model_for: ModelForRole | None = None
    ) -> AsyncGenerator[ModelTeam, None]:
        async with LocalEnvironment(at, {"PATH": path}) as place:
            crew = self.crew(place)
            yield replace(crew, model_for=model_for) if model_for else crew

    @asynccontextmanager
    async def box(self, name: str, seed: int) -> AsyncGenerator["BrokenBox", None]:
        scenario = find_scenario(name)
        story = scenario.draw_spec(seed)
        async with open_episode(scenario, story) as episode, host_environment(episode.box) as place:
            labels = tuple(story.alert.labels.items())
            case = await self.opened(
                story.alert.title,
                service=story.alert.labels.get("service", ""),
                facts=(("text", story.alert.text), *labels),
            )
            yield BrokenBox(self.crew(place), case, story, episode)


@dataclass(frozen=True)
class BrokenBox:
    crew: ModelTeam
    case: IncidentDetails
    story: ScenarioSpec
    episode: Episode

    @property
    def ground(self) -> IncidentContext:
        means = self.crew.dependencies
        return IncidentContext(
            bus=means.bus,
            executor=means.executor,
            environment=means.environment,
            artifacts=means.artifacts,
            settings=QUICK,
            checks_for=lambda case: open_independent_checks(case, means.environment),
            responder=self.crew,
        )
