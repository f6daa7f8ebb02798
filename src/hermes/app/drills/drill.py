"""Runs a drill: the production agent with a broken gym box as its environment."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from hermes.app.application import Application, open_application
from hermes.app.changes.cause_search import open_cause_finder
from hermes.app.gym_commander import build_case
from hermes.app.incidents.response import (
    build_incident_context,
    open_model_responder,
    open_single_model_responder,
)
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.skills.playbook_cache import PlaybookCache
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.experiments import DrillEnded
from hermes.core.events.runs import RunStarted
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.core.run_ids import new_id
from hermes.declared.store import StateStore
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_local_box
from hermes.gym.box.environment import host_environment
from hermes.gym.drill import DrillResult, DrillTerms, SkillTrial, run_drill
from hermes.gym.episodes.baseline_responders import BASELINE_RESPONDERS
from hermes.gym.episodes.episode import Episode
from hermes.gym.episodes.responder_context import (
    HOST_TERMINAL_TOOL,
    AnsweredBy,
    EpisodeRun,
    ResponderContext,
    answer_as_operator,
    episode_tools,
    open_bare_run,
    sandbox_rules,
)
from hermes.gym.scenario import Scenario
from hermes.gym.supervisors.hosts import WatchMemory
from hermes.memory.store import open_journal
from hermes.policy.rules.evaluation import RuleSet
from hermes.settings.load import LoadedSettings
from hermes.sre.commander import Commander
from hermes.sre.model_responder import ModelResponder
from hermes.sre.responders.single_model import SingleModelResponder

SKILL_TOOLS = ("skills_categories", "skills_list", "skill_view")
BOX_WORK_FOLDER = Path("/srv")
"""The same path inside and outside of the box, so it must be readable for every user."""
DRILLS_RUN = "drills"
"""The run of the score of a drill that was void before its own run began."""
NO_MODEL = "none"
"""In place of a model: playbooks alone."""
VERIFY_WINDOW_S = 0.5
"""Seconds for which the commander's own checks must hold in a drill; the oracle checks longer."""


@dataclass(frozen=True)
class DrillAgent:
    """The agent that responds in a drill, and the parts of the application that it uses."""

    name: str
    model: str = NO_MODEL
    """A reference of a model, `none`, or the name of one of the gym's own agents."""
    skills: bool = True
    memory: bool = True
    turns: int = 40
    playbooks: bool = True
    """Whether trusted playbooks may run."""
    states: bool = True
    """Whether it gets the known good states of the hosts, as a watch would have recorded them."""

    @property
    def is_baseline(self) -> bool:
        return self.model in BASELINE_RESPONDERS


async def run_agent_drill(
    loaded: LoadedSettings,
    scenario: Scenario,
    seed: int,
    agent: DrillAgent,
    terms: DrillTerms,
    *,
    opener: BoxOpener = open_local_box,
    book: RuleSet | None = None,
    learned: SkillTrial | None = None,
) -> DrillResult:
    """One drill in the home's journal; the gym's own agents need and leave no journal, only a
    `book` of rules (read again for each drill unless it is given)."""
    if agent.is_baseline:
        own, stages = (
            BASELINE_RESPONDERS[agent.model],
            partial(open_bare_run, rules=book or sandbox_rules()),
        )
        return await run_drill(
            scenario, seed, stages, own, terms, agent=agent.name, skill_trial=learned, opener=opener
        )
    settings = settings_for_agent(loaded, agent)
    with TemporaryDirectory() as folder:
        states = StateStore(Path(folder)) if agent.states else None
        terms = msgspec.structs.replace(terms, states=states)
        result = await _run_commander_drill(
            settings, scenario, seed, agent, terms, opener=opener, learned=learned
        )
    await record_drill(settings, result)
    return result


async def record_drill(loaded: LoadedSettings, result: DrillResult) -> None:
    """Keep the score in the journal, for the trend of the scenario."""
    parts = msgspec.structs.asdict(result.reward)
    event = DrillEnded(
        run=result.run or DRILLS_RUN,
        scenario=result.scenario,
        seed=result.seed,
        agent=result.agent,
        resolved=result.resolved,
        reward=parts.pop("total"),
        parts=tuple(parts.items()),
        seconds=result.seconds,
        tool_calls=result.tool_calls,
        model_calls=result.model_calls,
        tokens=result.tokens,
        answered_by=result.answered_by,
        collateral=result.collateral,
        breaches=result.policy_breaches,
        void=result.void,
    )
    async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
        await journal.append(SecretRedactor(loaded).clean_event(event))


async def _run_commander_drill(
    settings: LoadedSettings,
    scenario: Scenario,
    seed: int,
    agent: DrillAgent,
    terms: DrillTerms,
    *,
    opener: BoxOpener,
    learned: SkillTrial | None,
) -> DrillResult:
    opened: list[tuple[Application, PlaybookCache, Episode]] = []

    @asynccontextmanager
    async def open_drill_stage(episode: Episode) -> AsyncGenerator[EpisodeRun, None]:
        async with open_stage(settings, episode, agent) as (stage, application):
            playbooks = PlaybookCache(settings, application.journal)
            await playbooks.fill()  # as in a watch, which has read it before the first alert
            opened.append((application, playbooks, episode))
            yield stage

    async def respond(scene: ResponderContext) -> AnsweredBy:
        """The commander of real incidents, which does not know that this is a drill."""
        application, playbooks, episode = opened[-1]
        return await run_commander(
            application, playbooks, scene, agent, episode.memory, terms.states
        )

    return await run_drill(
        scenario,
        seed,
        open_drill_stage,
        lambda spec: respond,
        terms,
        agent=agent.name,
        skill_trial=learned,
        opener=opener,
    )


