"""Says everything that is wrong with what was set, and where. Loaded only for bad news."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from hermes.settings.kinds import describe, fields_of, keys_of, read_words, struct_in, type_at
from hermes.settings.origins import Given, Path, Problem, dotted
from hermes.settings.secrets import is_secret

MANY = 12
"""Names that a hint lists before it becomes a wall."""
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_TYPE = re.compile(r"^Expected `([^`]+)`, got `([^`]+)`$")
_INNER = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]")


def problems_of(root: type[msgspec.Struct], given: Iterable[Given]) -> list[Problem]:
    found = (check(root, one) for one in given)
    return list(dict.fromkeys(problem for problem in found if problem is not None))


def check(root: type[msgspec.Struct], given: Given) -> Problem | None:
    key, where = dotted(given.path), given.origin.where
    kind = type_at(root, given.path)
    if kind is None:
        return _unknown(root, given)
    if struct_in(kind) is not None and given.value == {}:
        return None
    try:
        if given.text:
            read_words(given.value, kind)
        else:
            msgspec.convert(given.value, kind)
    except msgspec.ValidationError as error:
        return Problem(where, f"{key}: {_explain(str(error), kind, given.value)}")
    return None


def nearest(root: type[msgspec.Struct], path: Path) -> str:
    """The key somebody probably meant, or nothing."""
    known = {dotted(key): key for key in keys_of(root)}
    sections = {dotted(key[:end]) for key in known.values() for end in range(1, len(key))}
    wanted = dotted(path)
    close = difflib.get_close_matches(wanted, [*known, *sections], n=1, cutoff=0.75)
    if close:
        return close[0]
    last = {key: str(parts[-1]) for key, parts in known.items()}
    matching = difflib.get_close_matches(str(path[-1]), list(last.values()), n=1, cutoff=0.8)
    return next((key for key, name in last.items() if name in matching), "")


def _unknown(root: type[msgspec.Struct], given: Given) -> Problem:
    end = next(end for end in range(1, len(given.path) + 1) if _leaves(root, given.path[:end]))
    path = given.path[:end]
    places = given.places or (given.origin.where,) * len(given.path)
    kind: Any = type_at(root, path[:-1])
    section = struct_in(kind)
    if section is None:
        what = f"{dotted(path[:-1])}: expected {describe(kind)}, got a section"
        return Problem(places[end - 2], what)
    return Problem(places[end - 1], f"unknown key {dotted(path)}", _suggest(root, path, section))


def _leaves(root: type[msgspec.Struct], path: Path) -> bool:
    """Does it leave the known ground?"""
    return type_at(root, path) is None


def _suggest(root: type[msgspec.Struct], path: Path, section: type[msgspec.Struct]) -> str:
    if is_secret(str(path[-1])):
        return "keys and tokens belong in .env: hermes config set NAME_API_KEY"
    beside = difflib.get_close_matches(str(path[-1]), fields_of(section), n=1, cutoff=0.7)
    near = dotted((*path[:-1], *beside)) if beside else nearest(root, path)
    if near:
        return f"did you mean {near}?"
    names = list(fields_of(section))
    return f"there are: {', '.join(names[:MANY])}{', …' if len(names) > MANY else ''}"


def _explain(message: str, kind: Any, value: Any) -> str:
    text, _, at = message.partition(" - at `")
    inner = "".join(f".{name}" if name else f"[{index}]" for name, index in _INNER.findall(at))
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        return f"{inner.lstrip('.') or 'here'} does not know {unknown.group(1)!r}"
    if inner or not _TYPE.match(text):
        plain = text.replace("`", "")
        return f"{plain} at {inner.lstrip('.')}" if inner else _enum(plain, kind, value)
    return f"expected {describe(kind)}, got {_show(value)}"


def _enum(text: str, kind: Any, value: Any) -> str:
    return f"expected {describe(kind)}, got {_show(value)}" if "enum value" in text else text


def _show(value: Any) -> str:
    if isinstance(value, dict):
        return "a section"
    return f"{value!r}"[:60]
