"""What a conversation needs in tests: a real executor, policy and journal, an idle environment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from hermes.agent.dependencies import AgentDependencies
from hermes.agent.settings import AgentSettings
from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.messages import Completion, Message, Risk, ToolCall, ToolSpec, Usage
from hermes.core.protocols import Model, Tool, ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel, ScriptedReply
from hermes.tools.declare import tool
from hermes.tools.executor import Executor
from idle_parts import IdleEnvironment, MemoryArtifacts
from risk_policy import RiskPolicy


class ByPosition:
    """Answers by how many answers it has given already, as a model that lives through a crash."""

    window = 200_000

    def __init__(self, script: Sequence[Message], *, name: str = "by-position") -> None:
        self.name = name
        self.script = script
        self.seen: list[tuple[Message, ...]] = []

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        self.seen.append(tuple(messages))
        position = sum(message.role == "assistant" for message in messages)
        if position < len(self.script):
            return Completion(message=self.script[position], model=self.name)
        return Completion(message=says("done"), model=self.name)


@dataclass
class AgentSetup:
    model: Model
    journal: InMemoryJournal = field(default_factory=InMemoryJournal)
    settings: AgentSettings = field(default_factory=AgentSettings)
    more_tools: Sequence[Tool] = ()
    approves: bool = True
    done: list[str] = field(default_factory=list)
    """What was really done, in order: the world that must not be changed twice."""
    now: int = 0
    most: int = 0
    """How many slow calls ran at once, and at most."""

    def __post_init__(self) -> None:
        self.bus = Bus(self.journal)
        self.artifacts = MemoryArtifacts()
        self.gate = anyio.Event()
        self.waiting = anyio.Event()

    @property
    def dependencies(self) -> AgentDependencies:
        tools = {tool.spec.name: tool for tool in (*self._tools(), *self.more_tools)}

        async def approver(action: Action, decision: Decision) -> Approval:
            return Approval(approved=self.approves, by="test")

        return AgentDependencies(
            model=self.model,
            executor=Executor(tools, RiskPolicy(), approver, self.bus),
            environment=IdleEnvironment(),
            bus=self.bus,
            artifacts=self.artifacts,
            settings=self.settings,
        )

    def kinds(self, run: str | None = None) -> list[str]:
        return [event.kind for event in self.journal.events if run in (None, event.run)]

    def events(self, kind: str) -> list[Any]:
        return [event for event in self.journal.events if event.kind == kind]

    def _tools(self) -> list[Tool]:
        @tool(risk=Risk.READ)
        async def look(context: ToolContext, what: str = "") -> str:
            """Look at something."""
            self.done.append(f"look {what}")
            return f"saw {what}"

        @tool(risk=Risk.CHANGE)
        async def change(context: ToolContext, what: str = "") -> str:
            """Change something."""
            self.done.append(f"change {what}")
            return f"changed {what}"

        @tool(risk=Risk.CHANGE, alone=True)
        async def alone(context: ToolContext, what: str = "") -> str:
            """Change something while nobody else does."""
            self.done.append(f"alone {what}")
            assert self.now == 0
            return f"changed {what} alone"

        @tool(risk=Risk.READ)
        async def fail(context: ToolContext, what: str = "") -> str:
            """Fail."""
            raise ToolError(f"no {what}")

        @tool(risk=Risk.READ)
        async def meet(context: ToolContext, others: int) -> str:
            """Wait until so many calls run at once."""
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == others:
                self.gate.set()
            with anyio.fail_after(120):
                await self.gate.wait()
            self.now -= 1
            return f"{others} met"

        @tool(risk=Risk.CHANGE)
        async def hang(context: ToolContext) -> str:
            """Never come back."""
            self.done.append("hang")
            self.waiting.set()
            await anyio.sleep_forever()
            return ""

        return [look, change, alone, fail, meet, hang]


def make_setup(replies: Iterable[ScriptedReply] | Model, **more: Any) -> AgentSetup:
    model = replies if hasattr(replies, "complete") else ScriptedModel(replies)
    return AgentSetup(model, **more)  # type: ignore[arg-type]


def says(text: str) -> Message:
    return Message(role="assistant", text=text)


def calls(*wanted: ToolCall, text: str = "") -> Message:
    return Message(role="assistant", text=text, calls=wanted)


def call(name: str, id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(id or f"{name}-{arguments.get('what', '')}", name, arguments)


def costs(message: Message, tokens: int, usd: float = 0.0) -> Completion:
    half = tokens // 2
    return Completion(message=message, usage=Usage(half, tokens - half, 0, usd), model="scripted")


async def after_crash(events: Sequence[Event]) -> InMemoryJournal:
    journal = InMemoryJournal()
    await journal.append(*events)
    return journal


def check_valid(messages: Sequence[Message]) -> None:
    """Every call is answered once, directly after its message, in order; nothing else answers."""
    expected: list[str] = []
    for message in messages:
        if message.result is not None:
            assert expected, f"an answer to nothing: {message.result}"
            assert message.result.call_id == expected.pop(0)
        else:
            assert not expected, f"never answered: {expected}"
            expected = [wanted.id for wanted in message.calls]
    assert not expected, f"never answered: {expected}"
