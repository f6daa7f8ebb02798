"""Adds the sections of plug-ins to the settings. Loaded for errors and for named plug-ins only.

A plug-in's own settings are a section with its name, beside the key that names it: for
`terminal.backend: vm` the section `terminal.vm`, in a sink with `kind: matrix` the key `matrix`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec

from hermes.core.errors import PluginError, SettingsError
from hermes.core.plugins import (
    BUILT_IN,
    load_plugin,
    outside_plugins,
    plugin_names,
    suggest_plugin,
)
from hermes.environments.settings import TerminalSettings
from hermes.gateway.manifest import ChannelManifest
from hermes.gateway.settings import ChannelsSettings
from hermes.plumbing.problems import Problem
from hermes.settings.origins import GivenValue, KeyPath, dotted_key
from hermes.settings.schema import Settings
from hermes.settings.validation import find_problems, locate_error
from hermes.sre.settings import SinkSettings

SINKS_PATH: KeyPath = ("sre", "notices", "sinks")


def settings_type(home: Path, given: Sequence[GivenValue] = ()) -> tuple[type[Settings], list[str]]:
    """The settings with a section for each plug-in of this home, and what is wrong with those.

    A name in `given` that a broken plug-in may have gets a section of any content, so that the rest
    of the configuration can be used.
    """
    problems: list[str] = []
    named = {str(each.path[1]) for each in given if each.path[0] == "terminal" and each.path[2:]}
    chats = {str(each.path[1]) for each in given if each.path[0] == "channels" and each.path[2:]}
    environments = _sections("environments", TerminalSettings, home, named, problems)
    channels = _sections("notifications", SinkSettings, home, _named_kinds(given), problems)
    platforms = _sections("channels", ChannelsSettings, home, chats, problems)
    root = Settings
    if platforms:
        root = _replace_field(root, ("channels",), _extended(ChannelsSettings, platforms))
    if environments:
        root = _replace_field(root, ("terminal",), _extended(TerminalSettings, environments))
    if channels:
        sinks = GenericAlias(tuple, (_extended(SinkSettings, channels), ...))
        root = _replace_field(root, SINKS_PATH, sinks)
    return root, problems


def problems_with_plugins(
    settings: Settings | str, root: type[Settings], given: Sequence[GivenValue], home: Path
) -> list[Problem]:
    """All problems; `settings` are the built settings, or an error text."""
    problems = find_problems(root, given)
    if isinstance(settings, str):
        return problems or locate_error(settings, given)
    return problems + _unknown_channels(settings, given, home)


def _sections(
    group: str, base: type[msgspec.Struct], home: Path, named: set[str], problems: list[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted({*outside_plugins(group, home), *named}):
        if name in BUILT_IN[group]:
            continue
        if name in base.__struct_fields__:
            problems.append(f"the plug-in {name} of hermes.{group} has the name of a setting")
            continue
        try:
            plugin = load_plugin(group, name, home)
        except PluginError as error:
            problems.append(str(error))
            found[name] = Any
        except SettingsError:
            continue
        else:
            is_chat = isinstance(plugin, ChannelManifest)
            if is_chat == (group == "channels") and hasattr(plugin, "settings"):
                found[name] = plugin.settings | None
    return found


def _extended(base: type[msgspec.Struct], sections: Mapping[str, Any]) -> Any:
    fields = [(name, kind, None) for name, kind in sections.items()]
    return _define(base, fields)


def _replace_field(root: Any, path: KeyPath, kind: Any) -> Any:
    """The struct with another type at the path, and the structs above it."""
    name, *rest = path
    field = next(each for each in msgspec.structs.fields(root) if each.name == name)
    if rest:
        kind = _replace_field(field.type, tuple(rest), kind)
    default = () if isinstance(field.default, tuple) else kind()
    return _define(root, [(str(name), kind, default)])


def _define(base: type[msgspec.Struct], fields: list[tuple[str, Any, Any]]) -> Any:
    return msgspec.defstruct(
        base.__name__,
        fields,
        bases=(base,),
        module=base.__module__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _named_kinds(given: Sequence[GivenValue]) -> set[str]:
    sinks = next((each.value for each in given if each.path == SINKS_PATH), None)
    items = sinks if isinstance(sinks, list) else []
    kinds = [item.get("kind") for item in items if isinstance(item, dict)]
    return {kind for kind in kinds if isinstance(kind, str)}


def _unknown_channels(settings: Settings, given: Sequence[GivenValue], home: Path) -> list[Problem]:
    positions = next((each for each in given if each.path == SINKS_PATH), None)
    found = []
    for number, sink in enumerate(settings.sre.notices.sinks):
        if sink.kind in plugin_names("notifications", home):
            continue
        try:
            load_plugin("notifications", sink.kind, home)
        except PluginError:
            continue
        except SettingsError:
            inner = positions.inner_positions if positions else {}
            where = inner.get((number, "kind")) or (positions.origin.where if positions else "")
            what = f"{dotted_key(SINKS_PATH)}: there is no notification channel {sink.kind!r}"
            hint = suggest_plugin("notifications", sink.kind, home)
            found.append(Problem(where, 0, what, suggestion=hint))
    return found
