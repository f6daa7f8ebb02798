"""ShareGPT: one JSON object a line, with `from` and `value`, and tags for what is not plain text.

Calls are `<tool_call>`, their answers `<tool_response>`, reasoning `<think>`, and the system prompt
ends with `<tools>`. What somebody wrote can hold such words too: inside JSON a slash is escaped,
in plain text the bracket is, so that a reader never takes one for the other.
"""

import re
from datetime import datetime
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Message, Risk, ToolCall, ToolResult, ToolSpec
from hermes.gym.trajectories.trajectory import About, Trajectory, steps

ROLES = {"system": "system", "user": "human", "assistant": "gpt", "tool": "tool"}
WRITTEN = re.compile(r"(<|&(?:amp;)*lt;)(/?(?:think|tools|tool_call|tool_response)>)")
ESCAPED = re.compile(r"&(amp;|(?=lt;))((?:amp;)*lt;)(/?(?:think|tools|tool_call|tool_response)>)")
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
RESPONSE = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
THINK = re.compile(r"<think>(.*?)</think>\n?", re.DOTALL)
TOOLS = re.compile(r"(?:\n\n)?<tools>(.*?)</tools>\Z", re.DOTALL)


def to_sharegpt(trajectory: Trajectory) -> dict[str, Any]:
    """The object of one line."""
    return {
        "conversations": conversations(trajectory),
        "timestamp": trajectory.at.isoformat() if trajectory.at else None,
        "model": trajectory.model,
        "completed": trajectory.completed,
        "metadata": msgspec.to_builtins(trajectory.about),
    }


def conversations(trajectory: Trajectory) -> list[dict[str, str]]:
    messages = trajectory.messages
    if not messages or messages[0].role != "system":
        messages = (Message(role="system"), *messages)  # the tools need a place
    names = {call.id: call.name for message in messages for call in message.calls}
    turns = []
    for number, step in enumerate(steps(messages)):
        first = step[0]
        if first.role == "tool":
            value = "\n".join(_response(each, names) for each in step)
        elif first.role == "assistant":
            value = _said(first)
        elif first.role == "system":
            value = _system(first.text, trajectory.tools if number == 0 else ())
        else:
            value = first.text
        turns.append({"from": ROLES[first.role], "value": value})
    return turns


def _said(message: Message) -> str:
    parts = [f"<think>{escape(message.reasoning)}</think>"] if message.reasoning else []
    if message.text:
        parts.append(escape(message.text))
    for call in message.calls:
        arguments: object = call.malformed or call.arguments
        parts.append(f"<tool_call>{_json({'name': call.name, 'arguments': arguments})}</tool_call>")
    return "\n".join(parts)


def _response(message: Message, names: dict[str, str]) -> str:
    result = message.result
    assert result is not None
    body = {
        "tool_call_id": result.call_id,
        "name": names.get(result.call_id, ""),
        "content": result.content,
    }
    if result.status != "ok":
        body["status"] = result.status
    return f"<tool_response>{_json(body)}</tool_response>"


def _system(text: str, tools: tuple[ToolSpec, ...]) -> str:
    parts = [escape(text)] if text else []
    if tools:
        parts.append(f"<tools>{_json([as_function(spec) for spec in tools])}</tools>")
    return "\n\n".join(parts)


def as_function(spec: ToolSpec) -> dict[str, Any]:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}


def as_spec(function: dict[str, Any]) -> ToolSpec:
    """How risky it was is not told: taken for the worst."""
    return ToolSpec(**function["function"], risk=Risk.DESTROY)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace("</", "<\\/")


def escape(text: str) -> str:
    return WRITTEN.sub(lambda found: f"&{_mark(found[1])}{found[2]}", text)


def _mark(opened: str) -> str:
    return "lt;" if opened == "<" else f"amp;{opened[1:]}"


def unescape(text: str) -> str:
    return ESCAPED.sub(lambda found: f"&{found[2]}{found[3]}" if found[1] else f"<{found[3]}", text)


def from_sharegpt(line: str | bytes) -> Trajectory:
    """A line read back. Raises `SettingsError` when it is not one."""
    try:
        raw = msgspec.json.decode(line, type=dict[str, Any])
        messages, tools = _messages(raw["conversations"])
        return Trajectory(
            messages=messages,
            tools=tools,
            model=raw.get("model") or "",
            at=msgspec.convert(raw.get("timestamp"), datetime | None),
            completed=bool(raw.get("completed")),
            about=msgspec.convert(raw.get("metadata") or {"run": ""}, About),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"not a ShareGPT line: {type(error).__name__}: {error}") from error


def _messages(turns: list[dict[str, str]]) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...]]:
    messages: list[Message] = []
    tools: tuple[ToolSpec, ...] = ()
    for number, turn in enumerate(turns):
        who, value = turn["from"], turn["value"]
        if who == "system":
            found = TOOLS.search(value)
            if found:
                tools = tuple(map(as_spec, msgspec.json.decode(found[1])))
                value = value[: found.start()]
            if value:
                messages.append(Message(role="system", text=unescape(value)))
        elif who == "human":
            messages.append(Message(role="user", text=value))
        elif who == "tool":
            messages.extend(_result(each) for each in RESPONSE.findall(value))
        else:
            following = turns[number + 1]["value"] if number + 1 < len(turns) else ""
            messages.append(_assistant(value, RESPONSE.findall(following)))
    return tuple(messages), tools


def _assistant(value: str, answers: list[str]) -> Message:
    """Ids are in the answers, which come in the order of the calls."""
    ids = [msgspec.json.decode(each)["tool_call_id"] for each in answers]
    calls = []
    for number, body in enumerate(CALL.findall(value)):
        raw = msgspec.json.decode(body)
        id = ids[number] if number < len(ids) else f"call-{number + 1}"
        wrong = raw["arguments"] if isinstance(raw["arguments"], str) else ""
        calls.append(ToolCall(id, raw["name"], {} if wrong else raw["arguments"], wrong))
    thought = THINK.match(value)
    rest = value[thought.end() :] if thought else value
    opened = rest.find("<tool_call>")
    text = rest if opened < 0 else rest[:opened].removesuffix("\n")
    reasoning = unescape(thought[1]) if thought else ""
    return Message(role="assistant", text=unescape(text), reasoning=reasoning, calls=tuple(calls))


def _result(body: str) -> Message:
    raw = msgspec.json.decode(body)
    status = raw.get("status", "ok")
    result = ToolResult(call_id=raw["tool_call_id"], content=raw["content"], status=status)
    return Message(role="tool", result=result)
