"""Reads YAML and remembers the position of each key. The only module that imports PyYAML."""

import re
from collections.abc import Hashable, Iterator
from typing import Any, TypeVar

import msgspec
import yaml

from hermes.plumbing.problems import Problem, suggest_name

KeyPath = tuple[str | int, ...]
T = TypeVar("T")

# The C loader is missing in some wheels, and in the type stubs.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE_TAG = "tag:yaml.org,2002:merge"
_MAX_DEPTH = 40
_MAX_ALIAS_NODES = 20_000
"""Values that aliases and merged keys may add to those that are written out."""


class YamlFileError(Exception):
    """The text is not valid YAML, or a value does not fit."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem

    def in_file(self, file: str) -> Problem:
        return msgspec.structs.replace(self.problem, file=file)


class YamlDocument:
    """Plain data with the position of each key."""

    def __init__(self, file: str, line: int) -> None:
        self.file, self.line = file, line
        self.data: Any = None
        self.positions: dict[KeyPath, tuple[int, int]] = {}
        """Line and column, from 1."""
        self.text_lines: dict[KeyPath, int] = {}
        """Of texts over several lines: the line on which the text itself begins."""

    def position(self, *path: str | int) -> tuple[int, int]:
        """Of a key, or of the nearest one above it."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions.get(path, (self.line, 1))

    def line_of(self, *path: str | int) -> int:
        return self.position(*path)[0]

    def problem(self, path: KeyPath, cause: str, *, fatal: bool = True) -> Problem:
        return Problem(self.file, self.line_of(*path), cause, fatal)

    def convert(self, value: object, kind: type[T], *path: str | int) -> T:
        """Raises `YamlFileError` with the line of the value that does not fit."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise YamlFileError(self._validation_problem(str(error), kind, path)) from error

    def _validation_problem(self, error: str, kind: Any, path: KeyPath) -> Problem:
        cause, _, where = error.partition(" - at `$")
        suggestion = ""
        path += tuple(
            int(number) if number else name
            for name, number in re.findall(r"\.?([^.\[\]`]+)|\[(\d+)\]", where)
        )
        if unknown := re.search(r"unknown field `(.*?)`", cause):
            path = (*path, unknown[1])
            cause = f"{unknown[1]} is not known here"
            suggestion = suggest_name(unknown[1], _field_names(kind))
        elif missing := re.search(r"missing required field `(.*?)`", cause):
            cause = f"{missing[1]} is missing"
        else:
            name = next((part for part in reversed(path) if isinstance(part, str)), "")
            cause = f"{name}: {cause[:1].lower()}{cause[1:]}" if name else cause
        return Problem(self.file, self.line_of(*path), cause, suggestion=suggestion)


def _field_names(kind: Any) -> list[str]:
    try:
        return [field.name for field in msgspec.structs.fields(kind)]
    except TypeError:
        return []


def load_yaml(text: str, file: str = "", *, first_line: int = 1) -> YamlDocument:
    """The one document of a text; without content its data is None. Raises `YamlFileError`."""
    documents, problems = read_yaml_documents(text, file, first_line=first_line, single=True)
    if problems:
        raise YamlFileError(problems[0])
    return documents[0] if documents else YamlDocument(file, first_line)


def read_yaml_documents(
    text: str, file: str = "", *, first_line: int = 1, single: bool = False
) -> tuple[list[YamlDocument], list[Problem]]:
    """All documents with content up to the first syntax error, and all problems.

    With `single`, a second document is a problem.
    """
    reader = _YamlReader(text, file, first_line)
    documents: list[YamlDocument] = []
    try:
        for document in reader.read():
            if documents and single:
                raise YamlFileError(Problem(file, document.line, "expected a single document"))
            documents.append(document)
    except yaml.YAMLError as error:
        reader.problems.append(_syntax_problem(error, text, file, first_line))
    except YamlFileError as error:
        reader.problems.append(error.problem)
    return documents, reader.problems


def load_plain_yaml(text: str) -> Any:
    """For files that are part of Hermes: faster, without positions. Raises `yaml.YAMLError`."""
    return yaml.load(text, Loader=_Loader)


def dump_yaml(data: object) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=96)


class _YamlReader:
    def __init__(self, text: str, file: str, first_line: int) -> None:
        self.problems: list[Problem] = []
        self._text, self._file, self._first_line = text, file, first_line
        self._nodes_left = len(text) + _MAX_ALIAS_NODES  # a written value has a character

    def read(self) -> Iterator[YamlDocument]:
        self._loader = _Loader(self._text)
        try:
            while self._loader.check_node():
                node = self._loader.get_node()
                self._document = YamlDocument(self._file, self._line(node))
                self._document.data = self._build(node, (), ())
                if self._document.data is not None:
                    yield self._document
        finally:
            self._loader.dispose()

    def _build(self, node: yaml.Node, path: KeyPath, above: tuple[int, ...]) -> Any:
        self._count(node, len(path))
        if id(node) in above:
            self._report(node, f"{_dotted(path)}: an alias contains itself")
            return None
        above = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return {
                name: self._build(value, (*path, name), above)
                for name, value in self._entries(node, path)
            }
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._document.positions[(*path, index)] = self._position(item)
            return [
                self._build(item, (*path, index), above) for index, item in enumerate(node.value)
            ]
        if node.end_mark.line > node.start_mark.line:
            block = getattr(node, "style", None) in ("|", ">")
            self._document.text_lines[path] = self._line(node) + block
        try:
            return self._loader.construct_object(node)
        except ValueError as error:  # 2026-02-31 is not a date
            self._report(node, f"{node.value}: {error}")
            return None

    def _entries(self, node: yaml.MappingNode, path: KeyPath) -> Iterator[tuple[str, yaml.Node]]:
        merged, own = self._pairs(node, 0)
        first: dict[str, int] = {}
        for index, (key_node, value) in enumerate((*merged, *own)):
            key = self._loader.construct_object(key_node, deep=True)
            name = str(key) if isinstance(key, Hashable) else "?"
            if index >= len(merged):  # a merged key may be set again
                if name in first:
                    key_name = _dotted((*path, name))
                    cause = f"{key_name} is set twice, first on line {first[name]}"
                    self._report(key_node, cause)
                first.setdefault(name, self._line(key_node))
            self._document.positions[(*path, name)] = self._position(key_node)
            yield name, value

    def _pairs(
        self, node: yaml.MappingNode, depth: int
    ) -> tuple[list[tuple[yaml.Node, yaml.Node]], list[tuple[yaml.Node, yaml.Node]]]:
        """The pairs that `<<: *shared` merges, and the own ones, which override them."""
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        own: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            if key.tag != _MERGE_TAG:
                own.append((key, value))
                continue
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources):  # the first one overrides the others
                if not isinstance(source, yaml.MappingNode):
                    raise YamlFileError(self._problem(source, "<< needs a mapping"))
                self._count(source, depth)
                for pairs in self._pairs(source, depth + 1):
                    merged += pairs
                    self._count(source, depth, len(pairs))
        return merged, own

    def _count(self, node: yaml.Node, depth: int, nodes: int = 1) -> None:
        self._nodes_left -= nodes
        if depth > _MAX_DEPTH or self._nodes_left < 0:
            raise YamlFileError(self._problem(node, "too deeply nested, or too many values"))

    def _report(self, node: yaml.Node, cause: str) -> None:
        self.problems.append(self._problem(node, cause))

    def _problem(self, node: yaml.Node, cause: str) -> Problem:
        line, column = self._position(node)
        return Problem(self._file, line, cause, column=column)

    def _position(self, node: yaml.Node) -> tuple[int, int]:
        return self._line(node), node.start_mark.column + 1

    def _line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + self._first_line


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _syntax_problem(error: yaml.YAMLError, text: str, file: str, first_line: int) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    cause = f"not valid YAML: {reason}"
    if mark is None:
        return Problem(file, first_line, cause)
    line = "".join(text.split("\n")[mark.line : mark.line + 1])
    tab = line[mark.column : mark.column + 1] == "\t"
    suggestion = "indent with spaces, not with tabs" if tab else ""
    return Problem(
        file, mark.line + first_line, cause, column=mark.column + 1, suggestion=suggestion
    )
