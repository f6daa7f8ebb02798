"""Explains invalid settings: the position, the problem and the nearest key. Loaded on errors."""

import re
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from hermes.plumbing.problems import Problem, closest_name
from hermes.settings.origins import GivenValue, KeyPath, dotted_key
from hermes.settings.secrets import is_secret
from hermes.settings.value_types import (
    describe_type,
    list_keys,
    parse_value,
    section_type,
    struct_fields,
    type_at,
)

MAX_HINT_NAMES = 12
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")
_WRONG_TYPE = re.compile(r"^Expected `([^`]+)`, got `([^`]+)`$")
_INNER_PATH = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]")


def find_problems(root: type[msgspec.Struct], given: Iterable[GivenValue]) -> list[Problem]:
    found = (check_value(root, one) for one in given)
    return list(dict.fromkeys(problem for problem in found if problem is not None))


def check_value(root: type[msgspec.Struct], given: GivenValue) -> Problem | None:
    kind = type_at(root, given.path)
    if kind is None:
        return _unknown_key(root, given)
    if section_type(kind) is not None and given.value == {}:
        return None
    try:
        if given.is_text:
            parse_value(given.value, kind)
        else:
            msgspec.convert(given.value, kind)
    except msgspec.ValidationError as error:
        return _wrong_value(given, kind, str(error))
    return None


def locate_error(error: str, given: Iterable[GivenValue]) -> list[Problem]:
    """The position of an error that no single value has: a section lacks a key."""
    text, _, at = error.partition(" - at `$.")
    section = tuple(at.rstrip("`").split("."))
    for each in given:
        if each.path[: len(section)] == section:
            where = each.positions[len(section) - 1] if each.positions else each.origin.where
            return [Problem(where, 0, f"{dotted_key(section)}: {text}".replace("`", ""))]
    return []


def _wrong_value(given: GivenValue, kind: Any, error: str) -> Problem:
    text, _, at = error.partition(" - at `")
    inner = tuple(int(index) if index else name for name, index in _INNER_PATH.findall(at))
    unknown = _UNKNOWN_FIELD.search(text)
    key = (*inner, unknown[1]) if unknown else inner
    section = section_type(_type_inside(kind, inner)) if unknown else None
    hint = _suggest_name(unknown[1], list(struct_fields(section))) if unknown and section else ""
    what = f"{dotted_key(given.path)}: {_explain_error(error, kind, given.value)}"
    return Problem(_position_inside(given, key), 0, what, suggestion=hint)


def _position_inside(given: GivenValue, key: KeyPath) -> str:
    while key and key not in given.inner_positions:
        key = key[:-1]
    return given.inner_positions.get(key, given.origin.where) if key else given.origin.where


def _type_inside(kind: Any, inner: KeyPath) -> Any:
    """The type of a key inside a list of sections."""
    for part in inner:
        if isinstance(part, int):
            kind = (get_args(kind) or (None,))[0]
        else:
            section = section_type(kind)
            kind = type_at(section, (part,)) if section else None
    return kind


def nearest_key(root: type[msgspec.Struct], path: KeyPath) -> str:
    """Return the most similar key; empty when none is similar."""
    known = {dotted_key(key): key for key in list_keys(root)}
    sections = {dotted_key(key[:end]) for key in known.values() for end in range(1, len(key))}
    wanted = dotted_key(path)
    if close := closest_name(wanted, [*known, *sections], cutoff=0.75):
        return close
    last = {key: str(parts[-1]) for key, parts in known.items()}
    matching = closest_name(str(path[-1]), last.values(), cutoff=0.8)
    return next((key for key, name in last.items() if name == matching), "")


def _unknown_key(root: type[msgspec.Struct], given: GivenValue) -> Problem:
    lengths = range(1, len(given.path) + 1)
    end = next(end for end in lengths if type_at(root, given.path[:end]) is None)
    path = given.path[:end]
    positions = given.positions or (given.origin.where,) * len(given.path)
    kind: Any = type_at(root, path[:-1])
    section = section_type(kind)
    if section is None:
        what = f"{dotted_key(path[:-1])}: expected {describe_type(kind)}, got a section"
        return Problem(positions[end - 2], 0, what)
    suggestion = _suggest_key(root, path, section)
    return Problem(positions[end - 1], 0, f"unknown key {dotted_key(path)}", suggestion=suggestion)


def _suggest_key(root: type[msgspec.Struct], path: KeyPath, section: type[msgspec.Struct]) -> str:
    if is_secret(str(path[-1])):
        return "keys and tokens belong in .env: hermes config set NAME_API_KEY"
    beside = closest_name(str(path[-1]), struct_fields(section), cutoff=0.7)
    near = dotted_key((*path[:-1], beside)) if beside else nearest_key(root, path)
    if near:
        return f"did you mean {near}?"
    return _suggest_name("", list(struct_fields(section)))


def _suggest_name(name: str, names: list[str]) -> str:
    if near := closest_name(name, names):
        return f"did you mean {near}?"
    more = ", …" if len(names) > MAX_HINT_NAMES else ""
    return f"there are: {', '.join(names[:MAX_HINT_NAMES])}{more}"


def _explain_error(message: str, kind: Any, value: Any) -> str:
    text, _, at = message.partition(" - at `")
    inner = "".join(f".{name}" if name else f"[{index}]" for name, index in _INNER_PATH.findall(at))
    unknown = _UNKNOWN_FIELD.search(text)
    if unknown is not None:
        return f"{inner.lstrip('.') or 'here'} does not know {unknown.group(1)!r}"
    if inner or not _WRONG_TYPE.match(text):
        plain = text.replace("`", "")
        return f"{plain} at {inner.lstrip('.')}" if inner else _explain_enum(plain, kind, value)
    return f"expected {describe_type(kind)}, got {_preview_value(value)}"


def _explain_enum(text: str, kind: Any, value: Any) -> str:
    return (
        f"expected {describe_type(kind)}, got {_preview_value(value)}"
        if "enum value" in text
        else text
    )


def _preview_value(value: Any) -> str:
    if isinstance(value, dict):
        return "a section"
    return f"{value!r}"[:60]
