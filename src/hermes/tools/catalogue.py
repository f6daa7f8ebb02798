"""Builds the tools of a house from the toolsets it is to have.

The entry point of a tool (group `hermes.tools`) is either the tool itself or, for one that keeps
state or reads settings, a function `make(kit) -> Tool`. Either may have a `needs` of what must be
present; a tool that lacks it is left out, and the catalogue says why.
"""

from collections.abc import Collection, Mapping
from typing import Any

from hermes.core import plugins
from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.core.protocols import Tool
from hermes.tools.declare import Needs
from hermes.tools.kit import Kit
from hermes.tools.settings import ToolSettings
from hermes.tools.toolsets import Availability, Present, Toolset, availability, resolve, with_own


class Catalogue(Value, frozen=True):
    tools: dict[str, Tool]
    absent: tuple[Availability, ...] = ()
    """Tools that were wanted and cannot be offered, with what is missing."""
    elsewhere: frozenset[str] = frozenset()
    """Tools that were wanted and that a room above this one brings along."""


def build(
    settings: ToolSettings,
    *,
    present: Present | None = None,
    extra: Mapping[str, Tool] | None = None,
    elsewhere: Collection[str] = (),
) -> Catalogue:
    """The tools that the settings ask for.

    `extra` are tools made by others or declared in YAML; those that no toolset names are the
    toolset `declared`. `elsewhere` are names of tools that a room above this one makes, such as
    `delegate`. Raises `SettingsError` for a toolset that does not exist.
    """
    present, extra = present or Present(), extra or {}
    sets = _with_declared(with_own(settings.sets), extra)
    tools: dict[str, Tool] = {}
    absent: list[Availability] = []
    kit = Kit(settings=settings, tools=tools)
    wanted = _wanted(settings, sets, extra)
    for name, set_needs in wanted.items():
        if name in elsewhere:
            continue
        found = extra.get(name) or _load(name, kit)
        if found is None:
            absent.append(_not_installed(name))
            continue
        own: Needs = getattr(found, "needs", Needs())
        verdict = availability(name, (set_needs, own), present)
        if verdict.available:
            tools[name] = found
        else:
            absent.append(verdict)
    return Catalogue(tools, tuple(absent), frozenset(elsewhere) & wanted.keys())


def _wanted(
    settings: ToolSettings, sets: Mapping[str, Toolset], extra: Mapping[str, Tool]
) -> dict[str, Needs]:
    """A toolset may also be the name of a single tool."""
    wanted: dict[str, Needs] = {}
    for name in settings.toolsets:
        wanted.update({name: Needs()} if _single(name, sets, extra) else resolve([name], sets))
    for name in settings.disabled:
        known = name in wanted or _single(name, sets, extra)
        for gone in [name] if known else resolve([name], sets):
            wanted.pop(gone, None)
    return wanted


def _with_declared(sets: dict[str, Toolset], extra: Mapping[str, Tool]) -> dict[str, Toolset]:
    loose = tuple(name for name in extra if name not in _named(sets))
    return {**sets, "declared": Toolset(about=sets["declared"].about, tools=loose)}


def _single(name: str, sets: Mapping[str, Toolset], extra: Mapping[str, Tool]) -> bool:
    return name not in sets and (
        name in extra or name in _named(sets) or name in plugins.names("tools")
    )


def _named(sets: Mapping[str, Toolset]) -> set[str]:
    return {tool for each in sets.values() for tool in each.tools}


def _load(name: str, kit: Kit) -> Tool | None:
    try:
        found: Any = plugins.load("tools", name)
    except SettingsError:
        return None
    made: Tool = found if hasattr(found, "spec") else found(kit)
    return made


def _not_installed(name: str) -> Availability:
    return Availability(
        tool=name,
        available=False,
        why="no installed package brings it",
        how=f"install the package whose entry point in hermes.tools is {name!r}",
    )
