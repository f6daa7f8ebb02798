"""Reads config.yaml with the position of every key. Loaded only when the file exists."""

from pathlib import Path
from typing import Any

from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import YamlDocument, read_yaml_documents
from hermes.settings.migrations import (
    CONFIG_VERSION,
    CONFIG_VERSION_KEY,
    KeyMove,
    find_value,
    pending_moves,
)
from hermes.settings.origins import GivenValue, KeyPath, SettingOrigin, dotted_key


def read_config_file(file: Path, text: str) -> tuple[list[GivenValue], list[Problem], list[str]]:
    documents, problems = read_yaml_documents(text, str(file), single=True)
    document = documents[0] if documents else YamlDocument(str(file), 1)
    if document.data is None:
        document.data = {}
    if not isinstance(document.data, dict):
        what = "expected sections such as `model:` with keys below them"
        problems.append(Problem(str(file), 1, what, column=1))
    if problems:
        return [], problems, []
    try:
        moves = pending_moves(document.data)
    except ValueError as error:
        return [], [Problem(_where(document, (CONFIG_VERSION_KEY,)), 0, str(error))], []
    for move, old, new in moves:
        _move_key(document, move, old, new)
    document.data.pop(CONFIG_VERSION_KEY, None)
    warnings = [f"{file}: {_outdated_text(moves)}"] if moves else []
    return list(_leaf_values(document, document.data, ())), [], warnings


def _where(document: YamlDocument, path: KeyPath) -> str:
    line, column = document.position(*path)
    return f"{document.file}:{line}:{column}"


def _outdated_text(moves: list[tuple[KeyMove, KeyPath, KeyPath]]) -> str:
    names = ", ".join(f"{dotted_key(old)} is now {dotted_key(new)}" for _, old, new in moves)
    return f"older than version {CONFIG_VERSION} ({names}); `hermes config migrate` rewrites it"


def _move_key(document: YamlDocument, move: KeyMove, old: KeyPath, new: KeyPath) -> None:
    """Move the key in memory only; `hermes config migrate` rewrites the file."""
    _, value = find_value(document.data, old)
    position = document.positions.get(old)
    _remove_key(document.data, old)
    if find_value(document.data, new)[0]:
        return  # the new key is already set and wins
    tree = document.data
    for part in new[:-1]:
        tree = tree.setdefault(str(part), {})
    tree[str(new[-1])] = [value] if move.as_list and not isinstance(value, list) else value
    if position is not None:
        document.positions[new] = position


def _remove_key(tree: dict[str, Any], path: KeyPath) -> None:
    """Also removes a section that becomes empty: it may no longer exist."""
    if len(path) > 1:
        section = tree[str(path[0])]
        _remove_key(section, path[1:])
        if section:
            return
    del tree[str(path[0])]


def _leaf_values(document: YamlDocument, tree: dict[str, Any], above: KeyPath) -> list[GivenValue]:
    """A key without a value (for example with all lines commented out) sets nothing."""
    given: list[GivenValue] = []
    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict) and value:
            given += _leaf_values(document, value, path)
        elif value is not None:
            positions = tuple(_where(document, path[:end]) for end in range(1, len(path) + 1))
            inner = {
                key[len(path) :]: _where(document, key)
                for key in (document.positions if isinstance(value, list) else ())
                if key[: len(path)] == path
            }
            origin = SettingOrigin("config file", positions[-1])
            given.append(
                GivenValue(path, value, origin, positions=positions, inner_positions=inner)
            )
    return given
