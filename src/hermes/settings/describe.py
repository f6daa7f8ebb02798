"""Settings as an operator reads them: each key with its value, type, default and meaning."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.settings.check import nearest
from hermes.settings.kinds import describe, struct_in, type_at
from hermes.settings.load import Loaded
from hermes.settings.origins import Path, dotted
from hermes.settings.schema import Settings
from hermes.settings.secrets import is_secret, mask
from hermes.settings.variables import names_for


class Described(Value, kw_only=True, frozen=True, omit_defaults=False):
    key: str
    value: Any
    source: str
    where: str
    default: Any
    type: str
    about: str
    variables: tuple[str, ...] = ()


def values(settings: Settings) -> dict[str, Any]:
    """Dotted key → value, all of them."""
    return {dotted(path): value for path, value in _leaves(settings)}


def described(loaded: Loaded, prefix: str = "") -> list[Described]:
    """A key, or all keys of a section. Raises `SettingsError` naming the nearest key."""
    everything, defaults = values(loaded.settings), values(Settings())
    wanted = [key for key in everything if not prefix or f"{key}.".startswith(f"{prefix}.")]
    if not wanted:
        raise unknown(prefix)
    return [
        Described(
            key=key,
            value=_shown(key, everything[key]),
            source=loaded.origin(key).source,
            where=loaded.origin(key).where,
            default=defaults.get(key),
            type=describe(type_at(Settings, tuple(key.split(".")))),
            about=about(tuple(key.split("."))),
            variables=tuple(names_for(key)),
        )
        for key in wanted
    ]


def _shown(key: str, value: Any) -> Any:
    """The value as it may be printed: some headers are keys under another name."""
    if key == "store.url":
        return re.sub(r"(//[^:@/]*):.*@", r"\1:…@", str(value))
    _, headers, name = key.rpartition(".headers.")
    return mask(str(value)) if headers and is_secret(name) else value


def unknown(key: str) -> SettingsError:
    near = nearest(Settings, tuple(key.split(".")))
    hint = f"did you mean {near}?" if near else "`hermes config view` lists all keys"
    return SettingsError(f"there is no setting {key!r}: {hint}")


def about(path: Path) -> str:
    """The line under the field, where its room declared it."""
    section = struct_in(type_at(Settings, path[:-1]))
    return "" if section is None else docs_of(section).get(str(path[-1]), "")


@cache
def docs_of(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """The texts under the fields of a section."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
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


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each value with its path; lists are values, and so is a section without any key."""
    if isinstance(value, msgspec.Struct):  # not `to_builtins`: a room may omit its defaults there
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    else:
        plain = msgspec.to_builtins(value)
        yield path, list(plain) if isinstance(plain, tuple) else plain
