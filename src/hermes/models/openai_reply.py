"""Puts an answer of the OpenAI dialect together from its pieces.

Servers differ in what they leave out: indexes, ids, the last `[DONE]`, usage. What can be known
anyway is filled in; an answer that was cut off is told apart from one that is whole.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hermes.core.messages import Completion, Delta, Message, ToolCall, ToolSpec, Usage
from hermes.models.calls import parse_arguments, tool_call, unique
from hermes.models.conversation import origin_mark
from hermes.models.failures import Peer, malformed, reported
from hermes.models.payload import decode, encode
from hermes.models.reference import Target
from hermes.models.tokens import estimate_tokens, message_tokens

Finish = Literal["stop", "calls", "length", "filtered"]
_FINISHES: dict[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filtered",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallPiece(msgspec.Struct):
    index: int | None = None
    id: str | int | None = None
    function: _Function | None = None


class _Words(msgspec.Struct):
    """A delta, or a whole message: the fields are the same."""

    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[_CallPiece] | None = None


class _Choice(msgspec.Struct):
    delta: _Words | None = None
    message: _Words | None = None
    finish_reason: str | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Spent(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: float | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Spent | None = None
    error: Any = None


class _OpenCall:
    """A call of which pieces are still coming."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.pieces: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


_decoder = msgspec.json.Decoder(_Chunk)


class OpenAIReply:
    def __init__(
        self, target: Target, peer: Peer, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> None:
        self._target, self._peer = target, peer
        self._messages, self._tools = messages, tools
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._finish = ""
        self._done = False
        self._spent: _Spent | None = None

    def feed(self, data: bytes) -> Delta | None:
        if data == b"[DONE]":
            self._done = True
            return None
        chunk = decode(_decoder, data)
        if chunk.error:
            raise reported(self._peer, chunk.error)
        self._spent = chunk.usage or self._spent
        if not chunk.choices:
            return None
        choice = chunk.choices[0]
        words = choice.delta or choice.message or _Words()
        self._finish = choice.finish_reason or self._finish or ("stop" if choice.message else "")
        return self._take(words)

    def settled(self) -> bool:
        return bool(self._finish)

    def completion(self) -> Completion:
        self._check()
        calls = unique((_closed(call) for call in self._calls), self._messages)
        message = Message(
            role="assistant",
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=calls,
            wire=(origin_mark(self._target.reference), *self._details) if self._details else (),
        )
        finish = _FINISHES.get(self._finish, "calls" if calls else "stop")
        return Completion(
            message=message,
            usage=self._usage(message),
            model=self._target.reference,
            finish=finish,
        )

    def _check(self) -> None:
        if not self._finish and not self._done:
            raise malformed(self._peer, "ended in the middle of its answer")
        if self._finish == "error":
            raise malformed(self._peer, "broke off with an error and gave no reason")
        if any(not call.name for call in self._calls):
            raise malformed(self._peer, "called a tool without naming it")
        if not self._finish and any(parse_arguments(c.arguments) is None for c in self._calls):
            raise malformed(self._peer, "ended in the middle of a tool call")

    def _take(self, words: _Words) -> Delta | None:
        text, reasoning = _spoken(words)
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        for detail in words.reasoning_details or ():
            self._add_detail(detail)
        begun = [name for piece in words.tool_calls or () if (name := self._add_call(piece))]
        if text or reasoning or begun:
            return Delta(text=text, reasoning=reasoning, tool=begun[0] if begun else "")
        return None

    def _add_call(self, piece: _CallPiece) -> str:
        """The tool's name when this piece began a call."""
        function = piece.function or _Function()
        call = self._call_for(piece, function)
        begun = function.name if function.name and not call.name else ""
        call.name = call.name or begun
        if isinstance(function.arguments, dict):
            call.pieces.append(encode(function.arguments).decode())
        elif function.arguments:
            call.pieces.append(function.arguments)
        return begun

    def _call_for(self, piece: _CallPiece, function: _Function) -> _OpenCall:
        id = "" if piece.id is None else str(piece.id)
        last = self._calls[-1] if self._calls else None
        known = last if piece.index is None else self._by_index.get(piece.index)
        # A new id together with a name begins a call even where the index says otherwise: some
        # servers number every call 0.
        begins = bool(function.name) and known is not None and id != known.id
        if known is None or begins:
            known = _OpenCall(id)
            self._calls.append(known)
            if piece.index is not None:
                self._by_index[piece.index] = known
        known.id = known.id or id
        return known

    def _add_detail(self, detail: dict[str, Any]) -> None:
        last = self._details[-1] if self._details else None
        same = last is not None and all(last.get(k) == detail.get(k) for k in ("type", "index"))
        if last is None or not same:
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            if name in ("text", "summary", "data") and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value

    def _usage(self, message: Message) -> Usage:
        spent, price = self._spent, self._target.card.price
        if spent is None:  # rough figures, so that a budget still bites
            usage = Usage(estimate_tokens(self._messages, self._tools), message_tokens(message))
        else:
            details = spent.prompt_tokens_details or _Cached()
            cached = details.cached_tokens or spent.prompt_cache_hit_tokens or 0
            usage = Usage(spent.prompt_tokens or 0, spent.completion_tokens or 0, cached)
        cost = spent.cost if spent is not None and spent.cost is not None else None
        if cost is None:
            cost = price.of(usage) if price else 0.0
        return msgspec.structs.replace(usage, cost_usd=cost)


def _closed(call: _OpenCall) -> ToolCall:
    return tool_call(call.id, call.name, call.arguments)


def _spoken(words: _Words) -> tuple[str, str]:
    thought = words.reasoning_content or words.reasoning
    reasoning = thought if isinstance(thought, str) else ""
    if not isinstance(words.content, list):
        return words.content or words.refusal or "", reasoning
    text = "".join(str(part.get("text") or "") for part in words.content)
    return text, reasoning
