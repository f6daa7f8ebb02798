"""Marks tool output as data for the model, and informs the policy which text is trusted.

Marks are added when a message is shown, not when it is recorded: the journal keeps one copy. They
depend on the run and the text alone, so a resumed conversation has the same prefix.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol, get_args, runtime_checkable

import msgspec
from msgspec.structs import replace

from hermes.agent.prompt import SYSTEM_NOTES, untrusted_parts
from hermes.core.actions import Action, Policy, TracksText
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.events.base import PROGRAM_ORIGINS, RunOrigin, UnknownEvent
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolFinished, ToolRequested, ToolStarted
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Message, Risk, ToolResult
from hermes.core.protocols import ArtifactStore, Journal, provides
from hermes.core.tool_calls import OpenToolCalls
from hermes.policy.taint.data_marks import mark_as_data

TRUSTED_TOOLS = frozenset({"clarify", "todo"})
"""Tools that return a person's answer, or the agent's own list: no untrusted text."""


ATTACHED_NAMES = {
    "quote": "a quoted message",
    "forward": "a forwarded message",
    "thread": "earlier messages of the thread",
    "file": "an attached file",
    "link": "the preview of a link",
    "transcript": "a recording",
    "output": "the output of a command",
    "job": "the result of another job",
    "webhook": "the body of a webhook",
}


class DataMarker:
    """Remembers what it marked: the same messages are shown repeatedly."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._shown: dict[str, tuple[Message, Message]] = {}

    def mark(self, messages: Sequence[Message], remarks: Mapping[str, str]) -> tuple[Message, ...]:
        """`remarks` are our own notes below a result, by call: they are no data."""
        tools = {call.id: call.name for message in messages for call in message.calls}
        return tuple(self._mark_message(message, tools, remarks) for message in messages)

    def _mark_message(
        self, message: Message, tools: Mapping[str, str], remarks: Mapping[str, str]
    ) -> Message:
        result = message.result
        if message.attached:
            return replace(message, text=text_with_attached(message, self._run), attached=())
        if result is None or result.status == "denied":  # a refusal is our own text
            return message
        source = tools.get(result.call_id, "a tool")
        if source in TRUSTED_TOOLS:
            return message
        before, after = self._shown.get(result.call_id, (None, message))
        if before is not message:
            after = replace(message, result=self._mark_result(result, source, remarks))
            self._shown[result.call_id] = message, after
        return after

    def _mark_result(
        self, result: ToolResult, source: str, remarks: Mapping[str, str]
    ) -> ToolResult:
        remark = remarks.get(result.call_id, "")
        text = result.content.removesuffix(remark)
        return replace(result, content=mark_as_data(text, source, self._run) + remark)


def text_with_attached(message: Message, run: str) -> str:
    """Return what the person typed, and below it the words of others between marks."""
    parts = [message.text] if message.text else []
    for part in message.attached:
        author = f", by {part.author}" if part.author else ""
        parts.append(mark_as_data(part.text, f"{ATTACHED_NAMES[part.source]}{author}", run))
    return "\n\n".join(parts)


HUMAN_ORIGINS: frozenset[RunOrigin] = frozenset(
    {"cli", "python", "chat", "cron", "batch", "web", "acp"}
)
"""Origins where the request is a person's. A subagent's comes from a model, an incident's from
an alert, a drill's from a scenario."""
_TODO_TOOL, _CLARIFY_TOOL = "todo", "clarify"


@runtime_checkable
class RecallsActions(Protocol):
    """A policy that can be informed of earlier actions of a run."""

    def record_earlier_action(self, action: Action) -> None: ...


