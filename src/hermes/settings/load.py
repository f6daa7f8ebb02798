"""Loads settings from defaults, config.yaml, .env, the process environment and the command line.

Later sources win, value by value, and the origin of each value is recorded. A missing home is not
an error: defaults apply. All problems are reported together.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.core.people import people_problems
from hermes.core.plugins import BUILT_IN
from hermes.plumbing.problems import Problem
from hermes.settings import env_file
from hermes.settings.files import read_text
from hermes.settings.origins import (
    GivenValue,
    KeyPath,
    SettingOrigin,
    SettingSource,
    dotted_key,
)
from hermes.settings.process_environment import environment_variables, hermes_home
from hermes.settings.schema import Settings
from hermes.settings.secrets import Secrets
from hermes.settings.value_types import parse_value, type_at
from hermes.settings.variable_names import apply_provider_variable, key_for_variable

CONFIG_FILE_NAME = "config.yaml"
DEFAULT_MODEL_KEY, DEFAULT_KEY_VARIABLE = "model.default", "OPENROUTER_API_KEY"


class LoadedSettings(Value, frozen=True):
    """The settings, with the origin of each value."""

    home: Path
    settings: Settings
    secrets: Secrets
    origins: dict[str, SettingOrigin] = {}
    """Dotted key → origin, for everything that is not a default."""
    warnings: tuple[str, ...] = ()

    def origin(self, key: str) -> SettingOrigin:
        return self.origins.get(key, SettingOrigin())

    def with_sections(self, **sections: object) -> Self:
        """The same with other sections of the settings, such as `policy`."""
        return replace(self, settings=replace(self.settings, **sections))

    @property
    def journal(self) -> Path:
        """The journal file; it need not exist."""
        path = self.settings.store.path
        return Path(path).expanduser() if path else self.home / "journal.db"

    @property
    def store(self) -> Path | str:
        """The journal file, or the URL of the database that replaces it."""
        return self.settings.store.url or self.journal


def load(
    *,
    home: Path | None = None,
    variables: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Load the settings. Raises `SettingsError` with all problems."""
    loaded, problems = load_with_problems(home=home, variables=variables, overrides=overrides)
    if loaded is None:
        raise SettingsError("\n".join(map(str, problems)))
    return loaded


def load_with_problems(
    *,
    home: Path | None = None,
    variables: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> tuple[LoadedSettings | None, list[Problem]]:
    """Like `load`, but returns the problems."""
    process_variables = environment_variables() if variables is None else variables
    home = hermes_home(process_variables) if home is None else home
    given, problems, warnings = _values_from_config_file(home / CONFIG_FILE_NAME)
    env = env_file.read_env_file(home)
    problems += env.problems
    if env.exposed:
        warnings.append(f"{home / env_file.ENV_FILE_NAME} can be read by others: chmod 600 it")
    file_variables = {entry.name: entry.value for entry in env.entries}
    lines = {
        entry.name: f"{home / env_file.ENV_FILE_NAME}:{entry.first_line}" for entry in env.entries
    }
    file_values, process_values = apply_provider_variable(file_variables, process_variables)
    given += _values_from_variables(file_values, "env file", lines)
    given += _values_from_variables(process_values, "environment", {})
    for key, text in (overrides or {}).items():
        given.append(
            GivenValue(
                tuple(key.split(".")), text, SettingOrigin("command line", key), is_text=True
            )
        )
    settings = build_settings(given)
    if isinstance(settings, str) or problems or _names_plugin(settings):
        # Only for errors and plug-ins.
        from hermes.settings.plugin_sections import problems_with_plugins, settings_type  # noqa: PLC0415

        root, unused = settings_type(home, given)
        settings = build_settings(given, root)
        problems += problems_with_plugins(settings, root, given, home)
        warnings += unused
        if isinstance(settings, str) or problems:
            return None, problems or [Problem("", 0, str(settings))]
    if settings.people and (found_problems := _people_problems(settings, given)):
        return None, found_problems
    origins = {dotted_key(each.path): each.origin for each in given}
    secrets = Secrets({**file_variables, **process_variables}, kept=file_variables)
    if DEFAULT_MODEL_KEY not in origins and not secrets.get(DEFAULT_KEY_VARIABLE):
        from hermes.settings.default_model import detect_default_model  # noqa: PLC0415 - rarely needed

        if found := detect_default_model(settings.model, secrets):
            reference, origins[DEFAULT_MODEL_KEY] = found
            settings = replace(settings, model=replace(settings.model, default=reference))
    return LoadedSettings(home, settings, secrets, origins, tuple(warnings)), []


def build_settings(given: list[GivenValue], root: type[Settings] = Settings) -> Settings | str:
    """Return the settings, or the error text."""
    tree: dict[str, Any] = {}
    try:
        for each in given:
            value = each.value
            if each.is_text:
                value = parse_value(value, type_at(root, each.path))
            _set_path(tree, each.path, value)
        return msgspec.convert(tree, root)
    except (msgspec.ValidationError, TypeError, AttributeError) as error:
        return str(error)


def _people_problems(settings: Settings, given: list[GivenValue]) -> list[Problem]:
    """Ids that two people have, and names that cannot be used."""
    where = {
        each.path[1]: each.origin.where
        for each in reversed(given)
        if each.path[0] == "people" and len(each.path) > 1
    }
    return [
        Problem(where.get(name, ""), 0, f"people.{name}: {problem}")
        for name, problem in people_problems(settings.people)
    ]


def _names_plugin(settings: Settings) -> bool:
    """Return whether the settings name an environment or a channel that is not built in."""
    kinds = {sink.kind for sink in settings.sre.notices.sinks}
    return settings.terminal.backend not in BUILT_IN["environments"] or not kinds.issubset(
        BUILT_IN["notifications"]
    )


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
            given.append(GivenValue(key, text, SettingOrigin(source, where), is_text=True))
    return given


def _values_from_config_file(
    file: Path,
) -> tuple[list[GivenValue], list[Problem], list[str]]:
    text = read_text(file)
    if text is None:
        return [], [], []
    from hermes.settings import config_file  # noqa: PLC0415 - PyYAML only with a file

    return config_file.read_config_file(file, text)
