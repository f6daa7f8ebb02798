"""Formats tool calls, results, durations, times and usage as short texts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hermes.cli.render.terminal_text import clean, clip
from hermes.core.messages import ToolCall, ToolResult, Usage

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
