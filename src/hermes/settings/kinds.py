"""What type a dotted key has, and how words from a variable or a command line become it."""

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from hermes.settings.origins import Path

YES = frozenset({"true", "yes", "on", "1"})
NO = frozenset({"false", "no", "off", "0"})


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """The section a type stands for, if it is one: `Ssh`, `Ssh | None`."""
    for option in _options(kind):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def type_at(root: type[msgspec.Struct], path: Path) -> Any | None:
    """The declared type of a key, or None when there is no such key."""
    kind: Any = root
    for part in path:
        struct = struct_in(kind)
        if struct is not None:
            field = fields_of(struct).get(str(part))
            if field is None:
                return None
            kind = field.type
        else:
            table = next((o for o in _options(kind) if get_origin(o) in (dict, Mapping)), None)
            if table is None:
                return None
            kind = get_args(table)[1]
    return kind


def keys_of(root: type[msgspec.Struct], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key that can be set, sections left out."""
    for name, field in fields_of(root).items():
        inner = struct_in(field.type)
        if inner is None:
            yield (*above, name)
        else:
            yield from keys_of(inner, (*above, name))


def read_words(text: str, kind: Any) -> Any:
    """Words as plain data of that type. Raises `msgspec.ValidationError` when they do not fit."""
    if _is_list(kind) and not text.lstrip().startswith("["):
        text = msgspec.json.encode(
            [part.strip() for part in text.split(",") if part.strip()]
        ).decode()
    if bool in _options(kind) and text.lower() in YES | NO:
        return text.lower() in YES
    if _is_list(kind) or (text.lstrip().startswith("{") and str not in _options(kind)):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise msgspec.ValidationError(f"not valid JSON: {error}") from error
        msgspec.convert(value, kind, strict=False)
        return value
    return msgspec.to_builtins(msgspec.convert(text, kind, strict=False))


def describe(kind: Any) -> str:
    """A type in words an operator understands."""
    return " or ".join(dict.fromkeys(map(_describe, _options(kind))))


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "nothing",
}


def _describe(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if _is_list(kind):
        return "a list"
    if struct_in(kind) is not None or get_origin(kind) in (dict, Mapping) or kind is dict:
        return "a section of keys"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _options(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for option in get_args(kind) for inner in _options(option))
    return (kind,)


def _is_list(kind: Any) -> bool:
    return any(get_origin(o) in (list, tuple, set, frozenset) for o in _options(kind))