class TrustTracker:
    def __init__(self, run: str, origin: RunOrigin, *, resumed: bool = False) -> None:
        self._run = run
        self._person = origin in HUMAN_ORIGINS
        self._program = origin in PROGRAM_ORIGINS
        self._trusted_texts: list[str] = []
        self._read: list[str] = []
        self.knows_prompt = False
        # A subagent is only resumed with its parent run, which reads for the whole family.
        self._replay_needed = resumed and "/" not in run

    def note(self, event: Event) -> None:
        """Something was recorded: if a person said it, its words are trusted."""
        text = _spoken_text(event)
        if text and (self._person or text.startswith(RECALL_NOTE_PREFIX)):
            self._trusted_texts.append(text)
        elif text and self._program:
            self._read.append(text)
        self._read += _attached_texts(event)

    def read_prompt(self, prompt: str) -> None:
        """Notes and files of the working folder are in the prompt; they are untrusted."""
        self._read += untrusted_parts(prompt)
        self.knows_prompt = True

    def answered(self, text: str) -> None:
        """A person answered a question of ours."""
        self._trusted_texts.append(text)

    async def inform_policy(
        self, policy: Policy, journal: Journal, artifacts: ArtifactStore
    ) -> None:
        if not provides(policy, TracksText):
            return
        if self._replay_needed:
            # The texts so far are in the journal as well, except for the prompt's.
            self._replay_needed, self._trusted_texts = False, []
            replay = TrustReplay(self._run, self._person, policy, artifacts, program=self._program)
            await replay.replay(journal)
        for text in self._read:
            policy.record_text(self._run, text, False)
        for text in self._trusted_texts:
            policy.record_text(self._run, text, not text.startswith(RECALL_NOTE_PREFIX))
        self._trusted_texts, self._read = [], []


class TrustReplay:
    """Replays the events of a run and its subagents to a policy that has not seen them."""

    def __init__(
        self,
        run: str,
        person: bool,
        policy: TracksText,
        artifacts: ArtifactStore,
        *,
        program: bool = False,
    ) -> None:
        self._run = run
        self._person = person
        self._program = program
        self._policy = policy
        self._artifacts = artifacts
        self._calls = OpenToolCalls()

    async def replay(self, journal: Journal) -> None:
        async for event in _family_events(journal, self._run):
            call = self._calls.apply(event)
            text = _spoken_text(event) if event.run == self._run else ""
            for attached in _attached_texts(event):
                self._policy.record_text(event.run, attached, False)
            if text.startswith(RECALL_NOTE_PREFIX):
                self._policy.record_text(event.run, text, False)
            elif text and (self._person or self._program):
                self._policy.record_text(event.run, text, self._person)
            elif isinstance(event, ToolStarted) and call is not None:
                self._recall(event, call.request)
            elif isinstance(event, ToolFinished):
                await self._note_result(event, call.name if call is not None else "")

    def _recall(self, event: ToolStarted, asked: ToolRequested) -> None:
        if event.risk is Risk.READ or not isinstance(self._policy, RecallsActions):
            return
        known = asked.origin in get_args(RunOrigin) and asked.environment
        if known:  # else it was written by an earlier version, without this field
            self._policy.record_earlier_action(
                Action(
                    call=asked.call,
                    risk=asked.risk,
                    run=asked.run,
                    origin=msgspec.convert(asked.origin, RunOrigin),
                    environment=asked.environment,
                    target=asked.target,
                    isolated=asked.isolated,
                    cwd=asked.cwd,
                    command=asked.command,
                    actor=asked.actor,
                    remote=asked.remote,
                    request=asked.request,
                    definition=asked.definition,
                )
            )

    async def _note_result(self, event: ToolFinished, name: str) -> None:
        if event.result.status != "denied" and name != _TODO_TOOL:
            text = await _full_result(event.result, self._artifacts)
            self._policy.record_text(event.run, text, name == _CLARIFY_TOOL)


async def _family_events(journal: Journal, run: str) -> AsyncIterator[Event | UnknownEvent]:
    """Events of a run and then of its subagents."""
    first = 0
    async for recorded in journal.read(run=run):
        first = first or recorded.seq
        yield recorded.event
    begun = journal.read(after=first, kinds=("run.started",))
    below = [one.event.run async for one in begun if one.event.run.startswith(f"{run}/")]
    for each in below:
        async for recorded in journal.read(run=each):
            yield recorded.event


async def _full_result(result: ToolResult, artifacts: ArtifactStore) -> str:
    try:
        return await artifacts.load(result.artifact) if result.artifact else result.content
    except ToolError:  # deleted meanwhile: what the model saw of it is still there
        return result.content


def _spoken_text(event: Event | UnknownEvent) -> str:
    if not isinstance(event, MessageAdded) or event.message.role != "user":
        return ""
    return "" if event.message.text in SYSTEM_NOTES else event.message.text


def _attached_texts(event: Event | UnknownEvent) -> list[str]:
    if not isinstance(event, MessageAdded):
        return []
    return [part.text for part in event.message.attached]
