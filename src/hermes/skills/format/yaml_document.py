"""Reads YAML and keeps the line of each key; reports problems with file and line."""

import re
from collections.abc import Hashable
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
import yaml

from hermes.core.messages import Value


class SkillProblem(Value, frozen=True):
    file: str
    line: int
    cause: str
    fatal: bool = True
    """False: the file can be used, but should be corrected."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'' if self.fatal else 'note: '}{self.cause}"


YamlPath = tuple[str | int, ...]
T = TypeVar("T")

# The C loader is missing in some wheels, and in the type stubs.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_YAML_DEPTH = 20
_MAX_YAML_NODES = 20_000
"""Limits the expansion of nested aliases."""


class YamlFileError(Exception):
    def __init__(self, line: int, cause: str) -> None:
        super().__init__(cause)
        self.line = line


class LineNumberedYaml:
    """One YAML document. Raises `YamlFileError` for invalid YAML or a duplicate key."""

    def __init__(self, text: str, *, first: int = 1) -> None:
        self._first = first
        self._lines: dict[YamlPath, int] = {}
        self._nodes_left = _MAX_YAML_NODES
        self.data = self._load(text)

    def line_of(self, *path: str | int) -> int:
        """The line of a key, or of the nearest one above it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, self._first)

    def convert(self, value: object, kind: type[T], *path: str | int) -> T:
        """Raises `YamlFileError` with the line of the value that does not fit."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._validation_error(str(error), kind, path) from error

    def _load(self, text: str) -> Any:
        try:
            loader = _Loader(text)
        except yaml.YAMLError as error:
            raise self._syntax_error(error) from error
        try:
            node = loader.get_single_node()
            return None if node is None else self._build(loader, node, ())
        except (yaml.YAMLError, ValueError) as error:
            raise self._syntax_error(error) from error
        finally:
            loader.dispose()

    def _build(self, loader: Any, node: yaml.Node, path: YamlPath) -> Any:
        self._nodes_left -= 1
        if len(path) > _MAX_YAML_DEPTH or self._nodes_left < 0:
            raise YamlFileError(self._node_line(node), "too deeply nested, or too many values")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, path)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._lines[*path, index] = self._node_line(item)
            return [
                self._build(loader, item, (*path, index)) for index, item in enumerate(node.value)
            ]
        return loader.construct_object(node)

    def _mapping(self, loader: Any, node: yaml.MappingNode, path: YamlPath) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value in node.value:
            key = loader.construct_object(key_node, deep=True)
            name = str(key) if isinstance(key, Hashable) else "?"
            if name in built:
                raise YamlFileError(self._node_line(key_node), f"{name} is given twice")
            self._lines[*path, name] = self._node_line(key_node)
            built[name] = self._build(loader, value, (*path, name))
        return built

    def _node_line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + self._first

    def _syntax_error(self, error: Exception) -> YamlFileError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        cause = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        line = mark.line + self._first if mark is not None else self._first
        return YamlFileError(line, f"not valid YAML: {cause}")

    def _validation_error(self, error: str, kind: Any, path: YamlPath) -> YamlFileError:
        cause, _, where = error.partition(" - at `$")
        inner: list[str | int] = [
            int(number) if number else name
            for name, number in re.findall(r"\.?([^.\[\]`]+)|\[(\d+)\]", where)
        ]
        if unknown := re.search(r"unknown field `(.*?)`", cause):
            path = (*path, *inner, unknown[1])
            cause = f"{unknown[1]} is not known here{_suggest_field(unknown[1], kind)}"
        elif missing := re.search(r"missing required field `(.*?)`", cause):
            path = (*path, *inner)
            cause = f"{missing[1]} is missing"
        else:
            path = (*path, *inner)
            name = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
            cause = f"{name}: {cause[:1].lower()}{cause[1:]}" if name else cause
        return YamlFileError(self.line_of(*path), cause)


def _suggest_field(name: str, kind: Any) -> str:
    try:
        known = [field.name for field in msgspec.structs.fields(kind)]
    except TypeError:
        return ""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}"
