"""Formats tool calls, results, messages, times, usage and the spinner as short texts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.cli.render.terminal_text import clean, clip
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Message, ToolCall, ToolResult, Usage
from hermes.plumbing.units import format_duration

if TYPE_CHECKING:
    from hermes.agent.history import ConversationHistory

TOOL_ICONS = {
    "terminal": "💻",
    "process": "⚙️",
    "read_file": "📖",
    "write_file": "📝",
    "edit_file": "📝",
    "patch": "📝",
    "list_files": "📁",
    "search_files": "🔎",
    "search": "🔎",
    "web": "🌐",
    "browser": "🌐",
    "delegate": "🧩",
    "memory": "🧠",
    "note": "🧠",
    "recall": "🧠",
    "skill": "📚",
    "clarify": "❓",
    "ask": "❓",
    "todo": "📋",
    "plan": "📋",
}
SUMMARY_ARGUMENTS = (
    "command",
    "path",
    "query",
    "pattern",
    "url",
    "question",
    "task",
    "name",
    "action",
    "id",
)
"""Arguments that identify a call by themselves, the most specific first."""


def tool_icon(tool: str) -> str:
    if tool in TOOL_ICONS:
        return TOOL_ICONS[tool]
    return next((icon for name, icon in TOOL_ICONS.items() if tool.startswith(name)), "🔧")


def call_line(call: ToolCall, width: int) -> str:
    """`💻 ls -la`; the tool name is added unless it is the terminal."""
    about = clean(_summarize_arguments(call.arguments) or call.malformed)
    name = "" if call.name == "terminal" and about else f"{clean(call.name)} "
    return f"{tool_icon(call.name)} {clip(name + about, max(width - 3, 10))}"


def _summarize_arguments(arguments: Mapping[str, Any]) -> str:
    for key in SUMMARY_ARGUMENTS:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return value
    return ", ".join(
        f"{key}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for key, value in arguments.items()
    )


def result_mark(result: ToolResult) -> str:
    return {"ok": "✓", "error": "✗", "denied": "✗ denied"}[result.status]


def result_lines(result: ToolResult, width: int, *, limit: int = 8) -> str:
    """The first `limit` lines of a result."""
    lines = clean(result.content).strip("\n").split("\n")
    shown = [f"  │ {clip(line, max(width - 4, 10))}" for line in lines[:limit]]
    if len(lines) > limit:
        shown.append(f"  │ … {len(lines) - limit} more lines")
    return "\n".join(shown)


def format_time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def format_usage(usage: Usage) -> str:
    """Tokens and cost. A cost of zero means that the price is unknown."""
    if not usage.tokens:
        return "tokens unknown"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f"${usage.cost_usd:.4f}" if usage.cost_usd else "price unknown"
    return f"{usage.input_tokens:,} in{cached} · {usage.output_tokens:,} out · {cost}"


def message_lines(messages: Sequence[Message], width: int, *, last: int = 0) -> list[str]:
    """Return one line per message; `last` keeps only that many at the end."""
    lines = []
    for message in messages:
        text = clip(clean(message.text), max(width - 4, 10))
        if message.role == "user" and text and not text.startswith(RECALL_NOTE_PREFIX):
            lines.append(f"❯ {text}")
        elif message.role == "assistant":
            lines += [f"  {text}"] if text else []
            if message.calls:
                names = ", ".join(clean(call.name) for call in message.calls)
                lines.append(f"  🔧 {clip(names, max(width - 6, 10))}")
    return lines[-last:]


def describe_interrupted_turn(history: "ConversationHistory", width: int) -> str:
    """Describe the open tool calls of an interrupted turn. They may have taken effect."""
    calls = history.unanswered()
    if not calls:
        return "the last turn was interrupted before its answer; continuing it"
    rows = [f"the last turn was interrupted in {len(calls)} tool call(s); continuing it:"]
    for call in calls:
        again = (
            "will run again" if history.may_run(call) else "may have taken effect; not run again"
        )
        rows.append(f"  {call_line(call, width - 44)} — {again}")
    return "\n".join(rows)


SPINNER_FACES = ("(◕‿◕)", "(◕ᴗ◕)", "(◔‿◔)", "(◕‿◕)", "(-‿-)", "(◕‿◕)")
SPINNER_HANDS = ("✧", "･", "✦", "･")
SPINNER_FRAME_S = 0.2


def spinner_frame(activity: str, elapsed: float, width: int) -> str:
    """Return one frame; empty without an activity."""
    if not activity:
        return ""
    frame = int(elapsed / SPINNER_FRAME_S)
    face, hand = (
        SPINNER_FACES[frame // 2 % len(SPINNER_FACES)],
        SPINNER_HANDS[frame % len(SPINNER_HANDS)],
    )
    took = format_duration(elapsed) if elapsed >= 10 else f"{int(elapsed)} s"
    return f"{hand} {face} {clip(activity, max(width - 20, 8))} · {took}"
