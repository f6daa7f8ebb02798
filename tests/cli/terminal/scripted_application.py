"""An application with real conversations, executor and journal; its model and host are scripted."""

from collections.abc import AsyncIterator, Sequence

import anyio

from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.settings import AgentSettings
from hermes.core.actions import AnswersApprovals, Approver
from hermes.core.bus import Bus
from hermes.core.errors import ModelError, SettingsError
from hermes.core.events.runs import RunStarted
from hermes.core.messages import (
    Completion,
    CompletionDelta,
    Message,
    Risk,
    ToolCall,
    ToolSpec,
    Usage,
)
from hermes.core.protocols import CommandResult, ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.models.scripted import ScriptedModel
from hermes.policy.approvals.approver import JournalApprover
from hermes.policy.approvals.request import ApprovalOptions
from hermes.tools.declare import tool
from hermes.tools.executor import Executor
from idle_parts import IdleEnvironment, MemoryArtifacts
from risk_policy import RiskPolicy

HANG = "hang"
"""In a script: begin to answer and never end."""


class IdleHost(IdleEnvironment):
    """An environment that is not isolated, so that changes are asked about."""

    name, target, isolated = "local", "testhost", False

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        return CommandResult(exit_code=0, output=f"ran {command}")


class PacedModel:
    """Streams its script word by word, as slowly as `pace` says; `HANG` never comes to an end."""

    window = 200_000

    def __init__(self, script: Sequence[Message | ModelError | str], pace: float = 0.0) -> None:
        self.name = "test:paced"
        self.pace = pace
        self.seen: list[tuple[Message, ...]] = []
        self._script = iter(script)

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        async for item in self.stream(messages, tools):
            if isinstance(item, Completion):
                return item
        raise AssertionError("a stream ends with a completion")

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]:
        self.seen.append(tuple(messages))
        reply = next(self._script, HANG)  # a script that is over is a model that is gone
        if isinstance(reply, ModelError):
            raise reply
        if reply == HANG:
            yield CompletionDelta(text="hanging on")
            await anyio.sleep_forever()
        assert isinstance(reply, Message)
        if reply.reasoning:
            yield CompletionDelta(reasoning=reply.reasoning)
        for word in reply.text.split(" ") if reply.text else ():
            await anyio.sleep(self.pace)
            yield CompletionDelta(text=word + " ")
        yield Completion(message=reply, usage=Usage(100, 20), model=self.name)


@tool(risk=Risk.CHANGE)
async def terminal(context: ToolContext, command: str) -> str:
    """Run a shell command."""
    return (await context.environment.run(command)).output


@tool(risk=Risk.READ)
async def look(context: ToolContext, path: str = "") -> str:
    """Look at something."""
    return f"saw {path}"


@tool(risk=Risk.READ)
async def clarify(context: ToolContext, question: str, choices: tuple[str, ...] = ()) -> str:
    """Ask the person."""
    assert context.ask is not None
    return await context.ask(question, choices) or "(no answer)"


class ScriptedApplication:
    def __init__(
        self,
        script: Sequence[Message | ModelError | str],
        approver: Approver | AnswersApprovals,
        *,
        pace: float = 0.0,
        journal: InMemoryJournal | None = None,
        ask=None,
    ) -> None:
        self.journal = journal or InMemoryJournal()
        self.bus = Bus(self.journal)
        self.model = PacedModel(script, pace)
        self.gate = anyio.Event()

        @tool(risk=Risk.READ)
        async def wait(context: ToolContext) -> str:
            """Wait until the gate opens."""
            await self.gate.wait()
            return "open"

        tools = {each.spec.name: each for each in (terminal, look, clarify, wait)}
        policy = RiskPolicy()
        people = JournalApprover(self.bus, policy.decide, ApprovalOptions(), approver)
        self.means = AgentDependencies(
            model=self.model,
            executor=Executor(tools, policy, people, self.bus),
            environment=IdleHost(),
            bus=self.bus,
            artifacts=MemoryArtifacts(),
            settings=AgentSettings(),
            ask=ask,
        )

    async def begin(self, task: str = "") -> Conversation:
        return await Conversation.begin(self.means, task=task, system="", directory="")

    async def resume(self, run: str = "") -> Conversation:
        runs = [event.run for event in self.journal.events if isinstance(event, RunStarted)]
        if not runs:
            raise SettingsError("there is no conversation to resume")
        return await Conversation.resume(self.means, run or runs[-1])

    def open_model(self, reference: str) -> ScriptedModel:
        if reference == "no:such":
            raise SettingsError("no:such is not a model")
        return ScriptedModel([Message(role="assistant", text="from the other")], name=reference)

    async def checked_model(self, reference: str) -> ScriptedModel:
        return self.open_model(reference)


def says(text: str, *, reasoning: str = "") -> Message:
    return Message(role="assistant", text=text, reasoning=reasoning)


def calls(name: str, text: str = "", id: str = "", **arguments: object) -> Message:
    return Message(
        role="assistant", text=text, calls=(ToolCall(id or f"c-{name}", name, arguments),)
    )
