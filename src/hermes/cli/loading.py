"""How a command gets its settings: once, with what the command line says on top."""

from collections.abc import Mapping
from pathlib import Path

import click

from hermes.cli.output import note
from hermes.settings import process
from hermes.settings.load import Loaded, load


def settings_for(ctx: click.Context, overrides: Mapping[str, str] | None = None) -> Loaded:
    """Raises `SettingsError`, which the front door prints."""
    loaded = load(overrides={**overrides_of(ctx), **(overrides or {})})
    for warning in loaded.warnings:
        note(warning)
    color = loaded.settings.display.color
    if color != "auto":
        ctx.find_root().color = ctx.color = color == "always"
    return loaded


def overrides_of(ctx: click.Context) -> Mapping[str, str]:
    """What `hermes --set KEY=VALUE` said."""
    given = ctx.find_root().obj
    return given if isinstance(given, dict) else {}


def home() -> Path:
    return process.home_of(process.variables())
