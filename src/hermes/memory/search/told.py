"""Which events say something worth finding, and what: the words, who said them, what they are."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.memory import FactNoted, MessageImported, RunSummarised
from hermes.core.events.runs import ContextCompressed, MessageAdded, RunRenamed
from hermes.core.events.tools import ProcessEnded, ProcessMatched, ToolFinished, ToolRequested
from hermes.core.recall import OPEN_ONE, HitKind, Line, Speaker
from hermes.core.remembering import RECALLED

KINDS = frozenset(
    {
        "message.added",
        "message.imported",
        "tool.requested",
        "tool.finished",
        "process.matched",
        "process.ended",
        "run.renamed",
        "run.summarised",
        "context.compressed",
        "memory.noted",
    }
)
FOREIGN = ("incident.", "alert.", "skill.")
"""Beginnings of kinds whose every word is found, whatever their fields are."""
_HERMES = frozenset({"assistant", "hermes", "ai", "bot"})


def worth_finding(kind: str) -> bool:
    return kind in KINDS or kind.startswith(FOREIGN)


def told(seq: int, event: Event | Unknown) -> Line | None:
    """None when the event has nothing to find: an answer without words, or the system prompt,
    which is the same in every session and would be found in all of them."""
    found = _told(event)
    if found is None:
        return None
    kind, role, speaker, text = found
    if not text.strip():
        return None
    return Line(
        seq=seq,
        run=event.run,
        kind=kind,
        at=event.at,
        role=role,
        speaker=speaker,
        source=event.id if isinstance(event, MessageImported) else "",
        text=text,
    )


def _told(event: Event | Unknown) -> tuple[HitKind, Speaker, str, str] | None:
    match event:
        case MessageAdded(message=message) if message.text.startswith(RECALLED):
            return None  # the past shown again: found once is enough
        case MessageAdded(message=message) if message.role in ("user", "assistant"):
            role: Speaker = "user" if message.role == "user" else "assistant"
            return "message", role, "", message.text
        case MessageImported():
            by = event.speaker.lower()
            return "message", "assistant" if by in _HERMES else "user", event.speaker, event.text
        case ToolRequested(call=call):
            return "call", "assistant", call.name, _arguments(call.arguments) or call.malformed
        case ToolFinished(result=result) if not result.content.endswith(OPEN_ONE):
            return "result", "tool", "", result.content
        case FactNoted():
            return "fact", "assistant", event.actor, event.text
    return _said_aside(event)


def _said_aside(event: Event | Unknown) -> tuple[HitKind, Speaker, str, str] | None:
    match event:
        case RunSummarised():
            return "summary", "assistant", "", event.summary
        case ContextCompressed():
            return "summary", "assistant", "", event.summary
        case RunRenamed():
            return "title", "user", "", event.title
        case ProcessMatched():
            return "event", "tool", event.process, event.line
        case ProcessEnded():
            return "event", "tool", event.process, event.tail
        case Unknown():
            return "event", "tool", event.kind, _strings(msgspec.json.decode(event.body))
    if event.kind.startswith(FOREIGN):
        return "event", "tool", event.kind, _strings(msgspec.to_builtins(event))
    return None


def _arguments(arguments: Mapping[str, Any]) -> str:
    """A single text as it is; several with their names."""
    if len(arguments) == 1:
        (only,) = arguments.values()
        return only if isinstance(only, str) else msgspec.json.encode(only).decode()
    lines = (
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in arguments.items()
    )
    return "\n".join(lines)


def _strings(value: Any) -> str:
    match value:
        case str():
            return value
        case dict():
            rest = (inner for name, inner in value.items() if name not in ("kind", "run", "at"))
            return "\n".join(filter(None, map(_strings, rest)))
        case list() | tuple():
            return "\n".join(filter(None, map(_strings, value)))
        case datetime():
            return value.isoformat()
    return ""
