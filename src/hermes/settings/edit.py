"""Changes config.yaml and keeps every comment. The only module that loads ruamel.yaml."""

import io
import time
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from hermes.core.errors import SettingsError
from hermes.settings.config_file import given_by
from hermes.settings.files import locked, read_text, replace_text
from hermes.settings.load import CONFIG
from hermes.settings.migrations import KEY, VERSION, Move, find, pending, version_of
from hermes.settings.origins import Path, dotted

HEADER = "Settings of Hermes. `hermes config explain` says what each key means."


def put(home: File, path: Path, value: Any) -> None:
    """Set one key. The type was checked by the caller."""

    def change(tree: CommentedMap) -> None:
        for part in path[:-1]:
            if not isinstance(tree.get(part), CommentedMap):
                tree[part] = CommentedMap()
            tree = tree[part]
        tree[path[-1]] = value

    _rewrite(home, change)


def drop(home: File, path: Path) -> bool:
    """Take one key out; True when it was there."""
    there = False

    def change(tree: CommentedMap) -> None:
        nonlocal there
        there, _ = find(tree, path)
        if there:
            for part in path[:-1]:
                tree = tree[part]
            del tree[path[-1]]

    _rewrite(home, change)
    return there


def migrate(home: File) -> tuple[list[str], File | None]:
    """Bring the file to today's version. Says what moved and where the backup is, if any."""
    moved: list[str] = []
    backup = _rewrite(home, lambda tree: None, moved)
    return moved, backup


def _rewrite(
    home: File, change: Callable[[CommentedMap], None], moved: list[str] | None = None
) -> File | None:
    file = home / CONFIG
    with locked(home):
        text = read_text(file)
        if text is None and moved is not None:
            return None  # nothing to migrate
        if text is not None and (problems := given_by(file, text)[1]):
            raise SettingsError("\n".join(map(str, problems)))
        yaml = _yaml(text or "")
        tree = _parse(yaml, file, text)
        backup = _migrate(tree, file, text, [] if moved is None else moved)
        change(tree)
        written = io.StringIO()
        yaml.dump(tree, written)
        if written.getvalue() != text:
            replace_text(file, written.getvalue())
        return backup


def _parse(yaml: YAML, file: File, text: str | None) -> CommentedMap:
    try:
        tree = yaml.load(text) if text else None
    except YAMLError as error:
        raise SettingsError(f"{file}: not valid YAML: {error}") from error
    if tree is not None:
        return tree  # type: ignore[no-any-return]
    tree = CommentedMap()
    tree.yaml_set_start_comment(_comment_of(text) or HEADER)
    tree[KEY] = VERSION
    return tree


def _comment_of(text: str | None) -> str:
    """A file of nothing but comments has no tree to hold them."""
    lines = (line.strip().removeprefix("#").removeprefix(" ") for line in (text or "").splitlines())
    return "\n".join(lines).strip("\n")


def _migrate(tree: CommentedMap, file: File, text: str | None, moved: list[str]) -> File | None:
    version = version_of(tree)
    if version == VERSION:
        return None
    backup = file.with_name(f"{CONFIG}.v{version}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
    replace_text(backup, text or "")
    for move, old, new in pending(tree):
        _move(tree, move, old, new)
        moved.append(f"{dotted(old)} → {dotted(new)}")
    tree[KEY] = VERSION  # a new line goes last: at the top it would come under somebody's comment
    return backup


def _move(tree: CommentedMap, move: Move, old: Path, new: Path) -> None:
    at = list(tree).index(old[0])
    value, comment = _take(tree, old)
    if find(tree, new)[0]:
        return  # set by hand in its new place already
    section = tree
    for part in new[:-1]:
        if not isinstance(section.get(part), CommentedMap):
            section.pop(part, None)
            section.insert(at if section is tree else len(section), part, CommentedMap())
        section = section[part]
    section[new[-1]] = [value] if move.aslist and not isinstance(value, list) else value
    if comment is not None:
        section.ca.items[new[-1]] = comment


def _take(tree: CommentedMap, path: Path) -> tuple[Any, Any]:
    """The value and the comment behind it; a section that is left empty goes as well."""
    if len(path) == 1:
        return tree.pop(path[0]), tree.ca.items.pop(path[0], None)
    section = tree[path[0]]
    value, comment = _take(section, path[1:])
    if not section:
        tree.pop(path[0])
    return value, comment


def _yaml(text: str) -> YAML:
    yaml = YAML()  # keeps comments, order and quotes
    yaml.preserve_quotes = True
    yaml.width = 4096  # never fold somebody's long line
    sequence = 4 if "\n  - " in text or "\n    - " in text else 2
    yaml.indent(mapping=2, sequence=sequence, offset=sequence - 2)
    return yaml
