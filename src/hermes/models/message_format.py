"""What the dialects share: JSON, tool calls, pairing of calls and results, token estimates.

Reading tolerates broken bytes of the other side, writing never sends broken ones.
"""

import json
import secrets
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from hermes.core.foreign_text import replace_surrogates
from hermes.core.messages import (
    LoadedPicture,
    Message,
    Picture,
    ToolCall,
    ToolResult,
    ToolSpec,
)

T = TypeVar("T")

_JSON_ENCODER = msgspec.json.Encoder()


def encode_json(body: dict[str, Any]) -> bytes:
    try:
        return _JSON_ENCODER.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair, from the broken output of a program
        return _JSON_ENCODER.encode(replace_surrogates(body))


def decode_json(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Raises `ValueError` when it is not JSON or not of that shape.

    Small servers cut characters in two; that costs the character, not the answer.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except ValueError:
        try:
            loose = json.loads(data.decode("utf-8", "replace"))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        return msgspec.convert(replace_surrogates(loose), type=decoder.type)


_JSON_DECODER = msgspec.json.Decoder()


def parse_tool_call(id: str, name: str, arguments: str) -> ToolCall:
    """Arguments that are no JSON object become `malformed`: the executor reports that to the
    model."""
    parsed = parse_arguments(arguments)
    if parsed is None:
        return ToolCall(id, name, {}, malformed=arguments)
    return ToolCall(id, name, parsed)


def parse_arguments(text: str) -> dict[str, Any] | None:
    if not text.strip():
        return {}
    try:
        value = _JSON_DECODER.decode(text)
        if isinstance(value, str):  # some models quote the object once more
            value = _JSON_DECODER.decode(value)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def with_unique_ids(calls: Iterable[ToolCall], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Ids that no call of the conversation has: some servers give none, or `call_0` each time."""
    taken = {call.id for message in messages for call in message.calls}
    out: list[ToolCall] = []
    for call in calls:
        if not call.id or call.id in taken:
            call = msgspec.structs.replace(call, id=f"call_{secrets.token_hex(8)}")
        taken.add(call.id)
        out.append(call)
    return tuple(out)


MISSING_RESULT_TEXT = (
    "No result was recorded: the run was cut off here. It may or may not have happened."
)


def pair_calls_with_results(messages: Sequence[Message]) -> list[Message]:
    results: defaultdict[str, deque[Message]] = defaultdict(deque)
    for message in messages:
        if message.result is not None:
            results[message.result.call_id].append(message)
    out: list[Message] = []
    for message in messages:
        if message.role == "tool":
            continue
        out.append(message)
        for call in message.calls:
            found = results[call.id]
            out.append(found.popleft() if found else _missing_result(call.id))
    return out


def _missing_result(call_id: str) -> Message:
    return Message(
        role="tool", result=ToolResult(call_id=call_id, content=MISSING_RESULT_TEXT, status="error")
    )


def origin_block(reference: str) -> dict[str, str]:
    """Put before the blocks kept in `Message.wire`: only the model that made them gets them
    back."""
    return {"from": reference}


def provider_blocks(message: Message, reference: str) -> list[dict[str, object]]:
    """The provider's own blocks of a message, if this model made them."""
    if message.wire and message.wire[0] == origin_block(reference):
        return list(message.wire[1:])
    return []


def pictures_of(message: Message) -> tuple[Picture, ...]:
    """The pictures of the message or of its result."""
    return message.pictures if message.result is None else message.result.pictures


def visible_pictures(message: Message, *, sees: bool) -> tuple[list[LoadedPicture], str]:
    """The pictures that a model which `sees` is sent, and the words for the others."""
    shown, words = list[LoadedPicture](), list[str]()
    for picture in pictures_of(message):
        if sees and isinstance(picture, LoadedPicture):
            shown.append(picture)
        else:
            words.append(f"\n{picture.describe()}")
    return shown, "".join(words)


PROSE_CHARS_PER_TOKEN = 3.8
CODE_CHARS_PER_TOKEN = 3.2
TOKENS_PER_MESSAGE = 4
TOKENS_PER_CALL = 10

_SCHEMA_ENCODER = msgspec.json.Encoder()


def estimate_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
    return sum(map(message_tokens, messages)) + sum(map(_tool_tokens, tools))


def message_tokens(message: Message) -> int:
    total = TOKENS_PER_MESSAGE + text_tokens(message.text) + text_tokens(message.reasoning)
    if message.result is not None:
        total += text_tokens(message.result.content, CODE_CHARS_PER_TOKEN)
    total += sum(picture.tokens for picture in pictures_of(message))
    total += sum(text_tokens(part.text) + TOKENS_PER_CALL for part in message.attached)
    for call in message.calls:
        written = call.malformed or (str(call.arguments) if call.arguments else "")
        total += TOKENS_PER_CALL + text_tokens(written, CODE_CHARS_PER_TOKEN)
    return total


def text_tokens(text: str, density: float = PROSE_CHARS_PER_TOKEN) -> int:
    if text.isascii():
        return round(len(text) / density)
    plain = len(text.encode("ascii", "ignore"))
    wide = len(text) - plain
    size = len(text.encode("utf-8", "replace")) - plain
    return round(plain / density + (size - wide) * 0.55)


def _tool_tokens(tool: ToolSpec) -> int:
    schema = _SCHEMA_ENCODER.encode(tool.parameters)
    return (
        TOKENS_PER_CALL
        + text_tokens(tool.name + tool.description)
        + round(len(schema) / CODE_CHARS_PER_TOKEN)
    )
