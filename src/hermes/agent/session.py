"""The state that all turns of one conversation share: dependencies, history, pending messages."""

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import InitVar, dataclass, field

from msgspec.structs import asdict, replace

from hermes.agent.budget import SpendingBudget, expected_spending
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.history import ConversationHistory
from hermes.agent.trust_tracking import DataMarker, TrustTracker
from hermes.core.errors import MalformedReply, ToolError
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, ModelAnswered
from hermes.core.messages import (
    MAX_SENT_PICTURES,
    Completion,
    LoadedPicture,
    Message,
    Picture,
    ToolCall,
    ToolSpec,
)
from hermes.core.protocols import Model, SeesPictures, StoresBytes, StreamsText, ToolContext
from hermes.models.message_format import pictures_of
from hermes.tools.executor import Executor

SECRET_WITHHELD_NOTE = (
    "what you wrote holds what looks like a secret: neither the journal nor the model got it, only "
    "«redacted:…» in its place. To let commands use it, export it as a variable before you start, "
    "name it in terminal.pass_variables, and speak of $ITS_NAME"
)


class ContextGauge:
    """Measures how full the context window is, without counting the whole conversation each
    time."""

    def __init__(
        self,
        estimate: Callable[[Sequence[Message], Sequence[ToolSpec]], int],
        tools: Sequence[ToolSpec],
    ) -> None:
        self._estimate = estimate
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
    unsent_pictures: set[str] = field(default_factory=set)
    """Pictures that the provider rejected, by artifact: only described from now on."""
    resumed: InitVar[bool] = False
    trust_tracker: TrustTracker = field(init=False)
    data_marker: DataMarker = field(init=False)

    def __post_init__(self, resumed: bool) -> None:
        self.trust_tracker = TrustTracker(self.run, self.dependencies.origin, resumed=resumed)
        self.data_marker = DataMarker(self.run)
        self.set_dependencies(self.dependencies, self.executor)

    def set_dependencies(self, dependencies: AgentDependencies, executor: Executor) -> None:
        self.dependencies, self.executor = dependencies, executor
        self.gauge = ContextGauge(self.estimate, self.specs)

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
        """The conversation as the model sees it: tool output is marked as data, and only the last
        pictures are left."""
        return self.data_marker.mark(
            self.with_described_pictures(self.history.view), self.history.remarks
        )

    def estimate(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        """Tokens of these messages as the model would see them."""
        return self.dependencies.estimate(self.with_described_pictures(messages), tools)

    def with_described_pictures(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages with words in the place of the pictures that are not sent."""
        if not any(map(pictures_of, messages)):
            return messages
        model = self.dependencies.model
        sees = isinstance(model, SeesPictures) and model.sees_pictures
        left, shown = MAX_SENT_PICTURES if sees else 0, list[Message]()
        for message in reversed(messages):
            kept, words = list[Picture](), list[str]()
            for picture in reversed(pictures_of(message)):
                if left and picture.fits and picture.artifact not in self.unsent_pictures:
                    kept.insert(0, picture)
                    left -= 1
                else:
                    words.insert(0, picture.describe())
            shown.append(_with_pictures(message, kept, words))
        return shown[::-1]

    async def load_pictures(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with the bytes of the pictures that are still in them."""
        return [
            _with_pictures(message, [await self._load(each) for each in found], ())
            if (found := pictures_of(message))
            else message
            for message in messages
        ]

    async def _load(self, picture: Picture) -> Picture:
        artifacts = self.dependencies.artifacts
        try:
            if isinstance(artifacts, StoresBytes):
                data = await artifacts.load_bytes(picture.artifact)
                return LoadedPicture(**asdict(picture), data=data)
        except ToolError:
            pass  # deleted meanwhile: the dialect describes it
        return picture

    def leave_out_pictures(self) -> bool:
        """Send no picture again that is sent now; False when there is none."""
        messages = self.with_described_pictures(self.history.view)
        sent = {each.artifact for message in messages for each in pictures_of(message)}
        self.unsent_pictures |= sent
        if sent:
            self.gauge.reset()
        return bool(sent)

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


def _with_pictures(message: Message, pictures: Sequence[Picture], words: Sequence[str]) -> Message:
    """The message with these pictures, and these words added."""
    if not words and tuple(pictures) == pictures_of(message):
        return message
    if message.result is None:
        text = "\n".join([message.text, *words]) if words else message.text
        return replace(message, text=text, pictures=tuple(pictures))
    content = "\n".join([message.result.content, *words]) if words else message.result.content
    result = replace(message.result, content=content, pictures=tuple(pictures))
    return replace(message, result=result)


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
    dependencies = session.dependencies
    reserve = dependencies.settings.output_reserve
    expected, usd = expected_spending(model, messages, tokens, reserve, dependencies.price)
    if usd is None and session.budget.has_money_limit:
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
    name, usage = completion.model or model.name, completion.usage + completion.beside
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
