"""Everything that a conversation needs, passed to it: it looks up nothing itself."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes.agent.budget import SpendingBudget
from hermes.agent.settings import AgentSettings
from hermes.core.bus import Bus
from hermes.core.events import Event
from hermes.core.events.base import RunOrigin
from hermes.core.messages import Message, ToolCall, ToolResult, ToolSpec, Usage
from hermes.core.protocols import (
    ArtifactStore,
    BackgroundProcesses,
    Environment,
    Model,
    ToolContext,
)
from hermes.models.message_format import estimate_tokens
from hermes.tools.executor import Executor


def unknown_price(model: str, usage: Usage) -> float | None:
    return None


async def recall_nothing(run: str, text: str) -> tuple[Event, ...]:
    return ()


@dataclass(frozen=True)
class AgentDependencies:
    model: Model
    """Already wrapped with retries and fallbacks."""
    executor: Executor
    environment: Environment
    bus: Bus
    artifacts: ArtifactStore
    settings: AgentSettings
    summary_model: Model | None = None
    open_model: Callable[[str], Model] | None = None
    """A model by name, for `delegate(model=...)` and resumed runs; raises `SettingsError`."""
    processes: BackgroundProcesses | None = None
    ask: Callable[[str, Sequence[str]], Awaitable[str | None]] | None = None
    price: Callable[[str, Usage], float | None] = unknown_price
    """US dollars of a usage; None when no price is known."""
    estimate: Callable[[Sequence[Message], Sequence[ToolSpec]], int] = estimate_tokens
    """Tokens of messages and tools before a provider has counted them."""
    origin: RunOrigin = "cli"
    by: str = ""
    """Who begins runs and turns, unless the caller names another person."""
    audience: str = ""
    """The address of a direct chat or a private thread: what is said is recalled only there."""
    platform: str = ""
    """What the environment runs on, as text for the prompt."""
    recall: Callable[[str, str], Awaitable[tuple[Event, ...]]] = recall_nothing
    """Called with the run and the request; returns what is known about it as events."""
    sections: tuple[str, ...] = ()
    """More sections of the prompt: notes, the list of skills. Fixed when a run begins."""
    budget: SpendingBudget | None = None
    """Shared by all conversations of a process, else one for each conversation."""


class RunSurroundings(Protocol):
    """The parts of the application that the tools of a run may use."""

    @property
    def environment(self) -> Environment: ...
    @property
    def bus(self) -> Bus: ...
    @property
    def artifacts(self) -> ArtifactStore: ...
    @property
    def processes(self) -> BackgroundProcesses | None: ...
    @property
    def origin(self) -> RunOrigin: ...


def execute_for_run(
    surroundings: RunSurroundings, run: str, executor: Executor, *, actor: str = ""
) -> Callable[[ToolCall], Awaitable[ToolResult]]:
    """A function that executes tool calls in this run, outside of a conversation."""

    async def execute(call: ToolCall) -> ToolResult:
        return await executor.execute(call, context)

    context = ToolContext(
        run,
        surroundings.environment,
        surroundings.bus.publish,
        execute,
        surroundings.artifacts,
        processes=surroundings.processes,
        origin=surroundings.origin,
        actor=actor,
    )
    return execute
