"""The names of events for hooks and webhooks, and what is passed with each.

They are made of events of the journal, so they are the same for every entry point.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.core.events import Event
from hermes.core.events.approvals import ApprovalRequested, ApprovalSettled
from hermes.core.events.chats import ChatHandled, ChatReceived, ChatSessionEnded, message_key
from hermes.core.events.incidents import (
    IncidentClosed,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
)
from hermes.core.events.jobs import JobDue, JobEnded
from hermes.core.events.operations import HOOKS_RUN, GatewayStarted, HealthChecked
from hermes.core.events.runs import MessageAdded, RunStarted, TurnEnded, TurnStarted
from hermes.core.events.skills import SkillChanged
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.core.protocols import Journal, JournalRecord
from hermes.plumbing.problems import suggest_name

SESSION_ORIGINS = ("cli", "python", "chat", "web")
"""Origins of runs in which a person takes part."""
COMMAND_SUBJECT = "command"
_UPDATE_KINDS = (
    "incident.joined",
    "incident.graded",
    "incident.acknowledged",
    "incident.hint",
    "incident.reopened",
    "incident.phase",
    "incident.assessed",
    "incident.diagnosed",
    "incident.verified",
    "incident.recovered",
)
KINDS_BY_NAME: Mapping[str, tuple[str, ...]] = {
    "gateway:startup": ("gateway.started",),
    "session:start": ("run.started",),
    "session:end": ("chat.ended",),
    "session:reset": ("chat.ended",),
    "agent:start": ("turn.started",),
    "agent:step": ("tool.finished",),
    "agent:end": ("turn.ended",),
    "command:*": ("chat.handled",),
    "incident:opened": ("incident.opened",),
    "incident:updated": (*_UPDATE_KINDS, "incident.closed"),
    "incident:closed": ("incident.closed", "incident.recovered"),
    "approval:asked": ("approval.requested",),
    "approval:settled": ("approval.settled",),
    "job:due": ("job.due",),
    "job:ended": ("job.ended",),
    "skill:learned": ("skill.changed",),
    "health:failed": ("health.checked",),
}
"""The kinds of events in the journal that each name is made of."""
MAX_TEXT_CHARS = 4_000
MAX_KNOWN_RUNS = 500
_USABLE_STATES = ("validated", "trusted")


class HookEvent(Value, kw_only=True, frozen=True):
    """An event as hooks and webhooks get it."""

    name: str
    number: int
    """Its number in the journal: the same when it is passed again."""
    run: str
    context: dict[str, Any]


def event_name_problem(pattern: str) -> str:
    """Return why no event matches this pattern; empty when one may."""
    subject, colon, _ = pattern.partition(":")
    if pattern == "*" or (colon and subject == COMMAND_SUBJECT):
        return ""
    if any(matches_event(pattern, name) for name in KINDS_BY_NAME):
        return ""
    return f"there is no event {pattern!r}; {suggest_name(pattern, KINDS_BY_NAME)}"


def matches_event(pattern: str, name: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def kinds_of(patterns: tuple[str, ...]) -> frozenset[str]:
    """The kinds of the journal from which events with these names are made."""
    found: set[str] = set()
    for pattern in patterns:
        for name, kinds in KINDS_BY_NAME.items():
            is_command = name == "command:*" and pattern.startswith("command:")
            if matches_event(pattern, name) or is_command:
                found.update(kinds)
    return frozenset(found)


class HookEventReader:
    """Turns events of the journal into events for hooks; reads on where one needs another."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._runs: dict[str, RunStarted | None] = {}

    async def read(self, recorded: JournalRecord) -> HookEvent | None:
        """Return None for events that are not given to hooks."""
        event = recorded.event
        if not isinstance(event, Event) or event.run == HOOKS_RUN:
            return None
        context = {"number": recorded.seq, "at": event.at.isoformat(), "run": event.run}
        name = event_name(event)
        match event:
            case ToolFinished():
                context |= await self._step(event)
            case TurnEnded():
                context |= _fields(event) | {"response": await self._answer(event.run, recorded)}
            case ChatHandled():
                received = await self._received(event)
                if received is None:
                    return None
                name, more = _command(received)
                context |= more
            case IncidentRecovered():
                context |= _fields(event)
                if await self._is_escalated(event.run, recorded.seq):
                    name = "incident:closed"
            case _:
                context |= _fields(event)
        if not name:
            return None
        context |= await self._run_facts(event.run)
        return HookEvent(name=name, number=recorded.seq, run=event.run, context=context)

    async def _step(self, event: ToolFinished) -> dict[str, Any]:
        tool = ""
        async for recorded in self._journal.read(run=event.run, kinds=("tool.requested",)):
            found = recorded.event
            if isinstance(found, ToolRequested) and found.call.id == event.result.call_id:
                tool = found.call.name
        return {
            "tool": tool,
            "call": event.result.call_id,
            "status": event.result.status,
            "result": event.result.content[:MAX_TEXT_CHARS],
            "seconds": event.seconds,
        }

    async def _answer(self, run: str, ended: JournalRecord) -> str:
        text = ""
        async for recorded in self._journal.read(run=run, kinds=("message.added",)):
            event = recorded.event
            if recorded.seq > ended.seq:
                break
            if isinstance(event, MessageAdded) and event.message.role == "assistant":
                text = event.message.text or text
        return text[:MAX_TEXT_CHARS]

    async def _is_escalated(self, run: str, before: int) -> bool:
        """Return whether the incident of this run was left to people, so that its recovery ends
        it."""
        escalated = False
        kinds = ("incident.closed", "incident.reopened")
        async for recorded in self._journal.read(run=run, kinds=kinds):
            if recorded.seq > before:
                break
            if isinstance(recorded.event, IncidentClosed | IncidentReopened):
                escalated = getattr(recorded.event, "outcome", "") == "escalated"
        return escalated

    async def _received(self, handled: ChatHandled) -> ChatReceived | None:
        if handled.outcome != "command":
            return None
        async for recorded in self._journal.read(run=handled.run, kinds=("chat.received",)):
            event = recorded.event
            if isinstance(event, ChatReceived) and message_key(event.message) in handled.keys:
                return event
        return None

    async def _run_facts(self, run: str) -> dict[str, Any]:
        """Return where a run comes from and for whom it works; empty for what is no run."""
        if run not in self._runs:
            if len(self._runs) >= MAX_KNOWN_RUNS:
                self._runs.clear()
            self._runs[run] = None
            async for recorded in self._journal.read(run=run, kinds=("run.started",)):
                if isinstance(recorded.event, RunStarted):
                    self._runs[run] = recorded.event
                    break
        started = self._runs[run]
        return {} if started is None else {"origin": started.origin, "person": started.by}


