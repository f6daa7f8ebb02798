"""Anthropic's messages: blocks in place of strings, turns that alternate, a cache to point at."""

import re
from collections.abc import Sequence
from typing import Any

from hermes.core.messages import Message, ToolSpec
from hermes.models.anthropic_reply import THOUGHTS, AnthropicReply
from hermes.models.conversation import blocks_of
from hermes.models.open import Opening
from hermes.models.reference import Target
from hermes.models.remote import RemoteModel
from hermes.models.settings import ModelSettings
from hermes.models.wire import Wire

VERSION = "2023-06-01"
LONGEST = 32_000
"""Tokens of an answer unless set: the dialect wants a limit, most models allow far more."""
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
CACHED = {"type": "ephemeral"}
ANYTHING = {"type": "object"}

Block = dict[str, Any]


def open_anthropic(opening: Opening) -> RemoteModel:
    target = opening.target
    headers = {"anthropic-version": VERSION}
    if opening.key:
        headers["x-api-key"] = opening.key
    wire = Wire(opening, "/messages", headers)
    dialect = AnthropicDialect(target, opening.settings, wire)
    return RemoteModel(target.reference, target.window, wire, dialect)


class AnthropicDialect:
    def __init__(self, target: Target, settings: ModelSettings, wire: Wire) -> None:
        self._target = target
        self._peer = wire.peer
        self._fixed = _options(target, settings)

    def request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> dict[str, Any]:
        head = 0
        while head < len(messages) and messages[head].role == "system":
            head += 1
        body = {**self._fixed, "messages": self._turns(messages[head:])}
        system = [_text(message.text) for message in messages[:head] if message.text.strip()]
        if system:
            _mark(system)
            body["system"] = system
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
            _mark(body["tools"])
        elif used := {call.name for message in messages for call in message.calls}:
            # A conversation in which tools were used is refused unless they are declared.
            body["tools"] = [{"name": name, "input_schema": ANYTHING} for name in sorted(used)]
            body["tool_choice"] = {"type": "none"}
        if stream:
            body["stream"] = True
        return body

    def reply(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AnthropicReply:
        return AnthropicReply(self._target, self._peer, messages)

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """User and assistant by turns: all results of one turn go into one user message."""
        turns: list[dict[str, Any]] = []
        for message in messages:
            role = "assistant" if message.role == "assistant" else "user"
            blocks = self._blocks(message)
            if not blocks:
                continue
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
        if not turns or turns[0]["role"] == "assistant":
            turns.insert(0, {"role": "user", "content": [_text("Go on.")]})
        _mark([turn for turn in turns if turn["role"] == "user"][-1]["content"])
        return turns

    def _blocks(self, message: Message) -> list[Block]:
        if message.result is not None:
            return [_result(message)]
        if message.role != "assistant":
            return [_text(message.text)] if message.text.strip() else []
        kept = blocks_of(message, self._target.reference)
        if any(block.get("type") not in THOUGHTS for block in kept):
            return kept  # thoughts between other blocks: the order is part of the signature
        spoken = [_text(message.text)] if message.text.strip() else []
        return [*kept, *spoken, *map(_use, message.calls)]


def _options(target: Target, settings: ModelSettings) -> dict[str, Any]:
    longest = min(target.card.max_output or LONGEST, LONGEST)
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": settings.max_output_tokens or longest,
        **target.provider.extra,
    }
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.thinking and target.card.thinking == "budget":
        budget = min(BUDGETS[settings.thinking], body["max_tokens"] // 2)
        body["thinking"] = {"type": "enabled", "budget_tokens": max(1_024, budget)}
    elif settings.thinking and target.card.thinking == "adaptive":
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        body["output_config"] = {"effort": settings.thinking}
    return body


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _result(message: Message) -> Block:
    assert message.result is not None
    block: Block = {
        "type": "tool_result",
        "tool_use_id": _id(message.result.call_id),
        "content": message.result.content,
    }
    if message.result.status != "ok":
        block["is_error"] = True
    return block


def _use(call: Any) -> Block:
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": call.arguments}


def _tool(tool: ToolSpec) -> Block:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _id(id: str) -> str:
    # Calls of another provider may be called `functions.run:0`, which is refused here.
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def _mark(blocks: list[Block]) -> None:
    """The provider may cache all up to and with the last of these."""
    markable = [n for n, block in enumerate(blocks) if block.get("type") not in THOUGHTS]
    if markable:
        blocks[markable[-1]] = {**blocks[markable[-1]], "cache_control": CACHED}
