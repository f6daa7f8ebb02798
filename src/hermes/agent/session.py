"""What the turns of one conversation share: dependencies, history, and pending messages."""

import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import InitVar, dataclass, field

from msgspec.structs import replace

from hermes.agent.budget import SpendingBudget
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.history import ConversationHistory
from hermes.agent.trust_tracking import DataMarker, TrustTracker
from hermes.core.errors import MalformedReply
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, ModelAnswered
from hermes.core.messages import Completion, Message, ToolCall, ToolSpec, Usage
from hermes.core.protocols import Model, StreamsText, ToolContext
from hermes.tools.executor import Executor

SECRET_WITHHELD_NOTE = (
    "what you wrote holds what looks like a secret: neither the journal nor the model got it, only "
    "«redacted:…» in its place. To let commands use it, export it as a variable before you start, "
    "name it in terminal.pass_variables, and speak of $ITS_NAME"
)


class ContextGauge:
    """How full the context window is, without counting the whole conversation at each call."""

    def __init__(self, dependencies: AgentDependencies, tools: Sequence[ToolSpec]) -> None:
        self._estimate = dependencies.estimate
        self._tools = tools
        self._known: tuple[int, int] | None = None

    def tokens(self, messages: Sequence[Message]) -> int:
        if self._known is None or self._known[1] > len(messages):
            tokens = self._estimate(messages, self._tools)
        else:
            tokens = self._known[0] + self._estimate(messages[self._known[1] :], ())
        self._known = tokens, len(messages)
        return tokens

    def set_measured(self, tokens: int, messages: int) -> None:
        """Set the provider's count: more exact than an estimate."""
        if tokens:
            self._known = tokens, messages

    def reset(self) -> None:
        self._known = None


@dataclass
class ConversationSession:
    run: str
    dependencies: AgentDependencies
    history: ConversationHistory
    executor: Executor
    budget: SpendingBudget
    gauge: ContextGauge = field(init=False)
    inbox: deque[Message] = field(default_factory=deque)
    """Messages sent while a turn runs, added before the next call of the model."""
    notes: list[str] = field(default_factory=list)
    """What the person should know once, such as a limit that cannot be checked."""
    notes_kept: int = 0
    """How many of the notes are in the journal already."""
    failed_compressions: int = 0
    resumed: InitVar[bool] = False
    trust_tracker: TrustTracker = field(init=False)
    data_marker: DataMarker = field(init=False)

    def __post_init__(self, resumed: bool) -> None:
        self.trust_tracker = TrustTracker(self.run, self.dependencies.origin, resumed=resumed)
        self.data_marker = DataMarker(self.run)
        self.set_dependencies(self.dependencies, self.executor)

    def set_dependencies(self, dependencies: AgentDependencies, executor: Executor) -> None:
        self.dependencies, self.executor = dependencies, executor
        self.gauge = ContextGauge(dependencies, self.specs)

    @property
    def specs(self) -> list[ToolSpec]:
        """Computed each time: a tool that this run made is available in its next step."""
        return self.executor.specs

    async def record(self, *events: Event) -> None:
        """Record first; only what is in the journal has happened."""
        for original, (_, kept) in zip(
            events, await self.dependencies.bus.record(*events), strict=True
        ):
            self.history.apply(kept)
            self.trust_tracker.note(kept)
            if (
                isinstance(original, MessageAdded)
                and original.message.role == "user"
                and kept != original
            ):
                self.note(SECRET_WITHHELD_NOTE)

    def visible_messages(self) -> tuple[Message, ...]:
        """The conversation as the model sees it: tool output is marked as data."""
        return self.data_marker.mark(self.history.view, self.history.remarks)

    async def inform_policy(self) -> None:
        """Inform the policy of the texts since the last call."""
        dependencies = self.dependencies
        if not self.trust_tracker.knows_prompt:
            first = next(iter(self.history.view), None)
            self.trust_tracker.read_prompt(first.text if first and first.role == "system" else "")
        await self.trust_tracker.inform_policy(
            self.executor.policy, dependencies.bus.journal, dependencies.artifacts
        )

    async def _ask(self, question: str, choices: Sequence[str]) -> str | None:
        ask = self.dependencies.ask
        answer = await ask(question, choices) if ask is not None else None
        if answer is not None:
            self.trust_tracker.answered(answer)
        return answer

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def new_notes(self) -> list[str]:
        new, self.notes_kept = self.notes[self.notes_kept :], len(self.notes)
        return new

    @property
    def context(self) -> ToolContext:
        dependencies = self.dependencies
        return ToolContext(
            run=self.run,
            environment=dependencies.environment,
            publish=dependencies.bus.publish,
            call=lambda call: self.executor.execute(call, self.context),
            artifacts=dependencies.artifacts,
            ask=self._ask if dependencies.ask is not None else None,
            processes=dependencies.processes,
            origin=dependencies.origin,
            actor=self.history.by,
        )


