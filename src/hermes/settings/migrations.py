"""How config.yaml of each earlier version becomes one of today: data, one entry a version.

`VERSION` is what this Hermes writes as `_config_version`. A file without that line counts as
version 0, the layout before there were sections; what already stands in its section stays there.
To change the layout: raise `VERSION` and add the moves that lead to it.
"""

from collections.abc import Mapping
from typing import Any

from hermes.core.messages import Value
from hermes.settings.origins import Path

VERSION = 1
KEY = "_config_version"


class Move(Value, frozen=True):
    old: str
    new: str
    scalar: bool = False
    """Only when the old key holds a plain value: `model: name` moves, `model:` with keys stays."""
    aslist: bool = False
    """A plain value becomes a list of one."""


MOVES: Mapping[int, tuple[Move, ...]] = {
    1: (
        Move("model", "model.default", scalar=True),
        Move("max_iterations", "agent.max_iterations"),
        Move("agent.max_turns", "agent.max_iterations"),
        Move("personality", "agent.personality"),
        Move("toolsets", "tools.toolsets", aslist=True),
        Move("enabled_toolsets", "tools.toolsets", aslist=True),
        Move("disabled_toolsets", "tools.disabled", aslist=True),
        Move("command_allowlist", "policy.command_allowlist", aslist=True),
        Move("terminal", "terminal.backend", scalar=True),
        Move("terminal.env_type", "terminal.backend"),
        Move("compression.threshold", "agent.compress_at"),
        Move("compression.summary_model", "model.summary"),
    ),
}


class TooNew(ValueError):
    """The file says a version that this Hermes does not know."""


def version_of(data: Mapping[str, Any]) -> int:
    """Raises `TooNew`, or `ValueError` when it is not a version at all."""
    version = data.get(KEY, 0)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ValueError(f"{KEY} must be a whole number, not {version!r}")
    if version > VERSION:
        raise TooNew(
            f"{KEY} is {version}, and this Hermes knows up to {VERSION}: "
            "update Hermes, or take the file of an older backup beside it"
        )
    return version


def pending(data: Mapping[str, Any]) -> list[tuple[Move, Path, Path]]:
    """The moves that this file still needs, in order."""
    due = [m for to in range(version_of(data) + 1, VERSION + 1) for m in MOVES.get(to, ())]
    return [
        (move, tuple(move.old.split(".")), tuple(move.new.split(".")))
        for move in due
        if _applies(move, data)
    ]


def _applies(move: Move, data: Mapping[str, Any]) -> bool:
    found, value = find(data, tuple(move.old.split(".")))
    return found and not (move.scalar and isinstance(value, Mapping))


def find(data: Mapping[str, Any], path: Path) -> tuple[bool, Any]:
    value: Any = data
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value
