"""The production agent in a broken box: the same house, with a host of the gym as its place."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from hermes.app.boxed import case_in
from hermes.app.house import House, open_house
from hermes.app.oncall import alone_in, ground_in, minds_in
from hermes.app.shelf import Shelf
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import RunStarted
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.gym.agents import BASELINES
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.box.place import place_in
from hermes.gym.drill import Drilled, SkillTrial, Terms, run_drill
from hermes.gym.episode import Episode
from hermes.gym.hosts import NAME
from hermes.gym.scenario import Scenario
from hermes.gym.stage import (
    AnsweredBy,
    Scene,
    Stage,
    bare_stage,
    episode_tools,
    operator,
    rules,
)
from hermes.policy.judgement import RuleBook
from hermes.settings.load import Loaded
from hermes.sre.agents.alone import Alone
from hermes.sre.commander import Commander
from hermes.sre.minds import Minds

SKILL_TOOLS = ("skills_categories", "skills_list", "skill_view")
FOLDER = Path("/srv")
"""Known on both sides: what a house looks up in its folder outside must be readable to anybody."""
NONE = "none"
"""In place of a model: playbooks alone."""
WINDOW = 0.5
"""Seconds for which the commander's own checks must hold in a drill; the oracle looks longer."""


@dataclass(frozen=True)
class Agent:
    """Who answers in a drill, and with what of the house."""

    name: str
    model: str = NONE
    """A reference of a model, `none`, or the name of one of the gym's own agents."""
    skills: bool = True
    memory: bool = True
    turns: int = 40

    @property
    def baseline(self) -> bool:
        return self.model in BASELINES


async def drill(
    loaded: Loaded,
    scenario: Scenario,
    seed: int,
    agent: Agent,
    terms: Terms,
    *,
    opener: Opener = open_here,
    book: RuleBook | None = None,
    learned: SkillTrial | None = None,
) -> Drilled:
    """One drill in the home's journal; the gym's own agents need none and leave none, only a
    `book` of rules (read anew for each drill unless it is given)."""
    if agent.baseline:
        own, stages = BASELINES[agent.model], partial(bare_stage, book=book or rules())
        return await run_drill(
            scenario, seed, stages, own, terms, agent=agent.name, learned=learned, opener=opener
        )
    settings = suited(loaded, agent)
    houses: list[tuple[House, Shelf]] = []

    @asynccontextmanager
    async def stages_in_house(episode: Episode) -> AsyncGenerator[Stage, None]:
        async with stage_in_house(settings, episode, agent) as (stage, house):
            shelf = Shelf(settings, house.journal)
            await shelf.fill()  # as in a watch, which has read it before the first alert
            houses.append((house, shelf))
            yield stage

    async def respond(scene: Scene) -> AnsweredBy:
        """The commander of real incidents; it cannot tell that this is none."""
        return await commanded(*houses[-1], scene, agent)

    return await run_drill(
        scenario,
        seed,
        stages_in_house,
        lambda story: respond,
        terms,
        agent=agent.name,
        learned=learned,
        opener=opener,
    )


async def commanded(house: House, shelf: Shelf, scene: Scene, agent: Agent) -> AnsweredBy:
    settings = house.loaded.settings.sre
    verify = msgspec.structs.replace(
        settings.verify, window=WINDOW, longest_window=WINDOW, every=0.25, patience=5.0
    )
    settings = msgspec.structs.replace(
        settings, verify=verify, reflex=agent.skills, learn=False, agents=agent.model != NONE
    )
    mind = _mind(house, scene, agent)
    ground = ground_in(house, settings, minds=mind, shelf=shelf)
    ending = await Commander(ground, case_in(scene)).command()
    if isinstance(mind, Alone) and mind.troubles:
        raise HermesError(mind.troubles[-1])
    return ending.answered_by


def _mind(house: House, scene: Scene, agent: Agent) -> Minds | None:
    """With several hosts one model works alone: the crew knows the first host only."""
    if agent.model == NONE:
        return None
    if len(scene.hosts) > 1:
        others = ", ".join(scene.hosts[1:])
        return alone_in(house, f"You stand on {scene.hosts[0]}; `{NAME}` reaches {others}.")
    return minds_in(house)


def suited(loaded: Loaded, agent: Agent) -> Loaded:
    """The settings of the home, with what this agent goes without."""
    settings = loaded.settings
    own = msgspec.structs.replace(settings.agent, max_iterations=agent.turns, context_files=False)
    # What is learned from hosts that never were would stand beside what is known of real ones.
    memory = msgspec.structs.replace(settings.memory, learn=False)
    if not agent.memory:
        memory = msgspec.structs.replace(memory, notes=False, recall=False)
    tools = settings.tools
    if not agent.skills:
        tools = msgspec.structs.replace(tools, disabled=(*tools.disabled, *SKILL_TOOLS))
    settings = msgspec.structs.replace(settings, agent=own, memory=memory, tools=tools)
    return msgspec.structs.replace(loaded, settings=settings)


@asynccontextmanager
async def stage_in_house(
    loaded: Loaded, episode: Episode, agent: Agent
) -> AsyncGenerator[tuple[Stage, House], None]:
    """A house whose place is the host; its run is in the home's journal from the first word."""
    model = "" if agent.model == NONE else agent.model
    name, incident = episode.story.hosts[0].name, new_id("incident")
    async with AsyncExitStack() as stack:
        house = await stack.enter_async_context(
            open_house(
                loaded,
                approver=operator,
                origin="gym",
                model=model,
                toolsets=loaded.settings.tools.toolsets,
                directory=FOLDER,
                environment=place_in(episode.box, name=name),
            )
        )
        executor = house.means.executor
        for tool in episode_tools(episode, house.journal, incident, stack).values():
            executor = executor.plus(tool)
        house = replace(house, means=replace(house.means, executor=executor))
        since, task = await house.journal.last(), episode.story.alert.title[:200]
        # Never `unattended`: what is carried on after a crash would go on outside of the box.
        run = new_id("run")
        await house.bus.publish(RunStarted(run=run, origin="gym", task=task))
        yield Stage(run, house.bus, _execute(house, run), incident, since), house


def _execute(house: House, run: str) -> Callable[[ToolCall], Awaitable[ToolResult]]:
    means = house.means

    async def execute(call: ToolCall) -> ToolResult:
        context = ToolContext(
            run, means.environment, means.bus.publish, execute, means.artifacts, origin="gym"
        )
        return await means.executor.execute(call, context)

    return execute


def agent_called(words: str, *, skills: bool = True, memory: bool = True, turns: int = 40) -> Agent:
    """By the name of one of the gym's own, a model reference, or `none`."""
    if not words:
        raise SettingsError(f"name an agent: {', '.join(BASELINES)}, none, or a model")
    without = [name for name, on in (("skills", skills), ("memory", memory)) if not on]
    name = f"{words} without {' and '.join(without)}" if without else words
    return Agent(name, words, skills, memory, turns)
