"""Changing a setting for good: each kind of value goes to the file where it belongs."""

from pathlib import Path as File

import msgspec

from hermes.core.errors import SettingsError
from hermes.settings import edit, env_file
from hermes.settings.check import check
from hermes.settings.describe import unknown
from hermes.settings.kinds import read_words, struct_in, type_at
from hermes.settings.load import CONFIG
from hermes.settings.origins import Given, Origin
from hermes.settings.schema import Settings
from hermes.settings.variables import KEYS


def set_value(home: File, key: str, text: str) -> File:
    """Keep a value; returns the file it went to. Raises `SettingsError` when it does not fit."""
    if is_variable(key):
        env_file.put(home, key, text)
        return home / env_file.NAME
    path = path_of(key)
    kind = type_at(Settings, path)
    if struct_in(kind) is not None:
        raise SettingsError(f"{key} is a section; set one of its keys, such as {_first(key)}")
    try:
        value = read_words(text, kind)
    except msgspec.ValidationError as error:
        problem = check(Settings, Given(path, text, Origin(), text=True))
        raise SettingsError(problem.what if problem else str(error)) from error
    edit.put(home, path, value)
    return home / CONFIG


def unset_value(home: File, key: str) -> bool:
    """Back to the default; True when it had been set in a file."""
    if is_variable(key):
        there = any(entry.name == key for entry in env_file.read(home).entries)
        env_file.put(home, key, None)
        return there
    return edit.drop(home, path_of(key))


def is_variable(key: str) -> bool:
    """`OPENROUTER_API_KEY` goes to .env; a variable that stands for a key of ours does not."""
    return key.isupper() and key not in KEYS


def path_of(key: str) -> tuple[str, ...]:
    path = tuple(KEYS.get(key, key).split("."))
    if type_at(Settings, path) is None:
        raise unknown(key)
    return path


def _first(section: str) -> str:
    kind = struct_in(type_at(Settings, tuple(section.split("."))))
    assert kind is not None
    return f"{section}.{kind.__struct_fields__[0]}"
