"""OpenAI's chat completions, which most providers and all local servers speak too."""

from collections.abc import Sequence
from typing import Any

from hermes.core.messages import Message, ToolCall, ToolSpec
from hermes.models.conversation import blocks_of
from hermes.models.open import Opening
from hermes.models.openai_reply import OpenAIReply
from hermes.models.payload import encode
from hermes.models.reference import Target
from hermes.models.remote import RemoteModel
from hermes.models.settings import ModelSettings
from hermes.models.wire import Wire


def open_openai(opening: Opening) -> RemoteModel:
    target = opening.target
    headers = {"authorization": f"Bearer {opening.key}"} if opening.key else {}
    wire = Wire(opening, "/chat/completions", headers)
    dialect = OpenAIDialect(target, opening.settings, wire)
    return RemoteModel(target.reference, target.window, wire, dialect)


class OpenAIDialect:
    def __init__(self, target: Target, settings: ModelSettings, wire: Wire) -> None:
        self._target = target
        self._peer = wire.peer
        self._fixed = _options(target, settings)

    def request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> dict[str, Any]:
        body = {**self._fixed, "messages": [self._message(message) for message in messages]}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        return body

    def reply(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> OpenAIReply:
        return OpenAIReply(self._target, self._peer, messages, tools)

    def _message(self, message: Message) -> dict[str, Any]:
        if message.result is not None:
            return {
                "role": "tool",
                "tool_call_id": message.result.call_id,
                "content": message.result.content,
            }
        if message.role != "assistant":
            return {"role": message.role, "content": message.text}
        wired: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.calls:
            wired["content"] = message.text or None
            wired["tool_calls"] = [_call(call) for call in message.calls]
        self._add_reasoning(wired, message)
        return wired

    def _add_reasoning(self, wired: dict[str, Any], message: Message) -> None:
        provider = self._target.provider
        if provider.reasoning_details and (blocks := blocks_of(message, self._target.reference)):
            wired["reasoning_details"] = blocks
        elif message.reasoning and provider.reasoning_content:
            wired["reasoning_content"] = message.reasoning


def _options(target: Target, settings: ModelSettings) -> dict[str, Any]:
    provider = target.provider
    body: dict[str, Any] = {"model": target.model, **provider.extra}
    if settings.max_output_tokens:
        body[provider.output_limit] = settings.max_output_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.thinking:
        body["reasoning_effort"] = settings.thinking
    if target.card.cache_control:
        body["cache_control"] = {"type": "ephemeral"}
    return body


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _call(call: ToolCall) -> dict[str, Any]:
    # A malformed call goes back empty: servers that parse the arguments again would choke on the
    # raw text, and the tool's answer quotes it.
    arguments = encode(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }
