"""Finds plug-ins by entry point, and loads one only when it is asked for by name.

Built-ins are declared in the same way: a line in pyproject. Only the lines of our own distribution
are read directly, because `importlib.metadata` takes longer than a whole `hermes` start; it is used
when a name is not ours.
"""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hermes.core.errors import SettingsError


def load_plugin(group: str, name: str) -> Any:
    """The object behind `hermes.<group>: name`. Raises `SettingsError` naming what exists.

    A built-in whose optional package is missing raises one that names the extra to install.
    """
    own = _built_in_entry_points().get(group, {}).get(name)
    target = own or _installed_entry_points(group).get(name)
    if target is None:
        raise SettingsError(
            f"no {group} named {name!r}; there are: {', '.join(plugin_names(group))}"
        )
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if own is None or (error.name or "").startswith("hermes"):
            raise
        raise SettingsError(
            f"{name} needs the package {error.name}, which is not installed: "
            f"pip install 'hermes[{name}]'"
        ) from error


def plugin_names(group: str) -> list[str]:
    return sorted({*_built_in_entry_points().get(group, {}), *_installed_entry_points(group)})


def _installed_entry_points(group: str) -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 70 ms that most starts save

    return {point.name: point.value for point in entry_points(group=f"hermes.{group}")}


@cache
def _built_in_entry_points() -> dict[str, dict[str, str]]:
    for folder in map(Path, sys.path):
        for found in folder.glob("hermes-*.dist-info/entry_points.txt"):
            return _parse_entry_points(found.read_text())
    return {}


def _parse_entry_points(text: str) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("["):
            current = groups.setdefault(line.strip("[] ").removeprefix("hermes."), {})
        elif "=" in line:
            name, _, target = line.partition("=")
            current[name.strip()] = target.strip()
    return groups
