"""Changes config.yaml and .env; comments stay. The only module that loads ruamel.yaml."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from hermes.core.errors import SettingsError
from hermes.settings import env_file
from hermes.settings.config_file import (
    CONFIG_VERSION,
    CONFIG_VERSION_KEY,
    KeyMove,
    config_version,
    find_value,
    pending_moves,
    read_config_file,
)
from hermes.settings.describe import unknown_key_error
from hermes.settings.files import lock_settings, read_text, replace_text
from hermes.settings.load import CONFIG_FILE_NAME
from hermes.settings.origins import GivenValue, KeyPath, SettingOrigin, dotted_key
from hermes.settings.plugin_sections import settings_type
from hermes.settings.schema import Settings
from hermes.settings.validation import check_value
from hermes.settings.value_types import parse_value, section_type, type_at
from hermes.settings.variable_names import KEY_BY_VARIABLE

CONFIG_FILE_HEADER = "Settings of Hermes. `hermes config explain` says what each key means."


def set_value(home: Path, key: str, text: str) -> Path:
    """Write a value and return the file. Raises `SettingsError` for a wrong type."""
    if is_variable(key):
        env_file.set_variable(home, key, text)
        return home / env_file.ENV_FILE_NAME
    path, root = key_path(key, home)
    kind = type_at(root, path)
    if section_type(kind) is not None:
        raise SettingsError(
            f"{key} is a section; set one of its keys, such as {_first_key(key, root)}"
        )
    try:
        value = parse_value(text, kind)
    except msgspec.ValidationError as error:
        problem = check_value(root, GivenValue(path, text, SettingOrigin(), is_text=True))
        raise SettingsError(problem.cause if problem else str(error)) from error
    set_key(home, path, value)
    return home / CONFIG_FILE_NAME


def unset_value(home: Path, key: str) -> bool:
    """Remove a value; True when it was set in a file."""
    if is_variable(key):
        existed = any(entry.name == key for entry in env_file.read_env_file(home).entries)
        env_file.set_variable(home, key, None)
        return existed
    return remove_key(home, key_path(key, home)[0])


def is_variable(key: str) -> bool:
    """Return whether it goes to .env, like `OPENROUTER_API_KEY`; variables of settings do not."""
    return key.isupper() and key not in KEY_BY_VARIABLE


def key_path(key: str, home: Path) -> tuple[tuple[str, ...], type[Settings]]:
    """The key, and the settings that have it: with the plug-ins of the home, if need be."""
    path = tuple(KEY_BY_VARIABLE.get(key, key).split("."))
    if type_at(Settings, path) is not None:
        return path, Settings
    root, _ = settings_type(home)
    if type_at(root, path) is None:
        raise unknown_key_error(key)
    return path, root


def _first_key(section: str, root: type[Settings]) -> str:
    kind = section_type(type_at(root, tuple(section.split("."))))
    assert kind is not None
    return f"{section}.{kind.__struct_fields__[0]}"


def set_key(home: Path, path: KeyPath, value: Any) -> None:
    """Set one key. The type was checked by the caller."""

    def change(tree: CommentedMap) -> None:
        for part in path[:-1]:
            if not isinstance(tree.get(part), CommentedMap):
                tree[part] = CommentedMap()
            tree = tree[part]
        tree[path[-1]] = value

    _rewrite_config(home, change)


def remove_key(home: Path, path: KeyPath) -> bool:
    """Remove one key; True when it was set."""
    existed = False

    def change(tree: CommentedMap) -> None:
        nonlocal existed
        existed, _ = find_value(tree, path)
        if existed:
            for part in path[:-1]:
                tree = tree[part]
            del tree[path[-1]]

    _rewrite_config(home, change)
    return existed


def migrate_config(home: Path) -> tuple[list[str], Path | None]:
    """Migrate the file to the current version. Returns the moved keys and the backup, if any."""
    moved: list[str] = []
    backup = _rewrite_config(home, lambda tree: None, moved)
    return moved, backup


def _rewrite_config(
    home: Path, change: Callable[[CommentedMap], None], moved: list[str] | None = None
) -> Path | None:
    file = home / CONFIG_FILE_NAME
    with lock_settings(home):
        text = read_text(file)
        if text is None and moved is not None:
            return None  # nothing to migrate
        if text is not None and (problems := read_config_file(file, text)[1]):
            raise SettingsError("\n".join(map(str, problems)))
        yaml = _yaml_editor(text or "")
        tree = _parse_config(yaml, file, text)
        backup = _migrate_tree(tree, file, text, [] if moved is None else moved)
        change(tree)
        written = io.StringIO()
        yaml.dump(tree, written)
        if written.getvalue() != text:
            replace_text(file, written.getvalue())
        return backup


def _parse_config(yaml: YAML, file: Path, text: str | None) -> CommentedMap:
    try:
        tree = yaml.load(text) if text else None
    except YAMLError as error:
        raise SettingsError(f"{file}: not valid YAML: {error}") from error
    if tree is not None:
        return tree  # type: ignore[no-any-return]
    tree = CommentedMap()
    tree.yaml_set_start_comment(_comment_of(text) or CONFIG_FILE_HEADER)
    tree[CONFIG_VERSION_KEY] = CONFIG_VERSION
    return tree


def _comment_of(text: str | None) -> str:
    """A file with only comments has no tree to hold them."""
    lines = (line.strip().removeprefix("#").removeprefix(" ") for line in (text or "").splitlines())
    return "\n".join(lines).strip("\n")


def _migrate_tree(
    tree: CommentedMap, file: Path, text: str | None, moved: list[str]
) -> Path | None:
    version = config_version(tree)
    if version == CONFIG_VERSION:
        return None
    backup = file.with_name(f"{CONFIG_FILE_NAME}.v{version}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
    replace_text(backup, text or "")
    for move, old, new in pending_moves(tree):
        _move_key(tree, move, old, new)
        moved.append(f"{dotted_key(old)} → {dotted_key(new)}")
    # A new line goes last: at the top it would separate a comment from its key.
    tree[CONFIG_VERSION_KEY] = CONFIG_VERSION
    return backup


def _move_key(tree: CommentedMap, move: KeyMove, old: KeyPath, new: KeyPath) -> None:
    at = list(tree).index(old[0])
    value, comment = _take_key(tree, old)
    if find_value(tree, new)[0]:
        return  # the new key is already set
    section = tree
    for part in new[:-1]:
        if not isinstance(section.get(part), CommentedMap):
            section.pop(part, None)
            section.insert(at if section is tree else len(section), part, CommentedMap())
        section = section[part]
    section[new[-1]] = [value] if move.as_list and not isinstance(value, list) else value
    if comment is not None:
        section.ca.items[new[-1]] = comment


def _take_key(tree: CommentedMap, path: KeyPath) -> tuple[Any, Any]:
    """Remove and return the value and its comment; an empty section is removed as well."""
    if len(path) == 1:
        return tree.pop(path[0]), tree.ca.items.pop(path[0], None)
    section = tree[path[0]]
    value, comment = _take_key(section, path[1:])
    if not section:
        tree.pop(path[0])
    return value, comment


def _yaml_editor(text: str) -> YAML:
    yaml = YAML()  # keeps comments, order and quotes
    yaml.preserve_quotes = True
    yaml.width = 4096  # never fold a long line
    sequence = 4 if "\n  - " in text or "\n    - " in text else 2
    yaml.indent(mapping=2, sequence=sequence, offset=sequence - 2)
    return yaml
