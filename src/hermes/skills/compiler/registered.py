"""Python skills that have been compiled: what an agent can call, known without reading any code."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value

INDEX = ".python.json"


class Registered(Value, kw_only=True, frozen=True):
    skill: str
    function: str
    digest: str
    """Of the folder as it was proven; another content is not run."""
    description: str
    parameters: dict[str, Any] = {}
    modules: tuple[str, ...] = ()
    """Folders of installed modules."""
    task: str = ""
    """What was asked for, to know it again."""


def read_registered(root: Path) -> list[Registered]:
    """Raises `SettingsError` when the index was damaged by hand."""
    try:
        data = (root / INDEX).read_bytes()
    except OSError:
        return []
    try:
        return msgspec.json.decode(data, type=list[Registered])
    except ValueError as error:
        raise SettingsError(
            f"{root / INDEX} cannot be read: {error}; delete it and compile the skills again"
        ) from error


def register(root: Path, made: Registered) -> None:
    """In one step; a skill of the same name is replaced."""
    others = [each for each in read_registered(root) if each.skill != made.skill]
    _write(root, [*others, made])


def strike(root: Path, skill: str) -> None:
    """It is no tool any more."""
    known = read_registered(root)
    left = [each for each in known if each.skill != skill]
    if len(left) != len(known):
        _write(root, left)


def _write(root: Path, entries: Sequence[Registered]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    fresh = root / f"{INDEX}.{os.getpid()}"
    try:
        fresh.write_bytes(msgspec.json.encode(sorted(entries, key=lambda each: each.skill)))
        fresh.replace(root / INDEX)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()
