"""Puts an answer of the Anthropic dialect together from its events.

Thinking comes signed and must go back unchanged, so its blocks are kept as they came.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hermes.core.messages import Completion, Delta, Message, ToolCall, Usage
from hermes.models.calls import tool_call, unique
from hermes.models.conversation import origin_mark
from hermes.models.failures import Peer, malformed, reported
from hermes.models.payload import decode
from hermes.models.reference import Target

THOUGHTS = ("thinking", "redacted_thinking")
_FINISHES: dict[str, Literal["stop", "calls", "length", "filtered"]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}
_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""The field that each kind of delta lengthens; within the delta it has the same name."""


class _Spent(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Body(msgspec.Struct):
    content: list[dict[str, Any]] = []
    stop_reason: str | None = None
    usage: _Spent | None = None


class _Event(msgspec.Struct):
    """Any event, or a whole message from a server that does not stream."""

    type: str = ""
    index: int = 0
    message: _Body | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: _Spent | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


class AnthropicReply:
    def __init__(self, target: Target, peer: Peer, messages: Sequence[Message]) -> None:
        self._target, self._peer, self._messages = target, peer, messages
        self._blocks: dict[int, dict[str, Any]] = {}
        self._grown: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        self._finish = ""
        self._spent: dict[str, int] = {}

    def feed(self, data: bytes) -> Delta | None:
        if data == b"[DONE]":
            return None
        event = decode(_decoder, data)
        match event.type:
            case "error":
                raise reported(self._peer, event.error)
            case "message":
                self._start(_Body(event.content or [], event.stop_reason, event.usage))
                self._finish = self._finish or "end_turn"
            case "message_start" if event.message is not None:
                self._start(event.message)
            case "content_block_start" if event.content_block is not None:
                self._blocks[event.index] = event.content_block
                return _shown(event.content_block)
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
            raise malformed(self._peer, "ended in the middle of its answer")
        blocks = self._whole_blocks()
        calls = unique((_call(block) for block in blocks if _is(block, "tool_use")), self._messages)
        message = Message(
            role="assistant",
            text="".join(str(block.get("text") or "") for block in blocks if _is(block, "text")),
            reasoning="".join(str(b.get("thinking") or "") for b in blocks if _is(b, "thinking")),
            calls=calls,
            wire=self._kept(blocks, calls),
        )
        finish = _FINISHES.get(self._finish, "calls" if calls else "stop")
        return Completion(
            message=message, usage=self._usage(), model=self._target.reference, finish=finish
        )

    def _start(self, body: _Body) -> None:
        self._blocks = dict(enumerate(body.content))
        self._finish = body.stop_reason or self._finish
        self._count(body.usage)

    def _grow(self, index: int, delta: dict[str, Any]) -> Delta | None:
        field = _GROWING.get(str(delta.get("type")))
        if field is None or index not in self._blocks:
            return None
        piece = str(delta.get(field) or "")
        self._grown[index, field].append(piece)
        if field == "text":
            return Delta(text=piece)
        return Delta(reasoning=piece) if field == "thinking" else None

    def _whole_blocks(self) -> list[dict[str, Any]]:
        blocks = {index: dict(block) for index, block in self._blocks.items()}
        for (index, field), pieces in self._grown.items():
            blocks[index][field] = (blocks[index].get(field) or "") + "".join(pieces)
        return [blocks[index] for index in sorted(blocks)]

    def _kept(
        self, blocks: list[dict[str, Any]], calls: tuple[ToolCall, ...]
    ) -> tuple[dict[str, Any], ...]:
        """The signed thoughts; the whole answer when other blocks stand between them."""
        thoughts = [block for block in blocks if block.get("type") in THOUGHTS]
        if not thoughts:
            return ()
        mark = origin_mark(self._target.reference)
        if all(block.get("type") in THOUGHTS for block in blocks[: len(thoughts)]):
            return (mark, *thoughts)
        left = iter(calls)
        return (mark, *(_as_sent(block, left) for block in blocks))

    def _count(self, spent: _Spent | None) -> None:
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
        cost = price.of(usage, written) if price else 0.0
        return msgspec.structs.replace(usage, cost_usd=cost)


def _is(block: dict[str, Any], kind: str) -> bool:
    return block.get("type") == kind


def _shown(block: dict[str, Any]) -> Delta | None:
    if _is(block, "tool_use"):
        return Delta(tool=str(block.get("name") or ""))
    return Delta(text=str(block["text"])) if _is(block, "text") and block.get("text") else None


def _call(block: dict[str, Any]) -> ToolCall:
    id, name = str(block.get("id") or ""), str(block.get("name") or "")
    given = block.get("input")
    if "partial_json" in block or not isinstance(given, dict):
        return tool_call(id, name, str(block.get("partial_json") or ""))
    return ToolCall(id, name, given)


def _as_sent(block: dict[str, Any], calls: Any) -> dict[str, Any]:
    """A block as the provider wants it back."""
    if _is(block, "tool_use"):
        call = next(calls)
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
    return block