def event_name(event: Event) -> str:
    """Return the name for hooks; empty for events that hooks do not get, and where the name needs
    another event."""
    match event:
        case RunStarted():
            return "session:start" if event.origin in SESSION_ORIGINS else ""
        case ChatSessionEnded():
            return "session:reset" if event.reason == "new" else "session:end"
        case SkillChanged():
            fresh = event.before not in _USABLE_STATES and not event.candidate
            return "skill:learned" if fresh and event.state in _USABLE_STATES else ""
        case IncidentClosed(outcome="escalated"):  # the problem continues
            return "incident:updated"
        case HealthChecked():
            return "" if event.ok else "health:failed"
        case _:
            if event.kind in _UPDATE_KINDS:
                return "incident:updated"
            return _NAMES_BY_TYPE.get(type(event), "")


_NAMES_BY_TYPE: Mapping[type[Event], str] = {
    GatewayStarted: "gateway:startup",
    TurnStarted: "agent:start",
    ToolFinished: "agent:step",
    TurnEnded: "agent:end",
    IncidentOpened: "incident:opened",
    IncidentClosed: "incident:closed",
    ApprovalRequested: "approval:asked",
    ApprovalSettled: "approval:settled",
    JobDue: "job:due",
    JobEnded: "job:ended",
}


def _fields(event: Event) -> dict[str, Any]:
    """All fields of an event; long texts are cut."""
    found: dict[str, Any] = msgspec.to_builtins(event)
    found["change"] = found.pop("kind")
    for name in ("run", "at"):
        found.pop(name, None)
    return {
        name: value[:MAX_TEXT_CHARS] if isinstance(value, str) else value
        for name, value in found.items()
    }


def _command(received: ChatReceived) -> tuple[str, dict[str, Any]]:
    word, _, argument = received.message.text.strip().partition(" ")
    command = visible_line(word.lstrip("/").partition("@")[0].lower(), 50)
    return f"{COMMAND_SUBJECT}:{command}", {
        "command": command,
        "arguments": argument.strip()[:MAX_TEXT_CHARS],
        "person": received.person,
        "chat": received.session,
    }
