"""The Anthropic dialect: builds requests, and assembles answers from events.

Thinking is signed and must be sent back unchanged, so its blocks are kept as they came.
"""

import re
from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hermes.core.messages import (
    Completion,
    CompletionDelta,
    LoadedPicture,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from hermes.models.catalog import ModelTarget
from hermes.models.message_format import (
    decode_json,
    origin_block,
    parse_tool_call,
    provider_blocks,
    visible_pictures,
    with_unique_ids,
)
from hermes.models.open import ModelContext
from hermes.models.provider_errors import ProviderEndpoint, error_from_payload, malformed_reply
from hermes.models.remote import ModelHttpClient, RemoteModel
from hermes.models.settings import ModelSettings

THINKING_BLOCK_TYPES = ("thinking", "redacted_thinking")
_FINISH_REASONS: dict[str, Literal["stop", "calls", "length", "filtered"]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}
_DELTA_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""The field that each kind of delta lengthens; within the delta it has the same name."""


class _AnthropicUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _AnthropicMessage(msgspec.Struct):
    content: list[dict[str, Any]] = []
    stop_reason: str | None = None
    usage: _AnthropicUsage | None = None


class _AnthropicEvent(msgspec.Struct):
    """Any event, or a whole message from a server that does not stream."""

    type: str = ""
    index: int = 0
    message: _AnthropicMessage | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: _AnthropicUsage | None = None
    error: Any = None


_EVENT_DECODER = msgspec.json.Decoder(_AnthropicEvent)


class AnthropicReplyParser:
    def __init__(
        self, target: ModelTarget, endpoint: ProviderEndpoint, messages: Sequence[Message]
    ) -> None:
        self._target, self._endpoint, self._messages = target, endpoint, messages
        self._blocks: dict[int, dict[str, Any]] = {}
        self._grown: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        self._finish = ""
        self._spent: dict[str, int] = {}

    def feed(self, data: bytes) -> CompletionDelta | None:
        if data == b"[DONE]":
            return None
        event = decode_json(_EVENT_DECODER, data)
        match event.type:
            case "error":
                raise error_from_payload(self._endpoint, event.error)
            case "message":
                self._start(_AnthropicMessage(event.content or [], event.stop_reason, event.usage))
                self._finish = self._finish or "end_turn"
            case "message_start" if event.message is not None:
                self._start(event.message)
            case "content_block_start" if event.content_block is not None:
                self._blocks[event.index] = event.content_block
                return _block_delta(event.content_block)
            case "content_block_delta" if event.delta is not None:
                return self._grow(event.index, event.delta)
            case "message_delta":
                self._finish = str((event.delta or {}).get("stop_reason") or self._finish)
                self._count(event.usage)
        return None

    def settled(self) -> bool:
        return bool(self._finish)

    def completion(self) -> Completion:
        if not self._finish:
            raise malformed_reply(self._endpoint, "ended in the middle of its answer")
        blocks = self._whole_blocks()
        calls = with_unique_ids(
            (_parse_tool_use(block) for block in blocks if _is_block_type(block, "tool_use")),
            self._messages,
        )
        message = Message(
            role="assistant",
            text="".join(
                str(block.get("text") or "") for block in blocks if _is_block_type(block, "text")
            ),
            reasoning="".join(
                str(b.get("thinking") or "") for b in blocks if _is_block_type(b, "thinking")
            ),
            calls=calls,
            wire=self._kept(blocks, calls),
        )
        finish = _FINISH_REASONS.get(self._finish, "calls" if calls else "stop")
        return Completion(
            message=message, usage=self._usage(), model=self._target.reference, finish=finish
        )

    def _start(self, body: _AnthropicMessage) -> None:
        self._blocks = dict(enumerate(body.content))
        self._finish = body.stop_reason or self._finish
        self._count(body.usage)

    def _grow(self, index: int, delta: dict[str, Any]) -> CompletionDelta | None:
        field = _DELTA_FIELDS.get(str(delta.get("type")))
        if field is None or index not in self._blocks:
            return None
        text = str(delta.get(field) or "")
        self._grown[index, field].append(text)
        if field == "text":
            return CompletionDelta(text=text)
        return CompletionDelta(reasoning=text) if field == "thinking" else None

    def _whole_blocks(self) -> list[dict[str, Any]]:
        blocks = {index: dict(block) for index, block in self._blocks.items()}
        for (index, field), parts in self._grown.items():
            blocks[index][field] = (blocks[index].get(field) or "") + "".join(parts)
        return [blocks[index] for index in sorted(blocks)]

    def _kept(
        self, blocks: list[dict[str, Any]], calls: tuple[ToolCall, ...]
    ) -> tuple[dict[str, Any], ...]:
        """The signed thinking blocks; the whole answer when other blocks are between them."""
        thoughts = [block for block in blocks if block.get("type") in THINKING_BLOCK_TYPES]
        if not thoughts:
            return ()
        mark = origin_block(self._target.reference)
        if all(block.get("type") in THINKING_BLOCK_TYPES for block in blocks[: len(thoughts)]):
            return (mark, *thoughts)
        left = iter(calls)
        return (mark, *(_as_provider_block(block, left) for block in blocks))

    def _count(self, spent: _AnthropicUsage | None) -> None:
        if spent is not None:  # figures are running totals: the last one counts
            found = msgspec.structs.asdict(spent)
            self._spent.update({name: n for name, n in found.items() if n is not None})

    def _usage(self) -> Usage:
        read = self._spent.get("cache_read_input_tokens", 0)
        written = self._spent.get("cache_creation_input_tokens", 0)
        usage = Usage(
            self._spent.get("input_tokens", 0) + read + written,
            self._spent.get("output_tokens", 0),
            read,
        )
        price = self._target.card.price
        cost = price.cost(usage, written) if price else 0.0
        return msgspec.structs.replace(usage, cost_usd=cost)


def _is_block_type(block: dict[str, Any], kind: str) -> bool:
    return block.get("type") == kind


def _block_delta(block: dict[str, Any]) -> CompletionDelta | None:
    if _is_block_type(block, "tool_use"):
        return CompletionDelta(tool=str(block.get("name") or ""))
    return (
        CompletionDelta(text=str(block["text"]))
        if _is_block_type(block, "text") and block.get("text")
        else None
    )


def _parse_tool_use(block: dict[str, Any]) -> ToolCall:
    id, name = str(block.get("id") or ""), str(block.get("name") or "")
    arguments = block.get("input")
    if "partial_json" in block or not isinstance(arguments, dict):
        return parse_tool_call(id, name, str(block.get("partial_json") or ""))
    return ToolCall(id, name, arguments)


def _as_provider_block(block: dict[str, Any], calls: Any) -> dict[str, Any]:
    """A block as the provider expects it back."""
    if _is_block_type(block, "tool_use"):
        call = next(calls)
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
    return block


API_VERSION = "2023-06-01"
DEFAULT_MAX_OUTPUT_TOKENS = 32_000
"""Tokens of an answer unless set: the dialect requires a limit, most models allow far more."""
THINKING_BUDGET_TOKENS = {"low": 2_048, "medium": 8_192, "high": 16_384}
CACHE_CONTROL = {"type": "ephemeral"}
ANY_OBJECT_SCHEMA = {"type": "object"}

ContentBlock = dict[str, Any]


def open_anthropic(context: ModelContext) -> RemoteModel:
    target = context.target
    headers = {"anthropic-version": API_VERSION}
    if context.key:
        headers["x-api-key"] = context.key
    wire = ModelHttpClient(context, "/messages", headers)
    dialect = AnthropicDialect(target, context.settings, wire)
    return RemoteModel(target, wire, dialect)


class AnthropicDialect:
    def __init__(
        self, target: ModelTarget, settings: ModelSettings, client: ModelHttpClient
    ) -> None:
        self._target = target
        self._endpoint = client.peer
        self._fixed = _request_options(target, settings)

    def request(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool
    ) -> dict[str, Any]:
        head = 0
        while head < len(messages) and messages[head].role == "system":
            head += 1
        body = {**self._fixed, "messages": self._turns(messages[head:])}
        system = [_text_block(message.text) for message in messages[:head] if message.text.strip()]
        if system:
            _mark_cacheable(system)
            body["system"] = system
        if tools:
            body["tools"] = [_tool_definition(tool) for tool in tools]
            _mark_cacheable(body["tools"])
        elif used := {call.name for message in messages for call in message.calls}:
            # A conversation in which tools were used is refused unless they are declared.
            body["tools"] = [
                {"name": name, "input_schema": ANY_OBJECT_SCHEMA} for name in sorted(used)
            ]
            body["tool_choice"] = {"type": "none"}
        if stream:
            body["stream"] = True
        return body

    def reply(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AnthropicReplyParser:
        return AnthropicReplyParser(self._target, self._endpoint, messages)

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """User and assistant alternate: all results of one turn go into one user message."""
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
            turns.insert(0, {"role": "user", "content": [_text_block("Go on.")]})
        _mark_cacheable([turn for turn in turns if turn["role"] == "user"][-1]["content"])
        return turns

    def _blocks(self, message: Message) -> list[ContentBlock]:
        shown, words = visible_pictures(message, sees=self._target.card.vision)
        if message.result is not None:
            return [_result_block(message.result, shown, words)]
        if message.role != "assistant":
            text = message.text + words
            spoken = [_text_block(text)] if text.strip() else []
            return [*map(_picture_block, shown), *spoken]
        kept = provider_blocks(message, self._target.reference)
        if any(block.get("type") not in THINKING_BLOCK_TYPES for block in kept):
            return kept  # thinking between other blocks: the order is part of the signature
        spoken = [_text_block(message.text)] if message.text.strip() else []
        return [*kept, *spoken, *map(_tool_use_block, message.calls)]


def _request_options(target: ModelTarget, settings: ModelSettings) -> dict[str, Any]:
    default_limit = min(
        target.card.max_output or DEFAULT_MAX_OUTPUT_TOKENS, DEFAULT_MAX_OUTPUT_TOKENS
    )
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": settings.max_output_tokens or default_limit,
        **target.provider.extra,
    }
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.thinking and target.card.thinking == "budget":
        budget = min(THINKING_BUDGET_TOKENS[settings.thinking], body["max_tokens"] // 2)
        body["thinking"] = {"type": "enabled", "budget_tokens": max(1_024, budget)}
    elif settings.thinking and target.card.thinking == "adaptive":
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        body["output_config"] = {"effort": settings.thinking}
    return body


def _text_block(text: str) -> ContentBlock:
    return {"type": "text", "text": text}


def _picture_block(picture: LoadedPicture) -> ContentBlock:
    data = b64encode(picture.data).decode()
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": picture.media, "data": data},
    }


def _result_block(result: ToolResult, shown: Sequence[LoadedPicture], words: str) -> ContentBlock:
    text: str | list[ContentBlock] = result.content + words
    if shown:
        spoken = [_text_block(result.content + words)] if (result.content + words).strip() else []
        text = [*spoken, *map(_picture_block, shown)]
    block: ContentBlock = {
        "type": "tool_result",
        "tool_use_id": _valid_call_id(result.call_id),
        "content": text,
    }
    if result.status != "ok":
        block["is_error"] = True
    return block


def _tool_use_block(call: Any) -> ContentBlock:
    return {
        "type": "tool_use",
        "id": _valid_call_id(call.id),
        "name": call.name,
        "input": call.arguments,
    }


def _tool_definition(tool: ToolSpec) -> ContentBlock:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _valid_call_id(id: str) -> str:
    # Calls of another provider may be called `functions.run:0`, which is refused here.
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def _mark_cacheable(blocks: list[ContentBlock]) -> None:
    """The provider may cache everything up to the last of these."""
    markable = [
        n for n, block in enumerate(blocks) if block.get("type") not in THINKING_BLOCK_TYPES
    ]
    if markable:
        blocks[markable[-1]] = {**blocks[markable[-1]], "cache_control": CACHE_CONTROL}
