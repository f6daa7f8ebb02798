"""Writes trajectories as ShareGPT and as OpenAI messages: one JSON object for each line.

In ShareGPT calls are in `<tool_call>`, results in `<tool_response>`, reasoning in `<think>`; the
system prompt ends with `<tools>`. The same tags in a text are escaped: the slash inside JSON, the
bracket in plain text.
"""

import re
from typing import Any

import msgspec

from hermes.core.messages import Message, ToolCall, ToolSpec, describe_pictures
from hermes.gym.training.trajectory import Trajectory, group_by_speaker

SHAREGPT_ROLES = {"system": "system", "user": "human", "assistant": "gpt", "tool": "tool"}
TAG_PATTERN = re.compile(r"(<|&(?:amp;)*lt;)(/?(?:think|tools|tool_call|tool_response)>)")
TOOL_CALL_PATTERN = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


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
    messages = tuple(map(describe_pictures, trajectory.messages))
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


def _encode_json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace("</", "<\\/")


def escape_tags(text: str) -> str:
    return TAG_PATTERN.sub(lambda found: f"&{_escaped_bracket(found[1])}{found[2]}", text)


def _escaped_bracket(opened: str) -> str:
    return "lt;" if opened == "<" else f"amp;{opened[1:]}"


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
    message = describe_pictures(message)
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
