"""A run as a person reads it afterwards: who said what, which tools ran, what came back."""

from collections.abc import Iterable, Iterator
from typing import Literal

from hermes.core.errors import HermesError
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.events.memory import FactNoted, MessageImported, RunSummarised
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
from hermes.core.protocols import Recorded
from hermes.core.remembering import RECALLED

Role = Literal["system", "user", "assistant", "tool", "note"]


class Entry(Value, kw_only=True, frozen=True, omit_defaults=False):
    seq: int = 0
    """The number of its event in the journal."""
    role: Role
    at: str
    text: str
    tool: str = ""
    undone: bool = False


def entries(records: Iterable[Recorded]) -> list[Entry]:
    """In order. What was taken back with /undo is there, and marked."""
    known = [
        (recorded.seq, recorded.event)
        for recorded in records
        if not isinstance(recorded.event, Unknown)
    ]
    undone = {event.turn for _, event in known if isinstance(event, TurnUndone)}
    calls: dict[str, str] = {}
    told: list[Entry] = []
    turn = 0
    for seq, event in known:
        if isinstance(event, TurnStarted):
            turn = event.turn
        at = event.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        for role, tool, text in _told(event, calls):
            entry = Entry(seq=seq, role=role, at=at, text=text, tool=tool, undone=turn in undone)
            told.append(entry)
    return told


def around(told: list[Entry], seq: int, reach: int = 2) -> list[Entry]:
    """The entry with that number, and the ones beside it. Raises `HermesError` without one."""
    places = [place for place, entry in enumerate(told) if entry.seq == seq]
    if not places:
        raise HermesError(f"there is nothing to show at {seq} in this run; leave out --at")
    return told[max(0, places[0] - reach) : places[-1] + reach + 1]


def _told(event: Event, calls: dict[str, str]) -> Iterator[tuple[Role, str, str]]:
    match event:
        case MessageAdded(message=message) if message.text and message.role != "tool":
            recalled = message.text.startswith(RECALLED)
            yield "note" if recalled else message.role, "", message.text
        case MessageImported():
            yield "user", "", f"{event.speaker}: {event.text}" if event.speaker else event.text
        case ToolRequested(call=call):
            calls[call.id] = call.name
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            yield "note", call.name, f"{call.name}({arguments or call.malformed})"
        case ToolFinished(result=result):
            yield "tool", calls.get(result.call_id, ""), result.content
        case _:
            if note := _note(event):
                yield "note", "", note


def _note(event: Event) -> str:
    """What happened beside the talking; empty for what need not be told."""
    match event:
        case ToolApproved():
            return f"{'approved' if event.approved else 'refused'} by {event.by}"
        case ContextCompressed():
            return f"{event.dropped} older messages gave way to a summary"
        case ModelSwitched():
            return f"model is now {event.model}"
        case RunSummarised():
            return f"summary ({event.method}):\n{event.summary}"
        case FactNoted():
            return f"noted: {event.text}"
        case TurnEnded() if event.outcome != "answered":
            return f"turn {event.outcome}" + (f": {event.reason}" if event.reason else "")
    return ""


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
