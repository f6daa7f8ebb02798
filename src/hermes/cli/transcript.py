"""A run as a person reads it afterwards: who said what, which tools ran, what came back."""

from collections.abc import Iterable, Iterator
from typing import Literal

from hermes.core import events as ev
from hermes.core.messages import Value

Role = Literal["system", "user", "assistant", "tool", "note"]


class Entry(Value, kw_only=True, frozen=True, omit_defaults=False):
    role: Role
    at: str
    text: str
    tool: str = ""
    undone: bool = False


def entries(events: Iterable[ev.Event | ev.Unknown]) -> list[Entry]:
    """In order. What was taken back with /undo is there, and marked."""
    known = [event for event in events if not isinstance(event, ev.Unknown)]
    undone = {event.turn for event in known if isinstance(event, ev.TurnUndone)}
    calls: dict[str, str] = {}
    told: list[Entry] = []
    turn = 0
    for event in known:
        if isinstance(event, ev.TurnStarted):
            turn = event.turn
        at = event.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        for role, tool, text in _told(event, calls):
            told.append(Entry(role=role, at=at, text=text, tool=tool, undone=turn in undone))
    return told


def _told(event: ev.Event, calls: dict[str, str]) -> Iterator[tuple[Role, str, str]]:
    match event:
        case ev.MessageAdded(message=message) if message.text and message.role != "tool":
            yield message.role, "", message.text
        case ev.ToolRequested(call=call):
            calls[call.id] = call.name
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            yield "note", call.name, f"{call.name}({arguments or call.malformed})"
        case ev.ToolFinished(result=result):
            yield "tool", calls.get(result.call_id, ""), result.content
        case ev.ToolApproved():
            verdict = "approved" if event.approved else "refused"
            yield "note", "", f"{verdict} by {event.by}"
        case ev.ContextCompressed():
            yield "note", "", f"{event.dropped} older messages gave way to a summary"
        case ev.ModelSwitched():
            yield "note", "", f"model is now {event.model}"
        case ev.TurnEnded() if event.outcome != "answered":
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
