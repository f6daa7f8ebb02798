"""Turns what a model wrote as a tool call into a `ToolCall` that can be trusted."""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hermes.core.messages import Message, ToolCall

_any = msgspec.json.Decoder()


def tool_call(id: str, name: str, arguments: str) -> ToolCall:
    """Arguments that are no JSON object become `malformed`: the executor tells the model."""
    parsed = parse_arguments(arguments)
    if parsed is None:
        return ToolCall(id, name, {}, malformed=arguments)
    return ToolCall(id, name, parsed)


def parse_arguments(text: str) -> dict[str, Any] | None:
    if not text.strip():
        return {}
    try:
        value = _any.decode(text)
        if isinstance(value, str):  # some models quote the object once more
            value = _any.decode(value)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def unique(calls: Iterable[ToolCall], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Ids that no call of the conversation has: some servers give none, or `call_0` each time."""
    taken = {call.id for message in messages for call in message.calls}
    out: list[ToolCall] = []
    for call in calls:
        if not call.id or call.id in taken:
            call = msgspec.structs.replace(call, id=f"call_{secrets.token_hex(8)}")
        taken.add(call.id)
        out.append(call)
    return tuple(out)