async def run_commander(
    application: Application,
    playbook_cache: PlaybookCache,
    scene: ResponderContext,
    agent: DrillAgent,
    memory: WatchMemory,
    states: StateStore | None = None,
) -> AnsweredBy:
    """`memory`: what a watch would know of the host; `states`: what it would have recorded."""
    settings = application.loaded.settings.sre
    verify = msgspec.structs.replace(
        settings.verify,
        window=VERIFY_WINDOW_S,
        longest_window=VERIFY_WINDOW_S,
        every=0.25,
        patience=5.0,
    )
    settings = msgspec.structs.replace(
        settings,
        verify=verify,
        reflex=agent.skills and agent.playbooks,
        learn=False,
        agents=agent.model != NO_MODEL,
    )
    mind = _model_responder(application, scene, agent)
    context = build_incident_context(
        application,
        settings,
        responder=mind,
        playbook_cache=playbook_cache,
        probes=memory.probes,
    )
    finder = open_cause_finder(application, states, memory.daemons) if states else None
    context = replace(context, daemons=lambda: memory.daemons, cause_finder=finder)
    ending = await Commander(context, build_case(scene)).run()
    if isinstance(mind, SingleModelResponder) and mind.errors:
        raise HermesError(mind.errors[-1])
    return ending.answered_by


def _model_responder(
    application: Application, scene: ResponderContext, agent: DrillAgent
) -> ModelResponder | None:
    """Open the models that respond. With several hosts one model works alone: the team knows only
    the first host."""
    if agent.model == NO_MODEL:
        return None
    if len(scene.hosts) > 1:
        others = ", ".join(scene.hosts[1:])
        return open_single_model_responder(
            application, f"You stand on {scene.hosts[0]}; `{HOST_TERMINAL_TOOL}` reaches {others}."
        )
    return open_model_responder(application)


def settings_for_agent(loaded: LoadedSettings, agent: DrillAgent) -> LoadedSettings:
    """The settings of the home, without what this agent must not use."""
    settings = loaded.settings
    own = msgspec.structs.replace(settings.agent, max_iterations=agent.turns, context_files=False)
    # Facts learned from gym hosts must not stand beside facts about real ones.
    memory = msgspec.structs.replace(settings.memory, learn=False)
    if not agent.memory:
        memory = msgspec.structs.replace(memory, notes=False, recall=False)
    tools = settings.tools
    if not agent.skills:
        tools = msgspec.structs.replace(tools, disabled=(*tools.disabled, *SKILL_TOOLS))
    return loaded.with_sections(agent=own, memory=memory, tools=tools)


@asynccontextmanager
async def open_stage(
    loaded: LoadedSettings, episode: Episode, agent: DrillAgent
) -> AsyncGenerator[tuple[EpisodeRun, Application], None]:
    """An application whose environment is the host; its run is in the home's journal."""
    model = "" if agent.model == NO_MODEL else agent.model
    name, incident = episode.spec.hosts[0].name, new_id("incident")
    async with AsyncExitStack() as stack:
        application = await stack.enter_async_context(
            open_application(
                loaded,
                approver=answer_as_operator,
                origin="gym",
                model=model,
                toolsets=loaded.settings.tools.toolsets,
                directory=BOX_WORK_FOLDER,
                environment=host_environment(episode.box, name=name),
            )
        )
        executor = application.agent_dependencies.executor
        for tool in episode_tools(episode, application.journal, incident, stack).values():
            executor = executor.with_tool(tool)
        application = replace(
            application,
            agent_dependencies=replace(application.agent_dependencies, executor=executor),
        )
        since, task = await application.journal.last(), episode.spec.alert.title[:200]
        # Never `unattended`: a resumed run would continue outside of the box.
        run = new_id("run")
        await application.bus.publish(RunStarted(run=run, origin="gym", task=task))
        yield (
            EpisodeRun(run, application.bus, _tool_caller(application, run), incident, since),
            application,
        )


def _tool_caller(application: Application, run: str) -> Callable[[ToolCall], Awaitable[ToolResult]]:
    dependencies = application.agent_dependencies

    async def execute(call: ToolCall) -> ToolResult:
        context = ToolContext(
            run,
            dependencies.environment,
            dependencies.bus.publish,
            execute,
            dependencies.artifacts,
            origin="gym",
        )
        return await dependencies.executor.execute(call, context)

    return execute


def parse_agent(
    words: str,
    *,
    skills: bool = True,
    memory: bool = True,
    turns: int = 40,
    playbooks: bool = True,
    states: bool = True,
) -> DrillAgent:
    """Find an agent: one of the gym's own by name, a model by its reference, or `none`."""
    if not words:
        raise SettingsError(f"name an agent: {', '.join(BASELINE_RESPONDERS)}, none, or a model")
    parts = (("skills", skills), ("memory", memory), ("playbooks", playbooks), ("state", states))
    without = [name for name, on in parts if not on]
    name = f"{words} without {' and '.join(without)}" if without else words
    return DrillAgent(name, words, skills, memory, turns, playbooks, states)
