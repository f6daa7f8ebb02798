"""Finds the type of a key, and parses text from variables and options as that type."""

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from hermes.settings.origins import KeyPath

TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS = frozenset({"false", "no", "off", "0"})


@cache
def struct_fields(kind: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def section_type(kind: Any) -> type[msgspec.Struct] | None:
    """Return the section of a type, if it has one: `Ssh`, `Ssh | None`."""
    for option in _type_options(kind):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def type_at(root: type[msgspec.Struct], path: KeyPath) -> Any | None:
    """Return the declared type of a key; None when there is no such key."""
    kind: Any = root
    for part in path:
        struct = section_type(kind)
        if struct is not None:
            field = struct_fields(struct).get(str(part))
            if field is None:
                return None
            kind = field.type
        else:
            table = next((o for o in _type_options(kind) if get_origin(o) in (dict, Mapping)), None)
            if table is None:
                return None
            kind = get_args(table)[1]
    return kind


def list_keys(root: type[msgspec.Struct], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every key, without sections."""
    for name, field in struct_fields(root).items():
        inner = section_type(field.type)
        if inner is None:
            yield (*above, name)
        else:
            yield from list_keys(inner, (*above, name))


def parse_value(text: str, kind: Any) -> Any:
    """Parse text as plain data of that type. Raises `msgspec.ValidationError`."""
    if _is_list(kind) and not text.lstrip().startswith("["):
        text = msgspec.json.encode(
            [part.strip() for part in text.split(",") if part.strip()]
        ).decode()
    if bool in _type_options(kind) and text.lower() in TRUE_WORDS | FALSE_WORDS:
        return text.lower() in TRUE_WORDS
    if _is_list(kind) or (text.lstrip().startswith("{") and str not in _type_options(kind)):
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise msgspec.ValidationError(f"not valid JSON: {error}") from error
        msgspec.convert(value, kind, strict=False)
        return value
    return msgspec.to_builtins(msgspec.convert(text, kind, strict=False))


def describe_type(kind: Any) -> str:
    """Describe a type for users."""
    return " or ".join(dict.fromkeys(map(_describe_option, _type_options(kind))))


_TYPE_TEXTS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "nothing",
}


def _describe_option(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(str(each) for each in get_args(kind) if each != "")
    if _is_list(kind):
        return "a list"
    if section_type(kind) is not None or get_origin(kind) in (dict, Mapping) or kind is dict:
        return "a section of keys"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    return _TYPE_TEXTS.get(kind, getattr(kind, "__name__", str(kind)))


def _type_options(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(inner for option in get_args(kind) for inner in _type_options(option))
    return (kind,)


def _is_list(kind: Any) -> bool:
    return any(get_origin(o) in (list, tuple, set, frozenset) for o in _type_options(kind))
