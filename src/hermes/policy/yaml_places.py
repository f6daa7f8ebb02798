"""YAML text into plain data that remembers the line of every key. Loaded with the first file."""

from collections.abc import Hashable, Iterator
from typing import Any

import msgspec
import yaml

Path = tuple[str | int, ...]

# Stubs know the C loader only as an attribute that may be missing, and so may the wheel.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 40


class Mistake(msgspec.Struct, frozen=True):
    line: int
    cause: str


class Raw(msgspec.Struct):
    """One document of a file, not yet checked."""

    data: Any
    line: int
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """The line of a key, or of the nearest one above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


def read(text: str) -> tuple[list[Raw], list[Mistake]]:
    """All documents of a file up to the first place that is not YAML."""
    documents: list[Raw] = []
    mistakes: list[Mistake] = []
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:  # the reader refuses control characters at once
        return [], [_unreadable(error)]
    try:
        while loader.check_node():
            node = loader.get_node()
            raw = Raw(None, _line(node), {})
            raw.data = _build(loader, node, (), raw, mistakes)
            if raw.data is not None:
                documents.append(raw)
    except yaml.YAMLError as error:
        mistakes.append(_unreadable(error))
    finally:
        loader.dispose()
    return documents, mistakes


def _build(loader: Any, node: yaml.Node, path: Path, raw: Raw, mistakes: list[Mistake]) -> Any:
    if len(path) > _DEEPEST:  # an alias may contain itself
        mistakes.append(Mistake(_line(node), "too deeply nested"))
        return None
    if isinstance(node, yaml.MappingNode):
        built = {}
        for key, value in _pairs(loader, node, path, raw, mistakes):
            built[key] = _build(loader, value, (*path, key), raw, mistakes)
        return built
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            raw.lines[(*path, index)] = _line(item)
        return [
            _build(loader, item, (*path, index), raw, mistakes)
            for index, item in enumerate(node.value)
        ]
    try:
        return loader.construct_object(node)
    except ValueError as error:  # 2026-02-31 looks like a date and is none
        mistakes.append(Mistake(_line(node), f"{node.value}: {error}"))
        return None


def _pairs(
    loader: Any, node: yaml.MappingNode, path: Path, raw: Raw, mistakes: list[Mistake]
) -> Iterator[tuple[str, yaml.Node]]:
    written = {id(key) for key, _ in node.value}
    loader.flatten_mapping(node)  # `<<: *shared` becomes ordinary pairs, before ours
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        key = loader.construct_object(key_node, deep=True)
        name = str(key) if isinstance(key, Hashable) else "?"
        line = _line(key_node)
        if id(key_node) in written:  # what was merged in may well be set anew
            if name in seen:
                mistakes.append(Mistake(line, f"{name} is set twice, first on line {seen[name]}"))
            seen[name] = line
        raw.lines[(*path, name)] = line
        yield name, value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _unreadable(error: yaml.YAMLError) -> Mistake:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    cause = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return Mistake(mark.line + 1 if mark is not None else 1, f"not valid YAML: {cause}")
