"""Describes settings: each key with its value, type, default and meaning."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import asdict

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.settings.load import LoadedSettings
from hermes.settings.origins import KeyPath, dotted_key
from hermes.settings.schema import Settings
from hermes.settings.secrets import is_secret, mask_secret
from hermes.settings.validation import nearest_key
from hermes.settings.value_types import describe_type, section_type, type_at
from hermes.settings.variable_names import variables_for


class SettingDescription(Value, kw_only=True, frozen=True, omit_defaults=False):
    key: str
    value: Any
    source: str
    where: str
    default: Any
    type: str
    about: str
    variables: tuple[str, ...] = ()


def setting_values(settings: Settings) -> dict[str, Any]:
    """All values by dotted key."""
    return {dotted_key(path): value for path, value in _leaf_values(settings)}


def describe_settings(loaded: LoadedSettings, prefix: str = "") -> list[SettingDescription]:
    """Describe a key, or all keys of a section. Raises `SettingsError` for an unknown key."""
    everything, defaults = setting_values(loaded.settings), setting_values(Settings())
    root = type(loaded.settings)
    wanted = [key for key in everything if not prefix or f"{key}.".startswith(f"{prefix}.")]
    if not wanted:
        raise unknown_key_error(prefix)
    return [
        SettingDescription(
            key=key,
            value=_printable_value(key, everything[key]),
            source=loaded.origin(key).source,
            where=loaded.origin(key).where,
            default=defaults.get(key),
            type=describe_type(type_at(root, tuple(key.split(".")))),
            about=key_description(tuple(key.split(".")), root),
            variables=tuple(variables_for(key)),
        )
        for key in wanted
    ]


def _printable_value(key: str, value: Any) -> Any:
    """Mask passwords and secret headers."""
    if key == "store.url":
        return re.sub(r"(//[^:@/]*):.*@", r"\1:…@", str(value))
    _, headers, name = key.rpartition(".headers.")
    return mask_secret(str(value)) if headers and is_secret(name) else value


def unknown_key_error(key: str) -> SettingsError:
    near = nearest_key(Settings, tuple(key.split(".")))
    hint = f"did you mean {near}?" if near else "`hermes config view` lists all keys"
    return SettingsError(f"there is no setting {key!r}: {hint}")


def key_description(path: KeyPath, root: type[Settings] = Settings) -> str:
    """The docstring of the field."""
    section = section_type(type_at(root, path[:-1]))
    return "" if section is None else field_docs(section).get(str(path[-1]), "")


@cache
def field_docs(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """The docstrings of the fields of a section."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[: kind.__mro__.index(msgspec.Struct)]):
        with suppress(OSError):  # the type with the sections of plug-ins has no source
            found |= _docs_in_source(inspect.getsource(base))
    return found


def _docs_in_source(source: str) -> Mapping[str, str]:
    tree = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, line in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(line, ast.Expr)
            and isinstance(line.value, ast.Constant)
        ):
            found[field.target.id] = inspect.cleandoc(str(line.value.value))
    return found


def _leaf_values(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Each value with its path; lists are values, and so is a section without any key."""
    if isinstance(value, msgspec.Struct):  # not `to_builtins`, which may omit defaults
        value = asdict(value)
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaf_values(inner, (*path, name))
    else:
        plain = msgspec.to_builtins(value)
        yield path, list(plain) if isinstance(plain, tuple) else plain
