"""From defaults, config.yaml, .env, the process environment and the command line to settings.

Later sources win, value by value, and each value remembers where it came from. A home that does
not exist is no error: defaults work. Everything that is wrong is reported at once.
"""

from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.settings import env_file
from hermes.settings.files import read_text
from hermes.settings.origins import (
    GivenValue,
    KeyPath,
    SettingOrigin,
    SettingProblem,
    SettingSource,
    dotted_key,
)
from hermes.settings.process_environment import environment_variables as process_variables
from hermes.settings.process_environment import hermes_home
from hermes.settings.schema import Settings
from hermes.settings.secrets import Secrets
from hermes.settings.value_types import parse_value, type_at
from hermes.settings.variable_names import apply_provider_variable, key_for_variable

CONFIG_FILE_NAME = "config.yaml"
DEFAULT_MODEL_KEY, DEFAULT_KEY_VARIABLE = "model.default", "OPENROUTER_API_KEY"


class LoadedSettings(Value, frozen=True):
    """Settings, with where each came from."""

    home: File
    settings: Settings
    secrets: Secrets
    origins: dict[str, SettingOrigin] = {}
    """Dotted key → origin, for everything that is not a default."""
    warnings: tuple[str, ...] = ()

    def origin(self, key: str) -> SettingOrigin:
        return self.origins.get(key, SettingOrigin())

    @property
    def journal(self) -> File:
        """Where everything that happened is kept; the file need not exist."""
        path = self.settings.store.path
        return File(path).expanduser() if path else self.home / "journal.db"

    @property
    def store(self) -> File | str:
        """That file, or the URL of the database that keeps everything in its place."""
        return self.settings.store.url or self.journal


def load(
    *,
    home: File | None = None,
    variables: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """The settings of this process. Raises `SettingsError` with every problem that was found."""
    loaded, problems = load_with_problems(home=home, variables=variables, overrides=overrides)
    if loaded is None:
        raise SettingsError("\n".join(map(str, problems)))
    return loaded


def load_with_problems(
    *,
    home: File | None = None,
    variables: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> tuple[LoadedSettings | None, list[SettingProblem]]:
    """Like `load`, for those who want the problems as data."""
    outside = process_variables() if variables is None else variables
    home = hermes_home(outside) if home is None else home
    given, problems, warnings = _values_from_config_file(home / CONFIG_FILE_NAME)
    kept = env_file.read_env_file(home)
    problems += kept.problems
    if kept.exposed:
        warnings.append(f"{home / env_file.ENV_FILE_NAME} can be read by others: chmod 600 it")
    inside = {entry.name: entry.value for entry in kept.entries}
    lines = {entry.name: f"{home / env_file.ENV_FILE_NAME}:{entry.first}" for entry in kept.entries}
    kept_words, outer_words = apply_provider_variable(inside, outside)
    given += _values_from_variables(kept_words, "env file", lines)
    given += _values_from_variables(outer_words, "environment", {})
    for key, text in (overrides or {}).items():
        given.append(
            GivenValue(tuple(key.split(".")), text, SettingOrigin("command line", key), text=True)
        )
    settings = build_settings(given)
    if isinstance(settings, str) or problems:
        from hermes.settings.validation import find_problems  # noqa: PLC0415 - only bad news pays for it

        problems += find_problems(Settings, given)
        return None, problems or [SettingProblem("", str(settings))]
    origins = {dotted_key(one.path): one.origin for one in given}
    secrets = Secrets({**inside, **outside}, kept=inside)
    if DEFAULT_MODEL_KEY not in origins and not secrets.get(DEFAULT_KEY_VARIABLE):
        from hermes.settings.default_model import detect_default_model  # noqa: PLC0415 - most have chosen, or a key

        if found := detect_default_model(settings.model, secrets):
            reference, origins[DEFAULT_MODEL_KEY] = found
            settings = replace(settings, model=replace(settings.model, default=reference))
    return LoadedSettings(home, settings, secrets, origins, tuple(warnings)), []


def build_settings(given: list[GivenValue]) -> Settings | str:
    """All values in place, or why they do not fit."""
    tree: dict[str, Any] = {}
    try:
        for one in given:
            value = one.value
            if one.text:
                value = parse_value(value, type_at(Settings, one.path))
            _set_path(tree, one.path, value)
        return msgspec.convert(tree, Settings)
    except (msgspec.ValidationError, TypeError, AttributeError) as error:
        return str(error)


def _set_path(tree: dict[str, Any], path: KeyPath, value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(str(part), {})
    tree[str(path[-1])] = value


def _values_from_variables(
    values: Mapping[str, str], source: SettingSource, lines: Mapping[str, str]
) -> list[GivenValue]:
    given = []
    for name, text in values.items():
        key = key_for_variable(name)
        if key is not None and text:  # an empty variable is an unset one
            where = f"{lines[name]} {name}" if name in lines else name
            given.append(GivenValue(key, text, SettingOrigin(source, where), text=True))
    return given


def _values_from_config_file(
    file: File,
) -> tuple[list[GivenValue], list[SettingProblem], list[str]]:
    text = read_text(file)
    if text is None:
        return [], [], []
    from hermes.settings import config_file  # noqa: PLC0415 - no file, no PyYAML

    return config_file.read_config_file(file, text)
