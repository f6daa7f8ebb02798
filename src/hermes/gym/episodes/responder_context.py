"""The other machines of an episode: one tool that runs a command on one of them by name."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.errors import ToolError
from hermes.core.events.runs import RunStarted
from hermes.core.messages import Risk, ToolCall, ToolResult, ToolSpec
from hermes.core.protocols import ArtifactStore, Environment, Tool, ToolContext
from hermes.core.run_ids import new_id
from hermes.gym.box.box import Box
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import Episode
from hermes.gym.episodes.run_summary import make_conclude_tool
from hermes.gym.scenario_spec import ScenarioAlert
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.loading import open_rule_set
from hermes.policy.rules.evaluation import TAINTED_RULE, RuleSet
from hermes.policy.settings import PolicySettings
from hermes.tools.declare import check_arguments, json_schema
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal, render_command_result

HOST_TERMINAL_TOOL = "host_terminal"
COMMAND_TIMEOUT_S = 120.0


class HostTerminalArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    host: str
    command: str


def host_terminal_spec(names: tuple[str, ...]) -> ToolSpec:
    return ToolSpec(
        name=HOST_TERMINAL_TOOL,
        description="Run a bash command on another machine of this network: "
        f"{', '.join(names)}. `terminal` runs on {names[0]}.",
        parameters=json_schema(HostTerminalArguments),
        risk=Risk.CHANGE,
        alone=True,
    )


class HostTerminal:
    """A `Tool` that shows its command to the policy. Enters a host when it is first named."""

    def __init__(self, box: Box, names: tuple[str, ...], stack: AsyncExitStack) -> None:
        self._box, self._names, self._stack = box, names, stack
        self._environments: dict[str, Environment] = {}
        self.spec = host_terminal_spec(names)

    def command(self, arguments: Mapping[str, Any]) -> str:
        return self.fit(arguments).command

    def fit(self, arguments: Mapping[str, Any]) -> HostTerminalArguments:
        given = check_arguments(HOST_TERMINAL_TOOL, HostTerminalArguments, arguments)
        assert isinstance(given, HostTerminalArguments)
        if given.host not in self._names:
            raise ToolError(f"there is no host {given.host!r}; there are: {', '.join(self._names)}")
        return given

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        given = self.fit(arguments)
        place = self._environments.get(given.host)
        if place is None:
            number = self._names.index(given.host)
            inside = host_environment(self._box, host=number, name=given.host)
            place = await self._stack.enter_async_context(inside)
            self._environments[given.host] = place
        return render_command_result(
            await place.run(given.command, timeout=COMMAND_TIMEOUT_S), COMMAND_TIMEOUT_S
        )


OPERATOR_NAME = "drill"
AnsweredBy = Literal["playbook", "model", "person", "nobody"]
CallTool = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True)
class ResponderContext:
    """All that a responder is told: what the monitor said, and how to act."""

    alert: ScenarioAlert
    run: str
    incident: str
    call_tool: CallTool
    """A tool by name, with its arguments: decided, run and recorded like any other call."""
    publish: Callable[..., Awaitable[Sequence[int]]]
    hosts: tuple[str, ...]
    """Machines by name; `terminal` acts on the first."""
    execute: Callable[[ToolCall], Awaitable[ToolResult]]
    """The same road, for those who number their calls themselves."""


class EpisodeResponder(Protocol):
    """Whoever answers an alert: playbooks, an agent with a model, a script. Says who it was."""

    async def __call__(self, scene: ResponderContext) -> AnsweredBy: ...


@dataclass(frozen=True)
class EpisodeRun:
    run: str
    bus: Bus
    execute: Callable[[ToolCall], Awaitable[ToolResult]]
    incident: str
    since: int = 0
    """The last event of the journal before this run began."""

    def responder_context(self, episode: Episode) -> ResponderContext:
        numbers = count(1)

        async def do(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
            call = ToolCall(f"{self.run}-{next(numbers)}", tool, dict(arguments))
            return await self.execute(call)

        story = episode.spec
        names = tuple(host.name for host in story.hosts)
        publish = self.bus.publish
        return ResponderContext(
            story.alert, self.run, self.incident, do, publish, names, self.execute
        )


@dataclass(frozen=True, kw_only=True)
class BareEpisodeRun(EpisodeRun):
    """With what its road is made of, for those who lay one of their own on it."""

    executor: Executor
    environment: Environment
    artifacts: ArtifactStore


@asynccontextmanager
async def open_bare_run(episode: Episode, book: RuleSet) -> AsyncGenerator[BareEpisodeRun, None]:
    journal, run = InMemoryJournal(), new_id("run")
    bus, incident, shelf = Bus(journal), new_id("incident"), EpisodeArtifacts()
    async with AsyncExitStack() as stack:
        host = episode.spec.hosts[0].name
        place = await stack.enter_async_context(host_environment(episode.box, name=host))
        tools = episode_tools(episode, journal, incident, stack) | {"terminal": make_terminal()}
        executor = Executor(tools, sandbox_policy(book), answer_as_operator, bus)
        await bus.publish(RunStarted(run=run, origin="gym", task=episode.spec.alert.title[:200]))

        async def execute(call: ToolCall) -> ToolResult:
            context = ToolContext(run, place, bus.publish, execute, shelf, origin="gym")
            return await executor.execute(call, context)

        yield BareEpisodeRun(
            run, bus, execute, incident, executor=executor, environment=place, artifacts=shelf
        )


def episode_tools(
    episode: Episode, journal: Any, incident: str, stack: AsyncExitStack
) -> dict[str, Tool]:
    """What an agent has in an episode beside the tools that it always has."""
    tools: dict[str, Tool] = {"conclude": make_conclude_tool(journal, incident)}
    names = tuple(host.name for host in episode.spec.hosts)
    if len(names) > 1:
        tools[HOST_TERMINAL_TOOL] = HostTerminal(episode.box, names, stack)
    return tools


def sandbox_rules() -> RuleSet:
    """The rules for isolated places, as they come with Hermes; slow to read, so read them once."""
    book, _ = open_rule_set(PolicySettings(set="sandboxed"), Path("/nonexistent"), None, "/root")
    return book


def sandbox_policy(book: RuleSet) -> DocumentPolicy:
    situation = ActionContext(cwd="/root", home="/root", workspace="/root")
    return DocumentPolicy(book, ActionReader(analyse_command), context_of=lambda action: situation)


async def answer_as_operator(action: Action, decision: Decision) -> Approval:
    """Who answers in a drill. An unattended agent that repeats what it read on the host is asked
    about every fix; nothing leaves the box, so that much is granted. All else is a no."""
    if action.isolated and decision.rule == TAINTED_RULE:
        return Approval(approved=True, by=OPERATOR_NAME)
    return Approval(approved=False, by="nobody")


class EpisodeArtifacts:
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
