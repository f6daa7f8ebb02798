"""Reads config.yaml with the position of every key. Loaded only when the file exists."""

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import yaml

from hermes.settings.migrations import (
    CONFIG_VERSION,
    CONFIG_VERSION_KEY,
    KeyMove,
    find_value,
    pending_moves,
)
from hermes.settings.origins import GivenValue, KeyPath, SettingOrigin, SettingProblem, dotted_key

# The C loader may be missing, in the type stubs and in the wheel.
YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ConfigDocument:
    """The file as plain data, with the position of each key."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.data: dict[str, Any] = {}
        self.marks: dict[KeyPath, tuple[int, int]] = {}
        self.problems: list[SettingProblem] = []

    def where(self, path: KeyPath) -> str:
        """`file:line:column` of a key, or of the nearest one above it."""
        while path and path not in self.marks:
            path = path[:-1]
        line, column = self.marks.get(path, (1, 1))
        return f"{self.file}:{line}:{column}"


def read_document(file: Path, text: str) -> ConfigDocument:
    document = ConfigDocument(file)
    loader = YamlLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return document
        if not isinstance(root, yaml.MappingNode):
            what = "expected sections such as `model:` with keys below them"
            document.problems.append(SettingProblem(f"{file}:1:1", what))
            return document
        document.data = _build_value(loader, root, (), document, ())
    except yaml.YAMLError as error:
        document.problems.append(_unreadable_file(file, text, error))
    finally:
        loader.dispose()
    return document


def _build_value(
    loader: Any, node: yaml.Node, path: KeyPath, document: ConfigDocument, above: tuple[int, ...]
) -> Any:
    if id(node) in above:
        what = f"{dotted_key(path)}: an alias contains itself"
        document.problems.append(SettingProblem(_position_text(document.file, node), what))
        return None
    above = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        built = {}
        for key, value in _mapping_pairs(loader, node, path, document):
            built[key] = _build_value(loader, value, (*path, key), document, above)
        return built
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.marks[(*path, index)] = _node_position(item)
        return [
            _build_value(loader, item, (*path, index), document, above)
            for index, item in enumerate(node.value)
        ]
    return loader.construct_object(node)


def _mapping_pairs(
    loader: Any, node: yaml.MappingNode, path: KeyPath, document: ConfigDocument
) -> Iterator[tuple[str, yaml.Node]]:
    written = {id(key) for key, _ in node.value}
    loader.flatten_mapping(node)  # `<<: *shared` becomes ordinary pairs, before the own ones
    seen: set[str] = set()
    for key_node, value in node.value:
        key = loader.construct_object(key_node, deep=True)
        name = str(key) if isinstance(key, Hashable) else "?"
        if name in seen:
            first = document.marks[(*path, name)][0]
            what = f"{dotted_key((*path, name))} is set twice, first on line {first}"
            document.problems.append(SettingProblem(_position_text(document.file, key_node), what))
        if id(key_node) in written:  # merged keys may be set again
            seen.add(name)
        document.marks[(*path, name)] = _node_position(key_node)
        yield name, value


def _node_position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _position_text(file: Path, node: yaml.Node) -> str:
    line, column = _node_position(node)
    return f"{file}:{line}:{column}"


def _unreadable_file(file: Path, text: str, error: yaml.YAMLError) -> SettingProblem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    cause = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:
        return SettingProblem(str(file), f"not valid YAML: {cause}")
    line = text.split("\n")[mark.line : mark.line + 1]
    tab = bool(line) and line[0][mark.column : mark.column + 1] == "\t"
    hint = "indent with spaces, not with tabs" if tab else ""
    return SettingProblem(
        f"{file}:{mark.line + 1}:{mark.column + 1}", f"not valid YAML: {cause}", hint
    )


def read_config_file(
    file: Path, text: str
) -> tuple[list[GivenValue], list[SettingProblem], list[str]]:
    document = read_document(file, text)
    if document.problems:
        return [], document.problems, []
    try:
        moves = pending_moves(document.data)
    except ValueError as error:
        return [], [SettingProblem(document.where((CONFIG_VERSION_KEY,)), str(error))], []
    for move, old, new in moves:
        _move_key(document, move, old, new)
    document.data.pop(CONFIG_VERSION_KEY, None)
    warnings = [f"{file}: {_outdated_text(moves)}"] if moves else []
    return list(_leaf_values(document, document.data, ())), [], warnings


def _outdated_text(moves: list[tuple[KeyMove, KeyPath, KeyPath]]) -> str:
    names = ", ".join(f"{dotted_key(old)} is now {dotted_key(new)}" for _, old, new in moves)
    return f"older than version {CONFIG_VERSION} ({names}); `hermes config migrate` rewrites it"


def _move_key(document: ConfigDocument, move: KeyMove, old: KeyPath, new: KeyPath) -> None:
    """Move the key in memory only; `hermes config migrate` rewrites the file."""
    _, value = find_value(document.data, old)
    mark = document.marks.get(old)
    _remove_key(document.data, old)
    if find_value(document.data, new)[0]:
        return  # the new key is already set and wins
    tree = document.data
    for part in new[:-1]:
        tree = tree.setdefault(str(part), {})
    tree[str(new[-1])] = [value] if move.as_list and not isinstance(value, list) else value
    if mark is not None:
        document.marks[new] = mark


def _remove_key(tree: dict[str, Any], path: KeyPath) -> None:
    """Also removes a section that becomes empty: it may no longer exist."""
    if len(path) > 1:
        section = tree[str(path[0])]
        _remove_key(section, path[1:])
        if section:
            return
    del tree[str(path[0])]


def _leaf_values(
    document: ConfigDocument, tree: dict[str, Any], above: KeyPath
) -> list[GivenValue]:
    """A key without a value (for example with all lines commented out) sets nothing."""
    given: list[GivenValue] = []
    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict) and value:
            given += _leaf_values(document, value, path)
        elif value is not None:
            positions = tuple(document.where(path[:end]) for end in range(1, len(path) + 1))
            given.append(
                GivenValue(
                    path, value, SettingOrigin("config file", positions[-1]), positions=positions
                )
            )
    return given
