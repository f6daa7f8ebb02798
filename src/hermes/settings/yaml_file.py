"""Reads config.yaml and remembers the line of every key. Loaded only when there is such a file."""

from collections.abc import Hashable, Iterator
from pathlib import Path as File
from typing import Any

import yaml

from hermes.settings.origins import Path, Problem, dotted

# Stubs know the C loader only as an attribute that may be missing, and so may the wheel.
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document:
    """What the file says as plain data, with the place of each key."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.data: dict[str, Any] = {}
        self.marks: dict[Path, tuple[int, int]] = {}
        self.problems: list[Problem] = []

    def where(self, path: Path) -> str:
        """`file:line:column` of a key, or of the nearest one above it."""
        while path and path not in self.marks:
            path = path[:-1]
        line, column = self.marks.get(path, (1, 1))
        return f"{self.file}:{line}:{column}"


def read(file: File, text: str) -> Document:
    document = Document(file)
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return document
        if not isinstance(root, yaml.MappingNode):
            what = "expected sections such as `model:` with keys below them"
            document.problems.append(Problem(f"{file}:1:1", what))
            return document
        document.data = _build(loader, root, (), document, ())
    except yaml.YAMLError as error:
        document.problems.append(_unreadable(file, text, error))
    finally:
        loader.dispose()
    return document


def _build(
    loader: Any, node: yaml.Node, path: Path, document: Document, above: tuple[int, ...]
) -> Any:
    if id(node) in above:
        what = f"{dotted(path)}: an alias contains itself"
        document.problems.append(Problem(_place(document.file, node), what))
        return None
    above = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        built = {}
        for key, value in _pairs(loader, node, path, document):
            built[key] = _build(loader, value, (*path, key), document, above)
        return built
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.marks[(*path, index)] = _mark(item)
        return [
            _build(loader, item, (*path, index), document, above)
            for index, item in enumerate(node.value)
        ]
    return loader.construct_object(node)


def _pairs(
    loader: Any, node: yaml.MappingNode, path: Path, document: Document
) -> Iterator[tuple[str, yaml.Node]]:
    written = {id(key) for key, _ in node.value}
    loader.flatten_mapping(node)  # `<<: *shared` becomes ordinary pairs, before ours
    seen: set[str] = set()
    for key_node, value in node.value:
        key = loader.construct_object(key_node, deep=True)
        name = str(key) if isinstance(key, Hashable) else "?"
        if name in seen:
            first = document.marks[(*path, name)][0]
            what = f"{dotted((*path, name))} is set twice, first on line {first}"
            document.problems.append(Problem(_place(document.file, key_node), what))
        if id(key_node) in written:  # what was merged in may well be set anew
            seen.add(name)
        document.marks[(*path, name)] = _mark(key_node)
        yield name, value


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _place(file: File, node: yaml.Node) -> str:
    line, column = _mark(node)
    return f"{file}:{line}:{column}"


def _unreadable(file: File, text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    cause = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:
        return Problem(str(file), f"not valid YAML: {cause}")
    line = text.split("\n")[mark.line : mark.line + 1]
    tab = bool(line) and line[0][mark.column : mark.column + 1] == "\t"
    hint = "indent with spaces, not with tabs" if tab else ""
    return Problem(f"{file}:{mark.line + 1}:{mark.column + 1}", f"not valid YAML: {cause}", hint)
