"""A model that is asked no more than it may be, nor after it has said what was asked of it."""

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
"""In place of the model's name where it was not asked."""
FINISHED_REPLY = "Written down."
TURNS_USED_REPLY = "All turns are used."


class TurnLimitedModel:
    """Fulfils `Model` and `StreamsText`. Once it is over it answers by itself, at no cost."""

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
            async for piece in self._model.stream(messages, tools):
                yield piece
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
    """Why it did not come to its own end."""


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
    """Whether it has said what was asked of it."""
    reminder: str
    """Said once, when it talks instead."""
    use_memory: bool = False
    """Whether it is told what memory has of the matter."""


async def run_agent(seat: AgentRun, text: str) -> AgentRunResult:
    """Raises `StoreError` alone: without a journal nothing may go on."""
    model = TurnLimitedModel(seat.model, seat.budget.turns, seat.finished)
    said, trouble = "", f"cut off after {seat.budget.seconds:g} s"
    try:
        with anyio.move_on_after(seat.budget.seconds):
            said = await _converse(seat, model, text)
            trouble = f"all {seat.budget.turns} turns were used" if model.turns_used else ""
    except StoreError:
        raise
    except HermesError as error:
        trouble = str(error)
    except Exception as error:  # noqa: BLE001 - one that dies must not take the others along
        trouble = f"{type(error).__name__}: {error}"
    return AgentRunResult(run=seat.run, reply=said, error=trouble[:500])


async def _converse(seat: AgentRun, model: TurnLimitedModel, text: str) -> str:
    talk = await Conversation.begin(
        _run_dependencies(seat, model),
        task=seat.title,
        run=seat.run,
        parent=seat.parent,
        system=seat.system,
    )
    reminder = seat.reminder
    try:
        said = await talk.say(text)
    except MalformedReply as error:
        said, reminder = "", f"{reminder} (Your last answer could not be read: {error})"
    if seat.finished() or model.turns_used:
        return said
    return await talk.say(reminder) or said


def _run_dependencies(seat: AgentRun, model: TurnLimitedModel) -> AgentDependencies:
    means, tokens = seat.dependencies, seat.budget.tokens
    limits = means.settings.limits
    if limits.subagent_tokens is not None:
        tokens = min(tokens, limits.subagent_tokens)
    settings = msgspec.structs.replace(
        means.settings,
        max_iterations=seat.budget.turns,
        max_depth=0,
        limits=msgspec.structs.replace(limits, subagent_tokens=tokens),
    )
    return replace(
        means,
        model=model,
        executor=seat.executor,
        settings=settings,
        ask=None,
        # Its task is made of an alert and of logs: nobody vouches for those words.
        origin="incident" if means.origin in HUMAN_ORIGINS else means.origin,
        sections=(),
        recall=means.recall if seat.use_memory else recall_nothing,
    )
