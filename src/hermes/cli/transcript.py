"""A run as a person reads it afterwards: who said what, which tools ran, what came back."""

from collections.abc import Iterable, Iterator
from typing import Literal

from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.runs import (
    ContextCompressed,
    MessageAdded,
    ModelSwitched,
    TurnEnded,
    TurnStarted,
    TurnUndone,
)
from hermes.core.events.tools import ToolApproved, ToolFinished, ToolRequested
from hermes.core.messages import Value

Role = Literal["system", "user", "assistant", "tool", "note"]


class Entry(Value, kw_only=True, frozen=True, omit_defaults=False):
    role: Role
    at: str
    text: str
    tool: str = ""
    undone: bool = False


def entries(events: Iterable[Event | Unknown]) -> list[Entry]:
    """In order. What was taken back with /undo is there, and marked."""
    known = [event for event in events if not isinstance(event, Unknown)]
    undone = {event.turn for event in known if isinstance(event, TurnUndone)}
    calls: dict[str, str] = {}
    told: list[Entry] = []
    turn = 0
    for event in known:
        if isinstance(event, TurnStarted):
            turn = event.turn
        at = event.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        for role, tool, text in _told(event, calls):
            told.append(Entry(role=role, at=at, text=text, tool=tool, undone=turn in undone))
    return told


def _told(event: Event, calls: dict[str, str]) -> Iterator[tuple[Role, str, str]]:
    match event:
        case MessageAdded(message=message) if message.text and message.role != "tool":
            yield message.role, "", message.text
        case ToolRequested(call=call):
            calls[call.id] = call.name
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            yield "note", call.name, f"{call.name}({arguments or call.malformed})"
        case ToolFinished(result=result):
            yield "tool", calls.get(result.call_id, ""), result.content
        case ToolApproved():
            verdict = "approved" if event.approved else "refused"
            yield "note", "", f"{verdict} by {event.by}"
        case ContextCompressed():
            yield "note", "", f"{event.dropped} older messages gave way to a summary"
        case ModelSwitched():
            yield "note", "", f"model is now {event.model}"
        case TurnEnded() if event.outcome != "answered":
            yield (
                "note",
                "",
                f"turn {event.outcome}" + (f": {event.reason}" if event.reason else ""),
            )
        case _:
            pass


def markdown(title: str, told: Iterable[Entry]) -> str:
    """The whole conversation as a document; fences are longer than any fence within."""
    parts = [f"# {title}\n"]
    for entry in told:
        if entry.undone or entry.role == "system":
            continue
        if entry.role == "tool":
            fence = "`" * max(3, _longest_ticks(entry.text) + 1)
            parts.append(f"{fence}\n{entry.text}\n{fence}\n")
        elif entry.role == "note":
            parts.append(f"*{entry.text}*\n")
        else:
            name = "You" if entry.role == "user" else "Hermes"
            parts.append(f"## {name} · {entry.at}\n\n{entry.text}\n")
    return "\n".join(parts)


def _longest_ticks(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
