"""Decides which events are indexed, and with which text, speaker and kind."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import FactNoted, MessageImported, RunSummarised
from hermes.core.events.runs import ContextCompressed, MessageAdded, RunRenamed
from hermes.core.events.tools import ProcessEnded, ProcessMatched, ToolFinished, ToolRequested
from hermes.core.knowledge import (
    OPEN_SESSION_HINT,
    RECALL_NOTE_PREFIX,
    SearchHitKind,
    SpeakerRole,
    TranscriptLine,
)

INDEXED_KINDS = frozenset(
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
INDEXED_KIND_PREFIXES = ("incident.", "alert.", "skill.")
"""Prefixes of kinds whose every string field is indexed."""
LINE_UPDATE_KINDS = frozenset(
    {"run.deleted", "message.forgotten", "memory.forgotten", "memory.confirmed", "memory.ended"}
)
"""Kinds that change lines which are indexed already."""
_AGENT_SPEAKERS = frozenset({"assistant", "hermes", "ai", "bot"})


def is_read_by_index(kind: str) -> bool:
    return (
        kind in INDEXED_KINDS or kind in LINE_UPDATE_KINDS or kind.startswith(INDEXED_KIND_PREFIXES)
    )


def line_from_event(seq: int, event: Event | UnknownEvent) -> TranscriptLine | None:
    """Return None when the event has nothing to find: an answer without words, or the system
    prompt, which is the same in every session and would be found in all of them."""
    found = _line_parts(event)
    if found is None:
        return None
    kind, role, speaker, text = found
    if not text.strip():
        return None
    return TranscriptLine(
        seq=seq,
        run=event.run,
        kind=kind,
        at=event.at,
        role=role,
        speaker=speaker,
        source=event.id if isinstance(event, MessageImported) else "",
        text=text,
    )


def _line_parts(event: Event | UnknownEvent) -> tuple[SearchHitKind, SpeakerRole, str, str] | None:
    match event:
        case MessageAdded(message=message) if message.text.startswith(RECALL_NOTE_PREFIX):
            return None  # earlier text shown again: found once is enough
        case MessageAdded(message=message) if message.role in ("user", "assistant"):
            role: SpeakerRole = "user" if message.role == "user" else "assistant"
            return "message", role, "", message.text
        case MessageImported():
            by = event.speaker.lower()
            return (
                "message",
                "assistant" if by in _AGENT_SPEAKERS else "user",
                event.speaker,
                event.text,
            )
        case ToolRequested(call=call):
            return "call", "assistant", call.name, _arguments_text(call.arguments) or call.malformed
        case ToolFinished(result=result) if not result.content.endswith(OPEN_SESSION_HINT):
            return "result", "tool", "", result.content
        case FactNoted():
            return "fact", "assistant", event.actor, event.text
    return _other_line_parts(event)


def _other_line_parts(
    event: Event | UnknownEvent,
) -> tuple[SearchHitKind, SpeakerRole, str, str] | None:
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
        case UnknownEvent():
            return "event", "tool", event.kind, _all_strings(msgspec.json.decode(event.body))
    if event.kind.startswith(INDEXED_KIND_PREFIXES):
        return "event", "tool", event.kind, _all_strings(msgspec.to_builtins(event))
    return None


def _arguments_text(arguments: Mapping[str, Any]) -> str:
    """A single text as it is; several with their names."""
    if len(arguments) == 1:
        (only,) = arguments.values()
        return only if isinstance(only, str) else msgspec.json.encode(only).decode()
    lines = (
        f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in arguments.items()
    )
    return "\n".join(lines)


def _all_strings(value: Any) -> str:
    match value:
        case str():
            return value
        case dict():
            rest = (inner for name, inner in value.items() if name not in ("kind", "run", "at"))
            return "\n".join(filter(None, map(_all_strings, rest)))
        case list() | tuple():
            return "\n".join(filter(None, map(_all_strings, value)))
        case datetime():
            return value.isoformat()
    return ""
