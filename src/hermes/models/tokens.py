"""How many tokens a conversation has, roughly: enough for budgets and for when to compress.

English runs at about four characters a token, code and JSON at about three, Cyrillic at two,
Chinese at one. The estimate leans to the high side: too early a compression costs little.
"""

from collections.abc import Sequence

import msgspec

from hermes.core.messages import Message, ToolSpec

PROSE = 3.8
CODE = 3.2
PER_MESSAGE = 4
PER_CALL = 10

_encoder = msgspec.json.Encoder()


def estimate_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
    return sum(map(message_tokens, messages)) + sum(map(_tool_tokens, tools))


def message_tokens(message: Message) -> int:
    total = PER_MESSAGE + text_tokens(message.text) + text_tokens(message.reasoning)
    if message.result is not None:
        total += text_tokens(message.result.content, CODE)
    for call in message.calls:
        written = call.malformed or (str(call.arguments) if call.arguments else "")
        total += PER_CALL + text_tokens(written, CODE)
    return total


def text_tokens(text: str, density: float = PROSE) -> int:
    if text.isascii():
        return round(len(text) / density)
    plain = len(text.encode("ascii", "ignore"))
    wide = len(text) - plain
    size = len(text.encode("utf-8", "replace")) - plain
    return round(plain / density + (size - wide) * 0.55)


def _tool_tokens(tool: ToolSpec) -> int:
    schema = _encoder.encode(tool.parameters)
    return PER_CALL + text_tokens(tool.name + tool.description) + round(len(schema) / CODE)
