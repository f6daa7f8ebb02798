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
from hermes.settings.kinds import read_words, type_at
from hermes.settings.origins import Given, Origin, Path, Problem, Source, dotted
from hermes.settings.process import home_of
from hermes.settings.process import variables as process_variables
from hermes.settings.schema import Settings
from hermes.settings.secrets import Secrets
from hermes.settings.variables import key_for, with_provider

CONFIG = "config.yaml"
DEFAULT_MODEL, DEFAULT_KEY = "model.default", "OPENROUTER_API_KEY"


class Loaded(Value, frozen=True):
    """Settings, with where each came from."""

    home: File
    settings: Settings
    secrets: Secrets
    origins: dict[str, Origin] = {}
    """Dotted key → origin, for everything that is not a default."""
    warnings: tuple[str, ...] = ()

    def origin(self, key: str) -> Origin:
        return self.origins.get(key, Origin())

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
) -> Loaded:
    """The settings of this process. Raises `SettingsError` with every problem that was found."""
    loaded, problems = examine(home=home, variables=variables, overrides=overrides)
    if loaded is None:
        raise SettingsError("\n".join(map(str, problems)))
    return loaded


def examine(
    *,
    home: File | None = None,
    variables: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> tuple[Loaded | None, list[Problem]]:
    """Like `load`, for those who want the problems as data."""
    outside = process_variables() if variables is None else variables
    home = home_of(outside) if home is None else home
    given, problems, warnings = _from_config(home / CONFIG)
    kept = env_file.read(home)
    problems += kept.problems
    if kept.exposed:
        warnings.append(f"{home / env_file.NAME} can be read by others: chmod 600 it")
    inside = {entry.name: entry.value for entry in kept.entries}
    lines = {entry.name: f"{home / env_file.NAME}:{entry.first}" for entry in kept.entries}
    kept_words, outer_words = with_provider(inside, outside)
    given += _from_variables(kept_words, "env file", lines)
    given += _from_variables(outer_words, "environment", {})
    for key, text in (overrides or {}).items():
        given.append(Given(tuple(key.split(".")), text, Origin("command line", key), text=True))
    settings = settle(given)
    if isinstance(settings, str) or problems:
        from hermes.settings.check import problems_of  # noqa: PLC0415 - only bad news pays for it

        problems += problems_of(Settings, given)
        return None, problems or [Problem("", str(settings))]
    origins = {dotted(one.path): one.origin for one in given}
    secrets = Secrets({**inside, **outside}, kept=inside)
    if DEFAULT_MODEL not in origins and not secrets.get(DEFAULT_KEY):
        from hermes.settings.detect import detect  # noqa: PLC0415 - most have chosen, or a key

        if found := detect(settings.model, secrets):
            reference, origins[DEFAULT_MODEL] = found
            settings = replace(settings, model=replace(settings.model, default=reference))
    return Loaded(home, settings, secrets, origins, tuple(warnings)), []


def settle(given: list[Given]) -> Settings | str:
    """All values in place, or why they do not fit."""
    tree: dict[str, Any] = {}
    try:
        for one in given:
            value = one.value
            if one.text:
                value = read_words(value, type_at(Settings, one.path))
            _place(tree, one.path, value)
        return msgspec.convert(tree, Settings)
    except (msgspec.ValidationError, TypeError, AttributeError) as error:
        return str(error)


def _place(tree: dict[str, Any], path: Path, value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(str(part), {})
    tree[str(path[-1])] = value


def _from_variables(
    values: Mapping[str, str], source: Source, lines: Mapping[str, str]
) -> list[Given]:
    given = []
    for name, text in values.items():
        key = key_for(name)
        if key is not None and text:  # an empty variable is an unset one
            where = f"{lines[name]} {name}" if name in lines else name
            given.append(Given(key, text, Origin(source, where), text=True))
    return given


def _from_config(file: File) -> tuple[list[Given], list[Problem], list[str]]:
    text = read_text(file)
    if text is None:
        return [], [], []
    from hermes.settings import config_file  # noqa: PLC0415 - no file, no PyYAML

    return config_file.given_by(file, text)
