"""Plug-ins of outside authors: those of installed packages, and those of files in the home folder.

Packages name them as entry points in the groups `hermes.tools`, `hermes.models` and so on. A file
`<home>/plugins/*.py` has a table `ENTRY_POINTS` of the same shape. `importlib.metadata` is not
used: to import it takes longer than a whole start of `hermes`.
"""

import importlib.util
import os
import re
import stat
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from hermes.core.errors import PluginError
from hermes.core.messages import Value

PLUGIN_FOLDER_NAME = "plugins"
FILE_TABLE_NAME = "ENTRY_POINTS"
GROUP_PREFIX = "hermes."
_OWN_DISTRIBUTIONS = ("hermes", "hermes_oncall")
_WORD = re.compile(r"[\w-]+")


class PluginSource(Value, frozen=True):
    """The place from which a plug-in of an outside author comes."""

    group: str
    name: str
    origin: str
    """A distribution such as `hermes-matrix-1.0`, or the path of a file."""
    target: str = ""
    """`module:attribute` of a distribution."""
    value: Any = None
    """The object of a file."""

    def load(self) -> Any:
        """Raises `PluginError` for any error in the author's code."""
        found = _import_target(self.target, self.origin) if self.target else self.value
        if not callable(found):
            raise PluginError(
                f"{self.origin}: {self.name} in {GROUP_PREFIX}{self.group} is "
                f"{type(found).__name__}, which cannot be called"
            )
        return found

    def can_load(self) -> bool:
        try:
            self.load()
        except PluginError:
            return False
        return True


class PluginFile(Value, frozen=True):
    path: str
    groups: dict[str, dict[str, Any]] = {}
    problem: str = ""
    words: frozenset[str] = frozenset()
    """Of a broken file: every word in it, among them the names of its plug-ins."""


def _import_target(target: str, origin: str) -> Any:
    module, _, attributes = target.partition(":")
    try:
        found: Any = import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (Exception, SystemExit) as error:  # code of the author: any error is possible
        raise PluginError(f"{origin}: {target}: {error_text(error)}") from error
    return found


def find_sources(home: Path | None) -> Iterator[PluginSource]:
    """Packages in the order of `sys.path`, then files by name."""
    yield from _installed_plugins(tuple(sys.path))
    for file in read_plugin_files(home):
        for group, values in file.groups.items():
            for name, value in values.items():
                yield PluginSource(group, name, file.path, value=value)


@lru_cache(maxsize=8)
def _installed_plugins(search_path: tuple[str, ...]) -> tuple[PluginSource, ...]:
    found: list[PluginSource] = []
    seen = {*_OWN_DISTRIBUTIONS}
    for folder in dict.fromkeys(search_path):
        try:
            entries = sorted(os.listdir(folder or "."))  # noqa: PTH208 - at every start
        except OSError:
            continue
        for entry in entries:
            distribution, dot, ending = entry.rpartition(".")
            name = distribution.partition("-")[0].lower()
            if not dot or ending not in ("dist-info", "egg-info") or name in seen:
                continue
            seen.add(name)
            found += _distribution_plugins(f"{folder or '.'}/{entry}", distribution)
    return tuple(found)


def _distribution_plugins(folder: str, distribution: str) -> Iterator[PluginSource]:
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:  # noqa: PTH123 - at every start
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return
    group = ""
    for line in text.splitlines():
        if line.startswith("["):
            group = line.strip("[] ")
        elif "=" in line and group.startswith(GROUP_PREFIX):
            name, _, target = line.partition("=")
            target = target.partition("[")[0].strip()  # an extra in brackets says nothing here
            yield PluginSource(group.removeprefix(GROUP_PREFIX), name.strip(), distribution, target)


def read_plugin_files(home: Path | None) -> list[PluginFile]:
    if home is None:
        return []
    folder = home / PLUGIN_FOLDER_NAME
    try:
        paths = sorted(folder.glob("*.py")) if folder.is_dir() else []
    except OSError:
        return []
    unsafe = next(filter(None, map(_unsafe_reason, (home, folder))), "") if paths else ""
    found = []
    for path in paths:
        why = unsafe or _unsafe_reason(path)
        if why:
            found.append(PluginFile(str(path), problem=f"not loaded: {why}", words=_words(path)))
        else:
            changed = path.stat()
            found.append(_load_file(path, changed.st_mtime_ns, changed.st_size))
    return found


def _unsafe_reason(path: Path) -> str:
    """Return why code of this file or folder may not run: another user could have written it."""
    try:
        found = path.stat()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (uid {found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by other users; chmod go-w {path}"
    return ""


@cache
def _load_file(path: Path, changed_ns: int, size: int) -> PluginFile:
    """Once for each version of a file."""
    try:
        return PluginFile(str(path), _file_table(path))
    except PluginError as error:
        return PluginFile(str(path), problem=str(error), words=_words(path))


def import_file(name: str, path: Path) -> ModuleType:
    """A file of an outside author as a module. Raises `PluginError` for any error in it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # code of the author: any error is possible
        raise PluginError(error_text(error)) from error
    return module


def _file_table(path: Path) -> dict[str, dict[str, Any]]:
    module = import_file(f"hermes_plugin_{path.stem.replace('-', '_')}", path)
    table = getattr(module, FILE_TABLE_NAME, None)
    try:
        groups = msgspec.convert(table, dict[str, dict[str, Any]])
    except msgspec.ValidationError as error:
        example = f'{FILE_TABLE_NAME} = {{"hermes.tools": {{"uptime": uptime}}}}'
        raise PluginError(f"it needs a table such as {example}") from error
    if wrong := [group for group in groups if not group.startswith(GROUP_PREFIX)]:
        raise PluginError(f"{FILE_TABLE_NAME}: the group {wrong[0]!r} must begin with hermes.")
    return {group.removeprefix(GROUP_PREFIX): dict(values) for group, values in groups.items()}


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(_WORD.findall(path.read_text("utf-8", errors="replace")))
    except OSError:
        return frozenset()
