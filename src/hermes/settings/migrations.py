"""Migrations of config.yaml from earlier versions: the moved keys of each version.

`CONFIG_VERSION` is written as `_config_version`. A file without that key has version 0, the layout
without sections; keys that are already in their section stay there. To change the layout, increase
`CONFIG_VERSION` and add the moves that lead to it.
"""

from collections.abc import Mapping
from typing import Any

from hermes.core.messages import Value
from hermes.settings.origins import KeyPath

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
