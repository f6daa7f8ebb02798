"""Describes the answer of a web page by status, content type, size and shape.

Values are never part of the description: of a JSON body only keys and types remain, and keys that
look like data (numbers, addresses, tokens) are written as `*`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from hermes.core.messages import Value

BodyShape = Mapping[str, tuple[str, ...]]
"""The kinds of value at each path, such as `items[].price`: (`number`, `null`)."""
ROOT_PATH = ""
ABSENT, EMPTY_LIST, NULL, NOT_JSON = "absent", "empty list", "null", "no JSON"
MAX_PATHS, MAX_DEPTH, MAX_ELEMENTS, MAX_KEYS = 60, 4, 20, 30
_PLAIN_KEY = re.compile(r"[A-Za-z_$@][\w$@ -]{0,39}")
_MAX_DIGITS = 3
ANY_KEY = "*"


class AnswerFacts(Value, kw_only=True, frozen=True):
    """What is kept of one answer."""

    status: int
    content_type: str = ""
    """Without parameters, in lower case."""
    size: int = 0
    seconds: float = 0.0
    shape: dict[str, tuple[str, ...]] = {}
    """Empty for a body that is neither JSON nor said to be JSON."""
    depth: int = MAX_DEPTH
    """How deep the shape goes: a large body is described less deeply."""
    complete: bool = True
    """Whether all of the body was read; of a part no shape is known."""


def describe_answer(
    status: int, content_type: str, body: bytes, seconds: float = 0.0, *, complete: bool = True
) -> AnswerFacts:
    """`complete`: whether `body` is all of it."""
    plain = content_type.partition(";")[0].strip().lower()[:100]
    shape, depth = body_shape(plain, body) if complete else ({}, MAX_DEPTH)
    return AnswerFacts(
        status=status,
        content_type=plain,
        size=len(body),
        seconds=seconds,
        shape=dict(shape),
        depth=depth,
        complete=complete,
    )


def body_shape(content_type: str, body: bytes) -> tuple[BodyShape, int]:
    """The shape, and how deep it goes."""
    said_json = content_type == "application/json" or content_type.endswith("+json")
    if not said_json and body.lstrip()[:1] not in (b"{", b"["):
        return {}, MAX_DEPTH
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ({ROOT_PATH: (NOT_JSON,)} if said_json else {}), MAX_DEPTH
    depth, found = MAX_DEPTH, _collect(decoded, MAX_DEPTH)
    while len(found) > MAX_PATHS and depth:
        depth -= 1
        found = _collect(decoded, depth)
    return {path: tuple(sorted(kinds)) for path, kinds in found.items()}, depth


def _collect(decoded: object, depth: int) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path, kind in _walk(decoded, ROOT_PATH, depth):
        found.setdefault(path, set()).add(kind)
        if len(found) > MAX_PATHS:
            break
    return found


def _walk(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    yield path, kind_of(value)
    if depth <= 0:
        return
    if isinstance(value, dict):
        for key, inner in _entries(value):
            yield from _walk(inner, f"{path}.{key}" if path else key, depth - 1)
    elif isinstance(value, list):
        yield from _walk_elements(value[:MAX_ELEMENTS], f"{path}[]", depth - 1)


def _walk_elements(elements: list[object], path: str, depth: int) -> Iterator[tuple[str, str]]:
    """A key that only some elements have is absent in the others."""
    found: dict[str, int] = {}
    objects = 0
    for element in elements:
        objects += isinstance(element, dict)
        yield from _walk(element, path, depth)
        if isinstance(element, dict) and depth:
            for key in {f"{path}.{key}" for key, _ in _entries(element)}:
                found[key] = found.get(key, 0) + 1
    for key, times in found.items():
        if times < objects:
            yield key, ABSENT


def _entries(value: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Keys that look like data are one key: an object by user has other keys every day."""
    if len(value) > MAX_KEYS:
        yield from ((ANY_KEY, inner) for inner in list(value.values())[:MAX_ELEMENTS])
        return
    for key, inner in value.items():
        yield (key if is_plain_key(key) else ANY_KEY), inner


@lru_cache(maxsize=2048)
def is_plain_key(key: str) -> bool:
    digits = sum(letter.isdigit() for letter in key)
    return digits <= _MAX_DIGITS and _PLAIN_KEY.fullmatch(key) is not None


def kind_of(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "list" if value else EMPTY_LIST
    return "object"


def path_depth(path: str) -> int:
    if path == ROOT_PATH:
        return 0
    named = [each for each in path.replace("[]", "").split(".") if each]
    return len(named) + path.count("[]")


def parent_path(path: str) -> str | None:
    """The object or list that contains it; None for the body itself."""
    if path == ROOT_PATH:
        return None
    if path.endswith("[]"):
        return path.removesuffix("[]")
    return path.rpartition(".")[0]
