"""Reads config.yaml with the position of every key. Loaded only when the file exists.

`CONFIG_VERSION` is written as `_config_version`. A file without that key has version 0, the layout
without sections; keys that are already in their section stay there. To change the layout, increase
`CONFIG_VERSION` and add the moves that lead to it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.core.messages import Value
from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import YamlDocument, read_yaml_documents
from hermes.settings.origins import GivenValue, KeyPath, SettingOrigin, dotted_key

CONFIG_VERSION = 1
CONFIG_VERSION_KEY = "_config_version"


class KeyMove(Value, frozen=True):
    old: str
    new: str
    scalar: bool = False
    """Only when the old key has a plain value: `model: name` moves, `model:` with keys stays."""
    as_list: bool = False
    """A plain value becomes a list with one item."""


KEY_MOVES: Mapping[int, tuple[KeyMove, ...]] = {
    1: (
        KeyMove("model", "model.default", scalar=True),
        KeyMove("max_iterations", "agent.max_iterations"),
        KeyMove("agent.max_turns", "agent.max_iterations"),
        KeyMove("personality", "agent.personality"),
        KeyMove("toolsets", "tools.toolsets", as_list=True),
        KeyMove("enabled_toolsets", "tools.toolsets", as_list=True),
        KeyMove("disabled_toolsets", "tools.disabled", as_list=True),
        KeyMove("command_allowlist", "policy.command_allowlist", as_list=True),
        KeyMove("terminal", "terminal.backend", scalar=True),
        KeyMove("terminal.env_type", "terminal.backend"),
        KeyMove("compression.threshold", "agent.compress_at"),
        KeyMove("compression.summary_model", "model.summary"),
    ),
}


class ConfigVersionTooNew(ValueError):
    """The file has a version that this Hermes does not know."""


def config_version(data: Mapping[str, Any]) -> int:
    """Raises `ConfigVersionTooNew`, or `ValueError` for an invalid version."""
    version = data.get(CONFIG_VERSION_KEY, 0)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ValueError(f"{CONFIG_VERSION_KEY} must be a whole number, not {version!r}")
    if version > CONFIG_VERSION:
        raise ConfigVersionTooNew(
            f"{CONFIG_VERSION_KEY} is {version}, and this Hermes knows up to {CONFIG_VERSION}: "
            "update Hermes, or use an older backup of the file"
        )
    return version


def pending_moves(data: Mapping[str, Any]) -> list[tuple[KeyMove, KeyPath, KeyPath]]:
    """The moves that this file needs, in order."""
    due = [
        m
        for to in range(config_version(data) + 1, CONFIG_VERSION + 1)
        for m in KEY_MOVES.get(to, ())
    ]
    return [
        (move, tuple(move.old.split(".")), tuple(move.new.split(".")))
        for move in due
        if _move_applies(move, data)
    ]


def _move_applies(move: KeyMove, data: Mapping[str, Any]) -> bool:
    found, value = find_value(data, tuple(move.old.split(".")))
    return found and not (move.scalar and isinstance(value, Mapping))


def find_value(data: Mapping[str, Any], path: KeyPath) -> tuple[bool, Any]:
    value: Any = data
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value


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
