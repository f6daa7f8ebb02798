"""Runs one agent conversation within limits of turns, tokens and time."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

import anyio
import msgspec

from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import AgentDependencies, recall_nothing
from hermes.agent.trust_tracking import HUMAN_ORIGINS
from hermes.core.errors import HermesError, MalformedReply, StoreError
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec, Value
from hermes.core.protocols import Model, StreamsText
from hermes.sre.settings import AgentBudget
from hermes.tools.executor import Executor

HERMES_MODEL_NAME = "hermes"
"""The model name of replies that Hermes gives itself."""
FINISHED_REPLY = "Written down."
TURNS_USED_REPLY = "All turns are used."


class TurnLimitedModel:
    """Calls the model at most `turns` times, and not after `over()` is true; then it replies itself
    at no cost. Implements `Model` and `StreamsText`."""

    def __init__(self, model: Model, turns: int, over: Callable[[], bool]) -> None:
        self._model, self._turns_left, self._finished = model, turns, over
        self.name, self.window = model.name, model.window

    @property
    def turns_used(self) -> bool:
        return self._turns_left <= 0 and not self._finished()

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        if (own := self._own_reply()) is not None:
            return own
        return await self._model.complete(messages, tools)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]:
        if (own := self._own_reply()) is not None:
            yield own
        elif isinstance(self._model, StreamsText):
            async for delta in self._model.stream(messages, tools):
                yield delta
        else:
            yield await self._model.complete(messages, tools)

    def _own_reply(self) -> Completion | None:
        if self._finished():
            return _completion(FINISHED_REPLY)
        if self._turns_left <= 0:
            return _completion(TURNS_USED_REPLY)
        self._turns_left -= 1
        return None


def _completion(text: str) -> Completion:
    return Completion(message=Message(role="assistant", text=text), model=HERMES_MODEL_NAME)


class AgentRunResult(Value, kw_only=True, frozen=True):
    run: str
    reply: str = ""
    error: str = ""
    """Why the run was ended early; empty when it was not."""


@dataclass(frozen=True)
class AgentRun:
    dependencies: AgentDependencies
    model: Model
    executor: Executor
    budget: AgentBudget
    run: str
    parent: str
    title: str
    system: str
    finished: Callable[[], bool]
    """Whether the agent has given its result."""
    reminder: str
    """Sent once, when the agent replies with text instead of its result."""
    use_memory: bool = False
    """Whether related memories are added to its prompt."""


async def run_agent(agent: AgentRun, text: str) -> AgentRunResult:
    """Raises only `StoreError`: nothing is done without a journal."""
    model = TurnLimitedModel(agent.model, agent.budget.turns, agent.finished)
    reply, failure = "", f"stopped after {agent.budget.seconds:g} s"
    try:
        with anyio.move_on_after(agent.budget.seconds):
            reply = await _converse(agent, model, text)
            failure = f"all {agent.budget.turns} turns were used" if model.turns_used else ""
    except StoreError:
        raise
    except HermesError as error:
        failure = str(error)
    except Exception as error:  # noqa: BLE001 - the failure of one agent must not end the others
        failure = f"{type(error).__name__}: {error}"
    return AgentRunResult(run=agent.run, reply=reply, error=failure[:500])


async def _converse(agent: AgentRun, model: TurnLimitedModel, text: str) -> str:
    conversation = await Conversation.begin(
        _run_dependencies(agent, model),
        task=agent.title,
        run=agent.run,
        parent=agent.parent,
        system=agent.system,
    )
    reminder = agent.reminder
    try:
        reply = await conversation.say(text)
    except MalformedReply as error:
        reply, reminder = "", f"{reminder} (Your last answer could not be read: {error})"
    if agent.finished() or model.turns_used:
        return reply
    return await conversation.say(reminder) or reply


def _run_dependencies(agent: AgentRun, model: TurnLimitedModel) -> AgentDependencies:
    dependencies, tokens = agent.dependencies, agent.budget.tokens
    limits = dependencies.settings.limits
    if limits.subagent_tokens is not None:
        tokens = min(tokens, limits.subagent_tokens)
    settings = msgspec.structs.replace(
        dependencies.settings,
        max_iterations=agent.budget.turns,
        max_depth=0,
        limits=msgspec.structs.replace(limits, subagent_tokens=tokens),
    )
    return replace(
        dependencies,
        model=model,
        executor=agent.executor,
        settings=settings,
        ask=None,
        # Its task contains an alert and logs, which are untrusted text.
        origin="incident" if dependencies.origin in HUMAN_ORIGINS else dependencies.origin,
        sections=(),
        recall=dependencies.recall if agent.use_memory else recall_nothing,
    )
