"""Writes and reads trajectories as ShareGPT and as OpenAI messages: one JSON object for each line.

In ShareGPT calls are in `<tool_call>`, results in `<tool_response>`, reasoning in `<think>`; the
system prompt ends with `<tools>`. The same tags in a text are escaped: the slash inside JSON, the
bracket in plain text.
"""

import re
from datetime import datetime
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, ToolSpec
from hermes.gym.training.trajectory import Trajectory, TrajectoryMetadata, group_by_speaker

SHAREGPT_ROLES = {"system": "system", "user": "human", "assistant": "gpt", "tool": "tool"}
TAG_PATTERN = re.compile(r"(<|&(?:amp;)*lt;)(/?(?:think|tools|tool_call|tool_response)>)")
ESCAPED_TAG_PATTERN = re.compile(
    r"&(amp;|(?=lt;))((?:amp;)*lt;)(/?(?:think|tools|tool_call|tool_response)>)"
)
TOOL_CALL_PATTERN = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
TOOL_RESPONSE_PATTERN = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
THINK_PATTERN = re.compile(r"<think>(.*?)</think>\n?", re.DOTALL)
TOOLS_PATTERN = re.compile(r"(?:\n\n)?<tools>(.*?)</tools>\Z", re.DOTALL)


def to_sharegpt(trajectory: Trajectory) -> dict[str, Any]:
    """The object of one line."""
    return {
        "conversations": to_conversations(trajectory),
        "timestamp": trajectory.at.isoformat() if trajectory.at else None,
        "model": trajectory.model,
        "completed": trajectory.completed,
        "metadata": msgspec.to_builtins(trajectory.about),
    }


def to_conversations(trajectory: Trajectory) -> list[dict[str, str]]:
    messages = trajectory.messages
    if not messages or messages[0].role != "system":
        messages = (Message(role="system"), *messages)  # for the tools
    names = {call.id: call.name for message in messages for call in message.calls}
    turns = []
    for number, step in enumerate(group_by_speaker(messages)):
        first = step[0]
        if first.role == "tool":
            value = "\n".join(_render_tool_response(each, names) for each in step)
        elif first.role == "assistant":
            value = _render_assistant(first)
        elif first.role == "system":
            value = _render_system(first.text, trajectory.tools if number == 0 else ())
        else:
            value = first.text
        turns.append({"from": SHAREGPT_ROLES[first.role], "value": value})
    return turns


def _render_assistant(message: Message) -> str:
    parts = [f"<think>{escape_tags(message.reasoning)}</think>"] if message.reasoning else []
    if message.text:
        parts.append(escape_tags(message.text))
    for call in message.calls:
        arguments: object = call.malformed or call.arguments
        parts.append(
            f"<tool_call>{_encode_json({'name': call.name, 'arguments': arguments})}</tool_call>"
        )
    return "\n".join(parts)


def _render_tool_response(message: Message, names: dict[str, str]) -> str:
    result = message.result
    assert result is not None
    body = {
        "tool_call_id": result.call_id,
        "name": names.get(result.call_id, ""),
        "content": result.content,
    }
    if result.status != "ok":
        body["status"] = result.status
    return f"<tool_response>{_encode_json(body)}</tool_response>"


def _render_system(text: str, tools: tuple[ToolSpec, ...]) -> str:
    parts = [escape_tags(text)] if text else []
    if tools:
        parts.append(f"<tools>{_encode_json([to_function_schema(spec) for spec in tools])}</tools>")
    return "\n\n".join(parts)


def to_function_schema(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}


def to_tool_spec(function: dict[str, Any]) -> ToolSpec:
    """The format has no risk: the highest is assumed."""
    return ToolSpec(**function["function"], risk=Risk.DESTROY)


def _encode_json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace("</", "<\\/")


def escape_tags(text: str) -> str:
    return TAG_PATTERN.sub(lambda found: f"&{_escaped_bracket(found[1])}{found[2]}", text)


def _escaped_bracket(opened: str) -> str:
    return "lt;" if opened == "<" else f"amp;{opened[1:]}"


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


def to_openai(trajectory: Trajectory) -> dict[str, Any]:
    """The object of one line."""
    return {
        "messages": [to_openai_message(message) for message in trajectory.messages],
        "tools": [to_function_schema(spec) for spec in trajectory.tools],
        "timestamp": trajectory.at.isoformat() if trajectory.at else None,
        "model": trajectory.model,
        "completed": trajectory.completed,
        "metadata": msgspec.to_builtins(trajectory.about),
    }


def to_openai_message(message: Message) -> dict[str, Any]:
    if message.result is not None:
        result = {
            "role": "tool",
            "tool_call_id": message.result.call_id,
            "content": message.result.content,
        }
        # The API has no status; it is added for trainers that filter by it.
        if message.result.status != "ok":
            result["status"] = message.result.status
        return result
    rendered: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        rendered["reasoning"] = message.reasoning
    if message.calls:
        rendered["content"] = message.text or None
        rendered["tool_calls"] = [_render_call(call) for call in message.calls]
    return rendered


def _render_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.malformed or msgspec.json.encode(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


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
