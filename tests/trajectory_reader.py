"""Reads the lines of trajectories back, to compare them with what was written."""

import re
from datetime import datetime
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, ToolSpec
from hermes.gym.training.trajectory import Trajectory, TrajectoryMetadata
from hermes.gym.training.trajectory_formats import TOOL_CALL_PATTERN

ESCAPED_TAG_PATTERN = re.compile(
    r"&(amp;|(?=lt;))((?:amp;)*lt;)(/?(?:think|tools|tool_call|tool_response)>)"
)
TOOL_RESPONSE_PATTERN = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
THINK_PATTERN = re.compile(r"<think>(.*?)</think>\n?", re.DOTALL)
TOOLS_PATTERN = re.compile(r"(?:\n\n)?<tools>(.*?)</tools>\Z", re.DOTALL)


def to_tool_spec(function: dict[str, Any]) -> ToolSpec:
    """The format has no risk: the highest is assumed."""
    return ToolSpec(**function["function"], risk=Risk.DESTROY)


def unescape_tags(text: str) -> str:
    return ESCAPED_TAG_PATTERN.sub(
        lambda found: f"&{found[2]}{found[3]}" if found[1] else f"<{found[3]}", text
    )


def from_sharegpt(line: str | bytes) -> Trajectory:
    """Reads a line back. Raises `SettingsError` when it has another format."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
        messages, tools = _read_turns(raw["conversations"])
        return Trajectory(
            messages=messages,
            tools=tools,
            model=raw.get("model") or "",
            at=msgspec.convert(raw.get("timestamp"), datetime | None),
            completed=bool(raw.get("completed")),
            about=msgspec.convert(raw.get("metadata") or {"run": ""}, TrajectoryMetadata),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"not a ShareGPT line: {type(error).__name__}: {error}") from error


def _read_turns(turns: list[dict[str, str]]) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...]]:
    messages: list[Message] = []
    tools: tuple[ToolSpec, ...] = ()
    for number, turn in enumerate(turns):
        who, value = turn["from"], turn["value"]
        if who == "system":
            found = TOOLS_PATTERN.search(value)
            if found:
                tools = tuple(map(to_tool_spec, msgspec.json.decode(found[1])))
                value = value[: found.start()]
            if value:
                messages.append(Message(role="system", text=unescape_tags(value)))
        elif who == "human":
            messages.append(Message(role="user", text=value))
        elif who == "tool":
            messages.extend(
                _read_tool_result(each) for each in TOOL_RESPONSE_PATTERN.findall(value)
            )
        else:
            following = turns[number + 1]["value"] if number + 1 < len(turns) else ""
            messages.append(_read_assistant(value, TOOL_RESPONSE_PATTERN.findall(following)))
    return tuple(messages), tools


def _read_assistant(value: str, answers: list[str]) -> Message:
    """`answers`: the tool responses in the order of the calls; they hold the ids."""
    ids = [msgspec.json.decode(each)["tool_call_id"] for each in answers]
    calls = []
    for number, body in enumerate(TOOL_CALL_PATTERN.findall(value)):
        raw = msgspec.json.decode(body)
        id = ids[number] if number < len(ids) else f"call-{number + 1}"
        wrong = raw["arguments"] if isinstance(raw["arguments"], str) else ""
        calls.append(ToolCall(id, raw["name"], {} if wrong else raw["arguments"], wrong))
    thought = THINK_PATTERN.match(value)
    rest = value[thought.end() :] if thought else value
    opened = rest.find("<tool_call>")
    text = rest if opened < 0 else rest[:opened].removesuffix("\n")
    reasoning = unescape_tags(thought[1]) if thought else ""
    return Message(
        role="assistant", text=unescape_tags(text), reasoning=reasoning, calls=tuple(calls)
    )


def _read_tool_result(body: str) -> Message:
    raw = msgspec.json.decode(body)
    status = raw.get("status", "ok")
    result = ToolResult(call_id=raw["tool_call_id"], content=raw["content"], status=status)
    return Message(role="tool", result=result)


def from_openai(line: str | bytes) -> Trajectory:
    """Reads a line back. Raises `SettingsError` when it has another format."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
        return Trajectory(
            messages=tuple(map(read_openai_message, raw["messages"])),
            tools=tuple(map(to_tool_spec, raw.get("tools") or ())),
            model=raw.get("model") or "",
            at=msgspec.convert(raw.get("timestamp"), datetime | None),
            completed=bool(raw.get("completed")),
            about=msgspec.convert(raw.get("metadata") or {"run": ""}, TrajectoryMetadata),
        )
    except (ValueError, KeyError, TypeError) as error:
        kind = type(error).__name__
        raise SettingsError(f"not a line of OpenAI messages: {kind}: {error}") from error


def read_openai_message(raw: dict[str, Any]) -> Message:
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
