"""The messages of an OpenAI-compatible API, one run a line: what most trainers read today."""

from datetime import datetime
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.gym.trajectories.sharegpt import as_function, as_spec
from hermes.gym.trajectories.trajectory import About, Trajectory


def to_openai(trajectory: Trajectory) -> dict[str, Any]:
    """The object of one line."""
    return {
        "messages": [as_message(message) for message in trajectory.messages],
        "tools": [as_function(spec) for spec in trajectory.tools],
        "timestamp": trajectory.at.isoformat() if trajectory.at else None,
        "model": trajectory.model,
        "completed": trajectory.completed,
        "metadata": msgspec.to_builtins(trajectory.about),
    }


def as_message(message: Message) -> dict[str, Any]:
    if message.result is not None:
        told = {
            "role": "tool",
            "tool_call_id": message.result.call_id,
            "content": message.result.content,
        }
        # The API knows no status; a trainer that filters by it finds it, others do not mind.
        return told if message.result.status == "ok" else {**told, "status": message.result.status}
    said: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        said["reasoning"] = message.reasoning
    if message.calls:
        said["content"] = message.text or None
        said["tool_calls"] = [_call(call) for call in message.calls]
    return said


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.malformed or msgspec.json.encode(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def from_openai(line: str | bytes) -> Trajectory:
    """A line read back. Raises `SettingsError` when it is not one."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
        return Trajectory(
            messages=tuple(map(read_message, raw["messages"])),
            tools=tuple(map(as_spec, raw.get("tools") or ())),
            model=raw.get("model") or "",
            at=msgspec.convert(raw.get("timestamp"), datetime | None),
            completed=bool(raw.get("completed")),
            about=msgspec.convert(raw.get("metadata") or {"run": ""}, About),
        )
    except (ValueError, KeyError, TypeError) as error:
        kind = type(error).__name__
        raise SettingsError(f"not a line of OpenAI messages: {kind}: {error}") from error


def read_message(raw: dict[str, Any]) -> Message:
    if raw["role"] == "tool":
        result = ToolResult(
            call_id=raw["tool_call_id"],
            content=raw.get("content") or "",
            status=raw.get("status", "ok"),
        )
        return Message(role="tool", result=result)
    return Message(
        role=raw["role"],
        text=raw.get("content") or "",
        reasoning=raw.get("reasoning") or raw.get("reasoning_content") or "",
        calls=tuple(map(_read_call, raw.get("tool_calls") or ())),
    )


def _read_call(raw: dict[str, Any]) -> ToolCall:
    text = raw["function"].get("arguments") or "{}"
    try:
        arguments = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return ToolCall(raw["id"], raw["function"]["name"], {}, text)
    return ToolCall(raw["id"], raw["function"]["name"], arguments)
