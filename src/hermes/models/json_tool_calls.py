"""Tool calls for models without them: one JSON object per reply, constrained by a schema.

Small models do not call tools dependably, but a grammar forces them to. A reply is either `{"tool":
name, "arguments": {...}}` or `{"answer": text}`.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from hermes.core.errors import MalformedReply
from hermes.core.messages import Message, ToolCall, ToolSpec

MAX_ANSWER_CHARS = 2_000
_ANSWER_START = re.compile(r'\{\s*"answer"\s*:\s*"')


def reply_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [
        _object_schema(tool={"const": tool.name}, arguments=_closed_schema(tool.parameters))
        for tool in tools
    ]
    choices.append(_object_schema(answer={"type": "string", "maxLength": MAX_ANSWER_CHARS}))
    return {"anyOf": choices}


def _closed_schema(schema: Any) -> Any:
    """The schema, in which no object may have other properties: the grammar must not offer any."""
    if isinstance(schema, list):
        return [_closed_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _closed_schema(value) for key, value in schema.items()}
    if "properties" in inner and isinstance(inner["properties"], dict):
        inner.setdefault("additionalProperties", False)
    return inner


def _object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def reply_instructions(tools: Sequence[ToolSpec]) -> str:
    """Return how to reply, for the end of the system prompt; short, because prompt time is CPU
    time."""
    lines = [
        'Reply with one JSON object: {"tool": NAME, "arguments": {...}} to use a tool, '
        'or {"answer": TEXT} when you are done. Tools:'
    ]
    for tool in tools:
        names = ", ".join(tool.parameters.get("properties", {}))
        lines.append(f"{tool.name}({names}): {tool.description.splitlines()[0]}")
    return "\n".join(lines)


def render_messages(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[dict[str, str]]:
    """The conversation with calls and results as plain text, for a chat template without tools."""
    written: list[dict[str, str]] = []
    for message in messages:
        if message.role == "system":
            text = f"{message.text}\n\n{reply_instructions(tools)}" if tools else message.text
            written.append({"role": "system", "content": text})
        elif message.role == "tool" and message.result is not None:
            written.append({"role": "user", "content": f"Result:\n{message.result.content}"})
        elif message.role == "assistant":
            written.append({"role": "assistant", "content": _render_reply(message, tools)})
        else:
            written.append({"role": "user", "content": message.text})
    return written


def _render_reply(message: Message, tools: Sequence[ToolSpec]) -> str:
    if message.calls:
        return "\n".join(
            json.dumps({"tool": call.name, "arguments": call.arguments}) for call in message.calls
        )
    return json.dumps({"answer": message.text}) if tools else message.text


def parse_reply(text: str, *, call_id: str, cut: bool) -> Message:
    """A reply as a message. A cut-off answer is still an answer; a cut-off call is not a call."""
    try:
        reply = json.loads(text)
    except ValueError:
        if cut and _ANSWER_START.match(text):
            return Message(role="assistant", text=visible_answer(text))
        raise MalformedReply(f"the model's reply is not one JSON object: {text[:200]!r}") from None
    if isinstance(reply, dict) and isinstance(reply.get("answer"), str):
        return Message(role="assistant", text=reply["answer"])
    if isinstance(reply, dict) and isinstance(reply.get("tool"), str):
        arguments = reply.get("arguments")
        call = ToolCall(call_id, reply["tool"], arguments if isinstance(arguments, dict) else {})
        return Message(role="assistant", calls=(call,))
    raise MalformedReply(f"the model's reply is neither a call nor an answer: {text[:200]!r}")


def visible_answer(text: str) -> str:
    """The readable part of an incomplete answer; empty while it is a call."""
    opening = _ANSWER_START.match(text)
    if opening is None:
        return ""
    raw = text[opening.end() :]
    closing = re.search(r'(?<!\\)(?:\\\\)*"', raw)
    if closing:
        raw = raw[: closing.end() - 1]
    for end in range(len(raw), max(-1, len(raw) - 12), -1):  # a half-written escape is left out
        try:
            text = str(json.loads(f'"{raw[:end]}"', strict=False))
            return text[:-1] if "\ud800" <= text[-1:] <= "\udbff" else text
        except ValueError:
            continue
    return ""
