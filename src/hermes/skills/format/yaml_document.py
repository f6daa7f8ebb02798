"""What is wrong with a file of a skill, and where."""

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
    """False: it can be used as it is, and somebody should look at it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'' if self.fatal else 'note: '}{self.cause}"


YamlPath = tuple[str | int, ...]
T = TypeVar("T")

# Stubs know the C loader only as an attribute that may be missing, and so may the wheel.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_YAML_DEPTH = 20
_MAX_YAML_NODES = 20_000
"""Nodes of a file: an alias of aliases may stand for billions."""


class YamlFileError(Exception):
    def __init__(self, line: int, cause: str) -> None:
        super().__init__(cause)
        self.line = line


class LineNumberedYaml:
    """One YAML document. Raises `Mistake` for what is not YAML, or names a key twice."""

    def __init__(self, text: str, *, first: int = 1) -> None:
        self._first = first
        self._lines: dict[YamlPath, int] = {}
        self._nodes_left = _MAX_YAML_NODES
        self.data = self._load(text)

    def line_of(self, *place: str | int) -> int:
        """The line of a key, or of the nearest one above it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, self._first)

    def convert(self, value: object, kind: type[T], *place: str | int) -> T:
        """Raises `Mistake` at the line of what does not fit."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._validation_error(str(error), kind, place) from error

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

    def _build(self, loader: Any, node: yaml.Node, place: YamlPath) -> Any:
        self._nodes_left -= 1
        if len(place) > _MAX_YAML_DEPTH or self._nodes_left < 0:
            raise YamlFileError(self._node_line(node), "too deeply nested, or too much")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(loader, node, place)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._lines[*place, index] = self._node_line(item)
            return [
                self._build(loader, item, (*place, index)) for index, item in enumerate(node.value)
            ]
        return loader.construct_object(node)

    def _mapping(self, loader: Any, node: yaml.MappingNode, place: YamlPath) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value in node.value:
            key = loader.construct_object(key_node, deep=True)
            name = str(key) if isinstance(key, Hashable) else "?"
            if name in built:
                raise YamlFileError(self._node_line(key_node), f"{name} is given twice")
            self._lines[*place, name] = self._node_line(key_node)
            built[name] = self._build(loader, value, (*place, name))
        return built

    def _node_line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + self._first

    def _syntax_error(self, error: Exception) -> YamlFileError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        cause = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        line = mark.line + self._first if mark is not None else self._first
        return YamlFileError(line, f"not valid YAML: {cause}")

    def _validation_error(self, error: str, kind: Any, place: YamlPath) -> YamlFileError:
        cause, _, where = error.partition(" - at `$")
        inner: list[str | int] = [
            int(number) if number else name
            for name, number in re.findall(r"\.?([^.\[\]`]+)|\[(\d+)\]", where)
        ]
        if unknown := re.search(r"unknown field `(.*?)`", cause):
            place = (*place, *inner, unknown[1])
            cause = f"{unknown[1]} is not known here{_suggest_field(unknown[1], kind)}"
        elif missing := re.search(r"missing required field `(.*?)`", cause):
            place = (*place, *inner)
            cause = f"{missing[1]} is missing"
        else:
            place = (*place, *inner)
            name = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
            cause = f"{name}: {cause[:1].lower()}{cause[1:]}" if name else cause
        return YamlFileError(self.line_of(*place), cause)


def _suggest_field(name: str, kind: Any) -> str:
    try:
        known = [field.name for field in msgspec.structs.fields(kind)]
    except TypeError:
        return ""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}"
