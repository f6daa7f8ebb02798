"""Connects a responder to an episode: its tools, its policy, and what it knows of the incident.

`open_bare_run` opens a run that is recorded in memory; `EpisodeResponder` is what answers the
alert.
"""

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
from hermes.environments.boxes.box import Box
from hermes.gym.box.environment import host_environment
from hermes.gym.episodes.episode import Episode
from hermes.gym.episodes.run_summary import CONCLUDE_TOOL, make_conclude_tool
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
    """A `Tool` that runs a command on a host by name. Enters a host at its first use."""

    def __init__(self, box: Box, names: tuple[str, ...], stack: AsyncExitStack) -> None:
        self._box, self._names, self._stack = box, names, stack
        self._environments: dict[str, Environment] = {}
        self.spec = host_terminal_spec(names)

    def command(self, arguments: Mapping[str, Any]) -> str:
        return self.validate(arguments).command

    def validate(self, arguments: Mapping[str, Any]) -> HostTerminalArguments:
        given = check_arguments(HOST_TERMINAL_TOOL, HostTerminalArguments, arguments)
        assert isinstance(given, HostTerminalArguments)
        if given.host not in self._names:
            raise ToolError(f"there is no host {given.host!r}; there are: {', '.join(self._names)}")
        return given

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        given = self.validate(arguments)
        environment = self._environments.get(given.host)
        if environment is None:
            number = self._names.index(given.host)
            host = host_environment(self._box, host=number, name=given.host)
            entered = await self._stack.enter_async_context(host)
            environment = self._environments[given.host] = entered
        result = await environment.run(given.command, timeout=COMMAND_TIMEOUT_S)
        return render_command_result(result, COMMAND_TIMEOUT_S)


OPERATOR_NAME = "drill"
AnsweredBy = Literal["playbook", "experiment", "model", "person", "nobody"]
CallTool = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]


@dataclass(frozen=True)
class ResponderContext:
    """All that a responder gets: the alert of the monitor, and ways to act."""

    alert: ScenarioAlert
    run: str
    incident: str
    call_tool: CallTool
    """Calls a tool by name; the call is decided, run and recorded like any other."""
    publish: Callable[..., Awaitable[Sequence[int]]]
    hosts: tuple[str, ...]
    """Names of the hosts; `terminal` acts on the first."""
    execute: Callable[[ToolCall], Awaitable[ToolResult]]
    """Like `call_tool`, for a responder that sets the ids of its calls itself."""


class EpisodeResponder(Protocol):
    """Answers an alert: playbooks, an agent with a model, or a script."""

    async def __call__(self, context: ResponderContext, /) -> AnsweredBy: ...


@dataclass(frozen=True)
class EpisodeRun:
    run: str
    bus: Bus
    execute: Callable[[ToolCall], Awaitable[ToolResult]]
    incident: str
    since: int = 0
    """Position of the last event in the journal before this run."""

    def responder_context(self, episode: Episode) -> ResponderContext:
        numbers = count(1)

        async def call_tool(tool: str, arguments: Mapping[str, Any]) -> ToolResult:
            call = ToolCall(f"{self.run}-{next(numbers)}", tool, dict(arguments))
            return await self.execute(call)

        spec = episode.spec
        return ResponderContext(
            alert=spec.alert,
            run=self.run,
            incident=self.incident,
            call_tool=call_tool,
            publish=self.bus.publish,
            hosts=tuple(host.name for host in spec.hosts),
            execute=self.execute,
        )


@dataclass(frozen=True, kw_only=True)
class BareEpisodeRun(EpisodeRun):
    """With the parts that `execute` uses, for a responder that builds its own."""

    executor: Executor
    environment: Environment
    artifacts: ArtifactStore


@asynccontextmanager
async def open_bare_run(episode: Episode, rules: RuleSet) -> AsyncGenerator[BareEpisodeRun, None]:
    journal, run = InMemoryJournal(), new_id("run")
    bus, incident, artifacts = Bus(journal), new_id("incident"), EpisodeArtifacts()
    async with AsyncExitStack() as stack:
        host = episode.spec.hosts[0].name
        environment = await stack.enter_async_context(host_environment(episode.box, name=host))
        tools = episode_tools(episode, journal, incident, stack) | {"terminal": make_terminal()}
        executor = Executor(tools, sandbox_policy(rules), answer_as_operator, bus)
        await bus.publish(RunStarted(run=run, origin="gym", task=episode.spec.alert.title[:200]))

        async def execute(call: ToolCall) -> ToolResult:
            context = ToolContext(run, environment, bus.publish, execute, artifacts, origin="gym")
            return await executor.execute(call, context)

        yield BareEpisodeRun(
            run,
            bus,
            execute,
            incident,
            executor=executor,
            environment=environment,
            artifacts=artifacts,
        )


def episode_tools(
    episode: Episode, journal: Any, incident: str, stack: AsyncExitStack
) -> dict[str, Tool]:
    """Tools that an agent has only in an episode."""
    tools: dict[str, Tool] = {CONCLUDE_TOOL: make_conclude_tool(journal, incident)}
    names = tuple(host.name for host in episode.spec.hosts)
    if len(names) > 1:
        tools[HOST_TERMINAL_TOOL] = HostTerminal(episode.box, names, stack)
    return tools


def sandbox_rules() -> RuleSet:
    """The bundled rules for isolated environments. Slow: read them once."""
    rules, _ = open_rule_set(PolicySettings(set="sandboxed"), Path("/nonexistent"), None, "/root")
    return rules


def sandbox_policy(rules: RuleSet) -> DocumentPolicy:
    context = ActionContext(cwd="/root", home="/root", workspace="/root")
    return DocumentPolicy(rules, ActionReader(analyse_command), context_of=lambda action: context)


async def answer_as_operator(action: Action, decision: Decision) -> Approval:
    """Approves only what the rule for tainted commands asks about, and refuses everything else.

    That rule asks when an unattended agent repeats text that it read on the host, which is true of
    most fixes. Nothing leaves the box, so they are safe to approve.
    """
    if action.isolated and decision.rule == TAINTED_RULE:
        return Approval(approved=True, by=OPERATOR_NAME)
    return Approval(approved=False, by="nobody")


class EpisodeArtifacts:
    """Keeps long texts in memory for one episode."""

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
