"""The production agent in a broken box: the same house, with a host of the gym as its place."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from hermes.agent.conversation import Conversation
from hermes.app.house import House, open_house
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import RunStarted
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.gym.agents import BASELINES, do_nothing
from hermes.gym.box.place import place_in
from hermes.gym.drill import Drilled, Terms, run_drill
from hermes.gym.episode import Episode
from hermes.gym.scenario import Scenario
from hermes.gym.stage import (
    AnsweredBy,
    Responder,
    Scene,
    Stage,
    bare_stage,
    episode_tools,
    operator,
    rules,
)
from hermes.gym.story import Alert
from hermes.settings.load import Loaded

SKILL_TOOLS = ("skills_categories", "skills_list", "skill_view")
FOLDER = Path("/srv")
"""Known on both sides: what a house looks up in its folder outside must be readable to anybody."""
NONE = "none"
"""In place of a model: playbooks alone."""
TASK = """\
You are on call, and nobody else is awake. An alert came in:

[{severity}] {title}
{text}
{labels}
Find out what is wrong on this host, mend its cause with the smallest change that does, and verify \
that it holds, also after the service is restarted or its job runs again. Leave everything else \
as it is. Not every alert is an incident: if nothing is wrong, or it has recovered by itself, \
change nothing. If the only way is one that a person must decide on, do not take it.
{hosts}
At the end call `conclude` once, with what was broken, how, by which value, the commands whose \
output shows it, and a report. Then stop."""


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
    playbooks: Responder | None = None,
) -> Drilled:
    """One drill in the home's journal; the gym's own agents need none and leave none."""
    if agent.baseline:
        own, stages = BASELINES[agent.model], partial(bare_stage, book=rules())
        return await run_drill(scenario, seed, stages, own, terms, agent=agent.name)
    settings = suited(loaded, agent)
    talks: list[Conversation] = []
    reflex = playbooks or partial(reflexes, loaded, final=agent.model == NONE)
    if not agent.skills:
        reflex = do_nothing

    @asynccontextmanager
    async def stages_in_house(episode: Episode) -> AsyncGenerator[Stage, None]:
        async with stage_in_house(settings, episode, agent) as (stage, talk):
            talks.extend([talk] if talk is not None else [])
            yield stage

    async def respond(scene: Scene) -> AnsweredBy:
        """Playbooks first, as in an incident; a model only where none fits."""
        answered = await reflex(scene)
        return await _converse(talks[-1], scene) if talks and answered == "nobody" else answered

    return await run_drill(
        scenario, seed, stages_in_house, lambda story: respond, terms, agent=agent.name
    )


async def reflexes(loaded: Loaded, scene: Scene, *, final: bool) -> AnsweredBy:
    """The playbooks of this home. One that acted and did not mend it has answered only where
    nobody comes after it."""
    from hermes.app.skills import open_library
    from hermes.skills.matching import Matcher
    from hermes.skills.playbook.facts import Facts
    from hermes.skills.playbook.reflex import respond

    alert = scene.alert
    facts = Facts(title=alert.title, text=alert.text, labels=alert.labels)
    found = Matcher(open_library(loaded).skills).candidates(facts)
    response = await respond(facts, found, scene.execute, publish=scene.publish, run=scene.run)
    acted = response.played is not None and final
    return "playbook" if response.resolved or acted else "nobody"


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
) -> AsyncGenerator[tuple[Stage, Conversation | None], None]:
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
        talk = await house.begin(task) if model else None
        run = talk.run if talk is not None else new_id("run")
        if talk is None:
            await house.bus.publish(RunStarted(run=run, origin="gym", task=task))
        yield Stage(run, house.bus, _execute(house, run), incident, since), talk


def _execute(house: House, run: str) -> Callable[[ToolCall], Awaitable[ToolResult]]:
    means = house.means

    async def execute(call: ToolCall) -> ToolResult:
        context = ToolContext(
            run, means.environment, means.bus.publish, execute, means.artifacts, origin="gym"
        )
        return await means.executor.execute(call, context)

    return execute


async def _converse(talk: Conversation, scene: Scene) -> AnsweredBy:
    await talk.say(task_for(scene.alert, scene.hosts))
    ended = talk.ended
    if ended is not None and ended.outcome == "failed":
        raise HermesError(ended.reason)
    return "model"


def task_for(alert: Alert, hosts: Sequence[str]) -> str:
    """The alert as the agent is told it."""
    labels = "\n".join(f"{name}: {value}" for name, value in sorted(alert.labels.items()))
    more = ""
    if len(hosts) > 1:
        more = f"You stand on {hosts[0]}; `host_terminal` reaches {', '.join(hosts[1:])}.\n"
    text = "" if alert.text == alert.title else alert.text
    return TASK.format(
        severity=alert.severity, title=alert.title, text=text, labels=labels, hosts=more
    )


def agent_called(words: str, *, skills: bool = True, memory: bool = True, turns: int = 40) -> Agent:
    """By the name of one of the gym's own, a model reference, or `none`."""
    if not words:
        raise SettingsError(f"name an agent: {', '.join(BASELINES)}, none, or a model")
    without = [name for name, on in (("skills", skills), ("memory", memory)) if not on]
    name = f"{words} without {' and '.join(without)}" if without else words
    return Agent(name, words, skills, memory, turns)
