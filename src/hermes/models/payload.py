"""JSON in and out, forgiving where the other side's bytes are broken and ours would be."""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode(body: dict[str, Any]) -> bytes:
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair, from some program's broken output
        return _encoder.encode(_mended(body))


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
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
        return msgspec.convert(_mended(loose), type=decoder.type)


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_mended(name): _mended(inner) for name, inner in value.items()}
    return [_mended(inner) for inner in value] if isinstance(value, list | tuple) else value
