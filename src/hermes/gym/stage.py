"""Where a responder stands: one run, one road to the host, and a journal that keeps it all.

The house brings its own stage, with its store and its tools. This one is bare: the same executor
and the same rules, a journal in memory, for agents that need no model and for measuring.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.errors import ToolError
from hermes.core.events.runs import RunStarted
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import Artifacts, Environment, Tool, ToolContext
from hermes.gym.box.place import place_in
from hermes.gym.conclude import make_conclude
from hermes.gym.episode import Episode
from hermes.gym.hosts import NAME, HostTerminal
from hermes.gym.story import Alert
from hermes.memory.in_memory import InMemoryJournal
from hermes.policy.action import Reader, Situation
from hermes.policy.commands import analyse
from hermes.policy.decide import DocumentPolicy
from hermes.policy.judgement import TAINTED, RuleBook
from hermes.policy.opening import open_book
from hermes.policy.settings import PolicySettings
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

OPERATOR = "drill"
AnsweredBy = Literal["playbook", "model", "person", "nobody"]
Do = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True)
class Scene:
    """All that a responder is told: what the monitor said, and how to act."""

    alert: Alert
    run: str
    incident: str
    do: Do
    """A tool by name, with its arguments: decided, run and recorded like any other call."""
    publish: Callable[..., Awaitable[Sequence[int]]]
    hosts: tuple[str, ...]
    """Machines by name; `terminal` acts on the first."""
    execute: Callable[[ToolCall], Awaitable[ToolResult]]
    """The same road, for those who number their calls themselves."""


class Responder(Protocol):
    """Whoever answers an alert: playbooks, an agent with a model, a script. Says who it was."""

    async def __call__(self, scene: Scene) -> AnsweredBy: ...


@dataclass(frozen=True)
class Stage:
    run: str
    bus: Bus
    execute: Callable[[ToolCall], Awaitable[ToolResult]]
    incident: str
    since: int = 0
    """The last event of the journal before this run began."""

    def scene(self, episode: Episode) -> Scene:
        numbers = count(1)

        async def do(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
            call = ToolCall(f"{self.run}-{next(numbers)}", tool, dict(arguments))
            return await self.execute(call)

        story = episode.story
        names = tuple(host.name for host in story.hosts)
        publish = self.bus.publish
        return Scene(story.alert, self.run, self.incident, do, publish, names, self.execute)


@dataclass(frozen=True, kw_only=True)
class BareStage(Stage):
    """With what its road is made of, for those who lay one of their own on it."""

    executor: Executor
    place: Environment
    artifacts: Artifacts


@asynccontextmanager
async def bare_stage(episode: Episode, book: RuleBook) -> AsyncGenerator[BareStage, None]:
    journal, run = InMemoryJournal(), new_id("run")
    bus, incident, shelf = Bus(journal), new_id("incident"), Shelf()
    async with AsyncExitStack() as stack:
        host = episode.story.hosts[0].name
        place = await stack.enter_async_context(place_in(episode.box, name=host))
        tools = episode_tools(episode, journal, incident, stack) | {"terminal": make_terminal()}
        executor = Executor(tools, gate(book), operator, bus)
        await bus.publish(RunStarted(run=run, origin="gym", task=episode.story.alert.title[:200]))

        async def execute(call: ToolCall) -> ToolResult:
            context = ToolContext(run, place, bus.publish, execute, shelf, origin="gym")
            return await executor.execute(call, context)

        yield BareStage(
            run, bus, execute, incident, executor=executor, place=place, artifacts=shelf
        )


def episode_tools(
    episode: Episode, journal: Any, incident: str, stack: AsyncExitStack
) -> dict[str, Tool]:
    """What an agent has in an episode beside the tools that it always has."""
    tools: dict[str, Tool] = {"conclude": make_conclude(journal, incident)}
    names = tuple(host.name for host in episode.story.hosts)
    if len(names) > 1:
        tools[NAME] = HostTerminal(episode.box, names, stack)
    return tools


def rules() -> RuleBook:
    """The rules for isolated places, as they come with Hermes; slow to read, so read them once."""
    book, _ = open_book(PolicySettings(set="sandboxed"), Path("/nonexistent"), None, "/root")
    return book


def gate(book: RuleBook) -> DocumentPolicy:
    situation = Situation(cwd="/root", home="/root", workspace="/root")
    return DocumentPolicy(book, Reader(analyse), situate=lambda action: situation)


async def operator(action: Action, decision: Decision) -> Approval:
    """Who answers in a drill. An unattended agent that repeats what it read on the host is asked
    about every fix; nothing leaves the box, so that much is granted. All else is a no."""
    if action.isolated and decision.rule == TAINTED:
        return Approval(approved=True, by=OPERATOR)
    return Approval(approved=False, by="nobody")


class Shelf:
    """Long texts, kept for as long as the episode lasts."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def save(self, run: str, name: str, text: str) -> str:
        reference = f"artifact://{run}/{name}"
        self._texts[reference] = text
        return reference

    async def load(self, reference: str) -> str:
        if reference not in self._texts:
            raise ToolError(f"there is no artifact {reference}")
        return self._texts[reference]
