"""Says everything that does not fit a document's shape, not only the first thing."""

from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

Path = tuple[str | int, ...]
Flaw = tuple[Path, str]

_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    str: "text",
    float: "a number",
    datetime: "a day or time such as 2026-12-31",
}


def flaws(kind: Any, data: Any, path: Path = ()) -> Iterator[Flaw]:
    """Each mistake with the path of the key it belongs to."""
    struct = _struct_in(kind)
    if struct is not None:
        yield from _section(struct, data, path)
        return
    item = _item_struct(kind)
    if item is not None:
        yield from _list_of(item, data, path)
        return
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError:
        yield path, f"{_name(path)}: expected {_describe(kind)}, got {_show(data)}"


def suggest(word: str, known: Iterator[str] | list[str] | tuple[str, ...]) -> str:
    names = list(known)
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"


def _section(struct: type[msgspec.Struct], data: Any, path: Path) -> Iterator[Flaw]:
    if not isinstance(data, dict):
        yield path, f"{_name(path)}: expected keys and values, got {_show(data)}"
        return
    known = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key, value in data.items():
        if key not in known:
            yield (*path, key), f"unknown key {key} in {_name(path)}; {suggest(key, list(known))}"
        else:
            yield from flaws(known[key].type, value, (*path, key))
    for key, field in known.items():
        if field.required and key not in data:
            yield path, f"{_name(path)}: {key} is missing"


def _list_of(item: type[msgspec.Struct], data: Any, path: Path) -> Iterator[Flaw]:
    if not isinstance(data, list):
        yield path, f"{_name(path)}: expected a list, got {_show(data)}"
        return
    for index, each in enumerate(data):
        yield from _section(item, each, (*path, index))


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    for option in _options(kind):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def _item_struct(kind: Any) -> type[msgspec.Struct] | None:
    if get_origin(kind) is not tuple:
        return None
    return _struct_in(get_args(kind)[0])


def _describe(kind: Any) -> str:
    return " or ".join(_word(option) for option in _options(kind) if option is not type(None))


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "a list"
    if get_origin(kind) is dict:
        return "keys and values"
    return _WORDS.get(kind, f"a {kind.__name__}")


def _name(path: Path) -> str:
    return ".".join(map(str, path)) or "the document"


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "keys and values"
    return (
        "a list" if isinstance(value, list) else "nothing" if value is None else f"{value!r}"[:60]
    )
