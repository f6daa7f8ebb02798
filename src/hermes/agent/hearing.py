"""Tells the gate whose words are in a run: what a person said and, after a resume, what was read.

While a run lives, the executor tells what tools bring along. All of it is told only when a tool is
about to be called: a conversation without tools never needs a gate.
"""

from collections.abc import AsyncIterator
from typing import Protocol, get_args, runtime_checkable

import msgspec

from hermes.agent.own_words import OWN_WORDS
from hermes.agent.prompt import untrusted_parts
from hermes.core.actions import Action, HearsText, Policy
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.events.happening import Origin, Unknown
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Risk, ToolResult
from hermes.core.protocols import Artifacts, Journal
from hermes.core.remembering import RECALLED

PEOPLE: frozenset[Origin] = frozenset({"cli", "python", "chat", "cron", "batch"})
"""Where the words of a turn are a person's. A subagent's come from a model, an incident's from an
alert, a drill's from a scenario."""
_OWN_VOICE, _PERSONS_ANSWER = "todo", "clarify"


@runtime_checkable
class Recalls(Protocol):
    """A policy that can be told what an earlier life of a run did."""

    def recalled(self, action: Action) -> None: ...


class Hearing:
    def __init__(self, run: str, origin: Origin, *, resumed: bool = False) -> None:
        self._run = run
        self._person = origin in PEOPLE
        self._said: list[str] = []
        self._read: list[str] = []
        self.knows_prompt = False
        # A subagent only comes back with the run it belongs to, which reads for its whole family.
        self._earlier_life = resumed and "/" not in run

    def note(self, event: Event) -> None:
        """Something was written down: if a person said it, its words are vouched for."""
        text = _said(event)
        if text and (self._person or text.startswith(RECALLED)):
            self._said.append(text)

    def read_prompt(self, prompt: str) -> None:
        """Notes and files of the working folder stand in the prompt; nobody vouches for them."""
        self._read += untrusted_parts(prompt)
        self.knows_prompt = True

    def answered(self, text: str) -> None:
        """By a person, to a question of ours."""
        self._said.append(text)

    async def tell(self, policy: Policy, journal: Journal, artifacts: Artifacts) -> None:
        if not isinstance(policy, HearsText):
            return
        if self._earlier_life:
            self._earlier_life, self._said = False, []  # what was said is in the journal as well
            await Retelling(self._run, self._person, policy, artifacts).tell(journal)
        for text in self._read:
            policy.heard(self._run, text, False)
        for text in self._said:
            policy.heard(self._run, text, not text.startswith(RECALLED))
        self._said, self._read = [], []


class Retelling:
    """What the journal has of a run and its subagents, told to a gate that was not there."""

    def __init__(self, run: str, person: bool, policy: HearsText, artifacts: Artifacts) -> None:
        self._run = run
        self._person = person
        self._policy = policy
        self._artifacts = artifacts
        self._asked: dict[str, ToolRequested] = {}

    async def tell(self, journal: Journal) -> None:
        async for event in _family(journal, self._run):
            text = _said(event) if event.run == self._run else ""
            if text.startswith(RECALLED):
                self._policy.heard(event.run, text, False)
            elif text and self._person:
                self._policy.heard(event.run, text, True)
            elif isinstance(event, ToolRequested):
                self._asked[event.call.id] = event
            elif isinstance(event, ToolStarted):
                self._recall(event)
            elif isinstance(event, ToolFinished):
                await self._hear(event)

    def _recall(self, event: ToolStarted) -> None:
        asked = self._asked.get(event.call_id)
        if asked is None or event.risk is Risk.READ or not isinstance(self._policy, Recalls):
            return
        known = asked.origin in get_args(Origin) and asked.environment
        if known:  # else it was written by an earlier version, which did not say
            self._policy.recalled(
                Action(
                    call=asked.call,
                    risk=asked.risk,
                    run=asked.run,
                    origin=msgspec.convert(asked.origin, Origin),
                    environment=asked.environment,
                    target=asked.target,
                    isolated=asked.isolated,
                    cwd=asked.cwd,
                    command=asked.command,
                )
            )

    async def _hear(self, event: ToolFinished) -> None:
        asked = self._asked.pop(event.result.call_id, None)
        name = asked.call.name if asked else ""
        if event.result.status != "denied" and name != _OWN_VOICE:
            text = await _whole(event.result, self._artifacts)
            self._policy.heard(event.run, text, name == _PERSONS_ANSWER)


async def _family(journal: Journal, run: str) -> AsyncIterator[Event | Unknown]:
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


async def _whole(result: ToolResult, artifacts: Artifacts) -> str:
    try:
        return await artifacts.load(result.artifact) if result.artifact else result.content
    except ToolError:  # cleared away meanwhile: what the model saw of it is still there
        return result.content


def _said(event: Event | Unknown) -> str:
    if not isinstance(event, MessageAdded) or event.message.role != "user":
        return ""
    return "" if event.message.text in OWN_WORDS else event.message.text