@asynccontextmanager
async def call_model(
    session: ConversationSession,
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    tokens: int,
    shown: bool = True,
) -> AsyncGenerator[tuple[Completion, ModelAnswered], None]:
    """The answer, and the event with its cost, to be recorded inside the `async with`: until then
    the money is reserved, so that another subagent cannot spend it as well.

    Raises `ModelError` and `BudgetExceeded`.
    """
    dependencies, expected = (
        session.dependencies,
        Usage(tokens, session.dependencies.settings.output_reserve),
    )
    usd = dependencies.price(model.name, expected) if session.budget.has_money_limit else 0.0
    if usd is None:
        session.note(
            f"no price is known for {model.name}: limits in money cannot be checked before its "
            "calls (limits in tokens hold)"
        )
    own = dependencies.settings.limits.subagent_tokens if "/" in session.run else None
    async with session.budget.reserve(session.run, expected, usd, own_tokens=own):
        started = time.monotonic()
        if shown and isinstance(model, StreamsText):
            completion = await _stream_answer(session, model, messages, tools)
        else:
            completion = await model.complete(messages, tools)
        yield completion, _answer_event(session, model, completion, time.monotonic() - started)


async def ask_aside(session: ConversationSession, model: Model, prompt: str, text: str) -> str:
    """The answer to a question that is no part of the conversation; its cost is recorded.

    Raises `ModelError` and `BudgetExceeded`.
    """
    messages = [Message(role="system", text=prompt), Message(role="user", text=text)]
    tokens = session.dependencies.estimate(messages, ())
    async with call_model(session, model, messages, (), tokens=tokens, shown=False) as answer:
        completion, cost = answer
        await session.record(cost)
    return completion.message.text


async def _stream_answer(
    session: ConversationSession,
    model: StreamsText,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
) -> Completion:
    completion: Completion | None = None
    async for item in model.stream(messages, tools):
        if isinstance(item, Completion):
            completion = item
        else:
            session.dependencies.bus.glimpse(session.run, item)
    if completion is None:
        raise MalformedReply("the stream ended before the answer was whole")
    return completion


def _answer_event(
    session: ConversationSession, model: Model, completion: Completion, seconds: float
) -> ModelAnswered:
    name, usage = completion.model or model.name, completion.usage
    if not usage.cost_usd:
        usage = replace(usage, cost_usd=session.dependencies.price(name, usage) or 0.0)
    return ModelAnswered(run=session.run, model=name, usage=usage, seconds=seconds)


def with_unique_call_ids(message: Message, taken: set[str]) -> Message:
    """The message with call ids that exist and are unique in the run; models repeat them.

    Results are matched to calls, and artifacts named, by these ids alone.
    """
    calls: list[ToolCall] = []
    used_ids: set[str] = set()
    for call in message.calls:
        id, number = call.id or "call", 1
        while id in used_ids or id in taken:
            number += 1
            id = f"{call.id or 'call'}-{number}"
        used_ids.add(id)
        calls.append(call if id == call.id else replace(call, id=id))
    return message if tuple(calls) == message.calls else replace(message, calls=tuple(calls))
